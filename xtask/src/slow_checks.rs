//! `cargo xtask slow-checks`: what compiles the workspace in another way than the tests do. CI runs it after
//! `cargo xtask test`, whose compiled dependencies the walk-throughs use.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use xtask::steps::When::InTurn;
use xtask::steps::{self, Counts, Done, Outcome, Step};

use crate::{fuzz, must_not_compile, walkthrough};

const STEPS: &[Step] = &[
    Step { name: "walk-throughs", when: InTurn, check: walkthrough::check },
    Step { name: "code that must not compile", when: InTurn, check: must_not_compile::check },
    Step { name: "fuzzing", when: InTurn, check: fuzzing },
];

pub(crate) fn run(root: &Path) -> ExitCode {
    steps::run(root, STEPS)
}

/// Each target for a few seconds, or for as long as `AGENTD_FUZZ_SECONDS` says.
fn fuzzing(root: &Path) -> Outcome {
    let seconds = match std::env::var("AGENTD_FUZZ_SECONDS") {
        Ok(given) => given.parse().context("AGENTD_FUZZ_SECONDS is not a number of seconds")?,
        Err(_) => fuzz::SECONDS_IN_CHECKS,
    };
    let passed = fuzz::run_all(root, seconds)?;
    Ok(Done::Tests(Counts { passed, failed: 0, skipped: 0 }))
}
