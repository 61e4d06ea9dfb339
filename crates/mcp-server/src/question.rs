//! Requests of the server as forms for the MCP client's user, and the answers to them. Whatever is not
//! an explicit consent declines.

use jsonrpc::{ErrorObject, Method, code};
use protocol::{
    CommandExecutionApprovalDecision as CommandDecision, CommandExecutionRequestApprovalParams,
    FileChangeRequestApprovalParams, FileUpdateChange, McpServerElicitationRequestMode,
    McpServerElicitationRequestParams, NetworkPolicyRuleAction, PermissionsRequestApprovalParams,
    ToolRequestUserInputParams, ToolRequestUserInputQuestion,
};
use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// The answer to a request of the server.
pub(crate) type Answer = Result<Value, ErrorObject>;

/// The member of a form that holds the decision.
const DECISION: &str = "decision";
/// The member of `_meta` that describes the call of a tool that needs an approval.
const TOOL_CALL: &str = "agentd/toolCall";
/// Longest message of a form, in bytes; a diff that would exceed it is cut.
const MAX_MESSAGE: usize = 64 << 10;

/// A request that the client's user answers.
pub(crate) struct Question {
    /// The requested action, to name it in the result.
    subject: String,
    kind: Kind,
    /// The answer that grants nothing.
    declined: Answer,
}

enum Kind {
    Choices(Vec<Choice>),
    Questions(Vec<ToolRequestUserInputQuestion>),
    /// Of an MCP server of the agent.
    Elicitation,
}

struct Choice {
    value: String,
    meaning: String,
    answer: Value,
    grants: bool,
}

/// The answer of the client's user.
pub(crate) enum Reply {
    Elicited(ElicitResult),
    /// The user was not asked, for this reason.
    Unavailable(String),
}

/// A request that no form can carry: its answer, and what the result says about it.
pub(crate) struct Unanswerable {
    pub(crate) answer: Answer,
    pub(crate) note: String,
}

/// Reads a request of the server. `changes` are those of an item that asks for approval.
///
/// # Errors
/// It cannot be asked as a form.
pub(crate) fn read(
    method: &str,
    params: &str,
    changes: impl Fn(&str) -> Option<Vec<FileUpdateChange>>,
) -> Result<(Question, ElicitRequestParams), Unanswerable> {
    match method {
        protocol::ItemCommandExecutionRequestApproval::NAME => command(parsed(method, params)?),
        protocol::ItemFileChangeRequestApproval::NAME => {
            let params: FileChangeRequestApprovalParams = parsed(method, params)?;
            let changes = changes(&params.item_id).unwrap_or_default();
            file_change(&params, &changes)
        }
        protocol::ItemPermissionsRequestApproval::NAME => permissions(parsed(method, params)?),
        protocol::ItemToolRequestUserInput::NAME => user_input(parsed(method, params)?),
        protocol::McpServerElicitationRequest::NAME => elicitation(parsed(method, params)?),
        _ => Err(Unanswerable {
            answer: Err(ErrorObject::method_not_found(method)),
            note: format!("`{method}`: this server cannot answer it"),
        }),
    }
}

impl Question {
    /// The answer for the server, and what the result says when something was not granted.
    pub(crate) fn answer(self, reply: Reply) -> (Answer, Option<String>) {
        let result = match reply {
            Reply::Elicited(result) => result,
            Reply::Unavailable(why) => return self.decline(&why),
        };
        match (&result.action, self.kind) {
            (ElicitationAction::Accept, Kind::Choices(choices)) => {
                let decision =
                    result.content.as_ref().and_then(|content| content[DECISION].as_str());
                let chosen =
                    choices.into_iter().find(|choice| Some(choice.value.as_str()) == decision);
                match chosen {
                    Some(choice) if choice.grants => (Ok(choice.answer), None),
                    Some(choice) => {
                        (Ok(choice.answer), Some(format!("{}: declined by the user", self.subject)))
                    }
                    None => {
                        let why = format!(
                            "declined, because the client's answer has no `{DECISION}` of the form"
                        );
                        (self.declined, Some(format!("{}: {why}", self.subject)))
                    }
                }
            }
            (ElicitationAction::Accept, Kind::Questions(questions)) => {
                let content = result.content.unwrap_or_default();
                let given = |question: &ToolRequestUserInputQuestion| {
                    let text = content[&question.id].as_str()?;
                    Some((question.id.clone(), json!({ "answers": [text] })))
                };
                let answers: Map<String, Value> = questions.iter().filter_map(given).collect();
                (Ok(json!({ "answers": answers })), None)
            }
            (ElicitationAction::Accept, Kind::Elicitation) => {
                (Ok(json!({ "action": "accept", "content": result.content })), None)
            }
            (ElicitationAction::Decline, _) => {
                (self.declined, Some(format!("{}: declined by the user", self.subject)))
            }
            (_, _) => {
                let note =
                    format!("{}: declined, because the user dismissed the question", self.subject);
                (self.declined, Some(note))
            }
        }
    }

    fn decline(self, why: &str) -> (Answer, Option<String>) {
        let answer = match self.kind {
            // Has the server count this client as one that cannot ask the user.
            Kind::Questions(_) => Err(ErrorObject::new(code::METHOD_NOT_FOUND, why)),
            Kind::Choices(_) | Kind::Elicitation => self.declined,
        };
        (answer, Some(format!("{}: declined, because {why}", self.subject)))
    }

    /// The same, for a question whose form cannot be made.
    fn unanswerable(self, why: &str) -> Unanswerable {
        let (answer, note) = self.decline(why);
        Unanswerable { answer, note: note.unwrap_or_default() }
    }
}

fn parsed<T: DeserializeOwned>(method: &str, params: &str) -> Result<T, Unanswerable> {
    serde_json::from_str(params).map_err(|error| Unanswerable {
        answer: Err(ErrorObject::internal(format!("{method}: {error}"))),
        note: format!("`{method}`: this server cannot read it ({error})"),
    })
}

type Asked = Result<(Question, ElicitRequestParams), Unanswerable>;

fn command(params: CommandExecutionRequestApprovalParams) -> Asked {
    let command = params.command.as_deref().map(visible::exact);
    let (mut message, subject) = match (&params.network_approval_context, &command) {
        (Some(network), _) => {
            let host = visible::exact(&network.host);
            let text = format!("The agent wants to connect to {host}.\n");
            (text, format!("connection to {host}"))
        }
        (None, Some(command)) => {
            ("The agent wants to run a command.\n".to_owned(), format!("command `{command}`"))
        }
        (None, None) => {
            ("The agent wants to continue a command.\n".to_owned(), "command".to_owned())
        }
    };
    let cwd = params.cwd.as_ref().map(|cwd| visible::exact(cwd));
    let permissions = params.additional_permissions.as_ref().map(|permissions| json!(permissions));
    let rows = [
        ("Command", command),
        ("Folder", cwd),
        ("Additional permissions", permissions.map(|permissions| permissions.to_string())),
        ("Reason", params.reason.as_deref().map(visible::exact)),
    ];
    push_rows(&mut message, rows);
    let decisions = params.available_decisions.unwrap_or_else(|| {
        vec![
            CommandDecision::Accept,
            CommandDecision::AcceptForSession,
            CommandDecision::Decline,
            CommandDecision::Cancel,
        ]
    });
    let choices = decisions.iter().map(command_choice).collect();
    let declined = Ok(json!({ "decision": "decline" }));
    choose(Question { subject, kind: Kind::Choices(choices), declined }, message)
}

fn command_choice(decision: &CommandDecision) -> Choice {
    let (value, meaning) = match decision {
        CommandDecision::Accept => ("accept".to_owned(), "allow it once".to_owned()),
        CommandDecision::AcceptForSession => {
            ("acceptForSession".to_owned(), "allow it, also later in this thread".to_owned())
        }
        CommandDecision::AcceptWithExecpolicyAmendment { execpolicy_amendment } => {
            let prefix = visible::exact(&execpolicy_amendment.join(" "));
            let meaning =
                format!("allow it, and from now on every command that begins with `{prefix}`");
            ("acceptWithPrefix".to_owned(), meaning)
        }
        CommandDecision::ApplyNetworkPolicyAmendment { network_policy_amendment: rule } => {
            let host = visible::exact(&rule.host);
            match rule.action {
                NetworkPolicyRuleAction::Allow => {
                    (format!("allow:{host}"), format!("always allow connections to {host}"))
                }
                NetworkPolicyRuleAction::Deny => {
                    (format!("deny:{host}"), format!("never allow connections to {host}"))
                }
            }
        }
        CommandDecision::Decline => {
            ("decline".to_owned(), "decline; the agent continues".to_owned())
        }
        CommandDecision::Cancel => ("cancel".to_owned(), "decline and end the turn".to_owned()),
    };
    let grants = !matches!(decision, CommandDecision::Decline | CommandDecision::Cancel)
        && !value.starts_with("deny:");
    Choice { value, meaning, answer: json!({ "decision": decision }), grants }
}

fn file_change(params: &FileChangeRequestApprovalParams, changes: &[FileUpdateChange]) -> Asked {
    let paths: Vec<String> = changes.iter().map(|change| visible::exact(&change.path)).collect();
    let subject = match paths.is_empty() {
        true => "change of files".to_owned(),
        false => format!("change of {}", paths.join(", ")),
    };
    let mut message = "The agent wants to change files.\n".to_owned();
    let rows = [
        ("Folder that becomes writable", params.grant_root.as_deref().map(visible::exact)),
        ("Reason", params.reason.as_deref().map(visible::exact)),
    ];
    push_rows(&mut message, rows);
    for (change, path) in changes.iter().zip(&paths) {
        let diff = visible::text(&change.diff);
        message.push_str(&format!("\n{path}\n"));
        let room = MAX_MESSAGE.saturating_sub(message.len());
        let shown = diff.get(..diff.floor_char_boundary(room)).unwrap_or_default();
        message.push_str(shown);
        if shown.len() < diff.len() {
            message.push_str(&format!("\n[{} bytes are not shown]", diff.len() - shown.len()));
        }
    }
    let choices = ["accept", "acceptForSession", "decline", "cancel"].map(|value| Choice {
        value: value.to_owned(),
        meaning: match value {
            "accept" => "allow it once",
            "acceptForSession" => "allow it, and the same files later in this thread",
            "decline" => "decline; the agent continues",
            _ => "decline and end the turn",
        }
        .to_owned(),
        answer: json!({ "decision": value }),
        grants: value.starts_with("accept"),
    });
    let declined = Ok(json!({ "decision": "decline" }));
    choose(Question { subject, kind: Kind::Choices(choices.into()), declined }, message)
}

fn permissions(params: PermissionsRequestApprovalParams) -> Asked {
    let wanted = json!(params.permissions);
    let mut message = "The agent asks for permissions.\n".to_owned();
    let rows = [
        ("Permissions", Some(visible::exact(&wanted.to_string()))),
        ("Folder", Some(visible::exact(&params.cwd))),
        ("Reason", params.reason.as_deref().map(visible::exact)),
    ];
    push_rows(&mut message, rows);
    let declined = json!({ "permissions": {} });
    let granted = |scope: &str| json!({ "permissions": wanted, "scope": scope });
    let choice = |value: &str, meaning: &str, answer: Value, grants: bool| Choice {
        value: value.to_owned(),
        meaning: meaning.to_owned(),
        answer,
        grants,
    };
    let choices = vec![
        choice("grantForTurn", "grant them for this turn", granted("turn"), true),
        choice("grantForSession", "grant them for this thread", granted("session"), true),
        choice("decline", "decline; the agent continues", declined.clone(), false),
    ];
    let subject = "permissions".to_owned();
    choose(Question { subject, kind: Kind::Choices(choices), declined: Ok(declined) }, message)
}

fn user_input(params: ToolRequestUserInputParams) -> Asked {
    let subject = "question of the agent".to_owned();
    let mut message = "The agent asks:\n".to_owned();
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for question in &params.questions {
        message.push_str(&format!("\n{}\n", visible::text(&question.question)));
        let options = question.options.as_deref().unwrap_or_default();
        for option in options {
            let (label, about) = (visible::text(&option.label), visible::text(&option.description));
            message.push_str(&format!("- {label}: {about}\n"));
        }
        let mut field = json!({
            "type": "string",
            "title": visible::text(&question.header),
            "description": visible::text(&question.question),
        });
        if !options.is_empty() && !question.is_other {
            field["enum"] = options.iter().map(|option| json!(option.label)).collect();
        }
        properties.insert(question.id.clone(), field);
        required.push(question.id.clone());
    }
    let has_secret = params.questions.iter().any(|question| question.is_secret);
    let declined = Ok(json!({ "answers": {} }));
    let question = Question { subject, kind: Kind::Questions(params.questions), declined };
    if has_secret {
        return Err(question.unanswerable("a form must not ask for a secret"));
    }
    form(question, message, json!({ "properties": properties, "required": required }))
}

fn elicitation(params: McpServerElicitationRequestParams) -> Asked {
    let server = visible::exact(&params.server_name);
    let question = Question {
        subject: format!("question of the MCP server {server}"),
        kind: Kind::Elicitation,
        declined: Ok(json!({ "action": "decline" })),
    };
    match params.request {
        McpServerElicitationRequestMode::Form { message, requested_schema, meta } => {
            // Only the program itself describes a call there.
            let is_approval = meta.is_some_and(|meta| meta.get(TOOL_CALL).is_some());
            let asker = match is_approval {
                true => "The agent wants to call a tool.".to_owned(),
                false => format!("The MCP server {server} asks:"),
            };
            let message = format!("{asker}\n\n{}", visible::text(&message));
            form(question, message, json!(requested_schema))
        }
        McpServerElicitationRequestMode::Url { .. } => Err(question.unanswerable(
            "it needs a page that the user opens, which this server does not pass on",
        )),
    }
}

/// Appends the rows that have a value.
fn push_rows<const N: usize>(message: &mut String, rows: [(&str, Option<String>); N]) {
    for (label, value) in rows {
        if let Some(value) = value {
            message.push_str(&format!("\n{label}: {value}"));
        }
    }
}

/// Asks for one of the choices. The form proposes none of them, so that no client submits a consent that its
/// user has not chosen.
fn choose(question: Question, message: String) -> Asked {
    let Kind::Choices(choices) = &question.kind else {
        return form(question, message, json!({ "properties": {} }));
    };
    let values: Vec<&str> = choices.iter().map(|choice| choice.value.as_str()).collect();
    let meanings: Vec<String> =
        choices.iter().map(|choice| format!("{}: {}", choice.value, choice.meaning)).collect();
    let field = json!({
        "type": "string",
        "title": "Decision",
        "description": meanings.join("; "),
        "enum": values,
    });
    form(question, message, json!({ "properties": { DECISION: field }, "required": [DECISION] }))
}

fn form(question: Question, message: String, mut schema: Value) -> Asked {
    if message.len() > 2 * MAX_MESSAGE {
        return Err(question.unanswerable("it is too long to be shown as a whole"));
    }
    schema["type"] = json!("object");
    match serde_json::from_value::<ElicitationSchema>(schema) {
        Ok(requested_schema) => {
            let form = ElicitRequestParams::FormElicitationParams {
                meta: None,
                message,
                requested_schema,
            };
            Ok((question, form))
        }
        Err(error) => Err(question.unanswerable(&format!("it fits into no form ({error})"))),
    }
}

#[cfg(test)]
#[path = "question_tests.rs"]
mod tests;
