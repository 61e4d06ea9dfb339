//! Errors of starting an agent.

use session::ToolError;

/// Why an agent was not started.
pub(crate) enum StartError {
    /// No place is free: `agents.max_threads`.
    Full(ToolError),
    /// Any other reason.
    Refused(ToolError),
}

impl From<ToolError> for StartError {
    fn from(error: ToolError) -> Self {
        Self::Refused(error)
    }
}

impl From<StartError> for ToolError {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Full(error) | StartError::Refused(error) => error,
        }
    }
}
