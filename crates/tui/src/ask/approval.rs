//! Approvals of commands and of file changes.

use protocol::approval::{
    CommandExecutionApprovalDecision as Decision, CommandExecutionRequestApprovalParams,
    CommandExecutionRequestApprovalResponse, FileChangeApprovalDecision,
    FileChangeRequestApprovalParams, FileChangeRequestApprovalResponse, NetworkApprovalContext,
    NetworkApprovalProtocol, NetworkPolicyAmendment, NetworkPolicyRuleAction,
};
use protocol::item::{FileUpdateChange, PatchChangeKind, ThreadItem};

use crate::palette::Palette;
use crate::text::{Line, Style};

use super::choices::{Choice, Choices};
use super::facts::{fact, short, text_lines};
use super::permissions;
use super::step::{Answer, encoded};

/// See [`super::Ask::new`].
pub(super) fn command(
    mut params: CommandExecutionRequestApprovalParams,
    item: Option<&ThreadItem>,
) -> (String, Vec<Line>, Choices) {
    if let Some(ThreadItem::CommandExecution(item)) = item {
        params.command.get_or_insert_with(|| item.command.clone());
        params.cwd.get_or_insert_with(|| item.cwd.clone());
    }
    let network = params.network_approval_context.as_ref();
    let title = match network {
        Some(network) => format!("Allow a connection to {}?", network.host),
        None => "Run this command?".to_owned(),
    };
    let mut facts = Vec::new();
    match &params.command {
        Some(command) => facts.extend(text_lines("$ ", command, Style::BOLD)),
        None if network.is_none() => {
            facts.push(Line::new("The server does not say which command.", Palette::WARNING));
        }
        None => {}
    }
    if let Some(network) = network {
        facts.push(fact("Network", &connection(network)));
    }
    if let Some(cwd) = &params.cwd {
        facts.push(fact("In", cwd));
    }
    if let Some(additional) = &params.additional_permissions {
        facts.push(Line::new("With more rights than the sandbox gives:", Palette::WARNING));
        facts.extend(permissions::lines(additional));
    }
    if let Some(reason) = &params.reason {
        facts.extend(text_lines("Why: ", reason, Style::PLAIN));
    }
    let decisions = match &params.available_decisions {
        Some(decisions) => decisions.clone(),
        None => default_decisions(&params),
    };
    let subject = match (&params.command, network) {
        (_, Some(network)) => format!("the connection to {}", network.host),
        (Some(command), None) => format!("`{}`", short(command)),
        (None, None) => "the command".to_owned(),
    };
    let answer = |decision: &Decision| command_answer(decision, &subject);
    let refusal = |first: Decision, second: Decision| {
        let offered = [&first, &second].into_iter().find(|it| decisions.contains(it));
        answer(offered.unwrap_or(&first))
    };
    let escape = refusal(Decision::Decline, Decision::Cancel);
    let interrupt = refusal(Decision::Cancel, Decision::Decline);
    let choices = decisions.iter().map(|decision| {
        let (letter, label, effect) = describe(decision, network);
        Choice { letter, label, effect, accepts: allows(decision), answer: answer(decision) }
    });
    (title, facts, Choices::new(choices.collect(), escape, interrupt))
}

fn default_decisions(params: &CommandExecutionRequestApprovalParams) -> Vec<Decision> {
    let mut decisions = vec![Decision::Accept, Decision::AcceptForSession];
    if let Some(prefix) = &params.proposed_execpolicy_amendment {
        let execpolicy_amendment = prefix.clone();
        decisions.push(Decision::AcceptWithExecpolicyAmendment { execpolicy_amendment });
    }
    for amendment in params.proposed_network_policy_amendments.iter().flatten() {
        let network_policy_amendment = amendment.clone();
        decisions.push(Decision::ApplyNetworkPolicyAmendment { network_policy_amendment });
    }
    decisions.extend([Decision::Decline, Decision::Cancel]);
    decisions
}

fn allows(decision: &Decision) -> bool {
    match decision {
        Decision::Accept
        | Decision::AcceptForSession
        | Decision::AcceptWithExecpolicyAmendment { .. } => true,
        Decision::ApplyNetworkPolicyAmendment { network_policy_amendment } => {
            network_policy_amendment.action == NetworkPolicyRuleAction::Allow
        }
        Decision::Decline | Decision::Cancel => false,
    }
}

/// The letter, the label and the lasting effect of a decision.
fn describe(
    decision: &Decision,
    network: Option<&NetworkApprovalContext>,
) -> (char, String, Option<String>) {
    match decision {
        Decision::Accept => ('y', "Yes, this once".to_owned(), None),
        Decision::AcceptForSession => {
            let same = match network {
                Some(network) => format!("connections to {}", network.host),
                None => "the very same command".to_owned(),
            };
            let effect = format!("Until the session ends, {same} will not be asked about.");
            ('a', "Yes, and for this session".to_owned(), Some(effect))
        }
        Decision::AcceptWithExecpolicyAmendment { execpolicy_amendment } => {
            let prefix = visible::command_line(execpolicy_amendment.iter().map(String::as_str));
            let label = format!("Yes, and always allow commands that start with `{prefix}`");
            let effect = format!(
                "Adds a rule, in all later sessions too: `{prefix}` with any further arguments runs unasked."
            );
            ('p', label, Some(effect))
        }
        Decision::ApplyNetworkPolicyAmendment { network_policy_amendment } => {
            let NetworkPolicyAmendment { host, action } = network_policy_amendment;
            match action {
                NetworkPolicyRuleAction::Allow => {
                    let effect = format!(
                        "Adds a rule, in all later sessions too: every command may connect to {host} unasked."
                    );
                    ('h', format!("Yes, and always allow {host}"), Some(effect))
                }
                NetworkPolicyRuleAction::Deny => {
                    let effect = format!(
                        "Adds a rule, in all later sessions too: connections to {host} are refused unasked."
                    );
                    ('b', format!("No, and always refuse {host}"), Some(effect))
                }
            }
        }
        Decision::Decline => ('n', "No, go on without it".to_owned(), None),
        Decision::Cancel => ('c', "No, and stop the turn".to_owned(), None),
    }
}

fn command_answer(decision: &Decision, subject: &str) -> Answer {
    let (text, style) = match decision {
        Decision::Accept => (format!("Allowed {subject} once"), Palette::GOOD),
        Decision::AcceptForSession => (format!("Allowed {subject} for the session"), Palette::GOOD),
        Decision::AcceptWithExecpolicyAmendment { execpolicy_amendment } => {
            let prefix = visible::command_line(execpolicy_amendment.iter().map(String::as_str));
            (
                format!("Allowed {subject}, and always commands that start with `{prefix}`"),
                Palette::GOOD,
            )
        }
        Decision::ApplyNetworkPolicyAmendment { network_policy_amendment } => {
            let host = &network_policy_amendment.host;
            match network_policy_amendment.action {
                NetworkPolicyRuleAction::Allow => (format!("Always allowed {host}"), Palette::GOOD),
                NetworkPolicyRuleAction::Deny => {
                    (format!("Always refused {host}"), Palette::WARNING)
                }
            }
        }
        Decision::Decline => (format!("Declined {subject}"), Palette::WARNING),
        Decision::Cancel => (format!("Declined {subject} and stopped the turn"), Palette::WARNING),
    };
    let response = CommandExecutionRequestApprovalResponse { decision: decision.clone() };
    Answer { reply: encoded(&response), summary: Line::new(text, style), open: None }
}

fn connection(network: &NetworkApprovalContext) -> String {
    let protocol = match network.protocol {
        NetworkApprovalProtocol::Http => "HTTP",
        NetworkApprovalProtocol::Https => "HTTPS",
        NetworkApprovalProtocol::Socks5Tcp => "TCP (SOCKS5)",
        NetworkApprovalProtocol::Socks5Udp => "UDP (SOCKS5)",
    };
    format!("{} over {protocol}", network.host)
}

/// See [`super::Ask::new`].
pub(super) fn file_change(
    params: &FileChangeRequestApprovalParams,
    item: Option<&ThreadItem>,
) -> (String, Vec<Line>, Choices) {
    let mut facts = Vec::new();
    let mut count = None;
    match item {
        Some(ThreadItem::FileChange(item)) => {
            count = Some(item.changes.len());
            facts.extend(item.changes.iter().flat_map(change_lines));
        }
        _ => {
            let text = "The changes are not known here: look at the files in another client.";
            facts.push(Line::new(text, Palette::WARNING));
        }
    }
    if let Some(root) = &params.grant_root {
        let line = Line::new("Makes writable for the session: ", Palette::WARNING);
        facts.push(line.with(visible::text(root).into_owned(), Style::BOLD));
    }
    if let Some(reason) = &params.reason {
        facts.extend(text_lines("Why: ", reason, Style::PLAIN));
    }
    let (title, subject) = match count {
        Some(1) => ("Change this file?".to_owned(), "the change".to_owned()),
        Some(count) => {
            (format!("Change these {count} files?"), format!("changes of {count} files"))
        }
        None => ("Change files?".to_owned(), "the change".to_owned()),
    };
    let answer = |decision: FileChangeApprovalDecision| {
        let (text, style) = match decision {
            FileChangeApprovalDecision::Accept => (format!("Allowed {subject}"), Palette::GOOD),
            FileChangeApprovalDecision::AcceptForSession => {
                (format!("Allowed {subject}, and these files for the session"), Palette::GOOD)
            }
            FileChangeApprovalDecision::Decline => {
                (format!("Declined {subject}"), Palette::WARNING)
            }
            FileChangeApprovalDecision::Cancel => {
                (format!("Declined {subject} and stopped the turn"), Palette::WARNING)
            }
        };
        let response = FileChangeRequestApprovalResponse { decision };
        Answer { reply: encoded(&response), summary: Line::new(text, style), open: None }
    };
    let choice = |letter, label: &str, effect: Option<&str>, decision| Choice {
        letter,
        label: label.to_owned(),
        effect: effect.map(str::to_owned),
        accepts: matches!(letter, 'y' | 'a'),
        answer: answer(decision),
    };
    let effect = "Until the session ends, changes of these files will not be asked about.";
    let choices = vec![
        choice('y', "Yes, this once", None, FileChangeApprovalDecision::Accept),
        choice(
            'a',
            "Yes, and for this session",
            Some(effect),
            FileChangeApprovalDecision::AcceptForSession,
        ),
        choice('n', "No, go on without it", None, FileChangeApprovalDecision::Decline),
        choice('c', "No, and stop the turn", None, FileChangeApprovalDecision::Cancel),
    ];
    let escape = answer(FileChangeApprovalDecision::Decline);
    let interrupt = answer(FileChangeApprovalDecision::Cancel);
    (title, facts, Choices::new(choices, escape, interrupt))
}

fn change_lines(change: &FileUpdateChange) -> Vec<Line> {
    let path = visible::text(&change.path);
    let (head, added) = match &change.kind {
        PatchChangeKind::Add => (format!("New file {path}"), Some(("+", Palette::ADDED))),
        PatchChangeKind::Delete => (format!("Deleted file {path}"), Some(("-", Palette::REMOVED))),
        PatchChangeKind::Update { move_path: None } => (format!("Changed {path}"), None),
        PatchChangeKind::Update { move_path: Some(to) } => {
            (format!("Changed {path} and moved it to {}", visible::text(to)), None)
        }
    };
    let mut lines = vec![Line::new(head, Style::BOLD)];
    for text in change.diff.lines() {
        let style = match (text.as_bytes().first(), added) {
            // The diff of an added or deleted file may be its contents alone.
            (_, Some((_, style))) => style,
            (Some(b'+'), None) => Palette::ADDED,
            (Some(b'-'), None) => Palette::REMOVED,
            _ => Style::PLAIN,
        };
        let sign = match added {
            Some((sign, _)) if !change.diff.starts_with("@@") => sign,
            _ => "",
        };
        lines.push(Line::new(format!("  {sign}{text}"), style));
    }
    lines
}
