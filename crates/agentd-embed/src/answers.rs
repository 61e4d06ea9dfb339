//! The functions of the embedding program that answer the server. Without one, everything is
//! declined.

use std::collections::BTreeMap;
use std::pin::Pin;

use jsonrpc::{ErrorObject, Method, decode_params};
use protocol::{
    CommandExecutionApprovalDecision, CommandExecutionRequestApprovalParams,
    CommandExecutionRequestApprovalResponse, DynamicToolCallOutputContentItem,
    DynamicToolCallResponse, FileChangeApprovalDecision, FileChangeRequestApprovalParams,
    FileChangeRequestApprovalResponse, ItemCommandExecutionRequestApproval,
    ItemFileChangeRequestApproval, ItemPermissionsRequestApproval, ItemToolCall,
    ItemToolRequestUserInput, McpServerElicitationRequest, McpServerElicitationRequestParams,
    McpServerElicitationRequestResponse, PermissionGrantScope, PermissionsRequestApprovalParams,
    PermissionsRequestApprovalResponse, ToolRequestUserInputAnswer, ToolRequestUserInputParams,
    ToolRequestUserInputResponse,
};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::decline::{decline, encoded};
use crate::tool::Failure;
use crate::{CallContext, CallbackError, Tool};

/// An action that the agent asks to have approved.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Approval {
    /// A command that leaves the sandbox, or that a rule wants to be asked about.
    Command(CommandExecutionRequestApprovalParams),
    /// Changes of files.
    FileChange(FileChangeRequestApprovalParams),
    /// Permissions beyond the sandbox policy.
    Permissions(PermissionsRequestApprovalParams),
}

/// An answer to an [`Approval`]; `true` accepts and `false` declines.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Decision {
    /// This once.
    Accept,
    /// Also the same later in the session.
    AcceptForSession,
    /// No; the turn goes on.
    Decline,
    /// No; the turn ends. Permissions are declined.
    Cancel,
    /// One of the decisions about commands that have values, such as a rule; about anything else it declines.
    Command(CommandExecutionApprovalDecision),
}

impl From<bool> for Decision {
    fn from(allows: bool) -> Self {
        if allows { Self::Accept } else { Self::Decline }
    }
}

impl Approval {
    /// `command`, `fileChange` or `permissions`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Command(_) => "command",
            Self::FileChange(_) => "fileChange",
            Self::Permissions(_) => "permissions",
        }
    }

    /// The whole command, of a command.
    #[must_use]
    pub fn command(&self) -> Option<&str> {
        let Self::Command(params) = self else { return None };
        params.command.as_deref()
    }

    /// Why, in the words of the server or the model.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Command(params) => params.reason.as_deref(),
            Self::FileChange(params) => params.reason.as_deref(),
            Self::Permissions(params) => params.reason.as_deref(),
        }
    }

    fn answer(&self, decision: Decision) -> Result<Value, ErrorObject> {
        match self {
            Self::Command(_) => {
                encoded(&CommandExecutionRequestApprovalResponse { decision: of_command(decision) })
            }
            Self::FileChange(_) => {
                encoded(&FileChangeRequestApprovalResponse { decision: of_files(&decision) })
            }
            Self::Permissions(params) => {
                let scope = match decision {
                    Decision::Accept => PermissionGrantScope::Turn,
                    Decision::AcceptForSession => PermissionGrantScope::Session,
                    _ => return decline(ItemPermissionsRequestApproval::NAME),
                };
                let permissions = params.permissions.clone();
                encoded(&PermissionsRequestApprovalResponse {
                    permissions,
                    scope,
                    strict_auto_review: None,
                })
            }
        }
    }
}

fn of_command(decision: Decision) -> CommandExecutionApprovalDecision {
    match decision {
        Decision::Accept => CommandExecutionApprovalDecision::Accept,
        Decision::AcceptForSession => CommandExecutionApprovalDecision::AcceptForSession,
        Decision::Decline => CommandExecutionApprovalDecision::Decline,
        Decision::Cancel => CommandExecutionApprovalDecision::Cancel,
        Decision::Command(decision) => decision,
    }
}

fn of_files(decision: &Decision) -> FileChangeApprovalDecision {
    match decision {
        Decision::Accept => FileChangeApprovalDecision::Accept,
        Decision::AcceptForSession => FileChangeApprovalDecision::AcceptForSession,
        Decision::Cancel => FileChangeApprovalDecision::Cancel,
        Decision::Decline | Decision::Command(_) => FileChangeApprovalDecision::Decline,
    }
}

/// The run of a function of the embedding program.
pub(crate) type Running<R> = Pin<Box<dyn Future<Output = Result<R, CallbackError>> + Send>>;

/// A function of the embedding program.
pub(crate) type Callback<A, R> = Box<dyn Fn(A, CallContext) -> Running<R> + Send + Sync>;

/// Learns of failures.
pub(crate) type OnError = Box<dyn Fn(&CallbackError, &CallContext) + Send + Sync>;

/// Texts by the id of their question.
pub(crate) type Texts = BTreeMap<String, Vec<String>>;

#[derive(Default)]
pub(crate) struct Answers {
    pub(crate) approve: Option<Callback<Approval, Decision>>,
    pub(crate) ask: Option<Callback<ToolRequestUserInputParams, Texts>>,
    pub(crate) elicit:
        Option<Callback<McpServerElicitationRequestParams, McpServerElicitationRequestResponse>>,
    pub(crate) tools: Vec<Tool>,
    pub(crate) on_error: Option<OnError>,
    /// The model reads every error of a tool.
    pub(crate) sends_tool_errors: bool,
}

impl Answers {
    /// The answer to a request of the server.
    pub(crate) async fn answer(
        &self,
        method: &str,
        params: &RawValue,
        context: CallContext,
    ) -> Result<Value, ErrorObject> {
        let failed = |error: CallbackError| {
            self.report(&format!("the callback for `{method}`"), &error, &context)
        };
        match method {
            ItemCommandExecutionRequestApproval::NAME => {
                let approval = Approval::Command(decode_params(Some(params))?);
                self.approve(approval, &context).await.map_err(failed)?
            }
            ItemFileChangeRequestApproval::NAME => {
                let approval = Approval::FileChange(decode_params(Some(params))?);
                self.approve(approval, &context).await.map_err(failed)?
            }
            ItemPermissionsRequestApproval::NAME => {
                let approval = Approval::Permissions(decode_params(Some(params))?);
                self.approve(approval, &context).await.map_err(failed)?
            }
            ItemToolRequestUserInput::NAME => {
                let Some(ask) = &self.ask else { return decline(method) };
                let texts = ask(decode_params(Some(params))?, context.clone()).await;
                let texts = texts.map_err(failed)?.into_iter();
                let answer = |answers| ToolRequestUserInputAnswer { answers };
                let answers = texts.map(|(id, texts)| (id, answer(texts))).collect();
                encoded(&ToolRequestUserInputResponse { answers })
            }
            McpServerElicitationRequest::NAME => {
                let Some(elicit) = &self.elicit else { return decline(method) };
                let answer = elicit(decode_params(Some(params))?, context.clone()).await;
                encoded(&answer.map_err(failed)?)
            }
            ItemToolCall::NAME => self.call_tool(decode_params(Some(params))?, &context).await,
            _ => decline(method),
        }
    }

    /// Logs a failure and reports it to the application, and returns what the server gets: its text may hold secrets.
    pub(crate) fn report(
        &self,
        what: &str,
        error: &CallbackError,
        context: &CallContext,
    ) -> ErrorObject {
        let (thread, turn) = (context.thread_id(), context.turn_id());
        tracing::error!(thread, turn, "{what} failed: {error}");
        if let Some(on_error) = &self.on_error {
            on_error(error, context);
        }
        ErrorObject::internal("the client's callback failed")
    }

    async fn approve(
        &self,
        approval: Approval,
        context: &CallContext,
    ) -> Result<Result<Value, ErrorObject>, CallbackError> {
        let decision = match &self.approve {
            Some(approve) => approve(approval.clone(), context.clone()).await?,
            None => Decision::Decline,
        };
        Ok(approval.answer(decision))
    }

    async fn call_tool(
        &self,
        call: protocol::DynamicToolCallParams,
        context: &CallContext,
    ) -> Result<Value, ErrorObject> {
        let Some(tool) = self.tools.iter().find(|tool| tool.spec.name == call.tool) else {
            let message = format!("this client has no tool `{}`", call.tool);
            return Err(ErrorObject::invalid_params(message));
        };
        let (text, success) = match tool.call(call.arguments, context.clone()).await {
            Ok(text) => (text, true),
            Err(Failure::ForTheModel(text)) => (text, false),
            Err(Failure::Other(error)) => {
                self.report(&format!("the tool `{}`", tool.spec.name), &error, context);
                let text = match self.sends_tool_errors {
                    true => error.to_string(),
                    false => "The tool failed.".to_owned(),
                };
                (text, false)
            }
        };
        let content_items = vec![DynamicToolCallOutputContentItem::InputText { text }];
        encoded(&DynamicToolCallResponse { content_items, success })
    }
}
