//! Assesses a parsed command: whether it may run without asking, what it does, which rules match
//! it, and which rule to propose. Starts nothing, and reads the file system only through
//! [`Resolver`].
//!
//! The assessment uses the syntax tree of a command and the file of its program, never the text. A
//! command that is not understood is never safe, and the user is asked. For `git`, it also reads
//! the configuration of the repository: `status` and `diff` in a repository that names a filter, a
//! monitor or a driver need an approval.
//!
//! The assessment is valid for a child with the resolver's `PATH` and without foreign `GIT_*`,
//! `BASH_ENV` and `ENV` variables, at the time when it is made.

mod actions;
mod context;
mod danger;
mod file;
mod file_words;
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
mod statement;
#[cfg(test)]
mod tests;
mod word;

pub use actions::Action;
pub use context::{Context, Invocation};
pub use file::{MAX_RULES_FILE, RulesFile, parse_rules, rule_text};
pub use file_words::{FileWord, file_words};
pub use invocation::commands_of_exec;
pub use parse::{Command, Joint, MAX_COMMANDS, MAX_SCRIPT, normal_form, parse};
pub use prefix::{Decision, Origin, PrefixRule, Rules, Token, Verdict, amendment};
pub use propose::check_amendment;
pub use resolver::{GitUse, PathResolver, Resolver};
pub use word::{Word, quote};

use invocation::commands;

/// The assessment of a command for its approval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assessment {
    /// True if it runs without asking under `unlessTrusted`, unless a rule restricts it.
    pub known_safe: bool,
    /// The decision of the rules; `None` if none matches.
    pub decision: Option<Verdict>,
    /// The apparent actions of the command, for display; never empty.
    pub actions: Vec<Action>,
    /// The prefix to offer for "do not ask again".
    pub proposed_amendment: Option<Vec<String>>,
    /// The commands of which a prefix can be allowed permanently ([`check_amendment`]); empty for a
    /// script that is more than plain commands.
    pub amendable: Vec<Vec<String>>,
    /// True if it destroys data irrecoverably or runs as another user; for a script that is too
    /// large to be searched, whether it names a program that does.
    pub dangerous: bool,
}

/// Assesses a command.
pub fn assess(invocation: Invocation<'_>, context: &Context<'_>, rules: &Rules) -> Assessment {
    let (plain, found, source) = commands(invocation, context);
    let decision = rules.decide(plain.as_deref(), found.as_deref().ok_or(&*source), context);
    // No other rule can allow what a rule restricts, and what a rule allows needs no other rule.
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

/// Returns whether every command only reads and terminates by itself; false for no commands.
pub fn is_known_safe(commands: &[Command], context: &Context<'_>) -> bool {
    known::all_known_safe(commands, context)
}

/// The prefix to offer for "do not ask again"; `None` if it would allow too much.
pub fn propose_amendment(commands: &[Command], context: &Context<'_>) -> Option<Vec<String>> {
    propose::amendment(commands, context)
}
