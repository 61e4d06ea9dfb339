//! `docs/protocol-status.md`: each method with a test that calls it over the wire and succeeds, and one
//! that is refused. Clients of the tests note what is answered while the tests run (crate `testkit`); the
//! page is made from that.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::steps::{self, Program};

/// The page, from the root.
const PAGE: &str = "docs/protocol-status.md";
/// Where clients of tests note what is answered; see crate `testkit`.
pub(crate) const VARIABLE: &str = "AGENTD_ANSWERED_METHODS";
/// Tests that call whatever there is: they show nothing about a single method.
const INDISCRIMINATE: &[&str] = &["fuzz::", "methods::every_method_answers"];
/// In place of a test.
const NONE: &str = "–";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Result,
    Error,
}

/// The tests of each method by how it was answered, in the order of their names.
#[derive(Debug, Default)]
struct Answered(BTreeMap<(String, Outcome), BTreeSet<String>>);

/// An empty file for the clients of a run of the tests.
pub(crate) fn fresh_notes(root: &Path) -> Result<PathBuf> {
    let folder = root.join("target");
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let file = folder.join("answered-methods");
    std::fs::write(&file, "").with_context(|| file.display().to_string())?;
    Ok(file)
}

/// Writes the page from `notes`, or from a run of the tests of the server.
pub(crate) fn write(root: &Path, notes: Option<PathBuf>) -> Result<()> {
    let notes = match notes {
        Some(notes) => notes,
        None => run_tests(root)?,
    };
    let page = Answered::read(&notes)?.page();
    std::fs::write(root.join(PAGE), page).context(PAGE)?;
    println!("wrote {PAGE}");
    Ok(())
}

/// Runs the tests of the server; returns their notes.
fn run_tests(root: &Path) -> Result<PathBuf> {
    let notes = fresh_notes(root)?;
    let shown = notes.display().to_string();
    let options = ["nextest", "run", "--no-fail-fast", "--status-level", "fail", "-p", "server"];
    let program = Program::cargo(root, &[&options[..], &["--all-features"]].concat());
    match program.env(VARIABLE, &shown).run_tests(steps::nextest) {
        Ok(_) => Ok(notes),
        Err(failed) => bail!("{}", failed.message),
    }
}

impl Answered {
    fn read(notes: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(notes).with_context(|| notes.display().to_string())?;
        let mut answered = Self::default();
        for line in text.lines() {
            answered.add(line).with_context(|| format!("{}: {line:?}", notes.display()))?;
        }
        Ok(answered)
    }

    fn add(&mut self, line: &str) -> Result<()> {
        let parts: Vec<&str> = line.split(' ').collect();
        let &[outcome, method, test] = &parts[..] else { bail!("not three words") };
        let outcome = match outcome {
            "result" => Outcome::Result,
            "error" => Outcome::Error,
            _ => bail!("neither a result nor an error"),
        };
        if !INDISCRIMINATE.iter().any(|prefix| test.starts_with(prefix)) {
            self.0.entry((method.to_owned(), outcome)).or_default().insert(test.to_owned());
        }
        Ok(())
    }

    /// The page, with the first test of each method and outcome.
    fn page(&self) -> String {
        let mut page =
            "# Where each method is tested\n\nFor each method, a test that calls it over the \
                        wire and gets a result, and one that gets an error. Made by `cargo xtask \
                        protocol-status`\nfrom a run of the tests of the crate `server`.\n\n\
                        | method | result | error |\n|---|---|---|\n"
                .to_owned();
        for method in protocol::METHODS {
            let [result, error] = [Outcome::Result, Outcome::Error].map(|outcome| {
                let tests = self.0.get(&(method.name.to_owned(), outcome));
                let first = tests.and_then(BTreeSet::first);
                first.map_or_else(|| NONE.to_owned(), |test| format!("`{test}`"))
            });
            page.push_str(&format!("| `{}` | {result} | {error} |\n", method.name));
        }
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_names_the_first_test_of_each_outcome() {
        let mut answered = Answered::default();
        for line in
            ["result thread/start b::c", "result thread/start a::b", "error thread/list d::e"]
        {
            answered.add(line).unwrap();
        }
        let page = answered.page();
        assert!(page.contains("| `thread/start` | `a::b` | – |\n"), "{page}");
        assert!(page.contains("| `thread/list` | – | `d::e` |\n"), "{page}");
        let rows = page.lines().filter(|line| line.starts_with("| `")).count();
        assert_eq!(rows, protocol::METHODS.len());
    }

    #[test]
    fn indiscriminate_tests_show_nothing() {
        let mut answered = Answered::default();
        answered.add("error thread/start methods::every_method_answers").unwrap();
        assert!(answered.0.is_empty());
        assert!(answered.add("error thread/start").is_err());
    }
}
