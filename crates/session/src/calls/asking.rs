//! The questions to the user, or to a reviewer in the user's place, about a call.

use std::path::PathBuf;

use crate::Id;
use crate::port::agent_request::AgentJob;
use crate::port::item::{Change, CommandItem, DynamicCall, Item, ItemStatus};
use crate::port::permission::Permissions;
use crate::port::server_tool::ServerCall;
use crate::port::tool::{JobOutput, PatchPlan, PatchTarget};
use crate::processes::OutsideCommand;
use crate::terms::Terms;
use crate::tools::{CommandCall, WriteStdinCall};

/// A call that the user is asked about.
pub(crate) struct Asking {
    /// The request to the clients or the reviewer.
    pub(crate) request: u64,
    /// True if a reviewer decides in place of the clients.
    pub(crate) is_reviewed: bool,
    /// True if it leaves the sandbox.
    pub(crate) unsandboxed: bool,
    /// The subject of the question.
    pub(crate) about: AskedAbout,
    /// The settings when it was asked.
    pub(crate) terms: Terms,
}

/// The subject of a question to the user.
pub(crate) enum AskedAbout {
    /// A command, and its item.
    Command(Box<CommandCall>, CommandItem),
    /// A patch.
    Patch(FileChange),
    /// Text for a running command.
    Typing(TypingRequest),
    /// Permissions.
    Permissions(PermissionRequest),
    /// The file that a job writes.
    JobOutput(JobOutputRequest),
    /// A call of the tool of an MCP server.
    ServerTool(Box<ServerCall>),
}

/// Text that a call types into a command outside of the sandbox.
pub(crate) struct TypingRequest {
    /// The item that shows the call.
    pub(crate) item: DynamicCall,
    pub(crate) call: WriteStdinCall,
    pub(crate) command: OutsideCommand,
}

/// Permissions that the user is asked for.
pub(crate) struct PermissionRequest {
    /// The item that shows the call.
    pub(crate) item: DynamicCall,
    pub(crate) permissions: Permissions,
    /// The reason why they are needed.
    pub(crate) reason: Option<String>,
}

/// A job that writes a file when it ends.
pub(crate) struct JobOutputRequest {
    /// The change that shows the file.
    pub(crate) change: FileChange,
    pub(crate) job: Box<AgentJob>,
    pub(crate) output: Box<JobOutput>,
}

impl AskedAbout {
    /// Returns whether an administrator's rule wants the user to decide, and no hook.
    pub(crate) fn needs_user(&self) -> bool {
        matches!(self, Self::Command(command, _) if command.assessment.is_rule_required)
    }

    /// The item that shows it.
    pub(crate) fn item(&self) -> Item {
        match self {
            Self::Command(_, item) => Item::Command(item.clone()),
            Self::Patch(change) => change.item(),
            Self::Typing(request) => Item::DynamicCall(request.item.clone()),
            Self::Permissions(request) => Item::DynamicCall(request.item.clone()),
            Self::JobOutput(request) => request.change.item(),
            Self::ServerTool(call) => Item::ServerCall(call.clone()),
        }
    }
}

/// A patch, or the file of a job, that is not final: its item's id, the changed files, and where their paths lead.
pub(crate) struct FileChange {
    pub(crate) id: Id,
    pub(crate) changes: Vec<Change>,
    pub(crate) targets: Vec<PatchTarget>,
    /// The working folder, if the user can make that writable for the session in the same answer.
    pub(crate) grantable_folder: Option<PathBuf>,
}

impl FileChange {
    pub(crate) fn new(id: Id, plan: PatchPlan) -> Self {
        let PatchPlan { changes, targets, grantable_folder, outside: _ } = plan;
        Self { id, changes, targets, grantable_folder }
    }

    /// The item that shows it.
    pub(crate) fn item(&self) -> Item {
        let (id, changes) = (self.id.clone(), self.changes.clone());
        Item::FileChange { id, changes, status: ItemStatus::InProgress, reason: None }
    }
}
