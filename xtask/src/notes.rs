//! The notes of the clients in a run of the tests (crate `testkit`): which methods are answered,
//! for `docs/protocol-status.md`, and the messages, for the examples of the protocol reference.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::steps::{self, Program, SCOPE};

/// Names the file of the answers.
const ANSWERS_VARIABLE: &str = "AGENTD_ANSWERED_METHODS";
/// Names the file of the messages.
const MESSAGES_VARIABLE: &str = "AGENTD_RECORDED_MESSAGES";
/// Tests that call whatever there is: they show nothing about a single method.
const INDISCRIMINATE: &[&str] = &["fuzz::", "methods::every_method_answers"];

/// Files in the folder `target`.
pub struct Notes {
    /// For the page of the tests of each method.
    pub answers: PathBuf,
    /// For the examples of the protocol reference.
    pub messages: PathBuf,
}

impl Notes {
    /// Where they are after a run.
    pub fn of_last_run(root: &Path) -> Self {
        let file = |name: &str| root.join("target").join(name);
        Self { answers: file("answered-methods"), messages: file("recorded-messages") }
    }

    /// Two empty files.
    pub fn fresh(root: &Path) -> Result<Self> {
        let notes = Self::of_last_run(root);
        for file in [&notes.answers, &notes.messages] {
            let folder = file.parent().unwrap_or(root);
            std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
            std::fs::write(file, "").with_context(|| file.display().to_string())?;
        }
        Ok(notes)
    }

    /// Lets the clients of the tests that `program` runs write them.
    pub fn taken_by(&self, program: Program) -> Program {
        let program = program.env(ANSWERS_VARIABLE, &self.answers.display().to_string());
        program.env(MESSAGES_VARIABLE, &self.messages.display().to_string())
    }
}

/// Runs the tests of the server; returns their notes.
pub fn run_tests(root: &Path) -> Result<Notes> {
    let notes = Notes::fresh(root)?;
    let chosen = ["--status-level", "fail", "-E", "package(server)"];
    let options = [&["nextest", "run", "--no-fail-fast"][..], &SCOPE, &chosen].concat();
    match notes.taken_by(Program::linted(root, &options)).run_tests(steps::nextest) {
        Ok(_) => Ok(notes),
        Err(failed) => bail!("{}", failed.message),
    }
}

/// Returns whether a test calls every method that exists.
pub fn is_indiscriminate(test: &str) -> bool {
    INDISCRIMINATE.iter().any(|prefix| test.starts_with(prefix))
}
