//! The negative answers to what a server asks.

use jsonrpc::ErrorObject;
use protocol::{
    AdditionalPermissionProfile, CommandExecutionApprovalDecision,
    CommandExecutionRequestApprovalResponse, FileChangeApprovalDecision,
    FileChangeRequestApprovalResponse, McpServerElicitationAction,
    McpServerElicitationRequestResponse, PermissionGrantScope, PermissionsRequestApprovalResponse,
};
use serde::Serialize;
use serde_json::Value;

/// The negative answer to a request of the server, in the form of its method.
///
/// # Errors
/// The request has no negative answer: the error to respond with in place of one.
pub fn decline(method: &str) -> Result<Value, ErrorObject> {
    match method {
        "item/commandExecution/requestApproval" => {
            let decision = CommandExecutionApprovalDecision::Decline;
            encoded(&CommandExecutionRequestApprovalResponse { decision })
        }
        "item/fileChange/requestApproval" => {
            let decision = FileChangeApprovalDecision::Decline;
            encoded(&FileChangeRequestApprovalResponse { decision })
        }
        "item/permissions/requestApproval" => encoded(&PermissionsRequestApprovalResponse {
            permissions: AdditionalPermissionProfile::default(),
            scope: PermissionGrantScope::default(),
            strict_auto_review: None,
        }),
        "mcpServer/elicitation/request" => encoded(&McpServerElicitationRequestResponse {
            action: McpServerElicitationAction::Decline,
            content: None,
            meta: None,
        }),
        other => Err(ErrorObject::method_not_found(other)),
    }
}

/// An answer as JSON.
pub(crate) fn encoded(answer: &impl Serialize) -> Result<Value, ErrorObject> {
    serde_json::to_value(answer).map_err(|why| ErrorObject::internal(why.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_declining_answer_has_the_shape_of_its_request() {
        let check = |method: &str, expect: &str| {
            let outcome = decline(method).map_or_else(|error| error.message, |yes| yes.to_string());
            assert_eq!(outcome, expect, "{method}");
        };
        check("item/commandExecution/requestApproval", r#"{"decision":"decline"}"#);
        check("item/fileChange/requestApproval", r#"{"decision":"decline"}"#);
        check("item/permissions/requestApproval", r#"{"permissions":{}}"#);
        check("mcpServer/elicitation/request", r#"{"action":"decline"}"#);
        // The server leaves the question to other clients, or has the model decide.
        check("item/tool/requestUserInput", "Method not found: item/tool/requestUserInput");
        check("item/tool/call", "Method not found: item/tool/call");
    }

    #[test]
    fn every_request_of_the_server_is_declined() {
        for request in protocol::SERVER_REQUESTS {
            if let Ok(answer) = decline(request.name) {
                assert!(!answer.to_string().contains("accept"), "{}", request.name);
            }
        }
    }
}
