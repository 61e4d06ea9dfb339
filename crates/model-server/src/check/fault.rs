//! A mistake in a request: its place and its kind, and the words that each provider has for it.

use wire::{Failure, FailureKind, Wire};

/// The place of a value in a body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Path(Vec<Segment>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Segment {
    Name(String),
    Index(usize),
}

impl Path {
    /// A member of the body.
    pub(crate) fn of(name: &str) -> Self {
        Self::default().name(name)
    }

    #[must_use]
    pub(crate) fn name(&self, name: &str) -> Self {
        let mut path = self.clone();
        path.0.push(Segment::Name(name.to_owned()));
        path
    }

    #[must_use]
    pub(crate) fn index(&self, index: usize) -> Self {
        let mut path = self.clone();
        path.0.push(Segment::Index(index));
        path
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// True for a place inside of a member of the body.
    pub(crate) fn is_in(&self, name: &str) -> bool {
        matches!(self.0.first(), Some(Segment::Name(first)) if first == name)
    }

    /// `messages.0.content`
    fn dotted(&self) -> String {
        let segments = self.0.iter().map(|segment| match segment {
            Segment::Name(name) => name.clone(),
            Segment::Index(index) => index.to_string(),
        });
        segments.collect::<Vec<_>>().join(".")
    }

    /// `messages[0].content`
    pub(crate) fn bracketed(&self) -> String {
        let mut out = String::new();
        for segment in &self.0 {
            match segment {
                Segment::Name(name) => {
                    if !out.is_empty() {
                        out.push('.');
                    }
                    out.push_str(name);
                }
                Segment::Index(index) => out.push_str(&format!("[{index}]")),
            }
        }
        out
    }

    fn parent(&self) -> Self {
        Self(self.0[..self.0.len().saturating_sub(1)].to_vec())
    }

    fn last(&self) -> String {
        match self.0.last() {
            Some(Segment::Name(name)) => name.clone(),
            Some(Segment::Index(index)) => index.to_string(),
            None => String::new(),
        }
    }
}

/// A type of JSON values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Text,
    Bool,
    Integer,
    Number,
    List,
    Object,
}

impl Type {
    fn of_messages(self) -> &'static str {
        match self {
            Self::Text => "string",
            Self::Bool => "boolean",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::List => "list",
            Self::Object => "dictionary",
        }
    }

    fn of_openai(self) -> &'static str {
        match self {
            Self::Text => "a string",
            Self::Bool => "a boolean",
            Self::Integer => "an integer",
            Self::Number => "a decimal",
            Self::List => "an array",
            Self::Object => "an object",
        }
    }

    fn of_gemini(self) -> &'static str {
        match self {
            Self::Text => "TYPE_STRING",
            Self::Bool => "TYPE_BOOL",
            Self::Integer => "TYPE_INT32",
            Self::Number => "TYPE_DOUBLE",
            Self::List => "a list",
            Self::Object => "an object",
        }
    }
}

/// The kind of a mistake.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Problem {
    Missing,
    Unknown,
    /// The expected type, and the value as JSON.
    Type(Type, String),
    /// The value, and the known ones.
    Value(String, Vec<&'static str>),
    Range(f64, f64),
    /// A rule that is more than a shape, in a sentence, with the code of OpenAI's wires.
    Rule(&'static str, String),
}

/// A mistake and its place.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fault {
    pub(crate) at: Path,
    pub(crate) problem: Problem,
}

impl Fault {
    pub(crate) fn new(at: Path, problem: Problem) -> Self {
        Self { at, problem }
    }

    /// A broken rule, in the provider's words.
    pub(crate) fn rule(at: Path, message: impl Into<String>) -> Self {
        Self::coded(at, "invalid_value", message)
    }

    /// [`Self::rule`] with a code of its own on OpenAI's wires.
    pub(crate) fn coded(at: Path, code: &'static str, message: impl Into<String>) -> Self {
        Self { at, problem: Problem::Rule(code, message.into()) }
    }

    /// The failure that a provider of this wire reports.
    pub(crate) fn into_failure(self, wire: Wire) -> Failure {
        let message = match wire {
            Wire::Messages => self.of_messages(),
            Wire::Responses | Wire::Chat => self.of_openai(),
            Wire::Gemini => self.of_gemini(),
        };
        let mut failure = Failure::new(FailureKind::Invalid, &message);
        let code = match &self.problem {
            Problem::Missing => "missing_required_parameter",
            Problem::Unknown => "unknown_parameter",
            Problem::Type(..) => "invalid_type",
            Problem::Value(..) | Problem::Range(..) => "invalid_value",
            Problem::Rule(code, _) => code,
        };
        code.clone_into(&mut failure.code);
        failure.param = Some(self.at.bracketed()).filter(|path| !path.is_empty());
        failure
    }

    fn of_messages(&self) -> String {
        let text = match &self.problem {
            Problem::Missing => "Field required".to_owned(),
            Problem::Unknown => "Extra inputs are not permitted".to_owned(),
            Problem::Type(expected, _) => {
                format!("Input should be a valid {}", expected.of_messages())
            }
            Problem::Value(_, known) => format!("Input should be {}", listed(known, "or")),
            Problem::Range(least, most) => format!("Input should be from {least} to {most}"),
            Problem::Rule(_, message) => message.clone(),
        };
        if self.at.is_empty() { text } else { format!("{}: {text}", self.at.dotted()) }
    }

    fn of_openai(&self) -> String {
        let at = self.at.bracketed();
        match &self.problem {
            Problem::Missing => format!("Missing required parameter: '{at}'."),
            Problem::Unknown => format!("Unknown parameter: '{at}'."),
            Problem::Type(expected, found) => format!(
                "Invalid type for '{at}': expected {}, but got {found} instead.",
                expected.of_openai()
            ),
            Problem::Value(found, known) => format!(
                "Invalid value at '{at}': '{found}'. Supported values are: {}.",
                listed(known, "and")
            ),
            Problem::Range(least, most) => {
                format!("Invalid '{at}': expected a value from {least} to {most}.")
            }
            Problem::Rule(_, message) => message.clone(),
        }
    }

    fn of_gemini(&self) -> String {
        let at = self.at.bracketed();
        match &self.problem {
            Problem::Missing => {
                format!("* GenerateContentRequest.{at}: {} is not specified", self.at.last())
            }
            Problem::Unknown => {
                let (name, parent) = (self.at.last(), self.at.parent().bracketed());
                let place = if parent.is_empty() { parent } else { format!(" at '{parent}'") };
                format!(
                    "Invalid JSON payload received. Unknown name \"{name}\"{place}: Cannot find field."
                )
            }
            Problem::Type(expected, found) => {
                format!("Invalid value at '{at}' ({}), {found}", expected.of_gemini())
            }
            Problem::Value(found, known) => {
                format!("Invalid value at '{at}', \"{found}\": use {}.", listed(known, "or"))
            }
            Problem::Range(least, most) => format!(
                "* GenerateContentRequest.{at}: {} must be in the range [{least}, {most}].",
                self.at.last()
            ),
            Problem::Rule(_, message) if self.at.is_empty() => message.clone(),
            Problem::Rule(_, message) => format!("{message} (at '{at}')"),
        }
    }
}

/// `'a', 'b' or 'c'`
fn listed(names: &[&str], word: &str) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
    match quoted.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} {word} {last}", rest.join(", ")),
        _ => quoted.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_wire_has_its_own_words() {
        let at = Path::of("messages").index(1).name("role");
        let check = |problem: Problem, wire: Wire, message: &str, code: &str| {
            let failure = Fault::new(at.clone(), problem).into_failure(wire);
            assert_eq!((failure.message.as_str(), failure.code.as_str()), (message, code));
            assert_eq!(failure.param.as_deref(), Some("messages[1].role"));
        };
        let missing = "missing_required_parameter";
        check(Problem::Missing, Wire::Messages, "messages.1.role: Field required", missing);
        let text = "Missing required parameter: 'messages[1].role'.";
        check(Problem::Missing, Wire::Chat, text, missing);
        let text = "Invalid JSON payload received. Unknown name \"role\" at 'messages[1]': Cannot find field.";
        check(Problem::Unknown, Wire::Gemini, text, "unknown_parameter");
        let value = Problem::Value("x".into(), vec!["user", "assistant"]);
        let text = "messages.1.role: Input should be 'user' or 'assistant'";
        check(value, Wire::Messages, text, "invalid_value");
        let kind = Problem::Type(Type::Text, "3".into());
        let text = "Invalid type for 'messages[1].role': expected a string, but got 3 instead.";
        check(kind, Wire::Responses, text, "invalid_type");
    }
}
