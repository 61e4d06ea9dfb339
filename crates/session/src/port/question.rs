//! Questions of the model to the user (specification: User input).

use std::collections::BTreeMap;

use crate::port::tool_error::ToolError;

/// A question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserQuestion {
    /// Names it in the answers; unique in its request.
    pub id: String,
    /// A title of a few words.
    pub header: String,
    /// The question.
    pub question: String,
    /// Predefined answers; without any, the answer is free text.
    pub options: Vec<QuestionOption>,
    /// True if free text is accepted besides the options.
    pub is_other: bool,
    /// True if the answer is hidden while it is typed, and kept out of the store.
    pub is_secret: bool,
}

/// A predefined answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuestionOption {
    /// The answer.
    pub label: String,
    /// The meaning of choosing it.
    pub description: String,
}

/// The user's answers by question id. A question that the user skipped has none.
pub type UserAnswers = BTreeMap<String, Vec<String>>;

/// The outcome of questions that the user leaves to the model, for the reason `why`.
pub fn not_answered(why: &str) -> ToolError {
    ToolError::new(format!(
        "not answered: {why}; decide yourself, and state the assumption in your final message"
    ))
}
