//! The agent's progress, in one line for each step.

use protocol::{CommandExecutionStatus, PatchApplyStatus, ThreadItem};

/// Longest text of a progress notification, in characters.
const MAX_CHARS: usize = 2_000;

/// The text of a step that begins; `None` for one that is reported at its end.
pub(crate) fn started(item: &ThreadItem) -> Option<String> {
    Some(match item {
        ThreadItem::CommandExecution(command) => shown("Runs", &command.command),
        ThreadItem::McpToolCall(call) => {
            shown("Calls", &format!("{} of {}", call.tool, call.server))
        }
        ThreadItem::WebSearch(search) if !search.query.is_empty() => {
            shown("Searches the web for", &search.query)
        }
        ThreadItem::ContextCompaction(_) => "Summarizes the conversation so far".to_owned(),
        _ => return None,
    })
}

/// The text of a step that ended.
pub(crate) fn completed(item: &ThreadItem) -> Option<String> {
    Some(match item {
        ThreadItem::AgentMessage(message) if !message.text.is_empty() => cut(&message.text),
        ThreadItem::Reasoning(reasoning) => cut(reasoning.summary.last()?),
        ThreadItem::CommandExecution(command) => match (command.status, command.exit_code) {
            (CommandExecutionStatus::Declined, _) => shown("Declined:", &command.command),
            (_, Some(0)) | (CommandExecutionStatus::InProgress, _) => return None,
            (_, Some(code)) => format!("The command ended with exit code {code}"),
            (_, None) => "The command failed".to_owned(),
        },
        ThreadItem::FileChange(change) => {
            let paths: Vec<&str> =
                change.changes.iter().map(|change| change.path.as_str()).collect();
            let how = match change.status {
                PatchApplyStatus::Completed => "Changed",
                PatchApplyStatus::Declined => "Declined: changes to",
                _ => "Could not change",
            };
            shown(how, &paths.join(", "))
        }
        _ => return None,
    })
}

fn shown(what: &str, text: &str) -> String {
    cut(&format!("{what} {}", visible::text(text)))
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(MAX_CHARS) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text.to_owned(),
    }
}
