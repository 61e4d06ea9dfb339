//! A session of another agent, as it becomes a thread.

use serde_json::Value;

/// A conversation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Session {
    /// The working folder, if it is known.
    pub cwd: Option<String>,
    pub title: Option<String>,
    pub turns: Vec<Turn>,
    /// Lines that could not be read, such as one that was cut off.
    pub bad_lines: usize,
    /// True if entries were left out because there are too many.
    pub is_cut: bool,
}

/// The user's words, and what followed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Turn {
    /// Unix milliseconds; 0 when unknown.
    pub started_at_ms: i64,
    /// Unix milliseconds; 0 when unknown.
    pub ended_at_ms: i64,
    pub entries: Vec<Entry>,
}

/// A part of a turn.
#[derive(Clone, Debug, PartialEq)]
pub enum Entry {
    User(String),
    Assistant(String),
    Call(Call),
}

/// A call of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    pub id: String,
    pub tool: String,
    pub arguments: Value,
    /// `None` when the session ended before the answer.
    pub output: Option<String>,
    pub is_failed: bool,
}
