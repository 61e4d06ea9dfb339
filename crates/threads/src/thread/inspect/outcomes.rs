//! The results of inspections, in the words of the session.

use std::path::{Path, PathBuf};

use sandbox::rules::Decision;
use session::{Action, Attempted, Prepared};

use crate::thread::patches::Planned;
use services::allowed::MachineInput;
use services::thread_port::Command;

pub(super) fn planned(call: u64, planned: Planned) -> Command {
    match planned {
        Ok((plan, patch)) => Command::Planned { call, plan, patch },
        Err((changes, message)) => {
            let attempted = Attempted::Patch { changes };
            let outcome = Prepared::Refused { attempted, message };
            Command::Input(MachineInput::Prepared { call, outcome })
        }
    }
}

/// Where a working folder leads, with links resolved, or why it cannot be one.
pub(super) fn real_folder(path: &Path) -> Result<PathBuf, String> {
    match path.canonicalize() {
        Ok(real) if real.is_dir() => Ok(real),
        Ok(_) => Err("is not a folder".to_owned()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Err("does not exist".to_owned())
        }
        Err(error) => Err(format!("cannot be used: {error}")),
    }
}

pub(super) fn refused_command(display: String, cwd: PathBuf, message: &str) -> Prepared {
    let attempted = Attempted::Command { display, cwd };
    Prepared::Refused { attempted, message: message.to_owned() }
}

pub(super) fn rule(decision: Decision) -> session::RuleDecision {
    match decision {
        Decision::Allow => session::RuleDecision::Allow,
        Decision::Prompt => session::RuleDecision::Prompt,
        Decision::Forbidden => session::RuleDecision::Forbidden,
    }
}

pub(super) fn action(action: sandbox::rules::Action) -> Action {
    use sandbox::rules::Action as Found;
    match action {
        Found::Read { command, name, path } => Action::Read { command, name, path },
        Found::ListFiles { command, path } => Action::ListFiles { command, path },
        Found::Search { command, query, path } => Action::Search { command, query, path },
        Found::Unknown { command } => Action::Unknown { command },
    }
}
