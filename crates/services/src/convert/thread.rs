//! Thread and turn records: from the store and the session to the wire.

use std::collections::HashMap;

use protocol::elicitation::McpServerElicitationRequestParams;
use protocol::{
    CommandExecutionApprovalDecision as Decision, CommandExecutionRequestApprovalParams,
    FileChangeRequestApprovalParams, NetworkApprovalContext, NetworkApprovalProtocol,
    PermissionsRequestApprovalParams, SessionSource, ThreadItem, Turn, TurnItemsView, TurnStatus,
};
use serde::Serialize;
use session::{Action, Ask, Id, Live, Millis, NetworkProtocol};
use store::{ItemRow, TurnRow};

use crate::convert::item::action;
use crate::convert::permissions::{self, PermissionsAsked};
use crate::convert::{self, event, server_tool};

/// The source as it is stored: JSON of the wire's form.
pub fn source_json(name: &str) -> String {
    let named = serde_json::Value::from(name);
    let known = serde_json::from_value::<SessionSource>(named);
    let source = known.unwrap_or_else(|_| SessionSource::Custom(name.to_owned()));
    serde_json::to_string(&source).expect("a source is strings and numbers")
}

/// The kind of a source, as lists filter by it.
pub fn source_kind(name: &str) -> String {
    let known = ["cli", "editor", "exec", "appServer"];
    if known.contains(&name) { name.to_owned() } else { "unknown".to_owned() }
}

/// Kind and source of a thread that was made for a review.
pub fn review_source() -> (String, String) {
    let source = SessionSource::SubAgent(protocol::thread_record::SubAgentSource::Review);
    ("subAgentReview".to_owned(), serde_json::to_string(&source).expect("plain data"))
}

/// A stored part of the model's history.
pub fn fragments(stored: Vec<store::Fragment>) -> Vec<session::Fragment> {
    stored.into_iter().map(|part| session::Fragment::from_stored(part.text, part.mark)).collect()
}

/// The running turns of a loaded thread, with their stored items and those that are not final.
pub fn running(live: &Live, stored: &HashMap<String, Vec<ItemRow>>) -> Vec<Turn> {
    let turn = |view: &session::TurnView| {
        let mut items: Vec<ThreadItem> = Vec::new();
        let own = |turn: &Id| *turn == view.id;
        let is_live = |id: &str| live.items.iter().any(|(_, item)| **item.id() == *id);
        for row in stored.get(&*view.id).into_iter().flatten().filter(|row| !is_live(&row.id)) {
            items.extend(serde_json::from_str::<ThreadItem>(&row.payload).ok());
        }
        items.extend(
            live.items
                .iter()
                .filter(|(turn, _)| own(turn))
                .map(|(_, item)| convert::item::item(item)),
        );
        Turn { items, items_view: TurnItemsView::Full, ..event::turn(view) }
    };
    live.turns.iter().map(turn).collect()
}

/// A stored turn with the given items of it.
pub fn turn(row: &TurnRow, items: &[ItemRow], view: TurnItemsView) -> Turn {
    Turn {
        id: row.id.clone(),
        status: match row.status {
            store::TurnStatus::InProgress => TurnStatus::InProgress,
            store::TurnStatus::Completed => TurnStatus::Completed,
            store::TurnStatus::Interrupted => TurnStatus::Interrupted,
            store::TurnStatus::Failed => TurnStatus::Failed,
        },
        items: shown(items, view),
        items_view: view,
        error: row.error.as_deref().and_then(|json| serde_json::from_str(json).ok()),
        started_at: Some(row.started_at_ms / 1000),
        completed_at: row.completed_at_ms.map(|at| at / 1000),
        duration_ms: row.duration_ms,
    }
}

/// All items, none, or the messages at both ends: the user's first and the agent's last.
fn shown(items: &[ItemRow], view: TurnItemsView) -> Vec<ThreadItem> {
    let read = |row: &ItemRow| serde_json::from_str(&row.payload).ok();
    match view {
        TurnItemsView::NotLoaded => Vec::new(),
        TurnItemsView::Full => items.iter().filter_map(read).collect(),
        TurnItemsView::Summary => {
            let first = items.iter().find(|row| row.kind == "userMessage");
            let last = items.iter().rev().find(|row| row.kind == "agentMessage");
            first.into_iter().chain(last).filter_map(read).collect()
        }
    }
}

/// Parameters of an approval request.
#[derive(Serialize)]
#[serde(untagged)]
pub enum Approval {
    Command(Box<CommandExecutionRequestApprovalParams>),
    Patch(FileChangeRequestApprovalParams),
    Permissions(PermissionsRequestApprovalParams),
    ServerTool(Box<McpServerElicitationRequestParams>),
}

/// The request for an approval (specification: Server-initiated requests).
pub fn approval(thread: &Id, turn: &Id, item: &Id, ask: Ask, at: Millis) -> Approval {
    let (thread_id, turn_id, item_id) = (thread.to_string(), turn.to_string(), item.to_string());
    match ask {
        Ask::Patch { reason, grant_root } => Approval::Patch(FileChangeRequestApprovalParams {
            thread_id,
            turn_id,
            item_id,
            started_at_ms: at,
            reason: reason.map(|reason| visible::text(&reason).into_owned()),
            grant_root: grant_root.map(|folder| visible::path(&folder)),
        }),
        Ask::ServerTool { reason, target, arguments, can_remember } => {
            let asked = server_tool::Asked {
                reason: reason.as_deref(),
                target: &target,
                arguments: &arguments,
                can_remember,
            };
            Approval::ServerTool(Box::new(server_tool::approval((thread, turn, item), &asked)))
        }
        Ask::Permissions { reason, cwd, permissions } => {
            let asked = PermissionsAsked { reason, cwd, permissions };
            Approval::Permissions(permissions::params((thread, turn, item), &asked, at))
        }
        Ask::Network { reason, host, protocol, command, cwd } => {
            Approval::Command(Box::new(CommandExecutionRequestApprovalParams {
                thread_id,
                turn_id,
                item_id,
                started_at_ms: at,
                approval_id: None,
                reason: Some(visible::text(&reason).into_owned()),
                network_approval_context: Some(NetworkApprovalContext {
                    host: visible::text(&host).into_owned(),
                    protocol: network_protocol(protocol),
                }),
                command: Some(visible::text(&command).into_owned()),
                cwd: Some(visible::path(&cwd)),
                command_actions: None,
                additional_permissions: None,
                available_decisions: Some(decisions(None)),
                proposed_execpolicy_amendment: None,
                proposed_network_policy_amendments: None,
            }))
        }
        Ask::Command { reason, command, cwd, actions, amendment, .. } => {
            Approval::Command(Box::new(CommandExecutionRequestApprovalParams {
                thread_id,
                turn_id,
                item_id,
                started_at_ms: at,
                approval_id: None,
                reason: reason.map(|reason| visible::text(&reason).into_owned()),
                network_approval_context: None,
                command: Some(visible::text(&command).into_owned()),
                cwd: Some(visible::path(&cwd)),
                command_actions: Some(
                    actions.into_iter().map(|shown| action(&readable(shown))).collect(),
                ),
                additional_permissions: None,
                available_decisions: Some(decisions(amendment.as_deref())),
                proposed_execpolicy_amendment: amendment,
                proposed_network_policy_amendments: None,
            }))
        }
    }
}

/// Escapes invisible characters in what a person is asked to approve.
fn readable(shown: Action) -> Action {
    let text = |text: String| visible::text(&text).into_owned();
    let path = |path: Option<String>| path.map(text);
    match shown {
        Action::Read { command, name, path } => {
            Action::Read { command: text(command), name: text(name), path }
        }
        Action::ListFiles { command, path: folder } => {
            Action::ListFiles { command: text(command), path: path(folder) }
        }
        Action::Search { command, query, path: folder } => {
            Action::Search { command: text(command), query: path(query), path: path(folder) }
        }
        Action::Unknown { command } => Action::Unknown { command: text(command) },
    }
}

pub(crate) fn network_protocol(protocol: NetworkProtocol) -> NetworkApprovalProtocol {
    match protocol {
        NetworkProtocol::Http => NetworkApprovalProtocol::Http,
        NetworkProtocol::Https => NetworkApprovalProtocol::Https,
        NetworkProtocol::Socks5Tcp => NetworkApprovalProtocol::Socks5Tcp,
        NetworkProtocol::Socks5Udp => NetworkApprovalProtocol::Socks5Udp,
    }
}

fn decisions(amendment: Option<&[String]>) -> Vec<Decision> {
    let mut decisions = vec![Decision::Accept, Decision::AcceptForSession];
    decisions.extend(amendment.map(|prefix| Decision::AcceptWithExecpolicyAmendment {
        execpolicy_amendment: prefix.to_vec(),
    }));
    decisions.extend([Decision::Decline, Decision::Cancel]);
    decisions
}
