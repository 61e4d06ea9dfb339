//! Statements and their results.

use std::borrow::Cow;

use super::value::{Row, Value};

/// A statement and its values.
#[derive(Clone, Debug)]
pub struct Statement {
    pub(super) sql: Cow<'static, str>,
    pub(super) values: Vec<Value>,
    expected: Option<u64>,
}

impl Statement {
    /// A statement with constant text, prepared once per connection.
    #[must_use]
    pub fn new(sql: &'static str, values: impl Into<Vec<Value>>) -> Self {
        Self { sql: Cow::Borrowed(sql), values: values.into(), expected: None }
    }

    /// A statement with text that is composed for this call, never from a client's input.
    #[must_use]
    pub fn composed(sql: String, values: Vec<Value>) -> Self {
        Self { sql: Cow::Owned(sql), values, expected: None }
    }

    /// Fails the transaction unless the statement changes or returns that many rows.
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
    /// Rows changed or returned.
    pub affected: u64,
    /// Rows returned.
    pub rows: Vec<Row>,
}
