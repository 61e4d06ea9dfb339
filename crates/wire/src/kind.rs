//! The wires.

use std::fmt;

/// A wire of model servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wire {
    Responses,
    Messages,
    Chat,
    Gemini,
}

impl Wire {
    /// All wires.
    pub const ALL: [Self; 4] = [Self::Responses, Self::Messages, Self::Chat, Self::Gemini];

    /// The name in configurations: `responses`, `messages`, `chat` or `gemini`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Responses => "responses",
            Self::Messages => "messages",
            Self::Chat => "chat",
            Self::Gemini => "gemini",
        }
    }

    /// The wire of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|wire| wire.as_str() == name)
    }
}

impl fmt::Display for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
