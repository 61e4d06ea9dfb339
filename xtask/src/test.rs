//! `cargo xtask test`: everything a change must pass, from one compile of the workspace.

mod supply;
mod system;
mod typescript;

use std::path::Path;
use std::process::ExitCode;

use xtask::notes::Notes;
use xtask::steps::When::{AtOnce, InTurn};
use xtask::steps::{self, Done, Outcome, Program, SCOPE, Step};

use crate::{recipes, tools};

const STEPS: &[Step] = &[
    Step { name: "system packages", when: InTurn, check: system::packages },
    Step { name: "tidy", when: InTurn, check: tidy },
    Step { name: "build and lints", when: InTurn, check: build },
    Step { name: "tests", when: InTurn, check: tests },
    Step { name: "recorded messages", when: InTurn, check: recorded_messages },
    Step { name: "recipes", when: InTurn, check: recipes::check },
    Step { name: "doc tests", when: InTurn, check: doc_tests },
    Step { name: "TypeScript", when: InTurn, check: typescript::check },
    Step { name: "supply chain", when: AtOnce, check: supply::check },
];

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Run only the tests whose names contain one of these, as `threads::` or `tests::parses`
    #[arg(value_name = "NAME")]
    names: Vec<String>,
}

pub(crate) fn run(root: &Path, options: &Options) -> ExitCode {
    if options.names.is_empty() {
        return steps::run(root, STEPS);
    }
    let filter: Vec<&str> = options.names.iter().map(String::as_str).collect();
    let outcome = run_tests(root, &filter);
    match outcome {
        Ok(_) => ExitCode::SUCCESS,
        Err(failed) => {
            eprintln!("error: {}", failed.message);
            ExitCode::FAILURE
        }
    }
}

/// The formatting is one of the rules.
fn tidy(root: &Path) -> Outcome {
    Ok(crate::tidy::run(root).map(|()| Done::Passed)?)
}

/// Compiles all that the other steps run, and fails when the compiler or clippy finds anything.
fn build(root: &Path) -> Outcome {
    Program::clippy_driver()?;
    let scope = [&["build"][..], &SCOPE, &["--all-targets"]].concat();
    Program::linted(root, &scope).succeed("fix the findings above")
}

fn tests(root: &Path) -> Outcome {
    run_tests(root, &[])
}

/// Runs the tests whose names contain one of `names`, or all.
fn run_tests(root: &Path, names: &[&str]) -> Outcome {
    let notes = Notes::fresh(root)?;
    if Program::exists("cargo-nextest") {
        let threads = threads().to_string();
        let options = ["nextest", "run", "--no-fail-fast", "--status-level", "slow"];
        let threads = ["--test-threads", &threads];
        let program = Program::linted(root, &[&options[..], &SCOPE, &threads, names].concat());
        return notes.taken_by(program).run_tests(steps::nextest);
    }
    println!(
        "cargo-nextest is not installed: the tests run with `cargo test`, which takes longer and does not end \
         tests that hang"
    );
    // Not the benchmarks, which would run.
    let options = ["test", "--no-fail-fast", "--lib", "--bins", "--tests", "--examples"];
    let filter = if names.is_empty() { &[][..] } else { &["--"] };
    let program = Program::linted(root, &[&options[..], &SCOPE, filter, names].concat());
    notes.taken_by(program).run_tests(steps::libtest)
}

/// More than there are cores: many tests wait for processes that they started.
fn threads() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    cores + cores / 2
}

/// Compares what the clients of the tests noted with the pages and examples that are made from it.
fn recorded_messages(root: &Path) -> Outcome {
    let program = Program::new(tools::program(root), &["check-notes"]);
    program.folder(root).succeed("read the message above")
}

fn doc_tests(root: &Path) -> Outcome {
    Program::linted(root, &[&["test", "--doc"][..], &SCOPE].concat()).run_tests(steps::libtest)
}
