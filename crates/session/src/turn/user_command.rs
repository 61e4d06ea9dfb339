//! The message to the model about commands that the user runs in a thread.

use crate::history;
use crate::port::fragment::Fragment;
use crate::port::item::CommandItem;
use crate::port::thread::Limits;
use crate::processes::{bytes, output};

/// The message about a command that ended.
pub(super) fn message(command: &CommandItem, limits: &Limits) -> Fragment {
    let cap = bytes(limits.tool_output_tokens);
    let ended = match command.exit_code {
        Some(code) => format!("exit code {code}"),
        None => "no exit code: it was stopped, or could not be started".to_owned(),
    };
    let text = format!(
        "<user_shell_command>\n<command>\n{}\n</command>\n<result>\n{ended}\n{}\n</result>\n\
         </user_shell_command>",
        command.command,
        output::shorten(command.output.as_deref().unwrap_or_default(), cap)
    );
    Fragment::summarized(history::message("user", &text))
}
