//! Approvals of commands and of file changes.

use std::path::Path;

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
use super::step::{Answer, FollowUp, encoded};

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
            facts.push(Line::new("The server did not name the command.", Palette::WARNING));
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
        facts.push(Line::new("With more access than the sandbox gives:", Palette::WARNING));
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
    let mut choices = Vec::new();
    for decision in &decisions {
        let (letter, label, effect) = describe(decision, network);
        let choice = match allows(decision) {
            true => Choice::yes(letter, label, answer(decision)),
            false => Choice::no(letter, label, answer(decision)),
        };
        choices.push(Choice { effect, ..choice });
        if *decision == Decision::Decline {
            choices.push(instead(answer(decision)));
        }
    }
    (title, facts, Choices::new(choices, escape, interrupt))
}

/// Refuses, and says what to do instead.
fn instead(decline: Answer) -> Choice {
    let choice = Choice::no('s', "No, and say what to do instead", decline);
    Choice { has_field: true, ..choice }
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
        Decision::Accept => ('y', "Yes, once".to_owned(), None),
        Decision::AcceptForSession => {
            let same = match network {
                Some(network) => format!("connections to {}", network.host),
                None => "exactly this command".to_owned(),
            };
            let effect = format!("You will not be asked again about {same} in this session.");
            ('a', "Yes, for this session".to_owned(), Some(effect))
        }
        Decision::AcceptWithExecpolicyAmendment { execpolicy_amendment } => {
            let prefix = visible::command_line(execpolicy_amendment.iter().map(String::as_str));
            let label = format!("Yes, and always allow commands that start with `{prefix}`");
            let effect = format!(
                "Adds a rule for all later sessions, too: `{prefix}` with any further arguments \
                 runs without asking."
            );
            ('p', label, Some(effect))
        }
        Decision::ApplyNetworkPolicyAmendment { network_policy_amendment } => {
            let NetworkPolicyAmendment { host, action } = network_policy_amendment;
            match action {
                NetworkPolicyRuleAction::Allow => {
                    let effect = format!(
                        "Adds a rule for all later sessions, too: every command may connect to \
                         {host} without asking."
                    );
                    ('h', format!("Yes, and always allow {host}"), Some(effect))
                }
                NetworkPolicyRuleAction::Deny => {
                    let effect = format!(
                        "Adds a rule for all later sessions, too: connections to {host} are \
                         refused without asking."
                    );
                    ('b', format!("No, and always refuse {host}"), Some(effect))
                }
            }
        }
        Decision::Decline => ('n', "No, continue without it".to_owned(), None),
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
    Answer::new(encoded(&response), Line::new(text, style))
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

/// See [`super::Ask::new`]. `cwd` is the folder of the thread.
pub(super) fn file_change(
    params: &FileChangeRequestApprovalParams,
    item: Option<&ThreadItem>,
    cwd: &Path,
) -> (String, Vec<Line>, Choices) {
    let mut facts = Vec::new();
    let changes = match item {
        Some(ThreadItem::FileChange(item)) => item.changes.as_slice(),
        _ => {
            let text = "This client does not have the changes: look at them in another client.";
            facts.push(Line::new(text, Palette::WARNING));
            &[]
        }
    };
    for change in changes {
        if changes.len() > 1 {
            facts.push(Line::new(heading(change, cwd), Style::BOLD));
        }
        facts.extend(diff_lines(change));
    }
    if let Some(reason) = &params.reason {
        facts.extend(text_lines("Why: ", reason, Style::PLAIN));
    }
    let (title, subject) = match changes {
        [] => ("Change files?".to_owned(), "the change".to_owned()),
        [change] => (
            format!("{}?", heading(change, cwd)),
            format!("the change of {}", path_in(&change.path, cwd)),
        ),
        many => {
            let count = many.len();
            (format!("Change {count} files?"), format!("changes of {count} files"))
        }
    };
    let choices = file_change_choices(params.grant_root.as_deref(), &subject, cwd);
    let escape = change_answer(FileChangeApprovalDecision::Decline, &subject);
    let interrupt = change_answer(FileChangeApprovalDecision::Cancel, &subject);
    (title, facts, Choices::new(choices, escape, interrupt))
}

fn file_change_choices(grant_root: Option<&str>, subject: &str, cwd: &Path) -> Vec<Choice> {
    let answer = |decision| change_answer(decision, subject);
    let for_session = answer(FileChangeApprovalDecision::AcceptForSession);
    let session = match grant_root {
        None => Choice::yes('a', "Yes, for this session", for_session).with_effect(
            "You will not be asked again about changes to these files in this \
                session.",
        ),
        // The folder of the thread: the thread keeps it.
        Some(root) if Path::new(root) == cwd => {
            let summary = format!("Allowed {subject}, and edits in this folder");
            let answer = Answer { summary: Line::new(summary, Palette::GOOD), ..for_session };
            let effect = "This thread may change files in this folder, even with commands, without \
                asking. /approvals sets this for later threads.";
            Choice::yes(
                'e',
                "Yes, and allow edits in this folder",
                answer.and(FollowUp::AllowEdits),
            )
            .with_effect(effect)
        }
        Some(root) => {
            let root = visible::text(root);
            let summary = format!("Allowed {subject}, and edits in {root} for the session");
            let answer = Answer { summary: Line::new(summary, Palette::GOOD), ..for_session };
            let effect = "In this session, the agent may change files there, even with commands, \
                without asking.";
            Choice::yes('e', format!("Yes, and allow edits in {root}"), answer).with_effect(effect)
        }
    };
    let decline = answer(FileChangeApprovalDecision::Decline);
    vec![
        Choice::yes('y', "Yes, once", answer(FileChangeApprovalDecision::Accept)),
        session,
        Choice::no('n', "No, continue without it", decline.clone()),
        instead(decline),
        Choice::no('c', "No, and stop the turn", answer(FileChangeApprovalDecision::Cancel)),
    ]
}

fn change_answer(decision: FileChangeApprovalDecision, subject: &str) -> Answer {
    let (text, style) = match decision {
        FileChangeApprovalDecision::Accept => (format!("Allowed {subject}"), Palette::GOOD),
        FileChangeApprovalDecision::AcceptForSession => {
            (format!("Allowed {subject}, and these files for the session"), Palette::GOOD)
        }
        FileChangeApprovalDecision::Decline => (format!("Declined {subject}"), Palette::WARNING),
        FileChangeApprovalDecision::Cancel => {
            (format!("Declined {subject} and stopped the turn"), Palette::WARNING)
        }
    };
    let response = FileChangeRequestApprovalResponse { decision };
    Answer::new(encoded(&response), Line::new(text, style))
}

/// The pending change of a file, in words.
fn heading(change: &FileUpdateChange, cwd: &Path) -> String {
    let path = path_in(&change.path, cwd);
    match &change.kind {
        PatchChangeKind::Add => format!("Create {path}"),
        PatchChangeKind::Delete => format!("Delete {path}"),
        PatchChangeKind::Update { move_path: None } => format!("Change {path}"),
        PatchChangeKind::Update { move_path: Some(to) } => {
            format!("Change {path} and move it to {}", path_in(to, cwd))
        }
    }
}

/// A path as people read it in a thread of this folder.
fn path_in(path: &str, cwd: &Path) -> String {
    let inside = Path::new(path).strip_prefix(cwd).ok().and_then(Path::to_str);
    visible::text(inside.filter(|inside| !inside.is_empty()).unwrap_or(path)).into_owned()
}

fn diff_lines(change: &FileUpdateChange) -> Vec<Line> {
    let added = match &change.kind {
        PatchChangeKind::Add => Some(("+", Palette::ADDED)),
        PatchChangeKind::Delete => Some(("-", Palette::REMOVED)),
        PatchChangeKind::Update { .. } => None,
    };
    let line = |text: &str| {
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
        Line::new(format!("  {sign}{text}"), style)
    };
    change.diff.lines().map(line).collect()
}
