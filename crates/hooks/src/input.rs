//! The input of a handler: one JSON object, with names in snake case.

use serde::Serialize;
use serde_json::Value;

use crate::event::{Event, ToolUse};

/// The thread's approval policy, in the words of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PermissionMode {
    /// The user is asked.
    Default,
    /// Changes in the workspace are not asked about.
    AcceptEdits,
    /// Only a plan is made.
    Plan,
    /// Nothing is asked; what would be is refused.
    DontAsk,
    /// Nothing is asked and nothing confined.
    BypassPermissions,
}

impl PermissionMode {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::AcceptEdits => "acceptEdits",
            Self::Plan => "plan",
            Self::DontAsk => "dontAsk",
            Self::BypassPermissions => "bypassPermissions",
        }
    }
}

/// The agent that a thread is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agent {
    pub id: String,
    pub kind: String,
}

/// Where an event happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context {
    pub thread: String,
    pub turn: Option<String>,
    pub cwd: String,
    pub model: String,
    pub mode: PermissionMode,
    pub agent: Option<Agent>,
}

#[derive(Serialize)]
struct Input<'e> {
    session_id: &'e str,
    /// The history is in a database, not in a file.
    transcript_path: Option<&'e str>,
    cwd: &'e str,
    hook_event_name: &'static str,
    model: &'e str,
    permission_mode: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    turn_id: Option<&'e str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_id: Option<&'e str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_type: Option<&'e str>,
    #[serde(flatten)]
    detail: Detail<'e>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Detail<'e> {
    None {},
    Start {
        source: &'static str,
    },
    End {
        reason: &'static str,
    },
    Prompt {
        prompt: &'e str,
    },
    Tool {
        tool_name: &'e str,
        tool_input: &'e Value,
        tool_use_id: &'e str,
    },
    Permission {
        tool_name: &'e str,
        tool_input: &'e Value,
    },
    ToolAnswer {
        tool_name: &'e str,
        tool_input: &'e Value,
        tool_response: &'e Value,
        tool_use_id: &'e str,
    },
    Compaction {
        trigger: &'static str,
    },
    Stop {
        last_assistant_message: Option<&'e str>,
        stop_hook_active: bool,
    },
    AgentStop {
        agent_transcript_path: Option<&'e str>,
        last_assistant_message: Option<&'e str>,
        stop_hook_active: bool,
    },
}

impl Event {
    /// The object, on one line.
    pub fn input(&self, context: &Context) -> String {
        let agent = context.agent.as_ref();
        let input = Input {
            session_id: &context.thread,
            transcript_path: None,
            cwd: &context.cwd,
            hook_event_name: self.name().as_str(),
            model: &context.model,
            permission_mode: context.mode.as_str(),
            turn_id: context.turn.as_deref(),
            agent_id: agent.map(|agent| agent.id.as_str()),
            agent_type: agent.map(|agent| agent.kind.as_str()),
            detail: self.detail(),
        };
        // Strings and JSON values only: nothing that could fail.
        serde_json::to_string(&input).unwrap_or_default()
    }

    fn detail(&self) -> Detail<'_> {
        match self {
            Self::SessionStart { source } => Detail::Start { source: source.as_str() },
            Self::SessionEnd { reason } => Detail::End { reason: reason.as_str() },
            Self::UserPromptSubmit { prompt } => Detail::Prompt { prompt },
            Self::PreToolUse(ToolUse { name, input, call_id, .. }) => {
                Detail::Tool { tool_name: name, tool_input: input, tool_use_id: call_id }
            }
            Self::PermissionRequest(ToolUse { name, input, .. }) => {
                Detail::Permission { tool_name: name, tool_input: input }
            }
            Self::PostToolUse { tool: ToolUse { name, input, call_id, .. }, response } => {
                Detail::ToolAnswer {
                    tool_name: name,
                    tool_input: input,
                    tool_response: response,
                    tool_use_id: call_id,
                }
            }
            Self::PreCompact { trigger } | Self::PostCompact { trigger } => {
                Detail::Compaction { trigger: trigger.as_str() }
            }
            Self::Stop { last_message, is_continued } => Detail::Stop {
                last_assistant_message: last_message.as_deref(),
                stop_hook_active: *is_continued,
            },
            Self::SubagentStop { last_message, is_continued } => Detail::AgentStop {
                agent_transcript_path: None,
                last_assistant_message: last_message.as_deref(),
                stop_hook_active: *is_continued,
            },
            Self::SubagentStart
            | Self::PreModelRequest
            | Self::PostModelRequest
            | Self::Interrupt => Detail::None {},
        }
    }
}
