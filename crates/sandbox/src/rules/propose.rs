//! Which prefix to offer for "do not ask again". Offers nothing for programs that run
//! whatever they are given, and nothing for what destroys.

use super::context::Context;
use super::danger;
use super::parse::Command;
use super::places::places;
use super::prefix::{ACCEPT_ONCE, empty_amendment, program_file};
use super::programs::{NEED_A_VERB, base_name, runs_anything};
use super::word::quote;
use crate::error::{Error, ErrorKind};

/// Subcommands that say enough about what a program will do. Of git those that take no
/// option which names a program.
const SUBCOMMANDS: &[(&str, &[&str])] = &[
    ("cargo", &["bench", "build", "check", "clippy", "doc", "fmt", "metadata", "test", "tree"]),
    (
        "git",
        &[
            "add",
            "branch",
            "checkout",
            "cherry-pick",
            "commit",
            "init",
            "merge",
            "mv",
            "restore",
            "stash",
            "switch",
            "tag",
        ],
    ),
    ("go", &["build", "fmt", "list", "mod", "test", "vet"]),
    ("npm", &["ci", "install", "test"]),
    ("pnpm", &["install", "test"]),
    ("yarn", &["install", "test"]),
];

/// Verbs with which a program runs whatever the words after it name.
const STARTING_VERBS: &[(&str, &[&str])] = &[
    ("bundle", &["exec"]),
    ("go", &["run"]),
    ("npm", &["exec", "explore", "x"]),
    ("pipenv", &["run"]),
    ("pnpm", &["dlx", "exec"]),
    ("poetry", &["run"]),
    ("rustup", &["run"]),
    ("uv", &["run", "tool"]),
    ("yarn", &["dlx", "exec", "node"]),
];

/// Checks that a user who is asked about `commands` may allow `prefix` permanently: it is the
/// `proposed` one, or the beginning of one of the commands, and does not allow everything.
///
/// # Errors
/// Why `prefix` is refused.
pub fn check_amendment(
    prefix: &[String],
    proposed: Option<&[String]>,
    commands: &[Vec<String>],
) -> Result<(), Error> {
    if prefix.is_empty() {
        return Err(empty_amendment());
    }
    if proposed == Some(prefix) {
        return Ok(());
    }
    if says_too_little(prefix) {
        let prefix = quote(prefix);
        let message = format!(
            "`{prefix}` must not be allowed permanently: commands that begin so can do anything"
        );
        return Err(Error::new(ErrorKind::TooBroad, message).next_step(ACCEPT_ONCE));
    }
    if commands.is_empty() {
        let message = "no rule can allow this script: it is more than plain commands";
        return Err(
            Error::new(ErrorKind::NotAmendable, message).next_step("accept it once instead")
        );
    }
    match commands.iter().any(|command| command.starts_with(prefix)) {
        true => Ok(()),
        false => {
            let prefix = quote(prefix);
            let message = format!(
                "the amendment `{prefix}` is neither the proposed one nor the beginning of a \
                 command in question"
            );
            Err(Error::new(ErrorKind::NotAsked, message)
                .next_step("use `proposedExecpolicyAmendment`, or accept the single command"))
        }
    }
}

/// The words of each command, up to the first that is not known before it runs.
pub(super) fn amendable(commands: &[Command]) -> Vec<Vec<String>> {
    let known = |command: &Command| -> Vec<String> {
        let known = command.words.iter().take_while(|word| !word.expands);
        known.map(|word| word.text.clone()).collect()
    };
    commands.iter().map(known).filter(|words| !words.is_empty()).collect()
}

/// Returns whether commands with this prefix can do anything.
fn says_too_little(prefix: &[String]) -> bool {
    let Some((program, rest)) = prefix.split_first() else { return true };
    let name = base_name(program);
    if runs_anything(name) {
        return true;
    }
    let starts = STARTING_VERBS.iter().find(|(program, _)| *program == name);
    let has_verbs = starts.is_some()
        || NEED_A_VERB.contains(&name)
        || SUBCOMMANDS.iter().any(|(program, _)| *program == name);
    match rest.split_first() {
        None => has_verbs,
        // What comes before the verb may rewrite what the verb does.
        Some((verb, _)) if verb.starts_with('-') => has_verbs,
        Some((verb, more)) => {
            more.is_empty() && starts.is_some_and(|(_, verbs)| verbs.contains(&verb.as_str()))
        }
    }
}

/// The words that commands must begin with to run without asking, should the person agree:
/// program and subcommand where that says enough, else the whole command.
pub(super) fn amendment(commands: &[Command], context: &Context<'_>) -> Option<Vec<String>> {
    let [command] = commands else {
        return None;
    };
    let place = places(commands, context.cwd).pop()?;
    program_file(command, &place, context)?;
    let argv = command.argv();
    let name = base_name(argv.first()?);
    let dangerous = danger::any_dangerous(commands);
    if dangerous || runs_anything(name) {
        return None;
    }
    if command.words.iter().any(|word| word.expands) {
        return subcommand(name, &argv)
            .filter(|prefix| command.words.iter().take(prefix.len()).all(|word| !word.expands));
    }
    // What comes before git's subcommand may rewrite its configuration.
    let configured = name == "git" && argv.get(1).is_some_and(|word| word.starts_with('-'));
    match subcommand(name, &argv) {
        Some(prefix) => Some(prefix),
        None => (!configured).then_some(argv),
    }
}

fn subcommand(name: &str, argv: &[String]) -> Option<Vec<String>> {
    let (_, known) = SUBCOMMANDS.iter().find(|(program, _)| *program == name)?;
    let verb = argv.get(1)?;
    known.contains(&verb.as_str()).then(|| argv[..2].to_vec())
}
