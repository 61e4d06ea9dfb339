//! `docs/protocol-status.md`: each method with a test that calls it over the wire and succeeds, and one
//! that is refused. Clients of the tests note what is answered while the tests run (crate `testkit`); the
//! page is made from that, and each run of all tests checks that no method lacks a test and that the page
//! has the same methods, gaps and tests.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use xtask::notes;

/// The page, from the root.
const PAGE: &str = "docs/protocol-status.md";
/// In place of a test.
const NONE: &str = "–";

/// An outcome of a method that no test can show.
struct Lack {
    method: &'static str,
    outcome: Outcome,
    why: &'static str,
}

const LACKS: &[Lack] = &[
    Lack::of_results("thread/turns/items/list", UNSUPPORTED),
    Lack::of_results("plugin/skill/read", NO_SERVICE),
    Lack::of_results("plugin/share/list", NO_SERVICE),
    Lack::of_results("plugin/share/save", NO_SERVICE),
    Lack::of_results("plugin/share/updateTargets", NO_SERVICE),
    Lack::of_results("plugin/share/delete", NO_SERVICE),
    Lack::of_results("windowsSandbox/readiness", WINDOWS),
    Lack::of_results("windowsSandbox/setupStart", WINDOWS),
];

const UNSUPPORTED: &str = "always refused, as the specification says";
const NO_SERVICE: &str = "the specification names no service that answers it";
const WINDOWS: &str = "applies to Windows only";

impl Lack {
    const fn of_results(method: &'static str, why: &'static str) -> Self {
        Self { method, outcome: Outcome::Result, why }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Result,
    Error,
}

/// The tests of each method by how it was answered, in the order of their names.
#[derive(Debug, Default)]
struct Answered(BTreeMap<(String, Outcome), BTreeSet<String>>);

/// Writes the page from `notes`, or from a run of the tests of the server.
pub(crate) fn write(root: &Path, notes: Option<PathBuf>) -> Result<()> {
    let notes = match notes {
        Some(notes) => notes,
        None => notes::run_tests(root)?.answers,
    };
    let answered = Answered::read(&notes)?;
    answered.check_tests()?;
    let page = answered.page();
    std::fs::write(root.join(PAGE), page).context(PAGE)?;
    println!("wrote {PAGE}");
    Ok(())
}

/// Checks the notes of a run of all tests, and the page.
///
/// # Errors
/// A method lacks a test of an outcome without a reason in [`LACKS`], or has one in spite of a reason; or
/// the page has other methods or gaps, or names a test that is gone.
pub(crate) fn check(root: &Path, notes: &Path) -> Result<()> {
    let page = std::fs::read_to_string(root.join(PAGE)).context(PAGE)?;
    let answered = Answered::read(notes)?;
    answered.check_tests()?;
    answered.check_page(&page).context("rewrite the page with `cargo xtask protocol-status`")
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
        if !notes::is_indiscriminate(test) {
            self.0.entry((method.to_owned(), outcome)).or_default().insert(test.to_owned());
        }
        Ok(())
    }

    /// The first test of an outcome. Tests run in any order; that of their names is always the same.
    fn test(&self, method: &str, outcome: Outcome) -> Option<&str> {
        self.0.get(&(method.to_owned(), outcome))?.first().map(String::as_str)
    }

    /// # Errors
    /// As of [`check`], about the tests.
    fn check_tests(&self) -> Result<()> {
        let mut wrong = Vec::new();
        for (method, outcome) in outcomes() {
            match (self.test(method, outcome), lack(method, outcome)) {
                (None, None) => wrong.push(format!("no test gets an {outcome} from `{method}`")),
                (Some(test), Some(_)) => wrong.push(format!(
                    "`{test}` gets an {outcome} from `{method}`, which `LACKS` says cannot be shown"
                )),
                (Some(_), None) | (None, Some(_)) => {}
            }
        }
        let gone = LACKS.iter().filter(|lack| protocol::lookup(lack.method).is_none());
        wrong.extend(gone.map(|lack| format!("`LACKS`: there is no method `{}`", lack.method)));
        ensure!(
            wrong.is_empty(),
            "write a test over the wire in crates/server/tests/suite, or correct `LACKS` in \
             tools/src/protocol_status.rs:\n{}",
            wrong.join("\n")
        );
        Ok(())
    }

    /// The page, for notes that [`Answered::check_tests`] accepts.
    fn page(&self) -> String {
        let mut page = "# Protocol status\n\n\
            For each method, a test that calls it over the wire and gets a result, and one that gets an \
            error. Made by `cargo xtask\nprotocol-status` from a run of the tests of the crate `server`; \
            `cargo xtask test` fails where a method lacks a test.\n\n\
            | method | result | error |\n|---|---|---|\n"
            .to_owned();
        for method in protocol::METHODS {
            let cell = |outcome| match (self.test(method.name, outcome), lack(method.name, outcome))
            {
                (Some(test), _) => format!("`{test}`"),
                (None, Some(lack)) => format!("{NONE} {}", lack.why),
                (None, None) => NONE.to_owned(),
            };
            let (result, error) = (cell(Outcome::Result), cell(Outcome::Error));
            page.push_str(&format!("| `{}` | {result} | {error} |\n", method.name));
        }
        page
    }

    /// Compares what does not depend on which of several tests is named.
    ///
    /// # Errors
    /// As of [`check`], about the page.
    fn check_page(&self, page: &str) -> Result<()> {
        let rows: Vec<(&str, Vec<&str>)> = page.lines().filter_map(row).collect();
        let found = rows.iter().map(|(method, _)| *method);
        let methods = protocol::METHODS.iter().map(|method| method.name);
        ensure!(found.eq(methods), "{PAGE} has not the methods of the protocol in their order");
        // Whether a test gets an outcome may depend on time; that there is one of the name does not.
        let tests: BTreeSet<&str> = self.0.values().flatten().map(String::as_str).collect();
        for (method, cells) in rows {
            ensure!(cells.len() == 2, "{PAGE}: the row of `{method}` has not two tests");
            for (cell, outcome) in cells.into_iter().zip(Outcome::ALL) {
                if let Some(lack) = lack(method, outcome) {
                    let gap = format!("{NONE} {}", lack.why);
                    ensure!(cell == gap, "{PAGE}: `{method}` has {cell} in place of {gap}");
                    continue;
                }
                let test = cell.strip_prefix('`').and_then(|cell| cell.strip_suffix('`'));
                let is_there = test.is_some_and(|test| tests.contains(test));
                ensure!(is_there, "{PAGE}: {cell} of `{method}` is no test of this run");
            }
        }
        Ok(())
    }
}

impl Outcome {
    /// In the order of the page's columns.
    const ALL: [Self; 2] = [Self::Result, Self::Error];
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Result => "answer",
            Self::Error => "error",
        })
    }
}

/// Returns the outcomes that each method must be shown to have.
fn outcomes() -> impl Iterator<Item = (&'static str, Outcome)> {
    protocol::METHODS.iter().flat_map(|method| Outcome::ALL.map(|outcome| (method.name, outcome)))
}

/// Returns whether the server never has a result for a method.
pub(crate) fn never_succeeds(method: &str) -> bool {
    lack(method, Outcome::Result).is_some()
}

fn lack(method: &str, outcome: Outcome) -> Option<&'static Lack> {
    LACKS.iter().find(|lack| (lack.method, lack.outcome) == (method, outcome))
}

/// The method and the other cells of a row of the table.
fn row(line: &str) -> Option<(&str, Vec<&str>)> {
    let mut cells = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ");
    let method = cells.next()?.strip_prefix('`')?.strip_suffix('`')?;
    Some((method, cells.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Notes of a run in which every method is answered as it must be.
    fn complete() -> Answered {
        let mut answered = Answered::default();
        for (method, outcome) in outcomes().filter(|&(name, outcome)| lack(name, outcome).is_none())
        {
            let outcome = if outcome == Outcome::Result { "result" } else { "error" };
            answered.add(&format!("{outcome} {method} some::test")).unwrap();
        }
        answered
    }

    #[test]
    fn a_page_is_that_of_its_notes() {
        let page = complete().page();
        complete().check_tests().unwrap();
        complete().check_page(&page).unwrap();
        // A test with a smaller name changes the page, and the old one stays valid.
        let mut more = complete();
        more.add("result thread/start other::test").unwrap();
        assert!(more.page().contains("| `thread/start` | `other::test` | `some::test` |\n"));
        more.check_page(&page).unwrap();
    }

    #[test]
    fn what_is_missing_or_needless_is_named() {
        let failure = |answered: Answered| answered.check_tests().unwrap_err().to_string();
        let mut fewer = complete();
        fewer.0.remove(&("thread/start".to_owned(), Outcome::Error));
        assert!(failure(fewer).ends_with("no test gets an error from `thread/start`"));
        let mut more = complete();
        more.add("result windowsSandbox/readiness a::b").unwrap();
        let needless = "`a::b` gets an answer from `windowsSandbox/readiness`, which `LACKS`";
        assert!(failure(more).contains(needless));
    }

    #[test]
    fn a_page_that_is_out_of_date_is_refused() {
        let page = complete().page();
        let start = "| `thread/start` | `some::test` | `some::test` |\n";
        assert!(page.contains(start));
        for (found, reason) in [
            (page.replace(start, ""), "the methods of the protocol"),
            (page.replace(start, &format!("{start}{start}")), "the methods of the protocol"),
            (page.replace(start, "| `thread/start` | `some::test` |\n"), "not two tests"),
            (page.replace(start, "| `thread/start` | – | `some::test` |\n"), "– of `thread/start`"),
            (page.replace(start, &start.replace("some", "gone")), "`gone::test` of"),
            (page.replace(WINDOWS, ""), "in place of – applies to Windows only"),
        ] {
            let failure = complete().check_page(&found).unwrap_err().to_string();
            assert!(failure.contains(reason), "{failure}");
        }
    }

    #[test]
    fn indiscriminate_tests_show_nothing() {
        let mut answered = Answered::default();
        answered.add("error thread/start methods::every_method_answers").unwrap();
        assert!(answered.0.is_empty());
        assert!(answered.add("error thread/start").is_err());
    }
}
