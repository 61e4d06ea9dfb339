//! The items of a turn: what a client shows of it (specification: Items).

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use super::agents::{AgentCall, AgentOutcome};
use super::memory::MemoryCitation;
use super::review::ReviewFindings;
use super::server_tool::ServerCall;
pub use super::tool_content::{ItemStatus, ToolAnswer, ToolContent};
use crate::Id;

/// One part of a user's message.
#[derive(Clone, Debug, PartialEq)]
pub enum UserContent {
    /// Plain text.
    Text {
        /// The text for the model.
        text: String,
        /// Spans that clients show in another way; the model is not sent them.
        elements: Vec<TextElement>,
    },
    /// An image by URL.
    Image {
        /// `http(s):` or `data:` URL.
        url: String,
    },
    /// An image file of the client's machine, read by the driver.
    LocalImage {
        /// Where it lies.
        path: String,
        /// Its contents as a `data:` URL, for the model.
        data_url: String,
    },
    /// A connected app whose tools the user wants used: they are loaded for the turn.
    App {
        /// Its id as a connector.
        id: String,
        /// The user's name for it.
        name: String,
    },
    /// A skill that the user chose.
    Skill {
        /// Its name.
        name: String,
        /// Its definition file.
        path: String,
        /// The text for the model, sent once per history.
        text: Arc<str>,
        /// True if it needs more than its text; the driver knows the details.
        has_needs: bool,
    },
}

/// A span of a text with a meaning of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextElement {
    /// Offset of its first byte.
    pub start: u64,
    /// Offset after its last byte.
    pub end: u64,
    /// The text to show in its place.
    pub placeholder: Option<String>,
}

/// Part of the agent's work that a message belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Said during the work.
    Commentary,
    /// The answer.
    FinalAnswer,
}

/// An apparent action of a command, for display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Reads one file.
    Read {
        /// The command.
        command: String,
        /// The file's name.
        name: String,
        /// The file.
        path: PathBuf,
    },
    /// Lists a folder.
    ListFiles {
        /// The command.
        command: String,
        /// The folder, when named.
        path: Option<String>,
    },
    /// Searches.
    Search {
        /// The command.
        command: String,
        /// The search query.
        query: Option<String>,
        /// The place.
        path: Option<String>,
    },
    /// Anything else.
    Unknown {
        /// The command.
        command: String,
    },
}

/// Who ran a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandSource {
    /// The agent, through a tool.
    Agent,
    /// The user.
    User,
}

/// A command run by the agent or the user.
#[derive(Clone, Debug, PartialEq)]
pub struct CommandItem {
    /// Item id.
    pub id: Id,
    /// The command in display form.
    pub command: String,
    /// Its working folder.
    pub cwd: PathBuf,
    /// Its status.
    pub status: ItemStatus,
    /// True while it waits for an approval, and has not begun.
    pub awaits_approval: bool,
    /// The apparent actions of the command.
    pub actions: Vec<Action>,
    /// Standard output and error together, capped with head and tail kept; of a command that did
    /// not run, the reason.
    pub output: Option<String>,
    /// Bytes that are missing in the middle of `output`.
    pub omitted: usize,
    /// Its exit code; 128 + n for signal n, 124 for a timeout.
    pub exit_code: Option<i32>,
    /// Duration of the run.
    pub duration_ms: Option<i64>,
    /// The number under which `write_stdin` finds it.
    pub process_id: Option<String>,
    /// Who ran it.
    pub source: CommandSource,
}

/// A call of a tool that the client runs.
#[derive(Clone, Debug, PartialEq)]
pub struct DynamicCall {
    /// Item id.
    pub id: Id,
    /// Group of the tool.
    pub namespace: Option<String>,
    /// The tool.
    pub tool: String,
    /// Its arguments, JSON.
    pub arguments: String,
    /// Its status.
    pub status: ItemStatus,
    /// Its output.
    pub answer: Option<ToolAnswer>,
    /// Why it failed.
    pub reason: Option<String>,
    /// Duration of the call.
    pub duration_ms: Option<i64>,
}

/// The kind of a file's change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// A new file.
    Add,
    /// A deleted file.
    Delete,
    /// Changed contents, perhaps under a new name.
    Update {
        /// The new name.
        move_to: Option<String>,
    },
}

/// One file of a patch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Absolute path.
    pub path: String,
    /// The kind of the change.
    pub kind: ChangeKind,
    /// The contents of an added file, a unified diff otherwise.
    pub diff: String,
}

impl Change {
    /// Makes the paths absolute, without `.` and `..`.
    pub(crate) fn resolve_paths(&mut self, cwd: &Path) {
        self.path = resolved(cwd, &self.path);
        if let ChangeKind::Update { move_to: Some(target) } = &mut self.kind {
            *target = resolved(cwd, target);
        }
    }
}

fn resolved(cwd: &Path, path: &str) -> String {
    let mut resolved = PathBuf::new();
    for part in cwd.join(path).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                resolved.pop();
            }
            other => resolved.push(other),
        }
    }
    resolved.display().to_string()
}

/// The action of a web search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SearchAction {
    /// A query.
    Search {
        /// The query.
        query: Option<String>,
        /// More than one.
        queries: Option<Vec<String>>,
    },
    /// A page was opened.
    OpenPage {
        /// Its address.
        url: Option<String>,
    },
    /// Text was looked up in a page.
    FindInPage {
        /// Its address.
        url: Option<String>,
        /// The text.
        pattern: Option<String>,
    },
    /// Something this version does not know.
    Other,
}

/// A unit of input or output of a turn.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// A message of the user.
    UserMessage {
        /// Item id.
        id: Id,
        /// Its parts.
        content: Vec<UserContent>,
        /// The client's id of the message, when it was queued.
        client_id: Option<Arc<str>>,
    },
    /// A message of the agent.
    AgentMessage {
        /// Item id.
        id: Id,
        /// The text so far.
        text: String,
        /// Commentary or answer, where the model says.
        phase: Option<Phase>,
        /// The cited notes of earlier threads.
        citation: Option<Box<MemoryCitation>>,
        /// Why the response broke off before it was whole.
        reason: Option<String>,
    },
    /// A proposed plan (plan mode).
    Plan {
        /// Item id.
        id: Id,
        /// The text so far.
        text: String,
        /// Why the response broke off before it was whole.
        reason: Option<String>,
    },
    /// Reasoning of the model.
    Reasoning {
        /// Item id.
        id: Id,
        /// Summary sections.
        summary: Vec<String>,
        /// Raw blocks, when the model gives them.
        content: Vec<String>,
        /// Why the response broke off before it was whole.
        reason: Option<String>,
    },
    /// A command.
    Command(CommandItem),
    /// A patch.
    FileChange {
        /// Item id.
        id: Id,
        /// Its files.
        changes: Vec<Change>,
        /// Its status.
        status: ItemStatus,
        /// Why it failed or was declined, unless the user said no.
        reason: Option<String>,
    },
    /// A search of the provider's own search tool.
    WebSearch {
        /// Item id.
        id: Id,
        /// The query.
        query: String,
        /// The action of the search.
        action: Option<SearchAction>,
        /// Why it failed.
        reason: Option<String>,
    },
    /// A call of a tool that the client runs.
    DynamicCall(DynamicCall),
    /// A call of the tool of an MCP server.
    ServerCall(Box<ServerCall>),
    /// A call that concerns other agents.
    AgentCall(Box<AgentCall>),
    /// A review began.
    EnteredReviewMode {
        /// Item id.
        id: Id,
        /// The subject of the review.
        review: String,
    },
    /// A review ended.
    ExitedReviewMode {
        /// Item id.
        id: Id,
        /// The result.
        review: String,
        /// The result as data, where it can be read from the text.
        findings: Option<ReviewFindings>,
    },
    /// The model's history is replaced by a summary.
    ContextCompaction {
        /// Item id.
        id: Id,
        /// Why the history stayed as it was.
        reason: Option<String>,
    },
    /// Messages of hooks: why a prompt is not sent, why the turn ends, or why it goes on.
    HookPrompt {
        /// Item id.
        id: Id,
        /// The reason of each, with the id of its run.
        fragments: Vec<hooks::Refusal>,
    },
    /// An image that the provider generated.
    ImageGeneration(Box<ImageGeneration>),
    /// An image that the agent viewed.
    ImageView {
        /// Item id.
        id: Id,
        /// The file.
        path: String,
        /// Why it could not be shown to the model.
        reason: Option<String>,
    },
}

/// An image that the provider generated, or generates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageGeneration {
    /// Item id.
    pub id: Id,
    /// The provider's word for its state.
    pub status: String,
    /// Its base64, as the provider sent it.
    pub result: String,
    /// The prompt that the provider made of the model's.
    pub revised_prompt: Option<String>,
    /// Why there is no image.
    pub reason: Option<String>,
}

impl ImageGeneration {
    /// The state of one that failed.
    pub(crate) const FAILED: &str = "failed";

    /// One that has begun.
    pub(crate) fn begun(id: Id) -> Self {
        let status = "in_progress".to_owned();
        Self { id, status, result: String::new(), revised_prompt: None, reason: None }
    }

    fn failed(self, reason: Option<String>) -> Self {
        Self { status: Self::FAILED.to_owned(), reason, ..self }
    }
}

/// An item as a call of a tool, as traces name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ItemCall<'a> {
    /// The tool's name.
    pub tool: &'a str,
    /// The name of the things that it works with.
    pub kind: &'static str,
    /// True if something other than this program executes it.
    pub is_extension: bool,
}

impl Item {
    /// The item's id.
    pub fn id(&self) -> &Id {
        match self {
            Self::UserMessage { id, .. }
            | Self::AgentMessage { id, .. }
            | Self::Plan { id, .. }
            | Self::Reasoning { id, .. }
            | Self::FileChange { id, .. }
            | Self::WebSearch { id, .. }
            | Self::EnteredReviewMode { id, .. }
            | Self::ExitedReviewMode { id, .. }
            | Self::ContextCompaction { id, .. }
            | Self::HookPrompt { id, .. }
            | Self::ImageView { id, .. } => id,
            Self::Command(command) => &command.id,
            Self::DynamicCall(call) => &call.id,
            Self::ServerCall(call) => &call.id,
            Self::AgentCall(call) => &call.id,
            Self::ImageGeneration(image) => &image.id,
        }
    }

    /// The status, for items that have one.
    pub fn status(&self) -> Option<ItemStatus> {
        match self {
            Self::Command(command) => Some(command.status),
            Self::FileChange { status, .. } => Some(*status),
            Self::DynamicCall(call) => Some(call.status),
            Self::ServerCall(call) => Some(call.status),
            Self::AgentCall(call) => Some(call.status),
            _ => None,
        }
    }

    /// The call that the item is; `None` for items that are no calls of tools.
    pub fn call(&self) -> Option<ItemCall<'_>> {
        let function = |tool, kind| Some(ItemCall { tool, kind, is_extension: false });
        let extension = |tool, kind| Some(ItemCall { tool, kind, is_extension: true });
        match self {
            Self::Command(_) => function("exec_command", "command"),
            Self::FileChange { .. } => function("apply_patch", "patch"),
            Self::ImageView { .. } => function("view_image", "image"),
            Self::AgentCall(call) => function(call.tool.name(), "agent"),
            Self::WebSearch { .. } => extension("web_search", "web_search"),
            Self::ImageGeneration(_) => extension("image_generation", "image_generation"),
            Self::DynamicCall(call) => extension(&call.tool, "client"),
            Self::ServerCall(call) => extension(&call.target.tool, "mcp"),
            Self::UserMessage { .. }
            | Self::AgentMessage { .. }
            | Self::Plan { .. }
            | Self::Reasoning { .. }
            | Self::EnteredReviewMode { .. }
            | Self::ExitedReviewMode { .. }
            | Self::ContextCompaction { .. }
            | Self::HookPrompt { .. } => None,
        }
    }

    /// A call about other agents in its final state.
    pub(crate) fn answered(self, outcome: &AgentOutcome) -> Self {
        match self {
            Self::AgentCall(call) => Self::AgentCall(Box::new(call.answered(outcome))),
            Self::DynamicCall(call) => {
                let (text, success) = match &outcome.output {
                    Ok(text) => (text.as_str(), true),
                    Err(error) => (error.message(), false),
                };
                let content = vec![ToolContent::Text(text.to_owned())];
                let status = if success { ItemStatus::Completed } else { ItemStatus::Failed };
                let answer = Some(ToolAnswer { content, success });
                Self::DynamicCall(DynamicCall { status, answer, ..call })
            }
            other => other,
        }
    }

    /// The item in its final state, with the reason where it failed before it ran.
    pub(crate) fn closed(self, status: ItemStatus, reason: Option<&str>) -> Self {
        let why = || reason.map(str::to_owned);
        match self {
            Self::Command(command) => {
                let output = command.output.or_else(why);
                let awaits_approval = false;
                Self::Command(CommandItem { status, awaits_approval, output, ..command })
            }
            Self::FileChange { id, changes, .. } => {
                Self::FileChange { id, changes, status, reason: why() }
            }
            Self::DynamicCall(call) => {
                Self::DynamicCall(DynamicCall { status, reason: why(), ..call })
            }
            Self::ServerCall(call) => Self::ServerCall(Box::new(call.closed(status, reason))),
            Self::AgentCall(call) => {
                Self::AgentCall(Box::new(AgentCall { status, reason: why(), ..*call }))
            }
            Self::WebSearch { id, query, action, .. } => {
                Self::WebSearch { id, query, action, reason: why() }
            }
            Self::ContextCompaction { id, .. } => Self::ContextCompaction { id, reason: why() },
            Self::ImageGeneration(image) => Self::ImageGeneration(Box::new(image.failed(why()))),
            Self::ImageView { id, path, .. } => Self::ImageView { id, path, reason: why() },
            Self::UserMessage { .. }
            | Self::AgentMessage { .. }
            | Self::Plan { .. }
            | Self::Reasoning { .. }
            | Self::EnteredReviewMode { .. }
            | Self::ExitedReviewMode { .. }
            | Self::HookPrompt { .. } => self,
        }
    }
}
