//! Parses `.rules` files, which consist of calls of `prefix_rule` with literal arguments.
//!
//! ```text
//! # Comments go to the end of the line.
//! prefix_rule(
//!     pattern = ["git", ["push", "fetch"]],
//!     decision = "prompt",
//!     justification = "it talks to the server",
//!     match = ["git push origin", ["git", "fetch"]],
//!     not_match = ["git status"],
//! )
//! ```
//!
//! `decision` is `allow` by default; `deny` and `block` mean `forbidden`. The examples are checked
//! here: an allowing rule that contradicts one of its examples is left out. A statement that cannot
//! be read never allows anything, and its restriction holds as far as it can be read
//! (`statement.rs`).

use super::parse::{Command, parse};
use super::prefix::{Decision, PrefixRule, Token};
use super::statement::{Statement, Understood};
use crate::error::{Error, ErrorKind};

/// The name of the statement that makes a rule.
pub(super) const PREFIX_RULE: &str = "prefix_rule";
/// Longest file, in bytes.
pub const MAX_RULES_FILE: usize = 1024 * 1024;
/// Nesting of lists; a pattern needs two levels.
const MAX_DEPTH: usize = 3;
/// Statements of one file that cannot be read. With more, the rest of the file is not read.
const MAX_UNREAD: usize = 100;

/// The contents of a `.rules` file.
#[derive(Debug, Default)]
pub struct RulesFile {
    /// The rules, with the line of each.
    pub rules: Vec<(usize, PrefixRule)>,
    /// The statements that are left out, or read in part: a mistake each, with its position and its
    /// effect. No rule allows less strictly because of them.
    pub problems: Vec<Error>,
    /// The first restriction that is unknown, because its statement cannot be read: everything has
    /// to be asked about.
    pub broken: Option<Error>,
}

/// Reads a file. What cannot be read is in the result, next to what can.
pub fn parse_rules(text: &str) -> RulesFile {
    let mut file = RulesFile::default();
    if text.len() > MAX_RULES_FILE {
        let message = format!("the file is longer than {MAX_RULES_FILE} bytes");
        file.broken = Some(syntax_error((1, 1), &message));
        return file;
    }
    let ends = text.match_indices('\n').map(|(at, _)| at + 1);
    let lines: Vec<usize> = std::iter::once(0).chain(ends).collect();
    let mut reader = Reader { text, at: 0, lines: &lines };
    // Inside of a construct that is not read, nothing is known to hold always.
    let mut within = false;
    let mut unread = 0;
    loop {
        reader.skip(Space::Lines);
        if reader.rest().is_empty() {
            break;
        }
        let begins = reader.at;
        let line = reader.line(begins);
        within &= lines[line - 1] < begins;
        let error = match reader.statement() {
            Ok(rule) if rule.decision() == Decision::Allow && within => {
                reader.error(begins, "a rule inside of a construct that is not read")
            }
            Ok(rule) => {
                file.rules.push((line, rule));
                continue;
            }
            Err(error) => error,
        };
        unread += 1;
        if unread > MAX_UNREAD {
            let message = "too many statements cannot be read; the file is not read from here on";
            file.broken.get_or_insert(reader.error(begins, message));
            break;
        }
        let statement = Statement::find(&reader, begins);
        reader.at = statement.end;
        within |= statement.opens_block;
        let effect = match statement.understood(&reader) {
            Understood::LeftOut => "it is left out".to_owned(),
            Understood::Restricts(rule) => {
                let effect = effect_of(&rule);
                file.rules.push((line, rule));
                effect
            }
            Understood::Nothing => {
                file.broken.get_or_insert(error);
                continue;
            }
        };
        file.problems.push(error.next_step(effect));
    }
    file
}

/// Says what a rule does whose statement has a mistake.
fn effect_of(rule: &PrefixRule) -> String {
    let words: Vec<&str> =
        rule.tokens().map(|words| words.first().map_or("", String::as_str)).collect();
    let what = match rule.decision() {
        Decision::Forbidden => "still forbidden",
        Decision::Allow | Decision::Prompt => "asked about",
    };
    format!("commands that begin with `{}` are {what}", words.join(" "))
}

/// The decision of this name.
pub(super) fn decision_named(name: &str) -> Option<Decision> {
    match name {
        "allow" => Some(Decision::Allow),
        "prompt" => Some(Decision::Prompt),
        // The last two are words of other programs.
        "forbidden" | "deny" | "block" => Some(Decision::Forbidden),
        _ => None,
    }
}

fn syntax_error((line, column): (usize, usize), message: &str) -> Error {
    let kind = ErrorKind::RuleSyntax { line, column };
    Error::new(kind, format!("{line}:{column}: {message}"))
}

/// A line of a file with a rule that allows this prefix.
pub fn rule_text(prefix: &[String]) -> String {
    let words: Vec<String> = prefix.iter().map(|word| quoted(word)).collect();
    format!("prefix_rule(pattern=[{}], decision=\"allow\")", words.join(", "))
}

fn quoted(word: &str) -> String {
    let mut text = String::from("\"");
    for c in word.chars() {
        match c {
            '"' | '\\' => text.extend(['\\', c]),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            c if c.is_control() => text.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => text.push(c),
        }
    }
    text.push('"');
    text
}

/// A literal, with its byte position.
pub(super) enum Value {
    Text(usize, String),
    List(usize, Vec<Value>),
}

impl Value {
    fn at(&self) -> usize {
        match self {
            Self::Text(at, _) | Self::List(at, _) => *at,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Space {
    /// Blanks and a comment.
    Line,
    /// New lines and `;` as well.
    Lines,
}

pub(super) struct Reader<'t> {
    text: &'t str,
    at: usize,
    /// Where each line begins.
    lines: &'t [usize],
}

#[derive(Default)]
struct Arguments {
    pattern: Option<Value>,
    decision: Option<Value>,
    justification: Option<Value>,
    matching: Option<Value>,
    not_matching: Option<Value>,
}

impl<'t> Reader<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    pub(super) fn source(&self) -> &'t str {
        self.text
    }

    /// The number of the line, from 1.
    fn line(&self, at: usize) -> usize {
        self.lines.partition_point(|begins| *begins <= at)
    }

    fn place(&self, at: usize) -> (usize, usize) {
        let line = self.line(at);
        (line, self.text[self.lines[line - 1]..at].chars().count() + 1)
    }

    /// A rule, and the end of its line.
    fn statement(&mut self) -> Result<PrefixRule, Error> {
        let rule = self.rule()?;
        self.skip(Space::Line);
        if !(self.rest().is_empty() || self.eat("\n") || self.eat(";")) {
            return Err(self.error(self.at, "a new line is expected after a rule"));
        }
        Ok(rule)
    }

    /// The literal at a position and the character after it, unless the statement ends there.
    pub(super) fn value_at(&self, at: usize, end: usize) -> Option<(Value, Option<char>)> {
        let mut reader = Reader { at, ..*self };
        let value = reader.value(0).ok()?;
        reader.skip_inside();
        let after = reader.rest().chars().next().filter(|_| reader.at < end);
        (reader.at <= end || after.is_none()).then_some((value, after))
    }

    fn error(&self, at: usize, message: impl Into<String>) -> Error {
        syntax_error(self.place(at), &message.into())
    }

    fn skip(&mut self, space: Space) {
        loop {
            let rest = self.rest();
            let blank = |c: char| match space {
                Space::Line => matches!(c, ' ' | '\t' | '\r'),
                Space::Lines => matches!(c, ' ' | '\t' | '\r' | '\n' | ';'),
            };
            self.at += rest.len() - rest.trim_start_matches(blank).len();
            if !self.rest().starts_with('#') {
                return;
            }
            self.at += self.rest().find('\n').unwrap_or(self.rest().len());
        }
    }

    /// Inside of brackets, where new lines are blanks, but `;` is not.
    fn skip_inside(&mut self) {
        loop {
            self.skip(Space::Line);
            if !self.eat("\n") {
                return;
            }
        }
    }

    fn eat(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    fn expect(&mut self, token: &str, wanted: &str) -> Result<(), Error> {
        self.skip_inside();
        if self.eat(token) {
            return Ok(());
        }
        let found = match self.rest().chars().next() {
            None => "the end of the file".to_owned(),
            Some(c) => format!("`{}`", c.escape_debug()),
        };
        Err(self.error(self.at, format!("`{token}` is expected {wanted}, not {found}")))
    }

    fn name(&mut self) -> &'t str {
        let rest = self.rest();
        let name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let end = rest.find(|c: char| !name(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn rule(&mut self) -> Result<PrefixRule, Error> {
        let begins = self.at;
        match self.name() {
            PREFIX_RULE => {}
            "" => return Err(self.error(begins, "a call of `prefix_rule` is expected")),
            other => {
                let message = format!("`{other}` is not known; only `prefix_rule(…)` is");
                return Err(self.error(begins, message));
            }
        }
        self.expect("(", "after `prefix_rule`")?;
        let mut arguments = Arguments::default();
        loop {
            self.skip_inside();
            if self.eat(")") {
                break;
            }
            self.argument(&mut arguments)?;
            self.skip_inside();
            if !self.eat(",") {
                self.expect(")", "after the last argument")?;
                break;
            }
        }
        self.build(begins, arguments)
    }

    fn argument(&mut self, all: &mut Arguments) -> Result<(), Error> {
        const NAMES: &str = "`pattern`, `decision`, `justification`, `match` and `not_match`";
        let begins = self.at;
        let name = self.name();
        let place = match name {
            "pattern" => &mut all.pattern,
            "decision" => &mut all.decision,
            "justification" => &mut all.justification,
            "match" => &mut all.matching,
            "not_match" => &mut all.not_matching,
            "" => return Err(self.error(begins, format!("a name is expected: {NAMES}"))),
            _ => {
                let message = format!("`prefix_rule` has no argument `{name}`; it has {NAMES}");
                return Err(self.error(begins, message));
            }
        };
        if place.is_some() {
            return Err(self.error(begins, format!("`{name}` is given twice")));
        }
        self.expect("=", &format!("after `{name}`"))?;
        *place = Some(self.value(0)?);
        Ok(())
    }

    fn value(&mut self, depth: usize) -> Result<Value, Error> {
        self.skip_inside();
        let begins = self.at;
        if let Some(quote) = self.rest().chars().next().filter(|c| matches!(c, '"' | '\'')) {
            return self.string(quote).map(|text| Value::Text(begins, text));
        }
        if !self.eat("[") {
            return Err(self.error(begins, "a text in quotes or a list in `[…]` is expected"));
        }
        if depth == MAX_DEPTH {
            return Err(self.error(begins, "lists are nested too deeply here"));
        }
        let mut parts = Vec::new();
        loop {
            self.skip_inside();
            if self.eat("]") {
                break;
            }
            parts.push(self.value(depth + 1)?);
            self.skip_inside();
            if !self.eat(",") {
                self.expect("]", "after the last part of a list")?;
                break;
            }
        }
        Ok(Value::List(begins, parts))
    }

    fn string(&mut self, quote: char) -> Result<String, Error> {
        let begins = self.at;
        let mut chars = self.rest().char_indices().skip(1);
        let mut text = String::new();
        while let Some((offset, c)) = chars.next() {
            match c {
                '\n' => break,
                c if c == quote => {
                    self.at += offset + 1;
                    return Ok(text);
                }
                '\\' => {
                    let unknown = |c: Option<char>| {
                        let shown = c.map(|c| c.escape_debug().to_string()).unwrap_or_default();
                        self.error(begins + offset, format!("`\\{shown}` is not an escape here"))
                    };
                    match chars.next().map(|(_, c)| c) {
                        Some(c @ ('\\' | '"' | '\'')) => text.push(c),
                        Some('n') => text.push('\n'),
                        Some('r') => text.push('\r'),
                        Some('t') => text.push('\t'),
                        Some('u') => {
                            let digits: String = chars.by_ref().take(4).map(|(_, c)| c).collect();
                            let code = (digits.len() == 4)
                                .then(|| u32::from_str_radix(&digits, 16).ok())
                                .flatten();
                            let c = code.and_then(char::from_u32);
                            text.push(c.ok_or_else(|| unknown(Some('u')))?);
                        }
                        other => return Err(unknown(other)),
                    }
                }
                c => text.push(c),
            }
        }
        Err(self.error(begins, "the text is not closed on its line"))
    }

    fn build(&self, begins: usize, arguments: Arguments) -> Result<PrefixRule, Error> {
        let Arguments { pattern, decision, justification, matching, not_matching } = arguments;
        let Some(pattern) = pattern else {
            let message = "`pattern` is missing, such as `pattern = [\"git\", \"push\"]`";
            return Err(self.error(begins, message));
        };
        let decision = match decision {
            None => Decision::Allow,
            Some(value) => self.decision(&value)?,
        };
        let justification = justification.map(|value| self.text(value)).transpose()?;
        let at = pattern.at();
        let tokens = self.list(pattern)?.into_iter().map(|token| self.token(token));
        let rule = PrefixRule::new(tokens.collect::<Result<_, _>>()?, decision, justification)
            .map_err(|error| self.error(at, error.to_string()))?;
        for (examples, expect) in [(matching, true), (not_matching, false)] {
            for example in examples.map(|value| self.list(value)).transpose()?.unwrap_or_default() {
                self.check(&rule, example, expect)?;
            }
        }
        Ok(rule)
    }

    fn decision(&self, value: &Value) -> Result<Decision, Error> {
        match value {
            Value::Text(_, text) => decision_named(text),
            Value::List(..) => None,
        }
        .ok_or_else(|| self.error(value.at(), "it must be \"allow\", \"prompt\" or \"forbidden\""))
    }

    fn text(&self, value: Value) -> Result<String, Error> {
        match value {
            Value::Text(_, text) => Ok(text),
            Value::List(at, _) => Err(self.error(at, "a text is expected, not a list")),
        }
    }

    pub(super) fn list(&self, value: Value) -> Result<Vec<Value>, Error> {
        match value {
            Value::List(_, parts) => Ok(parts),
            Value::Text(at, _) => Err(self.error(at, "a list is expected, not a text")),
        }
    }

    pub(super) fn token(&self, value: Value) -> Result<Token, Error> {
        match value {
            Value::Text(_, word) => Ok(Token::Literal(word)),
            Value::List(_, words) => {
                let words = words.into_iter().map(|word| self.text(word));
                Ok(Token::AnyOf(words.collect::<Result<_, _>>()?))
            }
        }
    }

    /// Checks an example: a list of words, or a line with one plain command.
    fn check(&self, rule: &PrefixRule, example: Value, expect: bool) -> Result<(), Error> {
        let at = example.at();
        let command = match example {
            Value::Text(_, line) => match parse(&line).as_deref() {
                Some([command]) => command.clone(),
                _ => return Err(self.error(at, "this example is not one plain command")),
            },
            Value::List(_, words) => {
                let words = words.into_iter().map(|word| self.text(word));
                let words: Vec<String> = words.collect::<Result<_, _>>()?;
                let command = Command::exec(&words);
                command.ok_or_else(|| self.error(at, "this example is empty"))?
            }
        };
        match (rule.matches(&command), expect) {
            (false, true) => Err(self.error(at, "the rule does not match this example of `match`")),
            (true, false) => Err(self.error(at, "the rule matches this example of `not_match`")),
            _ => Ok(()),
        }
    }
}
