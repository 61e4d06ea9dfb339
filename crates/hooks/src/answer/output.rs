//! The JSON object that a handler answers.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Answer, EntryKind, MAX_ENTRY, MAX_SHOWN_VERDICT, Permission, Status, shortened};
use crate::event::EventName;
use crate::json;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Output {
    #[serde(rename = "continue")]
    goes_on: Option<bool>,
    stop_reason: Option<String>,
    suppress_output: Option<bool>,
    system_message: Option<String>,
    decision: Option<Decision>,
    reason: Option<String>,
    hook_specific_output: Option<Specific>,
}

#[derive(Deserialize, Clone, Copy, PartialEq)]
#[serde(rename_all = "camelCase")]
enum Decision {
    #[serde(alias = "allow")]
    Approve,
    #[serde(alias = "deny")]
    Block,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Specific {
    hook_event_name: Option<String>,
    permission_decision: Option<PermissionDecision>,
    permission_decision_reason: Option<String>,
    updated_input: Option<Value>,
    additional_context: Option<String>,
    #[serde(rename = "updatedMCPToolOutput")]
    updated_output: Option<Value>,
    decision: Option<RequestDecision>,
}

#[derive(Deserialize, Clone, Copy, PartialEq)]
#[serde(rename_all = "camelCase")]
enum PermissionDecision {
    Allow,
    Deny,
    Ask,
}

/// The members `updatedInput`, `updatedPermissions` and `interrupt` of the format are not supported:
/// an answer that has one is refused as a whole, and with it the request.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RequestDecision {
    behavior: Behavior,
    message: Option<String>,
}

#[derive(Deserialize, Clone, Copy, PartialEq)]
#[serde(rename_all = "camelCase")]
enum Behavior {
    Allow,
    Deny,
}

/// Reads an answer. Members that the format does not have cost nothing where the rest decides.
pub(super) fn read_object(event: EventName, text: &str) -> Result<Answer, String> {
    // Of a member that is there twice only one would count: which one a refusal is in is unknown.
    let Value::Object(mut object) =
        json::read(text.as_bytes()).map_err(|error| error.to_string())?
    else {
        return Err("it is not an object".to_owned());
    };
    let mut unknown = take_unknown(&mut object, MEMBERS);
    if let Some(Value::Object(specific)) = object.get_mut("hookSpecificOutput") {
        unknown.extend(take_unknown(specific, SPECIFIC_MEMBERS));
    }
    let output: Output =
        serde_json::from_value(Value::Object(object)).map_err(|error| error.to_string())?;
    let mut answer = output.into_answer(event)?;
    if let Some(name) = unknown.first() {
        let message = format!("its member `{}` is not known", shortened(name, MAX_SHOWN_VERDICT));
        // It may be a refusal that is misspelt.
        if answer.status == Status::Completed && answer.permission.is_none() {
            return Err(message);
        }
        answer.add(EntryKind::Warning, message);
    }
    Ok(answer)
}

const MEMBERS: &[&str] = &[
    "continue",
    "stopReason",
    "suppressOutput",
    "systemMessage",
    "decision",
    "reason",
    "hookSpecificOutput",
];
const SPECIFIC_MEMBERS: &[&str] = &[
    "hookEventName",
    "permissionDecision",
    "permissionDecisionReason",
    "updatedInput",
    "additionalContext",
    "updatedMCPToolOutput",
    "decision",
];

fn take_unknown(object: &mut Map<String, Value>, known: &[&str]) -> Vec<String> {
    let unknown = object.keys().filter(|name| !known.contains(&name.as_str()));
    let unknown: Vec<String> = unknown.cloned().collect();
    for name in &unknown {
        object.shift_remove(name);
    }
    unknown
}

impl Output {
    /// # Errors
    /// It has members that the event does not: which.
    fn into_answer(self, event: EventName) -> Result<Answer, String> {
        let mut answer = Answer::completed();
        let is_shown = !self.suppress_output.unwrap_or_default();
        if let Some(message) = &self.system_message {
            answer.add(EntryKind::Warning, message.clone());
        }
        if let Some(specific) = self.hook_specific_output {
            specific.apply(event, is_shown, &mut answer)?;
        }
        match self.decision {
            Some(Decision::Block) if !event.can_block() => {
                return Err(format!("hooks of {event} cannot block"));
            }
            Some(Decision::Block) => answer.block(event, self.reason.as_deref()),
            Some(Decision::Approve) if event == EventName::PreToolUse => {
                answer.permission.get_or_insert(Permission::Allow);
            }
            // For other events it says that nothing stands against going on.
            Some(Decision::Approve) | None => {}
        }
        if self.goes_on == Some(false) {
            let reason = self.stop_reason.filter(|reason| !reason.trim().is_empty());
            let reason = reason.unwrap_or_else(|| "a hook ended the turn".to_owned());
            answer.add(EntryKind::Stop, reason.clone());
            answer.status = Status::Stopped;
            answer.stop = Some(shortened(&reason, MAX_ENTRY));
        }
        Ok(answer)
    }
}

impl Specific {
    fn apply(self, event: EventName, is_shown: bool, answer: &mut Answer) -> Result<(), String> {
        if let Some(name) = self.hook_event_name.filter(|name| name != event.as_str()) {
            return Err(format!("`hookEventName` is `{name}`, not `{event}`"));
        }
        let is_call = event == EventName::PreToolUse;
        let unexpected = [
            ("permissionDecision", self.permission_decision.is_some() && !is_call),
            ("permissionDecisionReason", self.permission_decision_reason.is_some() && !is_call),
            ("updatedInput", self.updated_input.is_some() && !is_call),
            (
                "updatedMCPToolOutput",
                self.updated_output.is_some() && event != EventName::PostToolUse,
            ),
            ("decision", self.decision.is_some() && event != EventName::PermissionRequest),
            ("additionalContext", self.additional_context.is_some() && !event.takes_context()),
        ];
        if let Some((name, _)) = unexpected.into_iter().find(|(_, is_there)| *is_there) {
            return Err(format!("hooks of {event} have no `hookSpecificOutput.{name}`"));
        }
        if self.updated_input.as_ref().is_some_and(|input| !input.is_object()) {
            return Err("`updatedInput` must be an object".to_owned());
        }
        if let Some(context) = self.additional_context {
            answer.add_context(&context, is_shown);
        }
        answer.updated_input = self.updated_input;
        answer.updated_output = self.updated_output;
        match self.permission_decision {
            Some(PermissionDecision::Allow) => answer.permission = Some(Permission::Allow),
            Some(PermissionDecision::Ask) => {
                let reason = self.permission_decision_reason.as_deref();
                let reason = reason.filter(|reason| !reason.trim().is_empty());
                let reason = reason.map(|reason| shortened(reason, MAX_ENTRY));
                answer.permission = Some(Permission::Ask(reason));
            }
            Some(PermissionDecision::Deny) => {
                answer.block(event, self.permission_decision_reason.as_deref());
            }
            None => {}
        }
        match self.decision {
            Some(RequestDecision { behavior: Behavior::Allow, .. }) => {
                answer.permission = Some(Permission::Allow);
            }
            Some(RequestDecision { behavior: Behavior::Deny, message }) => {
                answer.block(event, message.as_deref());
            }
            None => {}
        }
        Ok(())
    }
}
