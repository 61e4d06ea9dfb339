//! Questions of MCP servers to the user, on the wire (`mcpServer/elicitation/request`).

use mcp::{Action, Answer, Elicitation, ElicitationMode};
use protocol::elicitation::{
    McpServerElicitationAction, McpServerElicitationRequestMode, McpServerElicitationRequestParams,
    McpServerElicitationRequestResponse,
};

use serde_json::Value;

use services::error::Error;

/// Members of `_meta` in which this program describes its own questions.
const OWN_META: &str = "agentd/";

/// The question for clients; `None` for a form that the protocol does not have.
pub(crate) fn params(
    thread: String,
    question: &Elicitation,
) -> Option<McpServerElicitationRequestParams> {
    let (message, meta) = (question.message.clone(), foreign_meta(question.meta.clone()));
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

/// Returns the server's `_meta`, without the members that only this program sets there.
fn foreign_meta(meta: Option<Value>) -> Option<Value> {
    let Some(Value::Object(mut members)) = meta else { return meta };
    members.retain(|key, _| !key.starts_with(OWN_META));
    (!members.is_empty()).then_some(Value::Object(members))
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_server_cannot_pass_its_question_for_an_approval() {
        let mine = json!({ "agentd/toolCall": { "tool": "safe" } });
        assert_eq!(foreign_meta(Some(mine)), None);
        let both = json!({ "agentd/toolCall": 1, "own": 2 });
        assert_eq!(foreign_meta(Some(both)), Some(json!({ "own": 2 })));
        assert_eq!(foreign_meta(None), None);
    }
}
