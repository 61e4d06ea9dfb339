//! What the user, or a reviewer in the user's place, is asked about a call, and under which settings.

use crate::Id;
use crate::port::item::{Change, CommandItem, DynamicCall, Item, ItemStatus};
use crate::port::permission::Permissions;
use crate::port::settings::{ApprovalPolicy, ApprovalsReviewer, Mode, SandboxPolicy, Settings};
use crate::port::tool::PatchPlan;
use crate::tools::CommandCall;

/// A call that the user is asked about.
pub(crate) struct Asking {
    /// The request to the clients or the reviewer.
    pub(crate) request: u64,
    /// Whether a reviewer decides in place of the clients.
    pub(crate) is_reviewed: bool,
    /// Whether it leaves the sandbox.
    pub(crate) unsandboxed: bool,
    /// What it is about.
    pub(crate) about: AskedAbout,
    /// The settings when it was asked.
    pub(crate) terms: Terms,
}

/// The settings under which somebody decides. A decision holds for no others.
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

/// What the user is asked about.
pub(crate) enum AskedAbout {
    /// A command, and its item.
    Command(Box<CommandCall>, CommandItem),
    /// A patch.
    Patch(FileChange),
    /// Permissions.
    Permissions(PermissionRequest),
}

/// Permissions that the user is asked for.
pub(crate) struct PermissionRequest {
    /// The item that shows the call.
    pub(crate) item: DynamicCall,
    pub(crate) permissions: Permissions,
    /// What they are for.
    pub(crate) reason: Option<String>,
}

impl AskedAbout {
    /// The item that shows it.
    pub(crate) fn item(&self) -> Item {
        match self {
            Self::Command(_, item) => Item::Command(item.clone()),
            Self::Patch(change) => change.item(),
            Self::Permissions(request) => Item::DynamicCall(request.item.clone()),
        }
    }
}

/// A patch that is not final: its item's id and the changed files.
pub(crate) struct FileChange {
    pub(crate) id: Id,
    pub(crate) changes: Vec<Change>,
}

impl FileChange {
    pub(crate) fn new(id: Id, plan: PatchPlan) -> Self {
        Self { id, changes: plan.changes }
    }

    /// The item that shows it.
    pub(crate) fn item(&self) -> Item {
        let (id, changes) = (self.id.clone(), self.changes.clone());
        Item::FileChange { id, changes, status: ItemStatus::InProgress, reason: None }
    }
}
