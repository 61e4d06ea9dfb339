//! Calls that the turn does not carry out.

use std::path::Path;

use serde_json::Value;

use crate::Id;

/// A call that cannot be read or is one too many.
pub(crate) struct RejectedCall<'a> {
    /// As the model made it.
    pub(crate) input: &'a str,
    /// The input as JSON, where it is that.
    pub(crate) arguments: Option<Value>,
    /// The working folder.
    pub(crate) cwd: &'a Path,
    /// The thread.
    pub(crate) thread: &'a Id,
}

impl RejectedCall<'_> {
    /// A text among the arguments.
    pub(crate) fn text(&self, member: &str) -> Option<String> {
        self.arguments.as_ref()?.get(member)?.as_str().map(str::to_owned)
    }

    /// The arguments as JSON, whatever they are.
    pub(crate) fn json(&self) -> String {
        match &self.arguments {
            Some(arguments) => arguments.to_string(),
            None => Value::from(self.input).to_string(),
        }
    }
}
