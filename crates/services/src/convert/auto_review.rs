//! Reviews of approvals: between the session and the wire.

use protocol::NetworkApprovalProtocol;
use protocol::guardian as wire;
use session::{
    ApprovalReview, Connector, NetworkProtocol, NetworkTarget, ReviewStatus, ReviewedAction,
    RiskLevel, UserAuthorization,
};

use crate::convert::permissions;
use crate::convert::thread::network_protocol;
use crate::error::Error;

/// Parameters of the notification that a review began.
pub fn started(
    thread_id: String,
    review: &ApprovalReview,
) -> wire::ItemAutoApprovalReviewStartedNotification {
    wire::ItemAutoApprovalReviewStartedNotification {
        thread_id,
        turn_id: review.turn.to_string(),
        review_id: review.id.to_string(),
        target_item_id: Some(review.item.to_string()),
        started_at_ms: review.started_at,
        review: findings(review),
        action: action(&review.action),
    }
}

/// Parameters of the notification that a review ended; `None` while it goes on.
pub fn completed(
    thread_id: String,
    review: &ApprovalReview,
) -> Option<wire::ItemAutoApprovalReviewCompletedNotification> {
    Some(wire::ItemAutoApprovalReviewCompletedNotification {
        thread_id,
        turn_id: review.turn.to_string(),
        review_id: review.id.to_string(),
        target_item_id: Some(review.item.to_string()),
        started_at_ms: review.started_at,
        completed_at_ms: review.completed_at?,
        decision_source: wire::AutoReviewDecisionSource::Agent,
        review: findings(review),
        action: action(&review.action),
    })
}

fn findings(review: &ApprovalReview) -> wire::GuardianApprovalReview {
    wire::GuardianApprovalReview {
        status: match review.status {
            ReviewStatus::InProgress => wire::GuardianApprovalReviewStatus::InProgress,
            ReviewStatus::Approved => wire::GuardianApprovalReviewStatus::Approved,
            ReviewStatus::Denied => wire::GuardianApprovalReviewStatus::Denied,
            ReviewStatus::TimedOut => wire::GuardianApprovalReviewStatus::TimedOut,
            ReviewStatus::Aborted => wire::GuardianApprovalReviewStatus::Aborted,
        },
        risk_level: review.risk.map(|risk| match risk {
            RiskLevel::Low => wire::GuardianRiskLevel::Low,
            RiskLevel::Medium => wire::GuardianRiskLevel::Medium,
            RiskLevel::High => wire::GuardianRiskLevel::High,
            RiskLevel::Critical => wire::GuardianRiskLevel::Critical,
        }),
        user_authorization: review.authorization.map(|authorization| match authorization {
            UserAuthorization::Unknown => wire::GuardianUserAuthorization::Unknown,
            UserAuthorization::Low => wire::GuardianUserAuthorization::Low,
            UserAuthorization::Medium => wire::GuardianUserAuthorization::Medium,
            UserAuthorization::High => wire::GuardianUserAuthorization::High,
        }),
        rationale: review.rationale.clone(),
    }
}

fn action(action: &ReviewedAction) -> wire::GuardianApprovalReviewAction {
    use wire::GuardianApprovalReviewAction as Action;
    match action {
        ReviewedAction::Script { script, cwd } => Action::Command {
            source: wire::GuardianCommandSource::UnifiedExec,
            command: script.clone(),
            cwd: cwd.clone(),
        },
        ReviewedAction::Argv { argv, cwd } => Action::Execve {
            source: wire::GuardianCommandSource::Shell,
            program: argv.first().cloned().unwrap_or_default(),
            argv: argv.clone(),
            cwd: cwd.clone(),
        },
        ReviewedAction::Patch { cwd, files } => {
            Action::ApplyPatch { cwd: cwd.clone(), files: files.clone() }
        }
        ReviewedAction::ServerTool { server, tool, title, connector } => Action::McpToolCall {
            server: server.clone(),
            tool_name: tool.clone(),
            tool_title: title.clone(),
            connector_id: connector.as_ref().map(|connector| connector.id.clone()),
            connector_name: connector.as_ref().and_then(|connector| connector.name.clone()),
        },
        ReviewedAction::Permissions { reason, permissions } => Action::RequestPermissions {
            reason: reason.clone(),
            permissions: permissions::shown_profile(permissions),
        },
        ReviewedAction::Network(NetworkTarget { host, port, protocol }) => Action::NetworkAccess {
            target: format!("{host}:{port}"),
            host: host.clone(),
            protocol: network_protocol(*protocol),
            port: *port,
        },
    }
}

/// The review and the action of a notification that a client sends back.
///
/// # Errors
/// `-32602`: it is not the end of a review that refused.
pub fn refused(thread: &str, event: &serde_json::Value) -> Result<(String, ReviewedAction), Error> {
    use wire::GuardianApprovalReviewStatus as Status;
    let event: wire::ItemAutoApprovalReviewCompletedNotification =
        serde::Deserialize::deserialize(event).map_err(|error| {
            Error::invalid_params(format!(
                "`event` must be the parameters of `item/autoApprovalReview/completed`: {error}"
            ))
        })?;
    if event.thread_id != thread {
        return Err(Error::invalid_params("`event` is about another thread"));
    }
    if !matches!(event.review.status, Status::Denied | Status::TimedOut) {
        return Err(Error::invalid_params("`event`: the review did not refuse the action"));
    }
    Ok((event.review_id, client_action(event.action)?))
}

fn client_action(action: wire::GuardianApprovalReviewAction) -> Result<ReviewedAction, Error> {
    use wire::GuardianApprovalReviewAction as Action;
    Ok(match action {
        Action::Command { command, cwd, .. } => ReviewedAction::Script { script: command, cwd },
        Action::Execve { argv, cwd, .. } => ReviewedAction::Argv { argv, cwd },
        Action::ApplyPatch { cwd, files } => ReviewedAction::Patch { cwd, files },
        Action::NetworkAccess { host, protocol, port, .. } => {
            let protocol = match protocol {
                NetworkApprovalProtocol::Http => NetworkProtocol::Http,
                NetworkApprovalProtocol::Https => NetworkProtocol::Https,
                NetworkApprovalProtocol::Socks5Tcp => NetworkProtocol::Socks5Tcp,
                NetworkApprovalProtocol::Socks5Udp => NetworkProtocol::Socks5Udp,
            };
            ReviewedAction::Network(NetworkTarget { host, port, protocol })
        }
        Action::RequestPermissions { reason, permissions } => {
            ReviewedAction::Permissions { reason, permissions: permissions::listed(permissions) }
        }
        Action::McpToolCall { server, tool_name, connector_id, connector_name, tool_title } => {
            ReviewedAction::ServerTool {
                server,
                tool: tool_name,
                title: tool_title,
                connector: connector_id.map(|id| Connector { id, name: connector_name }),
            }
        }
    })
}
