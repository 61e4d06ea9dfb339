//! The requests of the server to clients, and the parsing of their answers. An answer that does not
//! state exactly what to do is invalid.

use std::sync::Arc;

use jsonrpc::{ErrorObject, Method as _, code};
use protocol::approval::{
    CommandExecutionApprovalDecision as CommandDecision, CommandExecutionRequestApprovalResponse,
    FileChangeApprovalDecision as PatchDecision, FileChangeRequestApprovalResponse,
};
use protocol::elicitation::{McpServerElicitationAction, McpServerElicitationRequestResponse};
use protocol::tool::{DynamicToolCallOutputContentItem, DynamicToolCallResponse};
use sandbox::rules::check_amendment;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use session::{
    Decision, Permissions, ToolAnswer, ToolContent, ToolError, UserQuestion, not_answered,
};

use crate::requests::{Settled, elicitations, user_input};
use services::allowed::MachineInput;
use services::convert::permissions;
use services::convert::server_tool::FOR_SESSION;
use services::error::Error;
use services::image_url;

/// Characters of a client's text that are quoted.
const QUOTED: usize = 200;

/// The kind of a request, which decides how its answer is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    Command(Amendable),
    /// May a command reach a host?
    Network,
    Patch,
    /// May the tool of an MCP server be called?
    ServerTool {
        /// True if the user may allow it for the session.
        can_remember: bool,
    },
    /// May commands have these permissions?
    Permissions(Permissions),
    Tool,
    /// Questions of the model to the user.
    UserInput(Arc<[UserQuestion]>),
    /// A question of an MCP server to the user.
    Elicitation(Arc<mcp::Elicitation>),
}

/// The command prefixes that an answer may allow permanently.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Amendable {
    /// The proposed rule.
    pub(crate) proposed: Option<Vec<String>>,
    /// The commands of the request; a prefix of one of them may be allowed too.
    pub commands: Vec<Vec<String>>,
}

/// A valid answer.
pub(super) struct Usable {
    pub(super) settled: Settled,
    /// The parts of it that do not count, and the reason.
    pub(super) ignored: Option<String>,
}

/// An invalid answer.
pub(super) struct Unusable {
    pub(super) why: String,
    /// The answer, bounded and without control characters.
    pub(super) quoted: String,
    /// True if the client handles no questions to the user: the error "method not found".
    pub(super) is_unhandled: bool,
}

/// The fault of the last invalid answer.
#[derive(Clone)]
pub(super) struct Fault {
    /// Why it cannot be used, with the answer unless that may hold a secret.
    pub(super) text: String,
    /// See [`Unusable::is_unhandled`].
    pub(super) is_unhandled: bool,
}

impl Fault {
    /// The fault in an answer to `question`.
    pub(super) fn new(unusable: Unusable, question: &Question) -> Fault {
        let Unusable { why, quoted, is_unhandled } = unusable;
        let text = match (is_unhandled, question.hides_answers()) {
            (true, true) => "the client cannot ask the user".to_owned(),
            (true, false) => format!("the client cannot ask the user ({quoted})"),
            (false, true) => why,
            (false, false) => format!("{why}: `{quoted}`"),
        };
        Fault { text, is_unhandled }
    }
}

impl Question {
    /// Its method on the wire.
    pub fn method(&self) -> &'static str {
        match self {
            Self::Command(_) | Self::Network => protocol::ItemCommandExecutionRequestApproval::NAME,
            Self::Patch => protocol::ItemFileChangeRequestApproval::NAME,
            Self::Permissions(_) => protocol::ItemPermissionsRequestApproval::NAME,
            Self::ServerTool { .. } => protocol::McpServerElicitationRequest::NAME,
            Self::Tool => protocol::ItemToolCall::NAME,
            Self::UserInput(_) => protocol::ItemToolRequestUserInput::NAME,
            Self::Elicitation(_) => protocol::McpServerElicitationRequest::NAME,
        }
    }

    /// The valid answers, for the developer of a client.
    pub(super) fn expected(&self) -> &'static str {
        match self {
            Self::Command(_) => {
                "a result `{\"decision\": …}` with `accept`, `acceptForSession`, `decline`, \
                 `cancel` or `{\"acceptWithExecpolicyAmendment\": {\"execpolicy_amendment\": \
                 [\"program\", …]}}`"
            }
            Self::Network | Self::Patch => {
                "a result `{\"decision\": …}` with `accept`, `acceptForSession`, `decline` or \
                 `cancel`"
            }
            Self::ServerTool { .. } => {
                "a result `{\"action\": …}` with `accept`, `decline` or `cancel`"
            }
            Self::Permissions(_) => {
                "a result `{\"permissions\": {\"fileSystem\": {\"read\": [path, …], \"write\": \
                 [path, …]}, \"network\": {\"enabled\": true}}, \"scope\": \"turn\" or \
                 \"session\"}`, with any part of what was requested, or none to decline"
            }
            Self::Tool => {
                "a result `{\"contentItems\": [{\"type\": \"inputText\", \"text\": …} or \
                 {\"type\": \"inputImage\", \"imageUrl\": …}], \"success\": true or false}`"
            }
            Self::UserInput(_) => {
                "a result `{\"answers\": {question id: {\"answers\": [label or text, …]}}}`"
            }
            Self::Elicitation(_) => {
                "a result `{\"action\": …}` with `accept`, `decline` or `cancel`, and the values of the \
                 form as `content`"
            }
        }
    }

    /// Returns the consequence of having no valid answer from any client.
    pub(super) fn without_answer(&self) -> &'static str {
        match self {
            Self::Command(_)
            | Self::Network
            | Self::Patch
            | Self::Permissions(_)
            | Self::ServerTool { .. } => "No other client can answer, so the request is declined.",
            Self::Tool => "No other client can answer, so the call has failed.",
            Self::UserInput(_) => "No other client can answer, so the model gets no answer.",
            Self::Elicitation(_) => "No other client can answer, so the question is cancelled.",
        }
    }

    /// Returns the result in that case; `fault` describes the last answer.
    pub(super) fn unanswered(&self, request: u64, fault: &Fault) -> Settled {
        Settled::Session(match self {
            Self::Elicitation(_) => {
                let answer = mcp::Answer::without_content(mcp::Action::Cancel);
                return Settled::Elicitation { number: request, answer };
            }
            Self::Command(_)
            | Self::Network
            | Self::Patch
            | Self::Permissions(_)
            | Self::ServerTool { .. } => MachineInput::Decided {
                request,
                decision: Decision::Undecided(format!(
                    "declined, because the client's answer to the approval request could not be \
                     used, {}",
                    fault.text
                )),
            },
            Self::Tool => MachineInput::ToolAnswered {
                request,
                outcome: Err(ToolError::new(format!(
                    "the client could not run this tool, {}",
                    fault.text
                ))),
            },
            Self::UserInput(_) => MachineInput::UserAnswered {
                request,
                outcome: Err(match fault.is_unhandled {
                    true => not_answered(&fault.text),
                    false => ToolError::new(format!(
                        "not answered: the client's answer could not be used, {}",
                        fault.text
                    )),
                }),
            },
        })
    }

    /// Reads an answer.
    pub(super) fn read(
        &self,
        request: u64,
        outcome: Result<Box<RawValue>, ErrorObject>,
    ) -> Result<Usable, Unusable> {
        let result = outcome.map_err(|error| {
            let is_unhandled =
                error.code == code::METHOD_NOT_FOUND && matches!(self, Self::UserInput(_));
            let quoted = if is_unhandled { cut(&error.message) } else { cut(&error.to_string()) };
            Unusable { why: "it is an error".to_owned(), quoted, is_unhandled }
        })?;
        let mut ignored = None;
        let read = match self {
            Self::Elicitation(question) => {
                let answer = object(&result)
                    .map_err(|error| self.without_secrets(error))
                    .and_then(|answer| elicitations::answer(answer, question));
                return match answer {
                    Ok(answer) => {
                        let settled = Settled::Elicitation { number: request, answer };
                        Ok(Usable { settled, ignored: None })
                    }
                    Err(error) => Err(Unusable {
                        why: error.to_string(),
                        quoted: cut(result.get()),
                        is_unhandled: false,
                    }),
                };
            }
            Self::Tool => tool_answer(&result)
                .map(|answer| MachineInput::ToolAnswered { request, outcome: Ok(answer) }),
            Self::UserInput(questions) => object(&result)
                .map_err(|error| self.without_secrets(error))
                .and_then(|answer| user_input::answers(answer, questions))
                .map(|answers| MachineInput::UserAnswered { request, outcome: Ok(answers) }),
            Self::Permissions(requested) => object(&result)
                .and_then(|answer| permissions::decision(answer, requested))
                .map(|decision| MachineInput::Decided { request, decision }),
            Self::ServerTool { can_remember } => {
                server_decision(&result, *can_remember).map(|(decision, beside)| {
                    ignored = beside;
                    MachineInput::Decided { request, decision }
                })
            }
            Self::Command(amendable) => command_decision(&result, Some(amendable))
                .map(|decision| MachineInput::Decided { request, decision }),
            Self::Network => command_decision(&result, None)
                .map(|decision| MachineInput::Decided { request, decision }),
            Self::Patch => {
                patch_decision(&result).map(|decision| MachineInput::Decided { request, decision })
            }
        };
        let unusable = |error: Error| Unusable {
            why: error.to_string(),
            quoted: cut(result.get()),
            is_unhandled: false,
        };
        let input = read.map_err(unusable)?;
        Ok(Usable { settled: Settled::Session(input), ignored })
    }
}

impl Question {
    /// Returns whether an answer may hold a secret of the user: then it is quoted nowhere.
    pub(super) fn hides_answers(&self) -> bool {
        match self {
            Self::UserInput(questions) => questions.iter().any(|question| question.is_secret),
            // A server does not mark what is secret.
            Self::Elicitation(_) => true,
            Self::Command(_)
            | Self::Network
            | Self::Patch
            | Self::Permissions(_)
            | Self::ServerTool { .. }
            | Self::Tool => false,
        }
    }

    /// An error of decoding, which quotes what it found.
    fn without_secrets(&self, error: Error) -> Error {
        match self.hides_answers() {
            true => Error::invalid_params("it does not have the members of an answer"),
            false => error,
        }
    }
}

/// The beginning of a client's text, for display, with invisible characters escaped.
pub(super) fn cut(text: &str) -> String {
    match text.char_indices().nth(QUOTED) {
        None => visible::text(text).into_owned(),
        Some((end, _)) => format!("{}…", visible::text(text.get(..end).unwrap_or_default())),
    }
}

/// Decodes an object. (serde alone would accept a sequence of its members too.)
fn object<T: DeserializeOwned>(result: &RawValue) -> Result<T, Error> {
    if !result.get().trim_start().starts_with('{') {
        return Err(Error::invalid_params("it is not an object"));
    }
    // The warning lists what was expected.
    let without_names = |why: &str| match why.split_once(", expected one of `") {
        Some((what, _)) => cut(what),
        None => cut(why),
    };
    jsonrpc::read_result(result)
        .map_err(|error| Error::invalid_params(without_names(&error.to_string())))
}

fn tool_answer(result: &RawValue) -> Result<ToolAnswer, Error> {
    let answer: DynamicToolCallResponse = object(result)?;
    let content = answer.content_items.into_iter().map(|part| match part {
        DynamicToolCallOutputContentItem::InputText { text } => Ok(ToolContent::Text(text)),
        DynamicToolCallOutputContentItem::InputImage { image_url } => {
            image_url::check(&image_url).map(|()| ToolContent::Image { url: image_url })
        }
    });
    Ok(ToolAnswer { content: content.collect::<Result<_, _>>()?, success: answer.success })
}

/// `amendable`: `None` where there is no command to allow.
fn command_decision(result: &RawValue, amendable: Option<&Amendable>) -> Result<Decision, Error> {
    let answer: CommandExecutionRequestApprovalResponse = object(result)?;
    Ok(match answer.decision {
        CommandDecision::Accept => Decision::Accept,
        CommandDecision::AcceptForSession => Decision::AcceptForSession,
        CommandDecision::AcceptWithExecpolicyAmendment { execpolicy_amendment: prefix } => {
            let Some(Amendable { proposed, commands }) = amendable else {
                return Err(Error::invalid_params(
                    "the request is about a host, and command rules allow commands only",
                ));
            };
            check_amendment(&prefix, proposed.as_deref(), commands)
                .map_err(|error| Error::invalid_params(cut(&error.to_string())))?;
            Decision::AcceptWithAmendment(prefix)
        }
        CommandDecision::ApplyNetworkPolicyAmendment { .. } => {
            return Err(Error::invalid_params("rules about hosts were not proposed"));
        }
        CommandDecision::Decline => Decision::Decline,
        CommandDecision::Cancel => Decision::Cancel,
    })
}

/// The decision about a tool, and what of the answer does not count. What was not offered never makes
/// more of a consent, nor less.
fn server_decision(
    result: &RawValue,
    can_remember: bool,
) -> Result<(Decision, Option<String>), Error> {
    let answer: McpServerElicitationRequestResponse = object(result)?;
    let none = Map::new();
    let fields = match &answer.content {
        None | Some(Value::Null) => &none,
        Some(Value::Object(fields)) => fields,
        Some(_) => return Err(Error::invalid_params("`content` must be an object")),
    };
    let for_session = match fields.get(FOR_SESSION) {
        None => false,
        Some(Value::Bool(for_session)) => *for_session,
        Some(_) => {
            return Err(Error::invalid_params(format!(
                "`content.{FOR_SESSION}` must be a boolean"
            )));
        }
    };
    let unknown = fields.keys().find(|name| name.as_str() != FOR_SESSION);
    let ignored = match unknown {
        Some(name) => Some(format!("`content.{}` is not a field of the form", cut(name))),
        None if for_session && !can_remember => Some(format!(
            "`content.{FOR_SESSION}` was not offered, so the answer holds for this call only"
        )),
        None => None,
    };
    let decision = match answer.action {
        McpServerElicitationAction::Accept if for_session && can_remember => {
            Decision::AcceptForSession
        }
        McpServerElicitationAction::Accept => Decision::Accept,
        McpServerElicitationAction::Decline => Decision::Decline,
        McpServerElicitationAction::Cancel => Decision::Cancel,
    };
    Ok((decision, ignored))
}

fn patch_decision(result: &RawValue) -> Result<Decision, Error> {
    let answer: FileChangeRequestApprovalResponse = object(result)?;
    Ok(match answer.decision {
        PatchDecision::Accept => Decision::Accept,
        PatchDecision::AcceptForSession => Decision::AcceptForSession,
        PatchDecision::Decline => Decision::Decline,
        PatchDecision::Cancel => Decision::Cancel,
    })
}
