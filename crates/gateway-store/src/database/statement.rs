//! Statements and their results.

use std::borrow::Cow;

use super::value::{Row, Value};

/// A statement with its values.
#[derive(Clone, Debug)]
pub struct Statement {
    pub(super) sql: Cow<'static, str>,
    pub(super) values: Vec<Value>,
    expected: Option<u64>,
}

impl Statement {
    /// Of a text that is always the same: it is prepared once a connection.
    #[must_use]
    pub fn new(sql: &'static str, values: impl Into<Vec<Value>>) -> Self {
        Self { sql: Cow::Borrowed(sql), values: values.into(), expected: None }
    }

    /// Of a text put together for this call; never from what a client said.
    #[must_use]
    pub fn composed(sql: String, values: Vec<Value>) -> Self {
        Self { sql: Cow::Owned(sql), values, expected: None }
    }

    /// Fails the transaction unless it touches or yields that many rows.
    #[must_use]
    pub fn expecting(mut self, rows: u64) -> Self {
        self.expected = Some(rows);
        self
    }

    pub(super) fn is_met(&self, done: &StatementResult) -> bool {
        self.expected.is_none_or(|expected| done.affected == expected)
    }
}

/// A statement's result.
#[derive(Debug, Default)]
pub struct StatementResult {
    /// Rows changed, or yielded.
    pub affected: u64,
    /// Rows yielded.
    pub rows: Vec<Row>,
}
