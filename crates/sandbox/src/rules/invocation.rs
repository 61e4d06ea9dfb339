//! The commands that an invocation consists of.

use super::context::{Context, Invocation};
use super::known::{is_system_program, shell_script};
use super::parse::{Command, parse};
use super::programs::{SHELLS, base_name};
use super::scan;
use super::word::quote;

/// The commands of an invocation: its plain commands, if it consists only of these; all commands in
/// it, unless it is too large; and its text.
pub(super) fn commands(
    invocation: Invocation<'_>,
    context: &Context<'_>,
) -> (Option<Vec<Command>>, Option<Vec<Command>>, String) {
    let (plain, found, source) = match invocation {
        Invocation::Script(script) => (parse(script), scan::scan(script), script.to_owned()),
        Invocation::Argv(argv) => {
            (commands_of_exec(argv, context), scan::scan_argv(argv), quote(argv))
        }
    };
    (plain.filter(|commands| !commands.is_empty()), found, source)
}

/// The plain commands of a direct `exec`: those of the script if `argv` is `bash -lc SCRIPT` or
/// similar with a shell of the system, else `argv` itself.
pub fn commands_of_exec(argv: &[String], context: &Context<'_>) -> Option<Vec<Command>> {
    let command = Command::exec(argv)?;
    let (program, args) = command.words.split_first()?;
    if !SHELLS.contains(&base_name(&program.text)) {
        return Some(vec![command]);
    }
    let place = Some(vec![context.cwd.to_owned()]);
    if !is_system_program(&program.text, &place, context) {
        return None;
    }
    parse(shell_script(args)?)
}
