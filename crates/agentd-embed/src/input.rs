//! The contents of a message to the agent.

use protocol::UserInput;

/// A message: a text, or the parts of the protocol.
///
/// ```
/// use agentd_embed::{Input, protocol::UserInput};
///
/// let text = Input::from("What is in this picture?");
/// let picture = UserInput::LocalImage { path: "/tmp/picture.png".to_owned() };
/// let message = Input::from(vec![UserInput::from("What is in this picture?"), picture]);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Input(pub(crate) Vec<UserInput>);

impl From<&str> for Input {
    fn from(text: &str) -> Self {
        Self(vec![text.into()])
    }
}

impl From<String> for Input {
    fn from(text: String) -> Self {
        Self(vec![text.into()])
    }
}

impl From<Vec<UserInput>> for Input {
    fn from(parts: Vec<UserInput>) -> Self {
        Self(parts)
    }
}
