//! Rules over the first words of a command: what a person, a project or an administrator
//! allows, wants to be asked about, or forbids. Matches; enforces nothing.
//!
//! How several rules combine:
//! - the strictest match wins (`forbidden`, then `prompt`, then `allow`), whatever the source;
//! - an [`Amendment`], being a person's later answer about just this command, lifts a
//!   `prompt` of a plain rule, but neither a requirement nor a `forbidden`;
//! - restricting rules look at every command that is found in a script, however it is
//!   nested; a script is allowed only when it consists of plain commands, each allowed or
//!   known safe, at least one by a rule.
//!
//! Restricting rules are a guard-rail, not a fence: a prefix does not see through variables,
//! and options may stand between a program and its subcommand.

use std::path::{Path, PathBuf};

use super::Context;
use super::danger;
use super::known::{base_name, each_known_safe};
use super::parse::Command;
use super::places::{Places, places};
use super::word::Word;

/// What a rule says of a command, from lax to strict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Decision {
    /// Runs without asking.
    Allow,
    /// Asks first.
    Prompt,
    /// Never runs.
    Forbidden,
}

/// What stands at one position of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token {
    /// Just this word.
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

/// A rule on commands that begin with `pattern` (configuration, `rules.prefix_rules`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrefixRule {
    pattern: Vec<Token>,
    decision: Decision,
    justification: Option<String>,
}

/// Why a rule cannot be taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// The pattern has no token.
    #[error(
        "a command rule has an empty `pattern`; give at least the program, such as `[{{ token = \"git\" }}]`"
    )]
    EmptyPattern,
    /// A token can match nothing; the position counts from 1.
    #[error(
        "token {0} of a command rule's `pattern` is empty; give a word in `token` or at least one in `any_of`"
    )]
    EmptyToken(usize),
    /// The justification is there but empty.
    #[error(
        "a command rule has an empty `justification`; write why the rule exists or leave the key out"
    )]
    EmptyJustification,
    /// A requirement that allows.
    #[error("a required command rule may not `allow`; use `prompt` or `forbidden`")]
    LaxRequirement,
}

impl PrefixRule {
    /// Checks and builds a rule.
    pub fn new(
        pattern: Vec<Token>,
        decision: Decision,
        justification: Option<String>,
    ) -> Result<Self, RuleError> {
        if pattern.is_empty() {
            return Err(RuleError::EmptyPattern);
        }
        for (at, token) in pattern.iter().enumerate() {
            let words = token.words();
            if words.is_empty() || words.iter().any(String::is_empty) {
                return Err(RuleError::EmptyToken(at + 1));
            }
        }
        if justification.as_ref().is_some_and(|text| text.trim().is_empty()) {
            return Err(RuleError::EmptyJustification);
        }
        Ok(Self { pattern, decision, justification })
    }

    fn arguments_match(&self, args: &[Word]) -> bool {
        let tokens = &self.pattern[1..];
        args.len() >= tokens.len()
            && tokens
                .iter()
                .zip(args)
                .all(|(token, word)| !word.expands && token.words().contains(&word.text))
    }

    /// A program is restricted under its name, wherever the file is.
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

    /// A program is allowed only as the file that the rule's word stands for.
    fn allows(&self, command: &Command, places: &Places, context: &Context<'_>) -> bool {
        let Some((_, args)) = command.words.split_first() else {
            return false;
        };
        self.arguments_match(args)
            && program_file(command, places, context).is_some_and(|file| {
                let mut names = self.pattern[0].words().iter();
                names
                    .any(|name| context.resolver.resolve(name, context.cwd).as_ref() == Some(&file))
            })
    }
}

/// A command prefix that a person allowed when asked
/// (`acceptWithExecpolicyAmendment`), bound to the file that it was asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Amendment {
    /// The program's file, as [`super::Resolver::resolve`] gave it.
    pub program: PathBuf,
    /// The words after the program.
    pub tokens: Vec<String>,
}

/// Why an amendment cannot be taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AmendmentError {
    /// No word at all.
    #[error("the amendment is empty; give the program and the words that commands must begin with")]
    Empty,
    /// The program is not found, or others could replace it.
    #[error(
        "`{0}` cannot be allowed from now on: it is not a program on PATH outside of the writable folders; accept the single command instead"
    )]
    Untrusted(String),
}

impl Amendment {
    /// Binds the first of `words` to the file that it runs now.
    pub fn new(words: &[String], context: &Context<'_>) -> Result<Self, AmendmentError> {
        let (program, tokens) = words.split_first().ok_or(AmendmentError::Empty)?;
        let file = context.resolver.resolve(program, context.cwd);
        Ok(Self {
            program: file.ok_or_else(|| AmendmentError::Untrusted(program.clone()))?,
            tokens: tokens.to_vec(),
        })
    }

    /// A prefix never brings a dangerous command with it that was not spelled out.
    fn allows(&self, command: &Command, file: Option<&Path>) -> bool {
        let args = command.words.get(1..).unwrap_or_default();
        let matches = args.len() >= self.tokens.len()
            && self
                .tokens
                .iter()
                .zip(args)
                .all(|(token, word)| !word.expands && *token == word.text);
        let whole = args.len() == self.tokens.len();
        file == Some(&self.program)
            && matches
            && (whole || !danger::any_dangerous(std::slice::from_ref(command)))
    }
}

/// What the rules say of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The strictest decision.
    pub decision: Decision,
    /// Why, to be shown in the prompt or the refusal.
    pub justification: Option<String>,
}

impl Verdict {
    fn unsearched() -> Self {
        Self {
            decision: Decision::Prompt,
            justification: Some("the command is too long to be checked against the rules, and names a program that they restrict".to_owned()),
        }
    }
}

/// The rules of all sources.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    required: Vec<PrefixRule>,
    plain: Vec<PrefixRule>,
    amendments: Vec<Amendment>,
}

impl Rules {
    /// Adds a rule of a person or a project.
    pub fn add(&mut self, rule: PrefixRule) {
        self.plain.push(rule);
    }

    /// Adds a rule of an administrator (`requirements.toml`), which must restrict.
    pub fn require(&mut self, rule: PrefixRule) -> Result<(), RuleError> {
        if rule.decision == Decision::Allow {
            return Err(RuleError::LaxRequirement);
        }
        self.required.push(rule);
        Ok(())
    }

    /// Takes back all rules of administrators, before others come.
    pub fn release(&mut self) {
        self.required.clear();
    }

    /// Adds a person's answer; one that is there already is not added again.
    pub fn amend(&mut self, amendment: Amendment) {
        if !self.amendments.contains(&amendment) {
            self.amendments.push(amendment);
        }
    }

    /// What the rules say. `plain` are the commands when the script consists of nothing else;
    /// `found` is every command in it, or its text when it is too large to be searched.
    pub(super) fn decide(
        &self,
        plain: Option<&[Command]>,
        found: Result<&[Command], &str>,
        context: &Context<'_>,
    ) -> Option<Verdict> {
        let files = plain.map(|commands| program_files(commands, context)).unwrap_or_default();
        let plain = plain.unwrap_or_default();
        let found = match found {
            Ok(found) => found,
            Err(text) => return self.may_restrict(text).then(Verdict::unsearched),
        };
        let amended: Vec<&Command> = plain
            .iter()
            .zip(&files)
            .filter(|(command, file)| self.amends(command, file.as_deref()))
            .map(|(command, _)| command)
            .collect();
        self.restriction(found, &amended, context)
            .or_else(|| self.allowance(plain, &files, context))
    }

    /// Whether a text names a program that some rule restricts.
    fn may_restrict(&self, text: &str) -> bool {
        let restricting = |rule: &&PrefixRule| rule.decision > Decision::Allow;
        self.required.iter().chain(&self.plain).filter(restricting).any(|rule| {
            let mut programs = rule.pattern[0].words().iter();
            programs.any(|program| danger::names_in(text).any(|name| name == base_name(program)))
        })
    }

    fn amends(&self, command: &Command, file: Option<&Path>) -> bool {
        self.amendments.iter().any(|amendment| amendment.allows(command, file))
    }

    fn restriction(
        &self,
        found: &[Command],
        amended: &[&Command],
        context: &Context<'_>,
    ) -> Option<Verdict> {
        let required = self.required.iter().map(|rule| (rule, true));
        let plain = self.plain.iter().map(|rule| (rule, false));
        let mut strictest: Option<&PrefixRule> = None;
        for (rule, required) in required.chain(plain) {
            let stricter = rule.decision > strictest.map_or(Decision::Allow, |held| held.decision);
            let liftable = !required && rule.decision == Decision::Prompt;
            let matches = |command: &Command| {
                let lifted = liftable && amended.iter().any(|other| other.words == command.words);
                !lifted && rule.restricts(command, context)
            };
            if stricter && found.iter().any(matches) {
                strictest = Some(rule);
            }
        }
        strictest.map(|rule| Verdict {
            decision: rule.decision,
            justification: rule.justification.clone(),
        })
    }

    fn allowance(
        &self,
        commands: &[Command],
        files: &[Option<PathBuf>],
        context: &Context<'_>,
    ) -> Option<Verdict> {
        let places = places(commands, context.cwd);
        let mut justification = None;
        let mut by_rule = Vec::with_capacity(commands.len());
        for ((command, file), places) in commands.iter().zip(files).zip(&places) {
            let rule = self.plain.iter().find(|rule| {
                rule.decision == Decision::Allow && rule.allows(command, places, context)
            });
            if let Some(rule) = rule {
                justification = justification.or_else(|| rule.justification.clone());
            }
            by_rule.push(rule.is_some() || self.amends(command, file.as_deref()));
        }
        if !by_rule.contains(&true) {
            return None;
        }
        let safe = each_known_safe(commands, context);
        let all = by_rule.iter().zip(safe).all(|(ruled, safe)| *ruled || safe);
        all.then_some(Verdict { decision: Decision::Allow, justification })
    }
}

fn program_files(commands: &[Command], context: &Context<'_>) -> Vec<Option<PathBuf>> {
    places(commands, context.cwd)
        .iter()
        .zip(commands)
        .map(|(places, command)| program_file(command, places, context))
        .collect()
}

/// The one file that the command's program word stands for wherever the command may run.
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
