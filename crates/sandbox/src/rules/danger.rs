//! Recognises commands that destroy data irrecoverably, anywhere in a script. A warning for the
//! user who is asked, not a security boundary: it does not see through variables and programs.

use super::parse::{Command, Joint};
use super::programs::{SHELLS, base_name, starts_others};
use super::word::Word;

/// Returns whether any of `commands`, found anywhere in a script, is dangerous.
pub(super) fn any_dangerous(commands: &[Command]) -> bool {
    commands.iter().any(|command| is_dangerous(&command.words) || feeds_shell(command))
}

/// `curl … | sh`.
fn feeds_shell(command: &Command) -> bool {
    command.joint == Joint::Pipe
        && matches!(command.words.as_slice(), [only] if SHELLS.contains(&base_name(&only.text)))
}

fn is_dangerous(words: &[Word]) -> bool {
    let starts = words.first().is_some_and(|program| starts_others(base_name(&program.text)));
    // The command that it starts can begin at any of its words.
    let last = if starts { words.len() } else { 1 };
    (0..last).any(|at| words.get(at..).is_some_and(is_dangerous_itself))
}

fn is_dangerous_itself(words: &[Word]) -> bool {
    let Some((program, args)) = words.split_first() else {
        return false;
    };
    match base_name(&program.text) {
        "rm" => has(args, "rRf", &["--recursive", "--force"]),
        "chmod" | "chown" | "chgrp" => has(args, "R", &["--recursive"]),
        "find" => args.iter().any(|word| word.text == "-delete"),
        "dd" => args.iter().any(|word| word.text.starts_with("of=")),
        "git" => git_is_dangerous(args),
        name => is_destroyer(name),
    }
}

/// Programs that are dangerous with any arguments.
fn is_destroyer(name: &str) -> bool {
    const NAMES: &[&str] = &[
        "doas", "fdisk", "halt", "mkfs", "mkswap", "parted", "pkexec", "poweroff", "reboot",
        "sfdisk", "shred", "shutdown", "su", "sudo", "wipefs",
    ];
    NAMES.contains(&name) || name.starts_with("mkfs.")
}

/// Returns whether a text that is too large to be searched as a script names a dangerous program.
pub(super) fn names_danger(text: &str) -> bool {
    names_in(text).any(|name| is_destroyer(name) || matches!(name, "rm" | "dd"))
}

/// The words of a text that can be names of programs.
pub(super) fn names_in(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_alphanumeric() || "-_.+".contains(c)))
}

fn git_is_dangerous(args: &[Word]) -> bool {
    let verb = args.iter().position(|word| !word.text.starts_with('-'));
    // `-C x` and `-c x` put a word before the verb, so any word can be the verb.
    let from = verb.unwrap_or(args.len());
    args.iter().enumerate().skip(from).any(|(at, verb)| {
        let rest = &args[at + 1..];
        match verb.text.as_str() {
            "reset" => rest.iter().any(|word| word.text == "--hard"),
            "clean" => has(rest, "fdx", &["--force"]),
            "push" => {
                has(rest, "fd", &["--force", "--delete", "--mirror"])
                    || rest.iter().any(|word| word.text.starts_with('+'))
            }
            "branch" => has(rest, "D", &[]),
            _ => false,
        }
    })
}

/// Returns whether an option is present: one of the short `letters`, alone or in a cluster, or a
/// long name, possibly abbreviated or with a value.
fn has(args: &[Word], letters: &str, long: &[&str]) -> bool {
    args.iter().take_while(|word| word.text != "--").any(|word| {
        if word.text.starts_with("--") {
            let name = word.text.split('=').next().unwrap_or_default();
            return name.len() > 3 && long.iter().any(|option| option.starts_with(name));
        }
        word.text.starts_with('-') && word.text.chars().any(|c| letters.contains(c))
    })
}
