//! Code spans of the documents: a path that they name exists, an identifier that they name occurs in
//! the sources. So a rename that forgets the documents is found.
//!
//! The documents about the source are checked in full; the other pages of the book only where they
//! name source files, because they mostly quote the protocol, configuration and commands.

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::finding::Finding;
use super::scan::scan;
use xtask::files::all_files;

const RULE: &str = "quoted-names";
/// The documents in which every code span is checked.
const MAPS: [&str; 5] = [
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "docs/bounds.md",
    "docs/code-map.md",
    "docs/decisions.md",
];
/// A span that ends so is a path.
const EXTENSIONS: [&str; 8] = [".rs", ".toml", ".md", ".json", ".lua", ".txt", ".sh", ".yml"];
/// A path in a page of the book that begins so names a source.
const SOURCE_FOLDERS: [&str; 4] = ["crates/", "tools/", "xtask/", "fuzz/"];
/// Names in the documents that belong to other programs or to the system.
const FOREIGN: [&str; 7] = ["apt-get", "cargo", "chromium", "kill", "node", "npm", "nginx"];

/// The names that a span can refer to.
struct Sources {
    /// Every file and folder, relative to the root.
    paths: BTreeSet<String>,
    /// Every identifier in Rust code, and every name of a Cargo manifest.
    identifiers: HashSet<String>,
    /// Literals of Rust code, for names of the wire, keys and flags.
    literals: String,
}

/// `files` are the text files of the checkout, relative to `root`.
pub(crate) fn check(root: &Path, files: &[PathBuf]) -> Result<Vec<Finding>> {
    let sources = Sources::read(root, files)?;
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.extension().is_some_and(|e| e == "md")) {
        let is_map = MAPS.iter().any(|map| Path::new(map) == file);
        if !is_map && !file.starts_with("docs") {
            continue;
        }
        let text = std::fs::read_to_string(root.join(file))?;
        for (line, span) in code_spans(&text) {
            if let Some(message) = sources.problem(span, is_map) {
                findings.push(Finding::error(file, line, RULE, message));
            }
        }
    }
    Ok(findings)
}

/// The code spans outside of fenced blocks, with their lines. Spans between double back-quotes quote
/// text that holds a back-quote, and are left out.
fn code_spans(markdown: &str) -> Vec<(usize, &str)> {
    let mut is_fenced = false;
    let mut spans = Vec::new();
    for (number, line) in (1..).zip(markdown.lines()) {
        if line.trim_start().starts_with("```") {
            is_fenced = !is_fenced;
        } else if !is_fenced {
            let single = line.split("``").step_by(2);
            let of_line = single.flat_map(|text| text.split('`').skip(1).step_by(2));
            spans.extend(of_line.map(|span| (number, span)));
        }
    }
    spans
}

impl Sources {
    fn read(root: &Path, files: &[PathBuf]) -> Result<Sources> {
        let mut sources = Sources {
            paths: BTreeSet::new(),
            identifiers: HashSet::new(),
            literals: String::new(),
        };
        for file in all_files(root)? {
            let folders = file.ancestors().filter(|path| !path.as_os_str().is_empty());
            sources.paths.extend(folders.map(|path| path.to_string_lossy().into_owned()));
        }
        sources.paths.insert("schema".to_owned());
        for file in files {
            match file.extension().and_then(|extension| extension.to_str()) {
                Some("rs") => sources.add_rust(&std::fs::read_to_string(root.join(file))?),
                Some("toml") => {
                    let text = std::fs::read_to_string(root.join(file))?;
                    sources.identifiers.extend(words(&text).map(str::to_owned));
                }
                _ => {}
            }
        }
        Ok(sources)
    }

    fn add_rust(&mut self, text: &str) {
        let scan = scan(text);
        for line in &scan.code {
            self.identifiers.extend(words(line).map(str::to_owned));
        }
        for (_, literal) in &scan.literals {
            self.literals.push_str(literal);
            self.literals.push('\n');
        }
    }

    /// Returns the fault of a span; `is_map` is set for the documents that are checked in full.
    fn problem(&self, span: &str, is_map: bool) -> Option<String> {
        if is_path(span) {
            let is_source = SOURCE_FOLDERS.iter().any(|folder| span.starts_with(folder));
            let is_checked = is_map || is_source || span.ends_with(".rs") && span.contains('/');
            return (is_checked && !self.has_path(span) && !self.literals.contains(span))
                .then(|| format!("there is no file or folder `{span}`: correct the path"));
        }
        let is_word = !span.contains(char::is_whitespace) && span.contains(char::is_alphabetic);
        if !is_map || !is_word || FOREIGN.contains(&span) || self.literals.contains(span) {
            return None;
        }
        let name = span.split(['(', '<', '{', '=']).next().unwrap_or_default();
        let missing = words(name).find(|word| !self.has_name(word))?;
        Some(format!("nothing in the sources is named `{missing}`: correct the name in `{span}`"))
    }

    /// Returns whether a path ends with `span`. `*` and `<name>` stand for any part of one name.
    fn has_path(&self, span: &str) -> bool {
        let wanted: Vec<&str> = span.trim_end_matches('/').split('/').collect();
        self.paths.iter().any(|path| {
            let parts: Vec<&str> = path.split('/').collect();
            parts.len() >= wanted.len()
                && parts[parts.len() - wanted.len()..].iter().zip(&wanted).all(|(p, w)| fits(w, p))
        })
    }

    fn has_name(&self, word: &str) -> bool {
        let word = word.trim_matches('-');
        word.chars().all(|c| c.is_ascii_digit())
            || self.identifiers.contains(word)
            || self.identifiers.contains(&word.replace('-', "_"))
            || self.literals.contains(word)
            || self.has_path(word)
            || self.has_path(&format!("{word}.rs"))
    }
}

fn is_path(span: &str) -> bool {
    let plain = !span.contains([' ', '$', '~', ':', '(', '"', '=', '#']) && !span.starts_with('/');
    let has_extension = EXTENSIONS.iter().any(|extension| {
        span.strip_suffix(extension).is_some_and(|stem| !stem.is_empty() && !stem.ends_with('/'))
    });
    plain
        && (has_extension
            || span.ends_with('/')
            || SOURCE_FOLDERS.iter().any(|f| span.starts_with(f)))
}

/// Returns whether `name` fits a pattern in which `*` and `<…>` stand for anything.
fn fits(pattern: &str, name: &str) -> bool {
    let (before, after) = if let Some(split) = pattern.split_once('*') {
        split
    } else if let Some((before, rest)) = pattern.split_once('<') {
        (before, rest.split_once('>').map_or("", |(_, after)| after))
    } else {
        return pattern == name;
    };
    name.len() >= before.len() + after.len() && name.starts_with(before) && name.ends_with(after)
}

/// The words of a text that could be identifiers. A hyphen belongs to a word: crates and flags.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '-'))
        .filter(|word| word.contains(char::is_alphanumeric))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_name_is_checked() {
        let mut sources = Sources {
            paths: ["crates/a/src/known_git.rs", "crates/a/src/thread", "xtask"]
                .map(str::to_owned)
                .into(),
            identifiers: HashSet::new(),
            literals: String::new(),
        };
        sources.add_rust("impl Store { fn commit(&self) { send(\"thread/start\"); } } // Old");
        for (span, is_map, expected) in [
            ("known*.rs", true, None),
            ("a/src/known_<kind>.rs", true, None),
            ("src/thread/", true, None),
            ("src/gone.rs", true, Some("there is no file or folder `src/gone.rs`")),
            ("src/gone.rs", false, Some("there is no file or folder `src/gone.rs`")),
            ("gone.rs", false, None),
            ("crates/gone", false, Some("there is no file or folder `crates/gone`")),
            ("Store::commit(Write)", true, None),
            ("Store::gone", true, Some("nothing in the sources is named `gone`")),
            ("Old", true, Some("nothing in the sources is named `Old`")),
            ("Old", false, None),
            ("thread/start", true, None),
            ("thread/gone", true, Some("nothing in the sources is named `gone`")),
            ("cargo test -p gone", true, None),
            ("-32001", true, None),
        ] {
            let problem = sources.problem(span, is_map);
            match (&problem, expected) {
                (Some(problem), Some(expected)) => {
                    assert!(problem.starts_with(expected), "{problem}");
                }
                (problem, expected) => assert_eq!(problem.as_deref(), expected, "{span}"),
            }
        }
    }

    #[test]
    fn spans_in_fenced_blocks_are_left_out() {
        let text = "a `b`, ``x `y` `` and `c`\n```sh\n`d`\n```\n`e`";
        assert_eq!(code_spans(text), [(1, "b"), (1, "c"), (5, "e")]);
    }
}
