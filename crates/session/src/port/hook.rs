//! Hooks as the session knows them: which events have any, and what the driver is asked to run.

use hooks::{EventName, StartSource};

/// The events that have hooks. An event without any costs nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HookEvents(u16);

impl HookEvents {
    /// Returns whether any hook is for the event.
    pub fn has(self, event: EventName) -> bool {
        self.0 & bit(event) != 0
    }

    /// Returns whether any hook reads the model's last message.
    pub(crate) fn reads_last_message(self) -> bool {
        self.has(EventName::Stop) || self.has(EventName::SubagentStop)
    }

    /// Returns whether any hook is about tool calls.
    pub(crate) fn has_calls(self) -> bool {
        use EventName::{PermissionRequest, PostToolUse, PreToolUse};
        [PreToolUse, PermissionRequest, PostToolUse].into_iter().any(|event| self.has(event))
    }
}

impl FromIterator<EventName> for HookEvents {
    fn from_iter<I: IntoIterator<Item = EventName>>(events: I) -> Self {
        Self(events.into_iter().fold(0, |all, event| all | bit(event)))
    }
}

fn bit(event: EventName) -> u16 {
    EventName::ALL.iter().position(|known| *known == event).map_or(0, |place| 1 << place)
}

/// The way in which a thread began, for hooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadStart {
    /// It is an agent of another thread.
    Agent,
    /// It belongs to the user.
    User(StartSource),
}

impl Default for ThreadStart {
    fn default() -> Self {
        Self::User(StartSource::Startup)
    }
}
