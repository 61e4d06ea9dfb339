//! Statements and their results.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use super::value::{Row, Value};

/// A statement and its values.
#[derive(Clone, Debug)]
pub struct Statement {
    pub(super) sql: Cow<'static, str>,
    values: Values,
    expected: Option<u64>,
    /// True if the rows that it returns stay locked until the transaction ends.
    pub(super) locks: bool,
}

/// The values of a statement.
#[derive(Clone)]
enum Values {
    Known(Vec<Value>),
    /// Computed from the results of the earlier statements of its transaction.
    Computed(Arc<Compute>),
}

type Compute = dyn Fn(&[StatementResult]) -> Vec<Value> + Send + Sync;

impl fmt::Debug for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(values) => values.fmt(f),
            Self::Computed(_) => f.write_str("computed"),
        }
    }
}

impl Statement {
    /// A statement with constant text, prepared once per connection.
    #[must_use]
    pub fn new(sql: &'static str, values: impl Into<Vec<Value>>) -> Self {
        Self::with(Cow::Borrowed(sql), Values::Known(values.into()))
    }

    /// A statement with text that is composed for this call, never from a client's input.
    #[must_use]
    pub fn composed(sql: String, values: Vec<Value>) -> Self {
        Self::with(Cow::Owned(sql), Values::Known(values))
    }

    /// A statement of a transaction whose values are computed from the results of the statements
    /// before it. A transaction that is tried again computes them again.
    #[must_use]
    pub fn computed(
        sql: &'static str,
        values: impl Fn(&[StatementResult]) -> Vec<Value> + Send + Sync + 'static,
    ) -> Self {
        Self::with(Cow::Borrowed(sql), Values::Computed(Arc::new(values)))
    }

    fn with(sql: Cow<'static, str>, values: Values) -> Self {
        Self { sql, values, expected: None, locks: false }
    }

    /// Fails the transaction unless the statement changes or returns that many rows.
    #[must_use]
    pub fn expecting(mut self, rows: u64) -> Self {
        self.expected = Some(rows);
        self
    }

    /// Locks the rows that a query returns until its transaction ends, so that later statements of
    /// it see the same ones.
    #[must_use]
    pub fn locking(mut self) -> Self {
        self.locks = true;
        self
    }

    /// The values, after these results of earlier statements.
    pub(super) fn values(&self, earlier: &[StatementResult]) -> Cow<'_, [Value]> {
        match &self.values {
            Values::Known(values) => Cow::Borrowed(values),
            Values::Computed(compute) => Cow::Owned(compute(earlier)),
        }
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
