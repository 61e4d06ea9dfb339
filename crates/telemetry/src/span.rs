//! The recorded values: a finished span, and the user's prompt.

use crate::context::TraceContext;
use crate::names::{self, Name};

/// An operation that has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    pub context: TraceContext,
    /// The span id of the parent, which may be of another program; 0 without one.
    pub parent: u64,
    pub operation: Operation,
    /// Model, tool or agent: the part of the span's name after the operation. Empty for none.
    pub subject: String,
    /// Nanoseconds since the Unix epoch.
    pub began: u64,
    pub ended: u64,
    pub attributes: Vec<Attribute>,
    pub failed: Option<Failed>,
}

/// An operation that has ended, as metrics see it, including one without a span.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured<'a> {
    pub operation: Operation,
    pub seconds: f64,
    pub attributes: &'a [Attribute],
    /// The kind of the failure.
    pub error: Option<&'a str>,
}

/// The operation of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operation {
    /// A turn.
    InvokeAgent,
    /// A request to a model.
    Chat,
    /// A call of a tool.
    ExecuteTool,
    /// A question to the user, whether something may be done.
    Approval,
}

/// Why an operation failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// For programs: the same few values.
    pub kind: String,
    /// For people. Without secrets: the caller has removed them.
    pub message: Option<String>,
}

/// Text of the user that began a turn, or was added to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Prompt {
    /// Of the turn.
    pub context: TraceContext,
    /// Nanoseconds since the Unix epoch.
    pub at: u64,
    pub attributes: Vec<Attribute>,
}

/// An attribute with its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Attribute {
    pub name: Name,
    pub value: Value,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Text(String),
    Integer(i64),
    Float(f64),
    Bool(bool),
}

impl Operation {
    /// Its `gen_ai.operation.name`; of an approval, a name of our own.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::InvokeAgent => "invoke_agent",
            Self::Chat => "chat",
            Self::ExecuteTool => "execute_tool",
            Self::Approval => "approval",
        }
    }

    /// The name of the log record of its end.
    #[must_use]
    pub fn event(self) -> &'static str {
        match self {
            Self::InvokeAgent => "agentd.turn",
            Self::Chat => "agentd.model_request",
            Self::ExecuteTool => "agentd.tool_call",
            Self::Approval => "agentd.approval",
        }
    }
}

impl Prompt {
    /// The name of its log record.
    pub const EVENT: &'static str = "agentd.user_prompt";

    /// About the bytes that it holds.
    pub(crate) fn weight(&self) -> usize {
        FIXED_WEIGHT + self.attributes.iter().map(Attribute::weight).sum::<usize>()
    }
}

impl Span {
    /// As the conventions name it.
    #[must_use]
    pub fn name(&self) -> String {
        match self.subject.is_empty() {
            true => self.operation.name().to_owned(),
            false => format!("{} {}", self.operation.name(), self.subject),
        }
    }

    /// Returns the duration of the operation; 0 where the clock was set back.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.ended.saturating_sub(self.began) as f64 / 1e9
    }

    /// The value of an attribute.
    #[must_use]
    pub fn value(&self, name: Name) -> Option<&Value> {
        self.measured().value(name)
    }

    /// The operation, for metrics.
    #[must_use]
    pub fn measured(&self) -> Measured<'_> {
        let (operation, seconds) = (self.operation, self.seconds());
        let error = self.failed.as_ref().map(|failed| failed.kind.as_str());
        Measured { operation, seconds, attributes: &self.attributes, error }
    }

    /// Its attributes with those that follow from its other members.
    pub(crate) fn all_attributes(&self) -> impl Iterator<Item = Attribute> {
        let operation = Attribute::new(names::OPERATION, self.operation.name());
        let failed = self.failed.as_ref();
        let error = failed.map(|failed| Attribute::new(names::ERROR_TYPE, failed.kind.as_str()));
        std::iter::once(operation).chain(self.attributes.iter().cloned()).chain(error)
    }

    /// About the bytes that it holds.
    pub(crate) fn weight(&self) -> usize {
        let failed = self.failed.as_ref();
        let failed =
            failed.map_or(0, |one| one.kind.len() + one.message.as_ref().map_or(0, String::len));
        let attributes: usize = self.attributes.iter().map(Attribute::weight).sum();
        FIXED_WEIGHT + self.subject.len() + failed + attributes
    }
}

impl<'a> Measured<'a> {
    /// The value of an attribute.
    #[must_use]
    pub fn value(&self, name: Name) -> Option<&'a Value> {
        self.attributes.iter().find(|one| one.name == name).map(|one| &one.value)
    }
}

/// Bytes of a record besides its texts.
const FIXED_WEIGHT: usize = size_of::<Span>();

impl Attribute {
    /// An attribute.
    #[must_use]
    pub fn new(name: Name, value: impl Into<Value>) -> Self {
        Self { name, value: value.into() }
    }

    fn weight(&self) -> usize {
        let text = match &self.value {
            Value::Text(text) => text.len(),
            Value::Integer(_) | Value::Float(_) | Value::Bool(_) => 0,
        };
        size_of::<Self>() + text
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Float(number)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}
