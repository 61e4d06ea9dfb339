//! `docs/protocol-status.md`: each method with a test that calls it over the wire and succeeds, and one
//! that is refused. Clients of the tests note what is answered while the tests run (crate `testkit`); the
//! page is made from that.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::steps::{self, Program};

/// The page, from the root.
const PAGE: &str = "docs/protocol-status.md";
/// Where clients of tests note what is answered; see crate `testkit`.
pub(crate) const VARIABLE: &str = "AGENTD_ANSWERED_METHODS";
/// Tests that call whatever there is: they show nothing about a single method.
const INDISCRIMINATE: &[&str] = &["fuzz::", "methods::every_method_answers"];
/// In place of a test.
const NONE: &str = "–";

/// What a method may lack, and why.
struct Lack {
    method: &'static str,
    outcome: Outcome,
    why: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Result,
    Error,
}

const LACKS: &[Lack] = &[];

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

/// Runs the tests of the server and writes the page.
pub(crate) fn write(root: &Path) -> Result<()> {
    let notes = fresh_notes(root)?;
    let shown = notes.display().to_string();
    let options = ["nextest", "run", "--no-fail-fast", "--status-level", "fail", "-p", "server"];
    let program = Program::cargo(root, &[&options[..], &["--all-features"]].concat());
    if let Err(failed) = program.env(VARIABLE, &shown).run_tests(steps::nextest) {
        bail!("{}", failed.message);
    }
    let page = Answered::read(&notes)?.page()?;
    std::fs::write(root.join(PAGE), page).context(PAGE)?;
    println!("wrote {PAGE}");
    Ok(())
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
    ///
    /// # Errors
    /// A method lacks a test without a reason, or has one in spite of it.
    fn page(&self) -> Result<String> {
        let mut page = "# Where each method is tested\n\nFor each method, a test that calls it over the \
                        wire and gets a result, and one that gets an error. Made by `cargo xtask \
                        protocol-status`\nfrom a run of the tests of the crate `server`.\n\n| method | result | error |\n|---|---|---|\n"
            .to_owned();
        let mut wrong = Vec::new();
        for method in protocol::METHODS {
            let mut cells = [Outcome::Result, Outcome::Error].map(|outcome| {
                let tests = self.0.get(&(method.name.to_owned(), outcome));
                let lack =
                    LACKS.iter().find(|lack| lack.method == method.name && lack.outcome == outcome);
                match (tests.and_then(BTreeSet::first), lack) {
                    (Some(test), None) => format!("`{test}`"),
                    (None, Some(lack)) => format!("{NONE} {}", lack.why),
                    (found, _) => {
                        wrong.push((method.name, outcome, found.is_some()));
                        String::new()
                    }
                }
            });
            let [result, error] = &mut cells;
            page.push_str(&format!("| `{}` | {result} | {error} |\n", method.name));
        }
        ensure!(
            wrong.is_empty(),
            "tests are missing, or there although `LACKS` says otherwise: {wrong:?}"
        );
        Ok(page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Notes of a run in which every method is answered both ways.
    fn complete() -> Answered {
        let mut answered = Answered::default();
        for method in protocol::METHODS {
            for outcome in ["result", "error"] {
                let key = if outcome == "result" { Outcome::Result } else { Outcome::Error };
                if !LACKS.iter().any(|lack| (lack.method, lack.outcome) == (method.name, key)) {
                    answered.add(&format!("{outcome} {} some::test", method.name)).unwrap();
                }
            }
        }
        answered
    }

    #[test]
    fn a_page_is_that_of_its_notes() {
        let page = complete().page().unwrap();
        assert_eq!(
            page.matches("| `some::test` | `some::test` |").count(),
            protocol::METHODS.len()
        );
        let mut fewer = complete();
        fewer.0.remove(&("thread/start".to_owned(), Outcome::Error));
        assert!(fewer.page().is_err());
    }

    #[test]
    fn indiscriminate_tests_show_nothing() {
        let mut answered = Answered::default();
        answered.add("error thread/start methods::every_method_answers").unwrap();
        assert!(answered.0.is_empty());
        assert!(answered.add("error thread/start").is_err());
    }
}
