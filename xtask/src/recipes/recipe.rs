//! A recipe as a page has it. A block after a paragraph that ends with a name and a colon ("Save this as
//! `bot.py`:") is a file, a block `sh` is run, and a block `text` right after it shows what it prints on
//! standard output. Other blocks only illustrate.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use xtask::markdown::{Block, Page};

/// Precedes the output of each step, and ends that of the last. No program prints it.
pub(super) const MARK: char = '\u{1e}';

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Recipe {
    files: BTreeMap<PathBuf, String>,
    pub(super) steps: Vec<Step>,
}

/// A block that is run.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// In the page.
    pub(super) line: usize,
    pub(super) text: String,
    /// The standard output that the page shows.
    pub(super) output: Option<String>,
}

impl Recipe {
    /// The recipe of a page. Ports are replaced by free ones.
    pub(super) fn parse(markdown: &str) -> Result<Recipe> {
        let blocks = Page::parse(markdown).blocks;
        let ports = free_ports(&blocks)?;
        let mut recipe = Recipe { files: BTreeMap::new(), steps: Vec::new() };
        let mut is_after_step = false;
        for Block { line, language, text, name } in blocks {
            let text = replace_numbers(&text, &ports);
            let is_step = language == "sh";
            match (language.as_str(), name) {
                ("sh", _) => recipe.steps.push(Step { line, text, output: None }),
                ("text", _) => {
                    let step = recipe.steps.last_mut().filter(|_| is_after_step);
                    step.with_context(|| format!("line {line}: no block `sh` prints this"))?
                        .output = Some(text);
                }
                (_, Some(name)) => recipe.add_file(line, name, text)?,
                (_, None) => {}
            }
            is_after_step = is_step;
        }
        ensure!(!recipe.steps.is_empty(), "the page has no block `sh` that could be run");
        Ok(recipe)
    }

    fn add_file(&mut self, line: usize, name: String, text: String) -> Result<()> {
        let path = PathBuf::from(name);
        if !path.components().all(|part| matches!(part, Component::Normal(_))) {
            bail!("line {line}: {} is not a path in the folder of the recipe", path.display());
        }
        match self.files.insert(path, text) {
            Some(_) => bail!("line {line}: the page has this file already"),
            None => Ok(()),
        }
    }

    pub(super) fn write_files(&self, folder: &Path) -> Result<()> {
        for (file, text) in &self.files {
            let path = folder.join(file);
            std::fs::create_dir_all(path.parent().unwrap_or(folder))?;
            std::fs::write(&path, text).with_context(|| path.display().to_string())?;
        }
        Ok(())
    }

    /// All steps in one shell, as in one terminal, which ends with the first command that fails.
    pub(super) fn script(&self) -> String {
        let mut script = "set -euo pipefail\n".to_owned();
        for step in &self.steps {
            script.push_str(&format!("printf '\\036'\n{}\n", step.text));
        }
        script + "printf '\\036'\n"
    }
}

/// A free port for each one that a block names after `127.0.0.1:`.
fn free_ports(blocks: &[Block]) -> Result<BTreeMap<String, String>> {
    let mut ports = BTreeMap::new();
    // Together, so that no port is given twice.
    let mut held = Vec::new();
    for rest in blocks.iter().flat_map(|block| block.text.split("127.0.0.1:").skip(1)) {
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        if end > 0 && !ports.contains_key(&rest[..end]) {
            let listener = TcpListener::bind("127.0.0.1:0").context("a free port")?;
            ports.insert(rest[..end].to_owned(), listener.local_addr()?.port().to_string());
            held.push(listener);
        }
    }
    Ok(ports)
}

/// Replaces whole numbers.
fn replace_numbers(text: &str, by: &BTreeMap<String, String>) -> String {
    let mut replaced = String::with_capacity(text.len());
    for piece in text.split_inclusive(|c: char| !c.is_ascii_digit()) {
        let digits = piece.trim_end_matches(|c: char| !c.is_ascii_digit());
        replaced.push_str(by.get(digits).map_or(digits, String::as_str));
        replaced.push_str(&piece[digits.len()..]);
    }
    replaced
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_become_files_and_steps() {
        let page = "# R\n\nSave this as `a/b.py`:\n\n```python\nx\n```\n\n```sh\nls\n```\n\n```text\na\n```\n\n\
                    ```toml\nnot = 1\n```\n\n```sh\ntrue\n```\n";
        let recipe = Recipe::parse(page).unwrap();
        assert_eq!(recipe.files, BTreeMap::from([("a/b.py".into(), "x\n".to_owned())]));
        let steps: Vec<_> =
            recipe.steps.iter().map(|s| (s.line, s.text.as_str(), s.output.as_deref())).collect();
        assert_eq!(steps, [(9, "ls\n", Some("a\n")), (21, "true\n", None)]);
        for (page, expected) in [
            ("text", "no block `sh`"),
            ("```text\na\n```", "line 1: no block `sh` prints this"),
            ("`../a`:\n```py\n```\n```sh\n```", "line 2: ../a is not a path in"),
            ("`a`:\n```py\n```\n`a`:\n```py\n```", "line 5: the page has this file already"),
        ] {
            let message = format!("{:#}", Recipe::parse(page).unwrap_err());
            assert!(message.contains(expected), "{message}");
        }
    }

    #[test]
    fn ports_are_replaced_by_free_ones() {
        let page = "```sh\nserve 8000 18000; curl 127.0.0.1:8000/8000 http://127.0.0.1:4500\n```";
        let text = &Recipe::parse(page).unwrap().steps[0].text;
        let port = text.split(' ').nth(1).unwrap();
        assert!(text.starts_with(&format!("serve {port} 18000; curl 127.0.0.1:{port}/{port} ")));
        assert!(port != "8000" && !text.contains("4500"), "{text}");
    }
}
