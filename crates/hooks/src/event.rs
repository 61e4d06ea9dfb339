//! The events at which hooks run, and what each is about.

use std::fmt;
use std::str::FromStr;

use serde_json::Value;

/// The events, in the order in which a thread meets them. Files name them as in `PreToolUse`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventName {
    /// A thread is about to begin its first turn since it was loaded.
    SessionStart,
    /// An agent is about to begin its first turn.
    SubagentStart,
    /// The user's input is about to be sent.
    UserPromptSubmit,
    /// A request to the model is about to be made.
    PreModelRequest,
    /// The model's response is complete.
    PostModelRequest,
    /// A tool call is about to begin.
    PreToolUse,
    /// The user is about to be asked for an approval.
    PermissionRequest,
    /// A tool call is answered.
    PostToolUse,
    /// The history is about to be compacted.
    PreCompact,
    /// The history was compacted.
    PostCompact,
    /// A turn is about to end, because the model has finished.
    Stop,
    /// As [`Self::Stop`], for an agent.
    SubagentStop,
    /// A turn was interrupted.
    Interrupt,
    /// A thread is closed.
    SessionEnd,
}

/// A name that is none of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownEvent(pub String);

impl EventName {
    /// All events.
    pub const ALL: [Self; 14] = [
        Self::SessionStart,
        Self::SubagentStart,
        Self::UserPromptSubmit,
        Self::PreModelRequest,
        Self::PostModelRequest,
        Self::PreToolUse,
        Self::PermissionRequest,
        Self::PostToolUse,
        Self::PreCompact,
        Self::PostCompact,
        Self::Stop,
        Self::SubagentStop,
        Self::Interrupt,
        Self::SessionEnd,
    ];

    /// The name as files and handlers have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SessionStart => "SessionStart",
            Self::SubagentStart => "SubagentStart",
            Self::UserPromptSubmit => "UserPromptSubmit",
            Self::PreModelRequest => "PreModelRequest",
            Self::PostModelRequest => "PostModelRequest",
            Self::PreToolUse => "PreToolUse",
            Self::PermissionRequest => "PermissionRequest",
            Self::PostToolUse => "PostToolUse",
            Self::PreCompact => "PreCompact",
            Self::PostCompact => "PostCompact",
            Self::Stop => "Stop",
            Self::SubagentStop => "SubagentStop",
            Self::Interrupt => "Interrupt",
            Self::SessionEnd => "SessionEnd",
        }
    }

    /// Returns whether a handler can refuse the action that the event reports, or make the turn
    /// continue.
    pub fn can_block(self) -> bool {
        match self {
            Self::UserPromptSubmit
            | Self::PreModelRequest
            | Self::PreToolUse
            | Self::PermissionRequest
            | Self::PostToolUse
            | Self::PreCompact
            | Self::Stop
            | Self::SubagentStop => true,
            Self::SessionStart
            | Self::SubagentStart
            | Self::PostModelRequest
            | Self::PostCompact
            | Self::Interrupt
            | Self::SessionEnd => false,
        }
    }

    /// Returns whether text that a handler prints is added to what the model reads.
    pub fn takes_plain_context(self) -> bool {
        matches!(self, Self::SessionStart | Self::SubagentStart | Self::UserPromptSubmit)
    }

    /// Returns whether `additionalContext` of an answer is added to what the model reads.
    pub fn takes_context(self) -> bool {
        self.takes_plain_context()
            || matches!(
                self,
                Self::PreModelRequest
                    | Self::PreToolUse
                    | Self::PostToolUse
                    | Self::Stop
                    | Self::SubagentStop
            )
    }

    /// Returns whether the matcher of a group is compared with something.
    pub fn has_subject(self) -> bool {
        match self {
            Self::PreToolUse
            | Self::PermissionRequest
            | Self::PostToolUse
            | Self::SessionStart
            | Self::SessionEnd
            | Self::SubagentStart
            | Self::SubagentStop
            | Self::PreCompact
            | Self::PostCompact => true,
            Self::UserPromptSubmit
            | Self::PreModelRequest
            | Self::PostModelRequest
            | Self::Stop
            | Self::Interrupt => false,
        }
    }
}

impl fmt::Display for EventName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for EventName {
    type Err = UnknownEvent;

    fn from_str(name: &str) -> Result<Self, UnknownEvent> {
        let found = Self::ALL.into_iter().find(|event| event.as_str() == name);
        found.ok_or_else(|| UnknownEvent(name.to_owned()))
    }
}

/// Why a thread begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartSource {
    Startup,
    Resume,
    Clear,
    Compact,
    Fork,
}

impl StartSource {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Startup => "startup",
            Self::Resume => "resume",
            Self::Clear => "clear",
            Self::Compact => "compact",
            Self::Fork => "fork",
        }
    }
}

/// Why a thread ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// No client uses it now.
    Closed,
    /// A client archived it.
    Archived,
    /// A client deleted it.
    Deleted,
    /// The server ends.
    Shutdown,
}

impl EndReason {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Archived => "archived",
            Self::Deleted => "deleted",
            Self::Shutdown => "shutdown",
        }
    }
}

/// Who asked for a compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompactionTrigger {
    /// A client.
    Manual,
    /// The length of the history.
    Auto,
}

impl CompactionTrigger {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Manual => "manual",
            Self::Auto => "auto",
        }
    }
}

/// A call of a tool, as handlers see it.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolUse {
    /// Its name for handlers, such as `Bash` for every tool that runs a command.
    pub name: String,
    /// Further names that matchers find it by.
    pub aliases: &'static [&'static str],
    /// Its arguments.
    pub input: Value,
    /// The model's id of the call.
    pub call_id: String,
}

/// An event that starts hooks: something that happened or is about to.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    SessionStart {
        source: StartSource,
    },
    SubagentStart,
    UserPromptSubmit {
        prompt: String,
    },
    PreModelRequest,
    PostModelRequest,
    PreToolUse(ToolUse),
    PermissionRequest(ToolUse),
    PostToolUse {
        tool: ToolUse,
        response: Value,
    },
    PreCompact {
        trigger: CompactionTrigger,
    },
    PostCompact {
        trigger: CompactionTrigger,
    },
    /// `is_continued`: whether a handler of this event had the turn go on before.
    Stop {
        last_message: Option<String>,
        is_continued: bool,
    },
    SubagentStop {
        last_message: Option<String>,
        is_continued: bool,
    },
    Interrupt,
    SessionEnd {
        reason: EndReason,
    },
}

impl Event {
    pub fn name(&self) -> EventName {
        match self {
            Self::SessionStart { .. } => EventName::SessionStart,
            Self::SubagentStart => EventName::SubagentStart,
            Self::UserPromptSubmit { .. } => EventName::UserPromptSubmit,
            Self::PreModelRequest => EventName::PreModelRequest,
            Self::PostModelRequest => EventName::PostModelRequest,
            Self::PreToolUse(_) => EventName::PreToolUse,
            Self::PermissionRequest(_) => EventName::PermissionRequest,
            Self::PostToolUse { .. } => EventName::PostToolUse,
            Self::PreCompact { .. } => EventName::PreCompact,
            Self::PostCompact { .. } => EventName::PostCompact,
            Self::Stop { .. } => EventName::Stop,
            Self::SubagentStop { .. } => EventName::SubagentStop,
            Self::Interrupt => EventName::Interrupt,
            Self::SessionEnd { .. } => EventName::SessionEnd,
        }
    }

    /// The subjects that the matcher of a group is compared with; any of them may match. Empty: the
    /// event has nothing that a matcher could be about. `agent_type`: of the agent that the thread
    /// is.
    pub(crate) fn subjects<'e>(&'e self, agent_type: Option<&'e str>) -> Vec<&'e str> {
        match self {
            Self::PreToolUse(tool)
            | Self::PermissionRequest(tool)
            | Self::PostToolUse { tool, .. } => {
                std::iter::once(tool.name.as_str()).chain(tool.aliases.iter().copied()).collect()
            }
            Self::SessionStart { source } => vec![source.as_str()],
            Self::SessionEnd { reason } => vec![reason.as_str()],
            Self::PreCompact { trigger } | Self::PostCompact { trigger } => vec![trigger.as_str()],
            Self::SubagentStart | Self::SubagentStop { .. } => agent_type.into_iter().collect(),
            Self::UserPromptSubmit { .. }
            | Self::PreModelRequest
            | Self::PostModelRequest
            | Self::Stop { .. }
            | Self::Interrupt => Vec::new(),
        }
    }
}
