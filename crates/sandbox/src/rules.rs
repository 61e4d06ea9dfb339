//! Decides from a parsed command what may run without asking, what a command does, what
//! rules say of it, and which rule to propose. Starts nothing; the file system is asked
//! through [`Resolver`] only.
//!
//! A command is judged by its syntax tree and by the file that its program word stands for,
//! never by its text. What is not understood is never safe; it is asked about. The judgement
//! of `git` also reads the repository's configuration: `status` and `diff` of a repository
//! that names a filter, a monitor or a driver of its own are asked about.
//!
//! The judgement holds for a child that gets the `PATH` which the resolver knows, without
//! `GIT_*`, `BASH_ENV` or `ENV` variables of others, and for the moment when it was made.

mod actions;
mod context;
mod danger;
mod file;
mod heredoc;
mod invocation;
mod known;
mod known_awk;
mod known_git;
mod known_sed;
mod known_starters;
mod options;
mod parse;
mod places;
mod prefix;
mod programs;
mod propose;
mod repository;
mod resolver;
mod scan;
#[cfg(test)]
mod tests;
mod visible;
mod word;

pub use actions::Action;
pub use context::{Context, Invocation};
pub use file::{MAX_RULES_FILE, parse_rules, rule_text};
pub use invocation::commands_of_exec;
pub use parse::{Command, Joint, MAX_COMMANDS, MAX_SCRIPT, normal_form, parse};
pub use prefix::{Decision, Origin, PrefixRule, Rules, Token, Verdict, amendment};
pub use propose::check_amendment;
pub use resolver::{GitUse, PathResolver, Resolver};
pub use visible::visible;
pub use word::{Word, quote};

use invocation::commands;

/// Everything that the approval of a command needs to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assessment {
    /// Runs without asking under `unlessTrusted`, if no rule restricts it.
    pub known_safe: bool,
    /// What the rules say; `None` when none matches.
    pub decision: Option<Verdict>,
    /// What the command does, for display; never empty.
    pub actions: Vec<Action>,
    /// The prefix to offer for "do not ask again".
    pub proposed_amendment: Option<Vec<String>>,
    /// The commands of which a prefix may be allowed from now on ([`check_amendment`]); empty for a
    /// script of anything but plain commands.
    pub amendable: Vec<Vec<String>>,
    /// Destroys what cannot be brought back or runs as somebody else; in a script that is too
    /// large to be searched: names a program that does.
    pub dangerous: bool,
}

/// Judges a command.
pub fn assess(invocation: Invocation<'_>, context: &Context<'_>, rules: &Rules) -> Assessment {
    let (plain, found, source) = commands(invocation, context);
    let decision = rules.decide(plain.as_deref(), found.as_deref().ok_or(&*source), context);
    // What a rule restricts no other rule could allow, and what it allows needs no other.
    let amendable = plain.as_deref().filter(|_| decision.is_none());
    Assessment {
        known_safe: plain.as_deref().is_some_and(|commands| is_known_safe(commands, context)),
        decision,
        actions: actions::actions(plain.as_deref(), &source, context.cwd),
        amendable: plain.as_deref().map(propose::amendable).unwrap_or_default(),
        proposed_amendment: amendable.and_then(|commands| propose_amendment(commands, context)),
        dangerous: match &found {
            Some(commands) => danger::any_dangerous(commands),
            None => danger::names_danger(&source),
        },
    }
}

/// Whether every command only reads and ends by itself; false when there is none.
pub fn is_known_safe(commands: &[Command], context: &Context<'_>) -> bool {
    known::all_known_safe(commands, context)
}

/// The prefix to offer for "do not ask again"; `None` when a prefix would allow too much.
pub fn propose_amendment(commands: &[Command], context: &Context<'_>) -> Option<Vec<String>> {
    propose::amendment(commands, context)
}
