//! Finds every command in a script, however nested, for restricting rules; the counterpart of the
//! strict parser. The result is an over-estimate (it includes each command that a wrapper such as
//! `sudo` or `xargs` can start) and never a reason to allow.

use tree_sitter::Node;

use super::heredoc::without_quoted_bodies;
use super::parse::{Command, Joint, syntax_tree};
use super::programs::{SHELLS, base_name};
use super::word::{Word, argument_word};

/// Depth to which scripts inside of scripts are followed.
const MAX_SCRIPTS: usize = 4;
/// Largest number of commands.
const MAX_FOUND: usize = 4096;

/// Words of a wrapper's arguments at which the wrapped command can begin.
const MAX_STARTS: usize = 32;
/// Words of a wrapper's arguments that are considered.
const MAX_WRAPPED: usize = 256;
/// Arguments of a shell that are searched for its script.
const MAX_SCRIPT_ARGUMENTS: usize = 8;

/// Programs that run the command in their arguments.
const WRAPPERS: &[&str] = &[
    "busybox",
    "builtin",
    "chroot",
    "command",
    "doas",
    "env",
    "exec",
    "find",
    "fd",
    "ionice",
    "nice",
    "nohup",
    "nsenter",
    "parallel",
    "pkexec",
    "script",
    "setsid",
    "stdbuf",
    "strace",
    "sudo",
    "time",
    "timeout",
    "toybox",
    "unshare",
    "watch",
    "xargs",
    "eatmydata",
    "flock",
];

/// Every command of `script`; `None` if the script exceeds a bound.
pub(super) fn scan(script: &str) -> Option<Vec<Command>> {
    let mut found = Vec::new();
    scan_script(script, 0, &mut found)?;
    Some(found)
}

/// The command in `argv`, and those inside of it.
pub(super) fn scan_argv(argv: &[String]) -> Option<Vec<Command>> {
    let mut found = Vec::new();
    add(Command::exec(argv)?, 0, &mut found)?;
    Some(found)
}

fn scan_script(script: &str, depth: usize, found: &mut Vec<Command>) -> Option<()> {
    if depth > MAX_SCRIPTS {
        return None;
    }
    let script = &*without_quoted_bodies(script);
    let tree = syntax_tree(script)?;
    let mut cursor = tree.walk();
    loop {
        let node = cursor.node();
        if matches!(node.kind(), "command" | "declaration_command") {
            add(loose_command(node, script), depth, found)?;
        }
        if cursor.goto_first_child() {
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return Some(());
            }
        }
    }
}

/// The words of a command. A word that is not plain keeps its source, marked as expanding.
fn loose_command(node: Node<'_>, script: &str) -> Command {
    let mut words = Vec::new();
    let mut cursor = node.walk();
    for child in node.children(&mut cursor) {
        let value = match child.kind() {
            "command_name" => child.child(0).unwrap_or(child),
            "variable_assignment" | "file_redirect" | "herestring_redirect" => continue,
            _ => child,
        };
        let source = script.get(value.byte_range()).unwrap_or_default();
        words.push(
            argument_word(value, script)
                .unwrap_or_else(|| Word { text: source.to_owned(), expands: true }),
        );
    }
    // A node finds its sibling by walking all siblings from the first one.
    let before = script.get(..node.start_byte()).unwrap_or_default().trim_end();
    let piped = before.ends_with("|&") || (before.ends_with('|') && !before.ends_with("||"));
    Command { words, joint: if piped { Joint::Pipe } else { Joint::Start }, shell: true }
}

fn add(command: Command, depth: usize, found: &mut Vec<Command>) -> Option<()> {
    if found.len() >= MAX_FOUND {
        return None;
    }
    let Some((program, args)) = command.words.split_first() else {
        return Some(());
    };
    scan_scripts(&program.text, args, depth, found)?;
    if WRAPPERS.contains(&base_name(&program.text)) {
        let words = &command.words[..command.words.len().min(MAX_WRAPPED)];
        for start in 1..words.len().min(MAX_STARTS) {
            scan_scripts(&words[start].text, &words[start + 1..], depth, found)?;
            found.push(Command { words: words[start..].to_vec(), ..command });
        }
    }
    found.push(command);
    (found.len() <= MAX_FOUND).then_some(())
}

/// The scripts in the arguments of a shell or `eval`.
fn scan_scripts(
    program: &str,
    args: &[Word],
    depth: usize,
    found: &mut Vec<Command>,
) -> Option<()> {
    let name = base_name(program);
    if name == "eval" {
        let joined: Vec<&str> = args.iter().map(|word| word.text.as_str()).collect();
        return scan_script(&joined.join(" "), depth + 1, found);
    }
    if !SHELLS.contains(&name) {
        return Some(());
    }
    let scripts = args.iter().filter(|word| !word.text.starts_with(['-', '+']));
    for script in scripts.take(MAX_SCRIPT_ARGUMENTS) {
        scan_script(&script.text, depth + 1, found)?;
    }
    Some(())
}
