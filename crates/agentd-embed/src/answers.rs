//! The functions of the embedding program that answer the server. Without one, everything is
//! declined.

use std::collections::BTreeMap;
use std::pin::Pin;

use jsonrpc::{ErrorObject, Method, decode_params};
use protocol::{
    CommandExecutionApprovalDecision, CommandExecutionRequestApprovalParams,
    CommandExecutionRequestApprovalResponse, FileChangeApprovalDecision,
    FileChangeRequestApprovalParams, FileChangeRequestApprovalResponse,
    ItemCommandExecutionRequestApproval, ItemFileChangeRequestApproval,
    ItemPermissionsRequestApproval, ItemToolCall, ItemToolRequestUserInput,
    McpServerElicitationRequest, McpServerElicitationRequestParams,
    McpServerElicitationRequestResponse, PermissionGrantScope, PermissionsRequestApprovalParams,
    PermissionsRequestApprovalResponse, ToolRequestUserInputAnswer, ToolRequestUserInputParams,
    ToolRequestUserInputResponse,
};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::Tool;
use crate::decline::{decline, encoded};

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

/// A function of the embedding program.
pub(crate) type Callback<A, R> =
    Box<dyn Fn(A) -> Pin<Box<dyn Future<Output = R> + Send>> + Send + Sync>;

/// Texts by the id of their question.
pub(crate) type Texts = BTreeMap<String, Vec<String>>;

#[derive(Default)]
pub(crate) struct Answers {
    pub(crate) approve: Option<Callback<Approval, Decision>>,
    pub(crate) ask: Option<Callback<ToolRequestUserInputParams, Texts>>,
    pub(crate) elicit:
        Option<Callback<McpServerElicitationRequestParams, McpServerElicitationRequestResponse>>,
    pub(crate) tools: Vec<Tool>,
}

impl Answers {
    /// The answer to a request of the server.
    pub(crate) async fn answer(
        &self,
        method: &str,
        params: &RawValue,
    ) -> Result<Value, ErrorObject> {
        match method {
            ItemCommandExecutionRequestApproval::NAME => {
                self.approve(Approval::Command(decode_params(Some(params))?)).await
            }
            ItemFileChangeRequestApproval::NAME => {
                self.approve(Approval::FileChange(decode_params(Some(params))?)).await
            }
            ItemPermissionsRequestApproval::NAME => {
                self.approve(Approval::Permissions(decode_params(Some(params))?)).await
            }
            ItemToolRequestUserInput::NAME => {
                let Some(ask) = &self.ask else { return decline(method) };
                let texts = ask(decode_params(Some(params))?).await.into_iter();
                let answer = |answers| ToolRequestUserInputAnswer { answers };
                let answers = texts.map(|(id, texts)| (id, answer(texts))).collect();
                encoded(&ToolRequestUserInputResponse { answers })
            }
            McpServerElicitationRequest::NAME => {
                let Some(elicit) = &self.elicit else { return decline(method) };
                encoded(&elicit(decode_params(Some(params))?).await)
            }
            ItemToolCall::NAME => self.call_tool(decode_params(Some(params))?).await,
            _ => decline(method),
        }
    }

    async fn approve(&self, approval: Approval) -> Result<Value, ErrorObject> {
        let decision = match &self.approve {
            Some(approve) => approve(approval.clone()).await,
            None => Decision::Decline,
        };
        approval.answer(decision)
    }

    async fn call_tool(&self, call: protocol::DynamicToolCallParams) -> Result<Value, ErrorObject> {
        match self.tools.iter().find(|tool| tool.spec.name == call.tool) {
            Some(tool) => encoded(&tool.answer(call).await),
            None => {
                let message = format!("this client has no tool `{}`", call.tool);
                Err(ErrorObject::invalid_params(message))
            }
        }
    }
}
