//! Version 2 of the protocol, where it differs: messages are made in the shapes of version 1, and written in
//! those of version 2 here.

use serde::{Deserialize, Serialize};

use super::initialize::{
    AuthMethod, ClientCapabilities, ClientSessionCapabilities, ElicitationCapabilities,
    Implementation, InitializeRequest, Supported,
};
use super::or_default;
use super::permission::{PermissionOption, PermissionRequest};
use super::session::{self, StopReason};
use super::tool_call::{ToolCall, ToolCallContent};
use super::update::{self, PlanEntry, SessionUpdate};
use crate::schema::content::ContentBlock;

/// The plan of a session: there is one, which each update replaces.
const PLAN: &str = "plan";

/// Parameters of `initialize`.
#[derive(Debug, Deserialize)]
pub(crate) struct Initialize {
    #[serde(default, deserialize_with = "or_default")]
    capabilities: Capabilities,
    info: Implementation,
}

#[derive(Debug, Default, Deserialize)]
struct Capabilities {
    #[serde(default, deserialize_with = "or_default")]
    auth: Auth,
    #[serde(default, deserialize_with = "or_default")]
    elicitation: ElicitationCapabilities,
}

#[derive(Debug, Default, Deserialize)]
struct Auth {
    #[serde(default)]
    terminal: Option<Supported>,
}

impl Initialize {
    /// The same in the shape of version 1. Every client knows notices and compactions.
    pub(crate) fn into_first(self) -> InitializeRequest {
        let mut client =
            ClientCapabilities { elicitation: self.capabilities.elicitation, ..Default::default() };
        client.auth.terminal = self.capabilities.auth.terminal.is_some();
        client.session = ClientSessionCapabilities {
            compaction: Some(Supported {}),
            notices: Some(Supported {}),
        };
        InitializeRequest { client_capabilities: client, client_info: Some(self.info) }
    }
}

/// Result of `initialize`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Initialized {
    protocol_version: u16,
    info: Implementation,
    capabilities: AgentCapabilities,
    auth_methods: Vec<LoginMethod>,
}

#[derive(Debug, Default, Serialize)]
struct AgentCapabilities {
    session: SessionCapabilities,
    auth: Supported,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct SessionCapabilities {
    prompt: PromptCapabilities,
    mcp: McpCapabilities,
    delete: Supported,
    additional_directories: Supported,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct PromptCapabilities {
    image: Supported,
    embedded_context: Supported,
}

#[derive(Debug, Default, Serialize)]
struct McpCapabilities {
    stdio: Supported,
    http: Supported,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct LoginMethod {
    #[serde(rename = "type")]
    kind: &'static str,
    method_id: &'static str,
    name: &'static str,
    description: &'static str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    args: &'static [&'static str],
}

impl Initialized {
    pub(crate) fn new(info: Implementation, methods: &[AuthMethod]) -> Self {
        let method = |method: &AuthMethod| LoginMethod {
            kind: method.kind.unwrap_or("agent"),
            method_id: method.id,
            name: method.name,
            description: method.description,
            args: method.args,
        };
        Self {
            protocol_version: super::Version::Second.number(),
            info,
            capabilities: AgentCapabilities::default(),
            auth_methods: methods.iter().map(method).collect(),
        }
    }
}

/// Parameters of `session/resume`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Resume {
    #[serde(flatten)]
    pub(crate) open: session::OpenSessionRequest,
    /// Which part of the history is shown; none without.
    #[serde(default)]
    pub(crate) replay_from: Option<ReplayFrom>,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum ReplayFrom {
    /// All of it.
    Start,
}

/// Result of `session/new`, and without the id of `session/resume`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Opened<'s> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) session_id: Option<&'s str>,
    pub(crate) config_options: Vec<ConfigOption<'s>>,
}

/// Result of `session/set_config_option`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConfigOptions<'s> {
    pub(crate) config_options: Vec<ConfigOption<'s>>,
}

/// A list of values to choose from.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConfigOption<'s> {
    #[serde(rename = "type")]
    kind: &'static str,
    config_id: &'static str,
    name: &'static str,
    description: &'static str,
    category: &'static str,
    current_value: &'s str,
    options: &'s [session::ConfigValue],
}

pub(crate) fn config_options(options: &[session::ConfigOption]) -> Vec<ConfigOption<'_>> {
    options.iter().map(ConfigOption::of).collect()
}

impl<'s> ConfigOption<'s> {
    fn of(option: &'s session::ConfigOption) -> Self {
        Self {
            kind: option.kind,
            config_id: option.id,
            name: option.name,
            description: option.description,
            category: option.category,
            current_value: &option.current_value,
            options: &option.options,
        }
    }
}

/// Result of `session/prompt`: the message stands in the conversation.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Inserted<'s> {
    pub(crate) message_id: &'s str,
}

/// The update of a session that says what it does.
#[derive(Debug, Serialize)]
#[serde(tag = "sessionUpdate", rename = "state_update")]
pub(crate) struct StateUpdate {
    #[serde(flatten)]
    pub(crate) state: State,
}

/// The state of a session.
#[derive(Debug, Serialize)]
#[serde(tag = "state", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub(crate) enum State {
    Running,
    /// Only an answer of the user lets it go on.
    RequiresAction,
    Idle {
        /// Why the work ended that has just ended.
        #[serde(skip_serializing_if = "Option::is_none")]
        stop_reason: Option<IdleReason>,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<jsonrpc::ErrorObject>,
    },
}

#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum IdleReason {
    EndTurn,
    MaxTokens,
    Refusal,
    Cancelled,
    Error,
}

impl State {
    /// After work that ended.
    pub(crate) fn ended(ended: Result<StopReason, jsonrpc::ErrorObject>) -> Self {
        let (reason, error) = match ended {
            Ok(StopReason::EndTurn) => (IdleReason::EndTurn, None),
            Ok(StopReason::MaxTokens) => (IdleReason::MaxTokens, None),
            Ok(StopReason::Refusal) => (IdleReason::Refusal, None),
            Ok(StopReason::Cancelled) => (IdleReason::Cancelled, None),
            Err(error) => (IdleReason::Error, Some(error)),
        };
        Self::Idle { stop_reason: Some(reason), error }
    }

    /// Of a session that did nothing before.
    pub(crate) fn idle() -> Self {
        Self::Idle { stop_reason: None, error: None }
    }
}

/// An update in the shape of version 2.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Update<'u> {
    Same(&'u SessionUpdate),
    Other(OtherUpdate<'u>),
}

#[derive(Debug, Serialize)]
#[serde(tag = "sessionUpdate", rename_all_fields = "camelCase")]
pub(crate) enum OtherUpdate<'u> {
    /// Also the first of a call.
    #[serde(rename = "tool_call_update")]
    ToolCall(&'u ToolCall),
    #[serde(rename = "plan_update")]
    Plan { plan: Plan<'u> },
    #[serde(rename = "available_commands_update")]
    Commands { available_commands: Vec<Command<'u>> },
    #[serde(rename = "config_option_update")]
    ConfigOptions { config_options: Vec<ConfigOption<'u>> },
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Plan<'u> {
    #[serde(rename = "type")]
    kind: &'static str,
    plan_id: &'static str,
    entries: &'u [PlanEntry],
}

#[derive(Debug, Serialize)]
pub(crate) struct Command<'u> {
    #[serde(rename = "type")]
    kind: &'static str,
    name: &'u str,
    description: &'u str,
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<CommandInput<'u>>,
}

#[derive(Debug, Serialize)]
struct CommandInput<'u> {
    #[serde(rename = "type")]
    kind: &'static str,
    hint: &'u str,
}

/// The update, or `None` for one of which this version knows nothing.
pub(crate) fn update(update: &SessionUpdate) -> Option<Update<'_>> {
    Some(Update::Other(match update {
        SessionUpdate::ToolCall(call) | SessionUpdate::ToolCallUpdate(call) => {
            OtherUpdate::ToolCall(call)
        }
        SessionUpdate::Plan { entries } => {
            OtherUpdate::Plan { plan: Plan { kind: "items", plan_id: PLAN, entries } }
        }
        SessionUpdate::AvailableCommandsUpdate { available_commands } => {
            let available_commands = available_commands.iter().map(command).collect();
            OtherUpdate::Commands { available_commands }
        }
        SessionUpdate::ConfigOptionUpdate { config_options: options } => {
            OtherUpdate::ConfigOptions { config_options: config_options(options) }
        }
        // The mode is one of the options.
        SessionUpdate::CurrentModeUpdate { .. } => return None,
        SessionUpdate::UserMessageChunk(_)
        | SessionUpdate::AgentMessageChunk(_)
        | SessionUpdate::AgentThoughtChunk(_)
        | SessionUpdate::SessionInfoUpdate { .. }
        | SessionUpdate::UsageUpdate { .. }
        | SessionUpdate::Notice { .. }
        | SessionUpdate::CompactionUpdate { .. } => return Some(Update::Same(update)),
    }))
}

fn command(command: &update::AvailableCommand) -> Command<'_> {
    Command {
        kind: "command",
        name: &command.name,
        description: &command.description,
        input: command.input.as_ref().map(|input| CommandInput { kind: "text", hint: &input.hint }),
    }
}

/// Parameters of `session/request_permission`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Permission<'p> {
    session_id: &'p str,
    title: &'p str,
    /// The whole of the proposed action: even clients that do not know the subject show it.
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    subject: Subject<'p>,
    options: &'p [PermissionOption],
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
enum Subject<'p> {
    ToolCall { tool_call: &'p ToolCall },
}

pub(crate) fn permission(request: &PermissionRequest) -> Permission<'_> {
    let call = &request.tool_call;
    let text = |content: &ToolCallContent| match content {
        ToolCallContent::Content { content: ContentBlock::Text { text } } => Some(text.clone()),
        _ => None,
    };
    let texts: Vec<String> = call.content.iter().flatten().filter_map(text).collect();
    Permission {
        session_id: &request.session_id,
        title: call.title.as_deref().unwrap_or_default(),
        description: (!texts.is_empty()).then(|| texts.join("\n\n")),
        subject: Subject::ToolCall { tool_call: call },
        options: &request.options,
    }
}
