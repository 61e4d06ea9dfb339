//! `cargo xtask test`: everything a change must pass.

mod supply;
mod system;
mod typescript;

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;

use crate::notes::Notes;
use crate::steps::When::{AtOnce, InTurn};
use crate::steps::{self, Counts, Done, Outcome, Program, SCOPE, Step};
use crate::{examples, must_not_compile, protocol_status, recipes, walkthrough};

pub(crate) use typescript::tools_folder;

const STEPS: &[Step] = &[
    Step { name: "system packages", when: InTurn, check: system::packages },
    Step { name: "format", when: InTurn, check: format },
    Step { name: "lints", when: InTurn, check: lints },
    Step { name: "tidy", when: InTurn, check: tidy },
    Step { name: "generated files", when: InTurn, check: generated },
    Step { name: "walk-throughs", when: InTurn, check: walkthrough::check },
    Step { name: "code that must not compile", when: InTurn, check: must_not_compile::check },
    Step { name: "tests", when: InTurn, check: tests },
    Step { name: "recipes", when: InTurn, check: recipes::check },
    Step { name: "doc tests", when: InTurn, check: doc_tests },
    Step { name: "fuzzing", when: InTurn, check: fuzzing },
    Step { name: "TypeScript", when: AtOnce, check: typescript::check },
    Step { name: "supply chain", when: AtOnce, check: supply::check },
];

pub(crate) fn run(root: &Path) -> ExitCode {
    steps::run(root, STEPS)
}

fn format(root: &Path) -> Outcome {
    Program::cargo(root, &["fmt", "--all", "--check"])
        .succeed("rewrite the files with `cargo fmt --all`")
}

fn lints(root: &Path) -> Outcome {
    let scope = [&["clippy"][..], &SCOPE, &["--all-targets", "--", "-D", "warnings"]].concat();
    Program::cargo(root, &scope).succeed("fix the clippy findings above")
}

fn tidy(root: &Path) -> Outcome {
    Ok(crate::tidy::run(root).map(|()| Done::Passed)?)
}

fn generated(root: &Path) -> Outcome {
    Ok(crate::generate::check(root).map(|()| Done::Passed)?)
}

fn tests(root: &Path) -> Outcome {
    let notes = Notes::fresh(root)?;
    let done = all_tests(root, &notes)?;
    protocol_status::check(root, &notes.answers)?;
    examples::check_recorded(root, &notes.messages)?;
    Ok(done)
}

fn all_tests(root: &Path, notes: &Notes) -> Outcome {
    if Program::exists("cargo-nextest") {
        let options = ["nextest", "run", "--no-fail-fast", "--status-level", "slow"];
        let program = Program::cargo(root, &[&options[..], &SCOPE].concat());
        return notes.taken_by(program).run_tests(steps::nextest);
    }
    let options = ["test", "--no-fail-fast", "--all-targets"];
    let program = Program::cargo(root, &[&options[..], &SCOPE].concat());
    notes.taken_by(program).run_tests(steps::libtest)
}

fn doc_tests(root: &Path) -> Outcome {
    Program::cargo(root, &[&["test", "--doc"][..], &SCOPE].concat()).run_tests(steps::libtest)
}

/// Each target for a few seconds, or for as long as `AGENTD_FUZZ_SECONDS` says.
fn fuzzing(root: &Path) -> Outcome {
    let seconds = match std::env::var("AGENTD_FUZZ_SECONDS") {
        Ok(given) => given.parse().context("AGENTD_FUZZ_SECONDS is not a number of seconds")?,
        Err(_) => crate::fuzz::SECONDS_IN_TESTS,
    };
    let passed = crate::fuzz::run_all(root, seconds)?;
    Ok(Done::Tests(Counts { passed, failed: 0, skipped: 0 }))
}
