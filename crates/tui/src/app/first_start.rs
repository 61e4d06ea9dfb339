//! The known facts about the question of the first start in a repository.

use std::path::PathBuf;

use protocol::requirements::ConfigRequirements;
use protocol::{AskForApproval, SandboxMode};

/// The state of the question.
#[derive(Debug, Default)]
pub(super) struct FirstStart {
    due: Option<Due>,
    is_settled: bool,
}

/// A question that is to be asked.
#[derive(Clone, Debug)]
pub(super) struct Due {
    /// The repository.
    pub(super) root: PathBuf,
    /// True if the requirements allow a thread that never asks.
    pub(super) may_never_ask: bool,
}

impl FirstStart {
    /// True if it is not known yet whether the question is to be asked.
    pub(super) fn is_open(&self) -> bool {
        !self.is_settled && self.due.is_none()
    }

    pub(super) fn set_due(&mut self, due: Option<Due>) {
        self.due = due;
    }

    pub(super) fn due(&self) -> Option<&Due> {
        self.due.as_ref()
    }

    /// The user has answered.
    pub(super) fn settle(&mut self) {
        *self = Self { due: None, is_settled: true };
    }
}

impl Due {
    /// The question, unless requirements leave nothing to choose.
    pub(super) fn new(root: PathBuf, required: &ConfigRequirements) -> Option<Self> {
        let policies = required.allowed_approval_policies.as_ref();
        let allows = |policy| policies.is_none_or(|allowed| allowed.contains(&policy));
        let modes = required.allowed_sandbox_modes.as_ref();
        let may_edit = modes.is_none_or(|allowed| allowed.contains(&SandboxMode::WorkspaceWrite));
        let may_never_ask = allows(AskForApproval::Never);
        (may_edit && allows(AskForApproval::OnRequest)).then_some(Self { root, may_never_ask })
    }
}
