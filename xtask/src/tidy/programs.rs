//! The program of the README in three languages: each block is the whole file that the tests run, and short.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::finding::Finding;
use xtask::markdown::{Block, Page};

const RULE: &str = "readme-programs";
const README: &str = "README.md";
/// Language of the block, and the file that it is.
const FILES: [(&str, &str); 4] = [
    ("python", "sdk/python/examples/readme.py"),
    ("ts", "sdk/typescript/examples/readme.ts"),
    ("rust", "crates/agentd-embed/examples/readme.rs"),
    ("text", "sdk/readme-output.txt"),
];
const MOST_LINES: usize = 40;

pub(crate) fn check(root: &Path) -> Result<Vec<Finding>> {
    let read =
        |file: &str| std::fs::read_to_string(root.join(file)).with_context(|| file.to_owned());
    let files: Vec<(&str, &str, String)> = FILES
        .iter()
        .map(|&(language, file)| Ok((language, file, read(file)?)))
        .collect::<Result<_>>()?;
    Ok(compare(&Page::parse(&read(README)?).blocks, &files))
}

fn compare(blocks: &[Block], files: &[(&str, &str, String)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (language, file, text) in files {
        if !blocks.iter().any(|block| block.language == *language && block.text == *text) {
            let message = format!("no block `{language}` is exactly {file}: copy the file there");
            findings.push(Finding::error(Path::new(README), 0, RULE, message));
        }
        let lines = text.lines().count();
        if lines > MOST_LINES {
            let message = format!(
                "the program of the README has {lines} lines, at most {MOST_LINES} are allowed"
            );
            findings.push(Finding::error(&PathBuf::from(file), 0, RULE, message));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_that_differs_and_a_long_program_are_found() {
        let blocks = Page::parse("```ts\na\n```\n\n```rust\nb\n```\n").blocks;
        let long = "x\n".repeat(MOST_LINES + 1);
        let check = |language: &'static str, text: &str| {
            let findings = compare(&blocks, &[(language, "file", text.to_owned())]);
            findings.iter().map(|finding| finding.message.clone()).collect::<Vec<_>>()
        };
        assert!(check("ts", "a\n").is_empty());
        assert_eq!(check("ts", "b\n"), ["no block `ts` is exactly file: copy the file there"]);
        assert_eq!(check("rust", &long).len(), 2);
    }
}
