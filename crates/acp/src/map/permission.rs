//! Approvals as `session/request_permission`: what would happen, whole, and the decisions as options.
//! Whatever is not an explicit consent declines.

use protocol::approval::{
    CommandExecutionApprovalDecision as Decision, CommandExecutionRequestApprovalParams,
    FileChangeRequestApprovalParams, NetworkPolicyRuleAction, PermissionsRequestApprovalParams,
};
use protocol::{CommandExecutionItem, FileChangeItem};
use serde_json::{Value, json};

use super::diff;
use super::item;
use crate::schema::Version;
use crate::schema::permission::{OptionKind, Outcome, PermissionOption};
use crate::schema::tool_call::{ToolCall, ToolCallContent, ToolCallStatus, ToolKind};

/// A question, and the answers for the server.
#[derive(Debug)]
pub(crate) struct Permission {
    pub(crate) tool_call: ToolCall,
    choices: Vec<(PermissionOption, Value)>,
    /// The answer without a choice.
    declined: Value,
    /// The answer when the client cancels: it ends the turn, where there is such a decision.
    cancelled: Value,
}

impl Permission {
    pub(crate) fn options(&self) -> Vec<PermissionOption> {
        self.choices.iter().map(|(option, _)| option.clone()).collect()
    }

    /// The answer for the server. An option that was not offered declines.
    pub(crate) fn answer(self, outcome: &Outcome) -> Value {
        match outcome {
            Outcome::Cancelled => self.cancelled,
            Outcome::Selected { option_id } => {
                let chosen =
                    self.choices.into_iter().find(|(option, _)| option.option_id == *option_id);
                chosen.map_or(self.declined, |(_, answer)| answer)
            }
        }
    }

    pub(crate) fn decline(self) -> Value {
        self.declined
    }
}

/// The approval of a command. What the request does not say stands in the item.
pub(crate) fn command(
    params: &CommandExecutionRequestApprovalParams,
    item: Option<&CommandExecutionItem>,
) -> Permission {
    let command = params.command.as_ref().or_else(|| item.map(|item| &item.command));
    let cwd = params.cwd.as_ref().or_else(|| item.map(|item| &item.cwd));
    let network = params.network_approval_context.as_ref();
    let title = match (network, command) {
        (Some(network), _) => format!("Connect to {}", visible::exact_line(&network.host)),
        (None, Some(command)) => visible::exact(command),
        (None, None) => "Continue a command".to_owned(),
    };
    let additional = params.additional_permissions.as_ref().map(|it| json!(it).to_string());
    let rows = [
        ("Command", command.map(|text| item::fenced(&visible::exact(text)))),
        ("Host", network.map(|network| visible::exact_line(&network.host))),
        ("Folder", cwd.map(|cwd| visible::exact_line(cwd))),
        ("Additional permissions", additional.map(|text| visible::exact(&text))),
        ("Reason", params.reason.as_deref().map(visible::exact)),
    ];
    let decisions = params.available_decisions.clone().unwrap_or_else(|| {
        vec![Decision::Accept, Decision::AcceptForSession, Decision::Decline, Decision::Cancel]
    });
    let answer = |decision: &Decision| json!({ "decision": decision });
    let is_offered = |decision: &Decision| decisions.contains(decision);
    let cancelled =
        if is_offered(&Decision::Cancel) { Decision::Cancel } else { Decision::Decline };
    Permission {
        tool_call: ToolCall {
            tool_call_id: params.item_id.clone(),
            title: Some(title),
            kind: Some(if network.is_some() { ToolKind::Fetch } else { ToolKind::Execute }),
            status: Some(ToolCallStatus::Pending),
            content: Some(vec![ToolCallContent::text(listed(rows))]),
            locations: None,
            raw_input: Some(json!({ "command": command, "cwd": cwd, "reason": params.reason })),
            raw_output: None,
        },
        choices: decisions.iter().map(|it| (command_option(it), answer(it))).collect(),
        declined: answer(&Decision::Decline),
        cancelled: answer(&cancelled),
    }
}

fn command_option(decision: &Decision) -> PermissionOption {
    use OptionKind::{AllowAlways, AllowOnce, RejectAlways, RejectOnce};
    match decision {
        Decision::Accept => option("accept", "Allow once", AllowOnce),
        Decision::AcceptForSession => {
            option("acceptForSession", "Allow for this session", AllowAlways)
        }
        Decision::AcceptWithExecpolicyAmendment { execpolicy_amendment } => {
            let prefix = visible::command_line(execpolicy_amendment.iter().map(String::as_str));
            let name = format!("Allow, and always commands that start with `{prefix}`");
            option("acceptWithPrefix", name, AllowAlways)
        }
        Decision::ApplyNetworkPolicyAmendment { network_policy_amendment: rule } => {
            let host = visible::exact_line(&rule.host);
            match rule.action {
                NetworkPolicyRuleAction::Allow => {
                    option(format!("allow:{host}"), format!("Always allow {host}"), AllowAlways)
                }
                NetworkPolicyRuleAction::Deny => {
                    option(format!("deny:{host}"), format!("Always refuse {host}"), RejectAlways)
                }
            }
        }
        Decision::Decline => option("decline", "Reject, and go on without it", RejectOnce),
        Decision::Cancel => option("cancel", "Reject, and stop the turn", RejectOnce),
    }
}

/// The approval of changes of files, with their diffs.
pub(crate) fn file_change(
    params: &FileChangeRequestApprovalParams,
    item: Option<&FileChangeItem>,
    cwd: &str,
    version: Version,
) -> Permission {
    let changes = item.map(|item| &item.changes[..]).unwrap_or_default();
    let rows = [
        ("Folder that becomes writable", params.grant_root.as_deref().map(visible::exact_line)),
        ("Reason", params.reason.as_deref().map(visible::exact)),
    ];
    let mut content = Vec::new();
    let facts = listed(rows);
    if !facts.is_empty() {
        content.push(ToolCallContent::text(facts));
    }
    let mut locations = Vec::new();
    for change in changes {
        let (diffs, places) = diff::of_change(change, cwd, version);
        content.extend(diffs);
        locations.extend(places);
    }
    let answer = |decision: &str| json!({ "decision": decision });
    let choice = |id: &str, name: &str, kind| (option(id, name, kind), answer(id));
    Permission {
        tool_call: ToolCall {
            tool_call_id: params.item_id.clone(),
            title: Some(item.map_or_else(
                || "Change files".to_owned(),
                |item| visible::exact_line(&item.title(cwd)),
            )),
            kind: Some(item.map_or(ToolKind::Edit, |item| item.activity().into())),
            status: Some(ToolCallStatus::Pending),
            content: Some(content),
            locations: Some(locations),
            raw_input: Some(json!({ "reason": params.reason, "grantRoot": params.grant_root })),
            raw_output: None,
        },
        choices: vec![
            choice("accept", "Allow once", OptionKind::AllowOnce),
            choice(
                "acceptForSession",
                "Allow, and these files for this session",
                OptionKind::AllowAlways,
            ),
            choice("decline", "Reject, and go on without it", OptionKind::RejectOnce),
            choice("cancel", "Reject, and stop the turn", OptionKind::RejectOnce),
        ],
        declined: answer("decline"),
        cancelled: answer("cancel"),
    }
}

/// A request for permissions.
pub(crate) fn permissions(params: &PermissionsRequestApprovalParams) -> Permission {
    let wanted = json!(params.permissions);
    let rows = [
        ("Permissions", Some(item::fenced(&visible::exact(&wanted.to_string())))),
        ("Folder", Some(visible::exact_line(&params.cwd))),
        ("Reason", params.reason.as_deref().map(visible::exact)),
    ];
    let granted = |scope: &str| json!({ "permissions": wanted, "scope": scope });
    let declined = json!({ "permissions": {} });
    Permission {
        tool_call: ToolCall {
            tool_call_id: params.item_id.clone(),
            title: Some("Give more permissions".to_owned()),
            kind: Some(ToolKind::Other),
            status: Some(ToolCallStatus::Pending),
            content: Some(vec![ToolCallContent::text(listed(rows))]),
            locations: None,
            raw_input: Some(json!({ "permissions": wanted, "reason": params.reason })),
            raw_output: None,
        },
        choices: vec![
            (option("grantForTurn", "Allow for this turn", OptionKind::AllowOnce), granted("turn")),
            (
                option("grantForSession", "Allow for this session", OptionKind::AllowAlways),
                granted("session"),
            ),
            (option("decline", "Reject", OptionKind::RejectOnce), declined.clone()),
        ],
        cancelled: declined.clone(),
        declined,
    }
}

/// A call of an MCP server's tool, which the server asks about as an elicitation. `call` describes it;
/// `for_session`: it can be allowed for the session.
pub(crate) fn tool_call(
    server: &str,
    message: &str,
    call: &Value,
    for_session: bool,
) -> Permission {
    let tool = call["tool"].as_str().unwrap_or_default();
    let accepted = |for_session: bool| {
        let content = if for_session { json!({ "allowForSession": true }) } else { json!({}) };
        json!({ "action": "accept", "content": content })
    };
    let mut choices =
        vec![(option("accept", "Allow once", OptionKind::AllowOnce), accepted(false))];
    if for_session {
        let always = option("acceptForSession", "Allow for this session", OptionKind::AllowAlways);
        choices.push((always, accepted(true)));
    }
    let action = |action: &str| json!({ "action": action });
    choices.push((
        option("decline", "Reject, and go on without it", OptionKind::RejectOnce),
        action("decline"),
    ));
    choices.push((
        option("cancel", "Reject, and stop the turn", OptionKind::RejectOnce),
        action("cancel"),
    ));
    Permission {
        tool_call: ToolCall {
            tool_call_id: call["itemId"].as_str().unwrap_or_default().to_owned(),
            title: Some(format!("{}: {}", visible::exact_line(server), visible::exact_line(tool))),
            kind: Some(ToolKind::Other),
            status: Some(ToolCallStatus::Pending),
            content: Some(vec![ToolCallContent::text(visible::text(message))]),
            locations: None,
            raw_input: Some(call["arguments"].clone()),
            raw_output: None,
        },
        choices,
        declined: action("decline"),
        cancelled: action("cancel"),
    }
}

fn option(id: impl Into<String>, name: impl Into<String>, kind: OptionKind) -> PermissionOption {
    PermissionOption { option_id: id.into(), name: name.into(), kind }
}

/// The rows that have a value, as Markdown.
fn listed<const N: usize>(rows: [(&str, Option<String>); N]) -> String {
    let mut text = String::new();
    for (label, value) in rows {
        let Some(value) = value else { continue };
        if !text.is_empty() {
            text.push_str("\n\n");
        }
        let gap = if value.starts_with('`') { "\n" } else { " " };
        text.push_str(&format!("{label}:{gap}{value}"));
    }
    text
}

#[cfg(test)]
#[path = "permission_tests.rs"]
mod tests;
