//! Questions of the server, passed on to the editor: approvals as permissions, others as elicitations. What
//! the editor cannot be asked is declined.

use jsonrpc::{ErrorObject, Method, RequestId, code};
use protocol::elicitation::{McpServerElicitationRequestMode, McpServerElicitationRequestParams};
use protocol::{
    CommandExecutionRequestApprovalParams, DynamicToolCallParams, FileChangeRequestApprovalParams,
    PermissionsRequestApprovalParams, ToolRequestUserInputParams,
};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{Adapter, read_answer};
use crate::editor::OpenQuestion;
use crate::map::permission::Permission;
use crate::map::{elicitation, item, permission};
use crate::schema::permission::{
    ElicitationMode, ElicitationRequest, ElicitationResponse, Outcome, PermissionRequest,
    PermissionResponse, Scope,
};
use crate::schema::tool_call::{ToolCall, ToolCallStatus};
use crate::schema::update::SessionUpdate;
use crate::schema::{Version, method, v2};

/// The member of `_meta` that describes the call of a tool that needs an approval. Only the server itself
/// writes it.
const TOOL_CALL: &str = "agentd/toolCall";
/// The field of a form with which the user allows a tool for the session.
const FOR_SESSION: &str = "allowForSession";

impl Adapter {
    /// A request of the server. `session` shows its thread, or that of the agent's root.
    pub(super) fn asked(
        &mut self,
        session: Option<String>,
        id: RequestId,
        method: &str,
        params: &RawValue,
    ) {
        let Some(session) = session else {
            let message = format!("`{method}`: no session of this client shows the thread");
            return self.link.respond(&id, &Err(ErrorObject::invalid_request(message)));
        };
        if let Err(error) = self.pass_on(&session, &id, method, params) {
            self.link.respond(&id, &Err(error));
        }
    }

    fn pass_on(
        &mut self,
        session: &str,
        id: &RequestId,
        method: &str,
        params: &RawValue,
    ) -> Result<(), ErrorObject> {
        let open = &self.sessions[session];
        match method {
            protocol::ItemCommandExecutionRequestApproval::NAME => {
                let params: CommandExecutionRequestApprovalParams = read(method, params)?;
                let permission = permission::command(&params, open.command(&params.item_id));
                self.ask_permission(session, id, permission);
            }
            protocol::ItemFileChangeRequestApproval::NAME => {
                let params: FileChangeRequestApprovalParams = read(method, params)?;
                let item = open.change(&params.item_id);
                let permission = permission::file_change(&params, item, &open.cwd, self.version);
                self.ask_permission(session, id, permission);
            }
            protocol::ItemPermissionsRequestApproval::NAME => {
                let params: PermissionsRequestApprovalParams = read(method, params)?;
                self.ask_permission(session, id, permission::permissions(&params));
            }
            protocol::ItemToolRequestUserInput::NAME => {
                let params: ToolRequestUserInputParams = read(method, params)?;
                self.ask_questions(session, id, params);
            }
            protocol::McpServerElicitationRequest::NAME => {
                let params: McpServerElicitationRequestParams = read(method, params)?;
                self.ask_for_server(session, id, params);
            }
            protocol::ItemToolCall::NAME => {
                let params: DynamicToolCallParams = read(method, params)?;
                let text = format!(
                    "the tool `{}` is not available: it belongs to the client that started the thread, \
                     and this one is an editor",
                    params.tool
                );
                let items = json!([{ "type": "inputText", "text": text }]);
                let answer = json!({ "contentItems": items, "success": false });
                self.link.respond(id, &Ok(answer));
            }
            _ => return Err(ErrorObject::method_not_found(method)),
        }
        Ok(())
    }

    /// The server no longer needs an answer.
    pub(super) fn resolved(&mut self, id: RequestId) {
        let Some(OpenQuestion { session, question, call }) = self.question_closed(&id) else {
            return;
        };
        self.editor.withdraw(question);
        if let Some(call) = call {
            self.show_answered(&session, &call, true);
        }
    }

    fn ask_permission(&mut self, session: &str, id: &RequestId, permission: Permission) {
        let request = PermissionRequest {
            session_id: session.to_owned(),
            tool_call: permission.tool_call.clone(),
            options: permission.options(),
        };
        let (session, server_id) = (session.to_owned(), id.clone());
        let call = permission.tool_call.tool_call_id.clone();
        let asked_about = Some(call.clone());
        let then = move |this: &mut Self, outcome| {
            this.question_closed(&server_id);
            let (answer, goes_on) = match read_answer::<PermissionResponse>(outcome) {
                Ok(PermissionResponse { outcome }) => {
                    (permission.answer(&outcome), matches!(outcome, Outcome::Selected { .. }))
                }
                Err(error) => {
                    tracing::warn!(target: "acp", "the editor did not answer a permission: {error}");
                    (permission.decline(), true)
                }
            };
            this.link.respond(&server_id, &Ok(answer));
            this.show_answered(&session, &call, goes_on);
        };
        let then = Box::new(then);
        let question = match self.version {
            Version::First => self.editor.ask(method::REQUEST_PERMISSION, &request, then),
            Version::Second => {
                self.editor.ask(method::REQUEST_PERMISSION, &v2::permission(&request), then)
            }
        };
        self.question_opened(&request.session_id, id, (question, asked_about));
    }

    /// The call that was asked about is no longer pending.
    fn show_answered(&mut self, session: &str, call: &str, goes_on: bool) {
        let Some(open) = self.sessions.get(session) else { return };
        let item = open.open_item(call);
        let shown = item.and_then(|item| item::tool_call(item, &open.cwd, self.version));
        let call = match shown {
            // Its title and content are those of the call again.
            Some(call) => ToolCall { content: Some(call.content.unwrap_or_default()), ..call },
            // A question that belongs to no call that is shown has ended.
            None => ToolCall {
                tool_call_id: call.to_owned(),
                status: Some(match goes_on {
                    true => ToolCallStatus::Completed,
                    false => ToolCallStatus::Failed,
                }),
                ..ToolCall::default()
            },
        };
        self.update(session, &SessionUpdate::ToolCallUpdate(call));
    }

    fn ask_for_server(
        &mut self,
        session: &str,
        id: &RequestId,
        params: McpServerElicitationRequestParams,
    ) {
        let server = params.server_name;
        let forms = self.capabilities().elicitation;
        let (message, mode) = match params.request {
            McpServerElicitationRequestMode::Form { message, requested_schema, meta } => {
                if let Some(call) = meta.as_ref().and_then(|meta| meta.get(TOOL_CALL)) {
                    let for_session = requested_schema.properties.contains_key(FOR_SESSION);
                    let permission = permission::tool_call(&server, &message, call, for_session);
                    return self.ask_permission(session, id, permission);
                }
                if forms.form.is_none() {
                    return self.decline_for_server(session, id, &server, "forms");
                }
                let schema = elicitation::schema(json!(requested_schema));
                (message, ElicitationMode::Form { requested_schema: schema })
            }
            McpServerElicitationRequestMode::Url { message, url, elicitation_id, .. } => {
                if forms.url.is_none() {
                    return self.decline_for_server(session, id, &server, "addresses");
                }
                (message, ElicitationMode::Url { elicitation_id, url })
            }
        };
        let name = visible::exact_line(&server);
        let message = format!("The MCP server {name} asks:\n\n{}", visible::text(&message));
        let scope = Scope::Session { session_id: session.to_owned(), tool_call_id: None };
        let request = ElicitationRequest { scope, message, mode };
        self.elicit(session, id, &request, |response| {
            Ok(match response {
                Some(response) => elicitation::answer(&response),
                None => json!({ "action": "decline" }),
            })
        });
    }

    fn decline_for_server(&mut self, session: &str, id: &RequestId, server: &str, what: &str) {
        let server = visible::exact_line(server);
        let title = format!("A question of the MCP server {server} was declined");
        let why = format!("This client shows no {what} of elicitations.");
        self.warn(session, &title, Some(&why));
        self.link.respond(id, &Ok(json!({ "action": "decline" })));
    }

    fn ask_questions(&mut self, session: &str, id: &RequestId, params: ToolRequestUserInputParams) {
        let takes_forms = self.capabilities().elicitation.form.is_some();
        let form = match takes_forms {
            true => elicitation::questions(&params),
            false => Err("this client shows no forms of elicitations".to_owned()),
        };
        let (message, requested_schema) = match form {
            Ok(form) => form,
            Err(why) => {
                self.warn(session, "A question of the agent was skipped", Some(&why));
                return self.link.respond(id, &Err(unhandled(&why)));
            }
        };
        let tool_call_id = Some(params.item_id.clone());
        let request = ElicitationRequest {
            scope: Scope::Session { session_id: session.to_owned(), tool_call_id },
            message,
            mode: ElicitationMode::Form { requested_schema },
        };
        self.elicit(session, id, &request, move |response| match response {
            Some(response) => Ok(elicitation::answers(&params, &response)),
            None => Err(unhandled("the editor failed to show its form")),
        });
    }

    /// Asks, and answers the server with what `read` makes of the response; `None`: the editor had an error.
    fn elicit(
        &mut self,
        session: &str,
        id: &RequestId,
        request: &ElicitationRequest,
        read: impl FnOnce(Option<ElicitationResponse>) -> Result<Value, ErrorObject> + Send + 'static,
    ) {
        let server_id = id.clone();
        let then = move |this: &mut Self, outcome| {
            this.question_closed(&server_id);
            let response = read_answer::<ElicitationResponse>(outcome);
            if let Err(error) = &response {
                tracing::warn!(target: "acp", "the editor did not answer an elicitation: {error}");
            }
            this.link.respond(&server_id, &read(response.ok()));
        };
        let question = self.editor.ask(method::ELICITATION_CREATE, request, Box::new(then));
        self.question_opened(session, id, (question, None));
    }
}

/// Has the server count this client as one that cannot ask the user.
fn unhandled(why: &str) -> ErrorObject {
    ErrorObject::new(code::METHOD_NOT_FOUND, why)
}

fn read<T: DeserializeOwned>(method: &str, params: &RawValue) -> Result<T, ErrorObject> {
    serde_json::from_str(params.get()).map_err(|error| {
        ErrorObject::invalid_params(format!("the parameters of `{method}`: {error}"))
    })
}
