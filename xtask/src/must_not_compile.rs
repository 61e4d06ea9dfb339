//! Code that the compiler must refuse. Each file in [`CASES`] is added to a copy of the crate `services` as a module
//! of its own; each line that ends with `//~ CODE` must give the compiler's error of that code, and no
//! other line an error. So a type that stops protecting what it should fails the tests.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, ensure};

use crate::walkthrough;
use xtask::steps::{Done, Outcome, PROGRAM_SCOPE, Program};

/// The folder with the cases: modules in text files, because rustfmt and cargo would take `.rs` for more.
const CASES: &str = "crates/services/tests/must_not_compile";
/// The module that a case becomes.
const MODULE: &str = "crates/services/src/must_not_compile.rs";
const LIBRARY: &str = "crates/services/src/lib.rs";
const MARK: &str = "//~ ";

/// A line and the code of its error.
type Refusal = (usize, String);

/// Runs [`check`] as a task.
pub(crate) fn run(root: &Path) -> Result<()> {
    check(root).map(drop).map_err(|failed| anyhow!(failed.message))
}

/// Compiles every case in the copy of the walk-throughs, whose dependencies are compiled already.
pub(crate) fn check(root: &Path) -> Outcome {
    for case in cases(root)? {
        check_case(root, &case).with_context(|| case.display().to_string())?;
    }
    Ok(Done::Passed)
}

fn check_case(root: &Path, case: &Path) -> Result<()> {
    let library = std::fs::read_to_string(root.join(LIBRARY)).context(LIBRARY)?;
    let text = std::fs::read_to_string(case)?;
    let expected = expected(&text);
    ensure!(!expected.is_empty(), "no line is marked with `{MARK}CODE`");
    let copy = walkthrough::copy(
        root,
        BTreeMap::from([
            (PathBuf::from(LIBRARY), format!("{library}\nmod must_not_compile;\n")),
            (PathBuf::from(MODULE), text),
        ]),
    )?;
    let form = ["--message-format=short", "--color=never"];
    let arguments = [&walkthrough::BUILD[..], &PROGRAM_SCOPE, &form].concat();
    let program = Program::cargo(&copy.folder, &arguments);
    let output = program
        .env("CARGO_TARGET_DIR", &copy.target)
        .env(walkthrough::OWN_ARTIFACTS.0, walkthrough::OWN_ARTIFACTS.1)
        .stderr()?;
    let found = refusals(&output)?;
    ensure!(
        found == expected,
        "the compiler's errors (line, code) are {found:?}, expected are {expected:?}; where one is \
         missing, code that must not compile compiles:\n{output}"
    );
    Ok(())
}

fn cases(root: &Path) -> Result<Vec<PathBuf>> {
    let mut cases = Vec::new();
    for entry in std::fs::read_dir(root.join(CASES)).context(CASES)? {
        cases.push(entry.context(CASES)?.path());
    }
    cases.sort();
    ensure!(!cases.is_empty(), "{CASES} is empty");
    Ok(cases)
}

/// The errors that the marks of a case ask for.
fn expected(text: &str) -> BTreeSet<Refusal> {
    let marks = text.lines().enumerate().filter_map(|(index, line)| {
        let (_, code) = line.split_once(MARK)?;
        Some((index + 1, code.trim().to_owned()))
    });
    marks.collect()
}

/// The errors in the module of a case, from the compiler's short messages
/// (`FILE:LINE:COLUMN: error[CODE]: …`). An error elsewhere is a failure.
fn refusals(output: &str) -> Result<BTreeSet<Refusal>> {
    let mut found = BTreeSet::new();
    for line in output.lines() {
        let Some((place, message)) = line.split_once(": error[") else { continue };
        let mut place = place.split(':');
        let (file, number) = (place.next().unwrap_or_default(), place.next().unwrap_or_default());
        ensure!(file == MODULE, "an error outside of the case: {line}");
        let code = message.split(']').next().unwrap_or_default();
        found.insert((number.parse().with_context(|| line.to_owned())?, code.to_owned()));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_and_errors_are_read() {
        let text = "fn a() {\n    b(); //~ E0425\n}\n";
        let expected = expected(text);
        assert_eq!(expected, BTreeSet::from([(2, "E0425".to_owned())]));
        let output = format!(
            "   Compiling x\n{MODULE}:2:5: error[E0425]: cannot find `b`\n\
             {MODULE}:1:4: warning: unused\nerror: could not compile `services`\n"
        );
        assert_eq!(refusals(&output).unwrap(), expected);
        assert!(refusals("crates/a/src/lib.rs:1:1: error[E0001]: x\n").is_err());
        assert!(refusals("   Finished\n").unwrap().is_empty());
    }

    #[test]
    fn every_case_has_a_mark() {
        let root = xtask::workspace_root();
        for case in cases(&root).unwrap() {
            let text = std::fs::read_to_string(&case).unwrap();
            assert!(!expected(&text).is_empty(), "{}", case.display());
        }
    }
}
