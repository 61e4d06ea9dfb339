//! The errors of methods on worktrees: each has its reason for programs, and the files that it is about.

use protocol::{WorktreeErrorData, WorktreeErrorReason};

use crate::git_command::GitFailure;
use services::error::Error;

/// Files that a message names; `data` has more.
const NAMED: usize = 5;

/// A refusal. `files`: those that it is about.
pub(crate) fn refused(
    reason: WorktreeErrorReason,
    message: impl Into<String>,
    files: Vec<String>,
) -> Error {
    let mut message = message.into();
    if !files.is_empty() {
        let shown = files.iter().take(NAMED).map(|file| visible::line(file).into_owned());
        let shown = shown.collect::<Vec<_>>().join(", ");
        let more = if files.len() > NAMED { ", …" } else { "" };
        message = format!("{message}: {shown}{more}");
    }
    with_reason(Error::wrong_state(message), reason, files)
}

/// Git did not do it.
pub(super) fn failed(failure: GitFailure) -> Error {
    let (reason, message) = match failure {
        GitFailure::NotStarted(said) => (WorktreeErrorReason::Git, said),
        GitFailure::TimedOut(command) => {
            (WorktreeErrorReason::TimedOut, format!("`{command}` did not end in time"))
        }
        GitFailure::Failed(command, said) => {
            (WorktreeErrorReason::Git, format!("`{command}`: {said}"))
        }
    };
    with_reason(Error::failed(message), reason, Vec::new())
}

fn with_reason(error: Error, reason: WorktreeErrorReason, files: Vec<String>) -> Error {
    let data = WorktreeErrorData { reason, files };
    error.with_details(serde_json::to_value(data).expect("plain data"))
}
