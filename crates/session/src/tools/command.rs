//! The shared parts of the tools that run commands: the command once it is known, its item, and
//! escalation.

use std::path::PathBuf;

use serde_json::Value;

use crate::Id;
use crate::port::item::{CommandItem, CommandSource, Item, ItemStatus};
use crate::port::tool::{Assessment, ToolRequest};
use crate::processes::output;
use crate::tools::rejected::RejectedCall;

/// Bytes shown of a command whose arguments cannot be read.
const MAX_SHOWN: usize = 4_096;

/// A command that the model wants to run, as prepared by the driver.
#[derive(Debug)]
pub(crate) struct CommandCall {
    /// The command rules' assessment of it.
    pub(crate) assessment: Assessment,
    /// The identity of the command, distinct from everything that only looks the same in display
    /// form.
    pub(crate) identity: Vec<String>,
    /// True if it asks to leave the sandbox.
    pub(crate) escalate: bool,
    /// Why, for the user.
    pub(crate) justification: Option<String>,
    /// The command prefix that the model proposes to allow permanently.
    pub(crate) prefix_rule: Option<Vec<String>>,
    /// The tool call to run.
    pub(crate) request: ToolRequest,
    /// True if it gets a terminal.
    pub(crate) tty: bool,
    /// Killed after so many milliseconds.
    pub(crate) timeout_ms: Option<u64>,
    /// The call is answered after so many milliseconds; `None`: when the command ends.
    pub(crate) yield_ms: Option<u64>,
    /// Output of the answer, in tokens; `None`: the default, which is also the most.
    pub(crate) max_output_tokens: Option<u64>,
}

/// The item of a command that has not run.
pub(crate) fn command_item(id: Id, command: String, cwd: PathBuf) -> CommandItem {
    CommandItem {
        id,
        command,
        cwd,
        status: ItemStatus::InProgress,
        awaits_approval: false,
        actions: Vec::new(),
        output: None,
        omitted: 0,
        exit_code: None,
        duration_ms: None,
        process_id: None,
        source: CommandSource::Agent,
    }
}

/// The item of a call that runs a command and cannot be read.
pub(super) fn rejected_item(id: Id, call: &RejectedCall<'_>) -> Item {
    let words = || argv(call.arguments.as_ref()?);
    let command = call.text("cmd").or_else(words).unwrap_or_else(|| call.input.to_owned());
    let cwd = match call.text("workdir") {
        Some(workdir) => call.cwd.join(workdir),
        None => call.cwd.to_owned(),
    };
    Item::Command(command_item(id, output::shorten(&command, MAX_SHOWN), cwd))
}

/// The words of a `shell` call.
fn argv(arguments: &Value) -> Option<String> {
    let words = arguments.get("command")?.as_array()?;
    let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
    (!words.is_empty()).then(|| words.join(" "))
}

/// Returns whether a call asks to leave the sandbox.
pub(super) fn asks_to_escalate(permissions: Option<&str>) -> bool {
    matches!(permissions, Some("require_escalated" | "with_escalated_permissions"))
}

/// Removes the parameters that ask to leave the sandbox: nothing leaves it in plan mode.
pub(super) fn remove_escalation(properties: &mut Value) {
    if let Some(properties) = properties.as_object_mut() {
        for name in ["sandbox_permissions", "justification", "prefix_rule"] {
            properties.shift_remove(name);
        }
    }
}
