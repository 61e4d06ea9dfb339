//! The settings of a thread that stick from turn to turn, and how a turn overrides them.

use std::path::PathBuf;

use policy::Permissions;
pub use policy::{Access, ReadAccess, SandboxPolicy};

/// When the agent pauses for approval (specification: Sandbox policy).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApprovalPolicy {
    /// Nothing is asked; what would need approval is refused.
    Never,
    /// Everything is asked, except commands that are known to be safe.
    UnlessTrusted,
    /// The sandbox confines; the model asks for what lies outside it.
    OnRequest,
    /// As `OnRequest`, with each kind of prompt switched on or off.
    Granular(Granular),
}

/// Which kinds of prompt may surface; the others are answered with a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Granular {
    /// Prompts for leaving the sandbox.
    pub sandbox_approval: bool,
    /// Prompts that a command rule demands.
    pub rules: bool,
    /// Elicitations of MCP servers.
    pub mcp_elicitations: bool,
    /// Prompts of the `request_permissions` tool.
    pub request_permissions: bool,
    /// Prompts for scripts of skills.
    pub skill_approval: bool,
}

/// Who decides about approvals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ApprovalsReviewer {
    /// The user: the clients are asked.
    #[default]
    User,
    /// A model that reviews each action.
    AutoReview,
    /// The same under its earlier name.
    GuardianSubagent,
}

impl ApprovalsReviewer {
    /// Returns whether the clients are asked.
    pub fn is_user(&self) -> bool {
        *self == Self::User
    }
}

/// The collaboration mode of a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// The agent works.
    #[default]
    Default,
    /// The agent explores and proposes a plan, and changes nothing.
    Plan,
}

/// The settings of a thread. A turn's overrides become the thread's settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Model id.
    pub model: String,
    /// Provider id.
    pub provider: String,
    /// Working folder, absolute.
    pub cwd: PathBuf,
    /// When to ask.
    pub approval: ApprovalPolicy,
    /// Who decides about what is asked.
    pub reviewer: ApprovalsReviewer,
    /// The access of commands and patches.
    pub sandbox: SandboxPolicy,
    /// The part of `sandbox` that was granted beyond the chosen policy. Not stored: it ends with
    /// the loaded thread.
    pub granted: Permissions,
    /// Reasoning effort.
    pub effort: Option<String>,
    /// Detail of reasoning summaries.
    pub summary: Option<String>,
    /// Verbosity of the answer.
    pub verbosity: Option<String>,
    /// Style of the answer.
    pub personality: Option<String>,
    /// Preferred service tier.
    pub service_tier: Option<String>,
    /// Collaboration mode.
    pub mode: Mode,
    /// Developer instructions of the mode; `None` means the built-in ones.
    pub mode_instructions: Option<String>,
}

/// The settings that `turn/start` and `thread/resume` may change; `None` leaves a setting as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overrides {
    /// See [`Settings::model`].
    pub model: Option<String>,
    /// See [`Settings::provider`].
    pub provider: Option<String>,
    /// See [`Settings::cwd`].
    pub cwd: Option<PathBuf>,
    /// See [`Settings::approval`].
    pub approval: Option<ApprovalPolicy>,
    /// See [`Settings::reviewer`].
    pub reviewer: Option<ApprovalsReviewer>,
    /// See [`Settings::sandbox`].
    pub sandbox: Option<SandboxPolicy>,
    /// See [`Settings::effort`].
    pub effort: Option<String>,
    /// See [`Settings::summary`].
    pub summary: Option<String>,
    /// See [`Settings::personality`].
    pub personality: Option<String>,
    /// See [`Settings::service_tier`]; `Some(None)` returns to the provider's default.
    pub service_tier: Option<Option<String>>,
    /// The service tier of the turn that starts with these overrides: no setting of the thread.
    pub turn_service_tier: Option<Option<String>>,
    /// The mode and its developer instructions (`None`: the built-in ones).
    pub mode: Option<(Mode, Option<String>)>,
}

impl Settings {
    /// Applies `overrides`. Returns whether anything changed.
    pub fn apply(&mut self, overrides: Overrides) -> bool {
        let before = self.clone();
        let Overrides { model, provider, cwd, approval, sandbox, .. } = overrides;
        replace(&mut self.model, model);
        replace(&mut self.provider, provider);
        replace(&mut self.cwd, cwd);
        replace(&mut self.approval, approval);
        replace(&mut self.reviewer, overrides.reviewer);
        replace(&mut self.sandbox, sandbox);
        replace(&mut self.effort, overrides.effort.map(Some));
        replace(&mut self.summary, overrides.summary.map(Some));
        replace(&mut self.personality, overrides.personality.map(Some));
        replace(&mut self.service_tier, overrides.service_tier);
        if let Some((mode, instructions)) = overrides.mode {
            self.mode = mode;
            self.mode_instructions = instructions;
        }
        *self != before
    }
}

fn replace<T>(slot: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *slot = value;
    }
}
