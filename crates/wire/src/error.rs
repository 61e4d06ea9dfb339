//! Requests that cannot be read or translated: the member, the reason and a code, as a body in the caller's wire.

use std::fmt;

use crate::kind::Wire;

/// The reason that a request cannot be read or translated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// The member's path, such as `messages[3].content[0].type`. Empty if the body is no JSON object.
    pub member: String,
    pub code: Code,
    /// A sentence that names the member.
    pub message: String,
}

/// The kind of a mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// The body is not JSON.
    Malformed,
    Missing,
    InvalidType,
    InvalidValue,
    /// The member is known, but the other wire has no equal and leaving it out would change the answer's meaning.
    Unsupported,
    /// More than a bound of this crate.
    TooLarge,
}

impl Code {
    /// The code in the Responses and Chat Completions wires.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Malformed => "invalid_json",
            Self::Missing => "missing_required_parameter",
            Self::InvalidType => "invalid_type",
            Self::InvalidValue => "invalid_value",
            Self::Unsupported => "unsupported_parameter",
            Self::TooLarge => "request_too_large",
        }
    }
}

impl Error {
    /// A mistake in a member of the Responses form, by its path.
    pub(crate) fn member(member: &str, code: Code, message: impl fmt::Display) -> Self {
        Self { member: member.to_owned(), code, message: message.to_string() }
    }

    pub(crate) fn unsupported(member: &str, wire: Wire, reason: &str) -> Self {
        let message = format!("`{member}` cannot be sent over {wire}: {reason}.");
        Self::member(member, Code::Unsupported, message)
    }

    pub(crate) fn malformed(error: &serde_json::Error) -> Self {
        let message = format!("The request body is not valid JSON: {error}.");
        Self { member: String::new(), code: Code::Malformed, message }
    }

    /// The error with the member's name in `wire`. An error of [`crate::write_request`] names members of the Responses
    /// form, which the caller of another wire has not written.
    #[must_use]
    pub fn in_wire(mut self, wire: Wire) -> Self {
        let renamed = NAMES.iter().find(|(name, _)| *name == self.member);
        if let Some((name, names)) = renamed
            && let Some(other) = names[wire as usize]
        {
            self.message = self.message.replace(&format!("`{name}`"), &format!("`{other}`"));
            self.member = other.to_owned();
        }
        self
    }

    /// HTTP status.
    #[must_use]
    pub fn status(&self) -> u16 {
        if self.code == Code::TooLarge { 413 } else { 400 }
    }
}

/// Names of members by wire, in the order of [`Wire`].
type Names = (&'static str, [Option<&'static str>; 4]);

const NAMES: [Names; 8] = [
    ("input", [None, Some("messages"), Some("messages"), Some("contents")]),
    ("instructions", [None, Some("system"), Some("messages"), Some("systemInstruction")]),
    (
        "max_output_tokens",
        [
            None,
            Some("max_tokens"),
            Some("max_completion_tokens"),
            Some("generationConfig.maxOutputTokens"),
        ],
    ),
    (
        "text.format",
        [
            None,
            Some("output_config.format"),
            Some("response_format"),
            Some("generationConfig.responseSchema"),
        ],
    ),
    (
        "reasoning.effort",
        [
            None,
            Some("output_config.effort"),
            Some("reasoning_effort"),
            Some("generationConfig.thinkingConfig"),
        ],
    ),
    ("tool_choice", [None, None, None, Some("toolConfig.functionCallingConfig")]),
    ("stop", [None, Some("stop_sequences"), Some("stop"), Some("generationConfig.stopSequences")]),
    ("model", [None, None, None, Some("model")]),
];
