//! Items, the parts of a turn. Their streamed deltas are in `item_event`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::common::AbsolutePath;
use crate::input::UserInput;
use crate::json_text::JsonText;
use crate::model::ReasoningEffort;
use crate::review_finding::ReviewFinding;
use crate::tool::DynamicToolCallOutputContentItem;
use crate::wire;

/// The `type` of an item.
#[derive(Deserialize)]
struct Type<'t> {
    #[serde(rename = "type", borrow)]
    name: Cow<'t, str>,
}

fn read<'t, T: Deserialize<'t>, E: serde::de::Error>(text: &'t RawValue) -> Result<T, E> {
    serde_json::from_str(text.get()).map_err(E::custom)
}

/// Declares the kinds of items: the variants with what they hold, each of which has an `id`, and their `type`
/// on the wire.
macro_rules! kinds {
    ($($kind:ident($item:ty) = $name:literal,)*) => {
        /// A unit of input or output (specification, "Items").
        #[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
        #[serde(tag = "type")]
        pub enum ThreadItem {
            $(#[serde(rename = $name)] $kind($item),)*
        }

        /// Reads the text of an item: what serde derives for enums reads values, which have lost the digits of
        /// long numbers.
        impl<'de> Deserialize<'de> for ThreadItem {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = Box::<RawValue>::deserialize(deserializer)?;
                let Type { name } = read(&text)?;
                match &*name {
                    $($name => read(&text).map(Self::$kind),)*
                    other => Err(D::Error::unknown_variant(other, &[$($name,)*])),
                }
            }
        }

        /// The kind of an item.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum ItemKind {
            $($kind,)*
        }

        impl ThreadItem {
            /// The item's id.
            pub fn id(&self) -> &str {
                match self {
                    $(Self::$kind(item) => &item.id,)*
                }
            }

            /// The item's kind.
            pub fn kind(&self) -> ItemKind {
                match self {
                    $(Self::$kind(_) => ItemKind::$kind,)*
                }
            }
        }

        impl ItemKind {
            /// All kinds.
            pub const ALL: &[Self] = &[$(Self::$kind,)*];

            /// The item's `type` on the wire.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)*
                }
            }
        }
    };
}

kinds! {
    UserMessage(UserMessageItem) = "userMessage",
    HookPrompt(HookPromptItem) = "hookPrompt",
    AgentMessage(AgentMessageItem) = "agentMessage",
    Plan(PlanItem) = "plan",
    Reasoning(ReasoningItem) = "reasoning",
    CommandExecution(CommandExecutionItem) = "commandExecution",
    FileChange(FileChangeItem) = "fileChange",
    McpToolCall(McpToolCallItem) = "mcpToolCall",
    DynamicToolCall(DynamicToolCallItem) = "dynamicToolCall",
    CollabToolCall(CollabToolCallItem) = "collabToolCall",
    WebSearch(WebSearchItem) = "webSearch",
    ImageView(ImageViewItem) = "imageView",
    ImageGeneration(ImageGenerationItem) = "imageGeneration",
    EnteredReviewMode(ReviewModeItem) = "enteredReviewMode",
    ExitedReviewMode(ReviewModeItem) = "exitedReviewMode",
    ContextCompaction(ContextCompactionItem) = "contextCompaction",
}

impl ThreadItem {
    /// Why the model's response broke off before this text was whole.
    pub fn cut_off(&self) -> Option<&str> {
        match self {
            Self::AgentMessage(it) => it.reason.as_deref(),
            Self::Plan(it) => it.reason.as_deref(),
            Self::Reasoning(it) => it.reason.as_deref(),
            _ => None,
        }
    }

    /// The items of a turn without the texts of failed attempts: a text that was cut off counts only where
    /// the turn ended with it. Otherwise, the model was asked again.
    pub fn without_attempts(mut items: Vec<Self>) -> Vec<Self> {
        let end = items.iter().rposition(|it| it.cut_off().is_none()).map_or(0, |last| last + 1);
        let mut at = 0;
        items.retain(|it| {
            at += 1;
            at > end || it.cut_off().is_none()
        });
        items
    }
}

/// The user's input.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UserMessageItem {
    pub id: String,
    pub content: Vec<UserInput>,
    /// The `clientUserMessageId` of the queued message that it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
}

/// Text that hooks added to the conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct HookPromptItem {
    pub id: String,
    pub fragments: Vec<HookPromptFragment>,
}

/// Text from one hook.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HookPromptFragment {
    pub hook_run_id: String,
    pub text: String,
}

/// A message from the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentMessageItem {
    pub id: String,
    pub text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<MessagePhase>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_citation: Option<MemoryCitation>,
    /// Why the model's response broke off before this was whole. Where the turn went on, the model was asked
    /// again, and its next response takes the place of this text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The kind of a message: a comment during the work, or the final answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MessagePhase {
    Commentary,
    FinalAnswer,
}

/// Memory sources that a message uses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemoryCitation {
    pub entries: Vec<MemoryCitationEntry>,
    pub thread_ids: Vec<String>,
}

/// A passage of a memory file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemoryCitationEntry {
    pub path: String,
    pub line_start: u32,
    pub line_end: u32,
    pub note: String,
}

/// The proposed plan; the text of `item/completed` is authoritative.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PlanItem {
    pub id: String,
    pub text: String,
    /// Why the model's response broke off before this was whole. Where the turn went on, the model was asked
    /// again, and its next response takes the place of this text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The model's reasoning.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ReasoningItem {
    pub id: String,
    /// Sections of the summary.
    #[serde(default)]
    pub summary: Vec<String>,
    /// Blocks of raw reasoning.
    #[serde(default)]
    pub content: Vec<String>,
    /// Why the model's response broke off before this was whole. Where the turn went on, the model was asked
    /// again, and its next response takes the place of this text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A command that was run or awaits approval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommandExecutionItem {
    pub id: String,
    /// The command as displayed to people.
    pub command: String,
    pub cwd: AbsolutePath,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process_id: Option<String>,
    #[serde(default)]
    pub source: CommandExecutionSource,
    pub status: CommandExecutionStatus,
    /// True while the command waits for an approval, and has not begun.
    #[serde(
        default,
        deserialize_with = "wire::or_default",
        skip_serializing_if = "wire::is_false"
    )]
    pub awaits_approval: bool,
    /// The apparent actions of the command.
    pub command_actions: Vec<CommandAction>,
    /// Output of both streams, in the order in which it was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aggregated_output: Option<String>,
    /// Number of bytes of long output that are left out in the middle of `aggregatedOutput`, where
    /// a line says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub omitted_output_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<i64>,
}

/// Source of a command.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub enum CommandExecutionSource {
    #[default]
    Agent,
    /// The user, with `thread/shellCommand`.
    UserShell,
    /// The agent, when it starts an interactive session.
    UnifiedExecStartup,
    /// The agent, when it types into one.
    UnifiedExecInteraction,
}

/// State of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum CommandExecutionStatus {
    InProgress,
    Completed,
    Failed,
    Declined,
}

/// An apparent action of a command, for display.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum CommandAction {
    Read {
        command: String,
        name: String,
        path: AbsolutePath,
    },
    ListFiles {
        command: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        path: Option<String>,
    },
    Search {
        command: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        query: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        path: Option<String>,
    },
    Unknown {
        command: String,
    },
}

/// A patch to files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct FileChangeItem {
    pub id: String,
    pub changes: Vec<FileUpdateChange>,
    pub status: PatchApplyStatus,
    /// Why it failed or was declined, unless the user declined it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The change to one file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct FileUpdateChange {
    pub path: String,
    pub kind: PatchChangeKind,
    /// Unified diff; the whole content of an added file.
    pub diff: String,
}

/// Kind of a change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum PatchChangeKind {
    Add,
    Delete,
    /// Changed, and possibly moved.
    Update {
        #[serde(skip_serializing_if = "Option::is_none")]
        move_path: Option<String>,
    },
}

/// State of a patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum PatchApplyStatus {
    InProgress,
    Completed,
    Failed,
    Declined,
}

/// A call of an MCP server's tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpToolCallItem {
    pub id: String,
    pub server: String,
    pub tool: String,
    pub status: McpToolCallStatus,
    pub arguments: JsonText,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mcp_app_resource_uri: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<McpToolCallResult>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<McpToolCallError>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<i64>,
}

/// State of an MCP tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum McpToolCallStatus {
    InProgress,
    Completed,
    Failed,
}

/// Result of an MCP tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpToolCallResult {
    pub content: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub structured_content: Option<Value>,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Value>,
}

/// Why an MCP tool call failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct McpToolCallError {
    pub message: String,
}

/// A call of a tool that the client runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DynamicToolCallItem {
    pub id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    pub tool: String,
    pub arguments: JsonText,
    pub status: DynamicToolCallStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_items: Option<Vec<DynamicToolCallOutputContentItem>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub success: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<i64>,
}

/// State of a dynamic tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum DynamicToolCallStatus {
    InProgress,
    Completed,
    Failed,
}

/// A tool call between agents.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CollabToolCallItem {
    pub id: String,
    pub tool: CollabAgentTool,
    pub status: CollabToolCallStatus,
    pub sender_thread_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receiver_thread_id: Option<String>,
    /// Thread of a spawned agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new_thread_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// State of the agent, when the call is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_status: Option<CollabAgentStatus>,
    /// Threads of the agents that the call is about. While it runs, as the model named them: by id or
    /// nickname.
    #[serde(default)]
    pub receiver_thread_ids: Vec<String>,
    /// State of each of them, by thread id.
    #[serde(default)]
    pub agents_states: BTreeMap<String, CollabAgentState>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_effort: Option<ReasoningEffort>,
    /// Why it failed; absent if it succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// State of an agent, with its final message or the reason for its failure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct CollabAgentState {
    pub status: CollabAgentStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Tool that one agent uses on another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum CollabAgentTool {
    SpawnAgent,
    SendInput,
    ResumeAgent,
    Wait,
    CloseAgent,
}

/// State of a call between agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum CollabToolCallStatus {
    InProgress,
    Completed,
    Failed,
}

/// State of the other agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum CollabAgentStatus {
    PendingInit,
    Running,
    Interrupted,
    Completed,
    Errored,
    Shutdown,
    NotFound,
}

/// A web search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct WebSearchItem {
    pub id: String,
    pub query: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<WebSearchAction>,
    /// Why it failed; absent if it succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Action of a web search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum WebSearchAction {
    Search {
        #[serde(skip_serializing_if = "Option::is_none")]
        query: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        queries: Option<Vec<String>>,
    },
    OpenPage {
        #[serde(skip_serializing_if = "Option::is_none")]
        url: Option<String>,
    },
    FindInPage {
        #[serde(skip_serializing_if = "Option::is_none")]
        url: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pattern: Option<String>,
    },
    Other,
}

/// An image that the agent viewed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ImageViewItem {
    pub id: String,
    pub path: AbsolutePath,
    /// Why it could not be viewed; absent if it succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// An image that the model generated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageGenerationItem {
    pub id: String,
    pub status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revised_prompt: Option<String>,
    /// The image in base64.
    pub result: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub saved_path: Option<AbsolutePath>,
    /// Why there is no image; absent if it succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The start of a review (what is reviewed) or its end (the review's text).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ReviewModeItem {
    pub id: String,
    pub review: String,
    /// The findings as data, at the end of a review whose text has them: list entries with a priority, or JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub findings: Option<Vec<ReviewFinding>>,
    /// The verdict on the whole, where the model gave one apart from the findings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explanation: Option<String>,
}

/// A compaction of the history. With `reason`, the history was not replaced.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ContextCompactionItem {
    pub id: String,
    /// Why the history was not replaced; absent if the compaction succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
