//! The settings under which a decision about an action is requested. A decision holds for no others.

use crate::port::settings::{ApprovalPolicy, ApprovalsReviewer, Mode, SandboxPolicy, Settings};

/// Why a decision that was requested under other settings is refused.
pub(crate) const CHANGED: &str =
    "the settings changed while this was decided; try again if it is still needed";

/// The settings under which a decision is requested.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Terms {
    sandbox: SandboxPolicy,
    approval: ApprovalPolicy,
    reviewer: ApprovalsReviewer,
    mode: Mode,
}

impl Terms {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            sandbox: settings.sandbox.clone(),
            approval: settings.approval,
            reviewer: settings.reviewer,
            mode: settings.mode,
        }
    }
}
