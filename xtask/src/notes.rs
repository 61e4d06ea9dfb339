//! The notes of the clients in a run of the tests (crate `testkit`): which methods are answered,
//! for `docs/protocol-status.md`, and the messages, for the examples of the protocol reference.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::steps::{self, Program};

/// Names the file of the answers.
const ANSWERS_VARIABLE: &str = "AGENTD_ANSWERED_METHODS";
/// Names the file of the messages.
const MESSAGES_VARIABLE: &str = "AGENTD_RECORDED_MESSAGES";
/// Tests that call whatever there is: they show nothing about a single method.
const INDISCRIMINATE: &[&str] = &["fuzz::", "methods::every_method_answers"];

/// Files in the folder `target`.
pub(crate) struct Notes {
    /// For [`crate::protocol_status`].
    pub(crate) answers: PathBuf,
    /// For [`crate::examples`].
    pub(crate) messages: PathBuf,
}

impl Notes {
    /// Two empty files.
    pub(crate) fn fresh(root: &Path) -> Result<Self> {
        let answers = empty_file(root, "answered-methods")?;
        Ok(Self { answers, messages: empty_file(root, "recorded-messages")? })
    }

    /// Lets the clients of the tests that `program` runs write them.
    pub(crate) fn taken_by(&self, program: Program) -> Program {
        let program = program.env(ANSWERS_VARIABLE, &self.answers.display().to_string());
        program.env(MESSAGES_VARIABLE, &self.messages.display().to_string())
    }
}

/// Runs the tests of the server; returns their notes.
pub(crate) fn run_tests(root: &Path) -> Result<Notes> {
    let notes = Notes::fresh(root)?;
    let options = ["nextest", "run", "--no-fail-fast", "--status-level", "fail", "-p", "server"];
    let program = Program::cargo(root, &[&options[..], &["--all-features"]].concat());
    match notes.taken_by(program).run_tests(steps::nextest) {
        Ok(_) => Ok(notes),
        Err(failed) => bail!("{}", failed.message),
    }
}

/// Returns whether a test calls every method that exists.
pub(crate) fn is_indiscriminate(test: &str) -> bool {
    INDISCRIMINATE.iter().any(|prefix| test.starts_with(prefix))
}

fn empty_file(root: &Path, name: &str) -> Result<PathBuf> {
    let folder = root.join("target");
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let file = folder.join(name);
    std::fs::write(&file, "").with_context(|| file.display().to_string())?;
    Ok(file)
}
