//! Questions of MCP servers to the user, on the wire (`mcpServer/elicitation/request`).

use mcp::{Action, Answer, Elicitation, ElicitationMode};
use protocol::elicitation::{
    McpServerElicitationAction, McpServerElicitationRequestMode, McpServerElicitationRequestParams,
    McpServerElicitationRequestResponse,
};

use crate::error::Error;

/// The question for clients; `None` for a form that the protocol does not have.
pub(crate) fn params(
    thread: String,
    question: &Elicitation,
) -> Option<McpServerElicitationRequestParams> {
    let (message, meta) = (question.message.clone(), question.meta.clone());
    let request = match &question.mode {
        ElicitationMode::Form { schema } => McpServerElicitationRequestMode::Form {
            message,
            requested_schema: serde_json::from_value(schema.clone()).ok()?,
            meta,
        },
        ElicitationMode::Url { url, id } => McpServerElicitationRequestMode::Url {
            message,
            url: url.clone(),
            elicitation_id: id.clone(),
            meta,
        },
    };
    Some(McpServerElicitationRequestParams {
        thread_id: thread,
        turn_id: question.turn.clone(),
        server_name: question.server.clone(),
        request,
    })
}

/// An answer of a client, with the values of a form complete and checked.
///
/// # Errors
/// A value that the form does not allow.
pub(super) fn answer(
    answer: McpServerElicitationRequestResponse,
    question: &Elicitation,
) -> Result<Answer, Error> {
    let action = match answer.action {
        McpServerElicitationAction::Accept => Action::Accept,
        McpServerElicitationAction::Decline => Action::Decline,
        McpServerElicitationAction::Cancel => Action::Cancel,
    };
    let content = match (&question.mode, action) {
        (ElicitationMode::Form { schema }, Action::Accept) => {
            let complete = mcp::elicitation::complete(schema, answer.content);
            Some(complete.map_err(Error::invalid_params)?)
        }
        _ => None,
    };
    Ok(Answer { action, content })
}
