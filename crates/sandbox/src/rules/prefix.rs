//! Rules about the first words of a command, which a user, a project or an administrator allows,
//! wants to be asked about, or forbids. Matches commands; enforces nothing.
//!
//! How rules combine:
//! - the strictest match applies (`forbidden`, then `prompt`, then `allow`), whatever its source;
//! - an allowing rule does not allow a dangerous command that its pattern does not spell out;
//! - if a source cannot be read, every command is asked about, because what it forbids is unknown;
//! - restricting rules apply to every command in a script, however nested; a script is allowed only
//!   if it consists of plain commands, each of which is allowed or known safe, and at least one by
//!   a rule.
//!
//! Restricting rules are not a security boundary: a prefix does not see through variables, and
//! options can be between a program and its subcommand.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::context::{Context, Invocation};
use super::danger;
use super::invocation::commands;
use super::known::each_known_safe;
use super::parse::Command;
use super::places::{Places, places};
use super::programs::base_name;
use super::word::{Word, quote};
use crate::error::{Error, ErrorKind};

/// The decision of a rule, from lax to strict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Decision {
    /// Runs without asking.
    Allow,
    /// Asks first.
    Prompt,
    /// Never runs.
    Forbidden,
}

/// A position of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token {
    /// This word.
    Literal(String),
    /// One of these words.
    AnyOf(Vec<String>),
}

impl Token {
    fn words(&self) -> &[String] {
        match self {
            Self::Literal(word) => std::slice::from_ref(word),
            Self::AnyOf(words) => words,
        }
    }
}

/// A rule about commands that begin with `pattern` (`.rules` files; configuration,
/// `rules.prefix_rules`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrefixRule {
    pattern: Vec<Token>,
    decision: Decision,
    justification: Option<String>,
    origin: Option<Origin>,
}

impl PrefixRule {
    /// Checks and builds a rule.
    pub fn new(
        pattern: Vec<Token>,
        decision: Decision,
        justification: Option<String>,
    ) -> Result<Self, Error> {
        if pattern.is_empty() {
            let message = "a command rule has an empty `pattern`";
            return Err(Error::new(ErrorKind::InvalidRule, message)
                .next_step("give at least the program, such as `[{ token = \"git\" }]`"));
        }
        for (at, token) in pattern.iter().enumerate() {
            let words = token.words();
            if words.is_empty() || words.iter().any(String::is_empty) {
                let message = format!("token {} of a command rule's `pattern` is empty", at + 1);
                return Err(Error::new(ErrorKind::InvalidRule, message)
                    .next_step("give a word in `token` or at least one in `any_of`"));
            }
        }
        if justification.as_ref().is_some_and(|text| text.trim().is_empty()) {
            let message = "a command rule has an empty `justification`";
            return Err(Error::new(ErrorKind::InvalidRule, message)
                .next_step("write why the rule exists, or leave the key out"));
        }
        Ok(Self { pattern, decision, justification, origin: None })
    }

    /// Adds the origin of the rule.
    pub fn at(mut self, origin: Origin) -> Self {
        self.origin = Some(origin);
        self
    }

    /// The decision.
    pub fn decision(&self) -> Decision {
        self.decision
    }

    /// The words that match each position.
    pub fn tokens(&self) -> impl Iterator<Item = &[String]> {
        self.pattern.iter().map(Token::words)
    }

    /// The origin of the rule.
    pub fn origin(&self) -> Option<&Origin> {
        self.origin.as_ref()
    }

    /// Why it exists.
    pub fn justification(&self) -> Option<&str> {
        self.justification.as_deref()
    }

    /// Returns whether the words of a command match, whatever file its program is.
    pub(super) fn matches(&self, command: &Command) -> bool {
        command.words.split_first().is_some_and(|(program, args)| {
            let named = |token: &String| {
                *token == program.text
                    || (!token.contains('/') && token == base_name(&program.text))
            };
            self.arguments_match(args) && self.pattern[0].words().iter().any(named)
        })
    }

    fn arguments_match(&self, args: &[Word]) -> bool {
        let tokens = &self.pattern[1..];
        args.len() >= tokens.len()
            && tokens
                .iter()
                .zip(args)
                .all(|(token, word)| !word.expands && token.words().contains(&word.text))
    }

    /// Returns whether a restricting rule matches: by the name of the program, wherever its file
    /// is.
    fn restricts(&self, command: &Command, context: &Context<'_>) -> bool {
        let Some((program, args)) = command.words.split_first() else {
            return false;
        };
        let named = |token: &String| match token.contains('/') {
            true => {
                let resolve = |word: &str| context.resolver.resolve(word, context.cwd);
                *token == program.text
                    || resolve(token).is_some_and(|file| resolve(&program.text) == Some(file))
            }
            false => base_name(&program.text) == token,
        };
        self.arguments_match(args) && self.pattern[0].words().iter().any(named)
    }

    /// Returns whether an allowing rule matches: the program must be the file that the rule's word
    /// resolves to.
    fn allows(&self, command: &Command, places: &Places, context: &Context<'_>) -> bool {
        let Some((_, args)) = command.words.split_first() else {
            return false;
        };
        self.arguments_match(args)
            && (args.len() == self.pattern.len() - 1
                || !danger::any_dangerous(std::slice::from_ref(command)))
            && program_file(command, places, context).is_some_and(|file| {
                let mut names = self.pattern[0].words().iter();
                names
                    .any(|name| context.resolver.resolve(name, context.cwd).as_ref() == Some(&file))
            })
    }
}

/// The origin of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Its file.
    pub file: Arc<Path>,
    /// Its line, from 1; `None` for a rule of a file of another kind.
    pub line: Option<usize>,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        self.line.map_or(Ok(()), |line| write!(f, ":{line}"))
    }
}

/// The pattern of a rule that allows an approved prefix (`acceptWithExecpolicyAmendment`). A
/// program that is named by a path keeps the path.
///
/// # Errors
/// No rule can allow the prefix.
pub fn amendment(words: &[String], context: &Context<'_>) -> Result<Vec<String>, Error> {
    let (program, rest) = words.split_first().ok_or_else(empty_amendment)?;
    let untrusted = || {
        let message = format!(
            "`{program}` cannot be allowed permanently: it is not a program on PATH outside of the \
             writable folders"
        );
        Error::new(ErrorKind::UntrustedProgram, message).next_step(ACCEPT_ONCE)
    };
    let file = context.resolver.resolve(program, context.cwd).ok_or_else(untrusted)?;
    let program = match program.contains('/') {
        true => file.to_str().ok_or_else(untrusted)?.to_owned(),
        false => program.clone(),
    };
    Ok(std::iter::once(program).chain(rest.iter().cloned()).collect())
}

pub(super) const ACCEPT_ONCE: &str = "accept the single command instead";

pub(super) fn empty_amendment() -> Error {
    Error::new(ErrorKind::EmptyAmendment, "the amendment is empty")
        .next_step("give the program and the words that commands must begin with")
}

/// The decision of the rules about a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The strictest decision.
    pub decision: Decision,
    /// The reason, shown in the prompt or the refusal.
    pub justification: Option<String>,
    /// The origin of the deciding rule.
    pub origin: Option<Origin>,
    /// True if a rule of an administrator decides this.
    pub is_required: bool,
}

impl Verdict {
    fn unsearched(is_required: bool) -> Self {
        Self {
            is_required,
            decision: Decision::Prompt,
            origin: None,
            justification: Some("the command is too long to check against the rules, and names a program that they restrict".to_owned()),
        }
    }
}

/// The rules of all sources.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    required: Vec<PrefixRule>,
    plain: Vec<PrefixRule>,
    /// Why a source could not be read.
    broken: Option<String>,
}

impl Rules {
    /// Adds a rule of a user or a project.
    pub fn add(&mut self, rule: PrefixRule) {
        self.plain.push(rule);
    }

    /// Adds a rule of an administrator (`requirements.toml`), which must restrict.
    pub fn require(&mut self, rule: PrefixRule) -> Result<(), Error> {
        if rule.decision == Decision::Allow {
            let message = "a required command rule must not `allow`";
            return Err(Error::new(ErrorKind::LaxRequirement, message)
                .next_step("use `prompt` or `forbidden`"));
        }
        self.required.push(rule);
        Ok(())
    }

    /// Records why a source cannot be read.
    pub fn add_broken(&mut self, why: String) {
        self.broken.get_or_insert(why);
    }

    /// The decision of the rules. `plain` are the commands of a script that consists only of plain
    /// commands; `found` is every command in it, or its text if it is too large to be searched.
    pub(super) fn decide(
        &self,
        plain: Option<&[Command]>,
        found: Result<&[Command], &str>,
        context: &Context<'_>,
    ) -> Option<Verdict> {
        let plain = plain.unwrap_or_default();
        let found = match found {
            Ok(found) => found,
            Err(text) => {
                let is_required = may_restrict(&self.required, text);
                let restricts = is_required || may_restrict(&self.plain, text);
                return restricts.then(|| Verdict::unsearched(is_required));
            }
        };
        let restriction = self.restriction(found, context);
        let forbidden = |verdict: &Verdict| verdict.decision == Decision::Forbidden;
        if let Some(why) = &self.broken
            && !restriction.as_ref().is_some_and(forbidden)
        {
            let justification = Some(why.clone());
            let is_required = restriction.as_ref().is_some_and(|verdict| verdict.is_required);
            let decision = Decision::Prompt;
            return Some(Verdict { decision, justification, origin: None, is_required });
        }
        restriction.or_else(|| self.allowance(plain, context))
    }

    /// Every rule that matches a command of the script, in the order of addition.
    pub fn matching(
        &self,
        invocation: Invocation<'_>,
        context: &Context<'_>,
    ) -> Vec<(&PrefixRule, String)> {
        let (plain, found, _) = commands(invocation, context);
        let plain = plain.unwrap_or_default();
        let places = places(&plain, context.cwd);
        let mut matching = Vec::new();
        for rule in self.required.iter().chain(&self.plain) {
            let restricted = found.as_deref().unwrap_or_default().iter();
            let command = match rule.decision {
                Decision::Allow => {
                    let allowed = |(command, places): &(&Command, &Places)| {
                        rule.allows(command, places, context)
                    };
                    plain.iter().zip(&places).find(allowed).map(|(command, _)| command)
                }
                _ => restricted.clone().find(|command| rule.restricts(command, context)),
            };
            let shown = |command: &Command| {
                let words: Vec<String> = command.words.iter().map(|w| w.text.clone()).collect();
                quote(&words)
            };
            matching.extend(command.map(|command| (rule, shown(command))));
        }
        matching
    }

    fn restriction(&self, found: &[Command], context: &Context<'_>) -> Option<Verdict> {
        let mut strictest: Option<(&PrefixRule, bool)> = None;
        let required = self.required.iter().map(|rule| (rule, true));
        let plain = self.plain.iter().map(|rule| (rule, false));
        // Of two that are equally strict, the administrator's decides.
        for (rule, is_required) in required.chain(plain) {
            let held = strictest.map_or(Decision::Allow, |(held, _)| held.decision);
            if rule.decision > held && found.iter().any(|command| rule.restricts(command, context))
            {
                strictest = Some((rule, is_required));
            }
        }
        strictest.map(|(rule, is_required)| Verdict {
            is_required,
            decision: rule.decision,
            justification: rule.justification.clone(),
            origin: rule.origin.clone(),
        })
    }

    fn allowance(&self, commands: &[Command], context: &Context<'_>) -> Option<Verdict> {
        let places = places(commands, context.cwd);
        let mut first: Option<&PrefixRule> = None;
        let mut by_rule = Vec::with_capacity(commands.len());
        for (command, places) in commands.iter().zip(&places) {
            let rule = self.plain.iter().find(|rule| {
                rule.decision == Decision::Allow && rule.allows(command, places, context)
            });
            first = first.or(rule);
            by_rule.push(rule.is_some());
        }
        let first = first?;
        let safe = each_known_safe(commands, context);
        let all = by_rule.iter().zip(safe).all(|(ruled, safe)| *ruled || safe);
        all.then(|| Verdict {
            decision: Decision::Allow,
            justification: first.justification.clone(),
            origin: first.origin.clone(),
            is_required: false,
        })
    }
}

/// Returns whether a text names a program that one of the rules restricts.
fn may_restrict(rules: &[PrefixRule], text: &str) -> bool {
    rules.iter().filter(|rule| rule.decision > Decision::Allow).any(|rule| {
        let mut programs = rule.pattern[0].words().iter();
        programs.any(|program| danger::names_in(text).any(|name| name == base_name(program)))
    })
}

/// The file that the program of the command resolves to in every folder where it can run.
pub(super) fn program_file(
    command: &Command,
    places: &Places,
    context: &Context<'_>,
) -> Option<PathBuf> {
    let program = command.words.first().filter(|word| !word.expands)?;
    let path = Path::new(&program.text);
    if !program.text.contains('/') || path.is_absolute() {
        return context.resolver.resolve(&program.text, context.cwd);
    }
    let mut files = places.as_ref()?.iter().map(|cwd| context.resolver.resolve(&program.text, cwd));
    let first = files.next()??;
    files.all(|file| file.as_ref() == Some(&first)).then_some(first)
}
