//! Reads what can be read of a faulty statement of a `.rules` file: its extent, and its restriction. Reading goes on after its last bracket, or at the next line that begins with a call,
//! so that a bracket that is not closed hides no other rule.

use super::file::{PREFIX_RULE, Reader, Value, decision_named};
use super::prefix::{Decision, PrefixRule, Token};

/// Functions of other programs that restrict no command.
const HARMLESS: [&str; 1] = ["host_executable"];
/// Functions that begin a statement wherever a line begins with them.
const KNOWN: [&str; 3] = [PREFIX_RULE, "network_rule", "host_executable"];
/// Words for a decision, wherever they are in a call of a function that is not known.
const RESTRICTING: [&str; 5] = ["forbidden", "deny", "block", "prompt", "ask"];

/// A statement that cannot be read.
#[derive(Debug)]
pub(super) struct Statement<'t> {
    /// The position after it.
    pub(super) end: usize,
    /// True if what follows with an indentation belongs to it.
    pub(super) opens_block: bool,
    /// The name before the first bracket; empty when the statement is no call.
    function: &'t str,
    is_closed: bool,
    /// True if a text of several lines is not closed: it can hide any rule.
    hides_rest: bool,
    /// Named arguments of the call, with the position of each value.
    arguments: Vec<(&'t str, usize)>,
    /// True if an argument has no name.
    has_unnamed: bool,
    /// Positions of the values of `decision`, at any depth.
    decisions: Vec<usize>,
    /// True if a text in it is a word for a decision that is not `allow`.
    names_restriction: bool,
}

/// The effect of a statement that cannot be read.
#[derive(Debug)]
pub(super) enum Understood {
    /// It restricts nothing.
    LeftOut,
    /// It restricts these commands.
    Restricts(PrefixRule),
    /// It restricts something unknown.
    Nothing,
}

impl<'t> Statement<'t> {
    /// The extent and the arguments of the statement at a position.
    pub(super) fn find(reader: &Reader<'t>, begins: usize) -> Self {
        let text = reader.source();
        let function = call_name(&text[begins..]).unwrap_or_default();
        let mut found = Self {
            end: text.len(),
            opens_block: false,
            function,
            is_closed: false,
            hides_rest: false,
            arguments: Vec::new(),
            has_unnamed: false,
            decisions: Vec::new(),
            names_restriction: false,
        };
        let bytes = text.as_bytes();
        let (mut at, mut depth) = (begins, 0_usize);
        // True where an argument of the call begins.
        let mut fresh = false;
        let mut last = b' ';
        while let Some(&byte) = bytes.get(at) {
            let begins_argument = fresh && !byte.is_ascii_whitespace() && byte != b'#';
            match byte {
                b'#' => {
                    at += text[at..].find('\n').unwrap_or(text.len() - at);
                    continue;
                }
                b'"' | b'\'' => {
                    found.has_unnamed |= begins_argument;
                    fresh = false;
                    let Some(end) = string_end(text, at) else {
                        found.hides_rest = true;
                        return found;
                    };
                    let word = text[at..end].trim_matches(['"', '\'']);
                    found.names_restriction |= RESTRICTING.contains(&word);
                    (at, last) = (end, byte);
                    continue;
                }
                b'\\' if text[at + 1..].trim_start_matches('\r').starts_with('\n') => {
                    at += 1 + text[at + 1..].find('\n').map_or(0, |line_end| line_end + 1);
                    continue;
                }
                b'\n' | b';' if depth == 0 => break,
                b'\n' if begins_statement(&text[at + 1..]) => {
                    found.end = at;
                    found.opens_block = true;
                    return found;
                }
                b'(' | b'[' | b'{' => {
                    found.has_unnamed |= begins_argument;
                    fresh = depth == 0 && byte == b'(';
                    depth += 1;
                }
                b')' | b']' | b'}' => {
                    depth = depth.saturating_sub(1);
                    fresh = false;
                }
                b',' if depth == 1 => fresh = true,
                byte if byte.is_ascii_alphanumeric() || byte == b'_' => {
                    let name = word(&text[at..]);
                    at += name.len();
                    let value = value_after(text, at);
                    match value {
                        Some(value) if begins_argument => found.arguments.push((name, value)),
                        _ => found.has_unnamed |= begins_argument,
                    }
                    found.decisions.extend(value.filter(|_| name == "decision"));
                    (fresh, last) = (false, b'a');
                    continue;
                }
                byte if byte.is_ascii_whitespace() => {
                    at += 1;
                    continue;
                }
                _ => {
                    found.has_unnamed |= begins_argument;
                    fresh = false;
                }
            }
            last = byte;
            at += 1;
        }
        found.end = at;
        found.is_closed = depth == 0;
        found.opens_block = !found.is_closed || last == b':';
        found
    }

    /// Returns its effect.
    pub(super) fn understood(&self, reader: &Reader<'_>) -> Understood {
        if self.hides_rest {
            return Understood::Nothing;
        }
        if HARMLESS.contains(&self.function) && self.decisions.is_empty() {
            return Understood::LeftOut;
        }
        let decision = self.decision(reader);
        if decision == Decision::Allow {
            return Understood::LeftOut;
        }
        let rule = (self.function == PREFIX_RULE).then(|| self.rule(reader, decision)).flatten();
        rule.map_or(Understood::Nothing, Understood::Restricts)
    }

    /// The strictest decision that it may have.
    fn decision(&self, reader: &Reader<'_>) -> Decision {
        let named = self.decisions.iter().map(|at| match reader.value_at(*at, self.end) {
            Some((Value::Text(_, name), Some(',' | ')') | None)) => decision_named(&name),
            _ => None,
        });
        // One that is not understood is at least a restriction.
        let named = named.map(|decision| decision.unwrap_or(Decision::Prompt)).max();
        let is_unknown = match self.function {
            PREFIX_RULE => self.has_unnamed || (named.is_none() && !self.is_closed),
            _ => {
                (self.names_restriction && (self.has_unnamed || self.function.is_empty()))
                    || (named.is_none() && !self.is_closed)
            }
        };
        let least = if is_unknown { Decision::Prompt } else { Decision::Allow };
        named.unwrap_or(least).max(least)
    }

    /// The rule of a restricting `prefix_rule` as far as its pattern can be read: whole, or only its
    /// program, about which is asked.
    fn rule(&self, reader: &Reader<'_>, decision: Decision) -> Option<PrefixRule> {
        let mut patterns = self.arguments.iter().filter(|(name, _)| *name == "pattern");
        let (Some((_, at)), None) = (patterns.next(), patterns.next()) else { return None };
        match reader.value_at(*at, self.end) {
            Some((Value::Text(_, line), Some(',' | ')') | None)) => {
                ask_about(Token::Literal(line.split_whitespace().next()?.to_owned()))
            }
            Some((Value::Text(..), _)) => None,
            Some((value, after)) => {
                let is_whole = matches!(after, Some(',' | ')') | None);
                let tokens = reader.list(value).ok()?;
                let tokens = tokens.into_iter().map(|token| reader.token(token));
                match tokens.collect::<Result<Vec<_>, _>>() {
                    Ok(tokens) if is_whole => {
                        PrefixRule::new(tokens, decision, self.justification(reader)).ok()
                    }
                    // A list to which more is added begins with the same program.
                    _ if is_whole || after == Some('+') => self.program(reader, *at),
                    _ => None,
                }
            }
            None => self.program(reader, *at),
        }
    }

    fn justification(&self, reader: &Reader<'_>) -> Option<String> {
        let (_, at) = self.arguments.iter().find(|(name, _)| *name == "justification")?;
        match reader.value_at(*at, self.end)? {
            (Value::Text(_, why), Some(',' | ')') | None) if !why.trim().is_empty() => Some(why),
            _ => None,
        }
    }

    /// A rule that asks about the program of the pattern at a position, whatever follows it.
    fn program(&self, reader: &Reader<'_>, at: usize) -> Option<PrefixRule> {
        let list = reader.source().get(at..)?.strip_prefix('[')?;
        match reader.value_at(reader.source().len() - list.len(), self.end)? {
            (program, Some(',' | ']') | None) => ask_about(reader.token(program).ok()?),
            _ => None,
        }
    }
}

fn ask_about(program: Token) -> Option<PrefixRule> {
    PrefixRule::new(vec![program], Decision::Prompt, None).ok()
}

/// The word at the start of `text`.
fn word(text: &str) -> &str {
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(text.len());
    &text[..end]
}

/// The name of the function of a call at the start of `text`.
fn call_name(text: &str) -> Option<&str> {
    let name = word(text);
    let is_name = name.starts_with(|c: char| !c.is_ascii_digit());
    (is_name && text[name.len()..].trim_start_matches([' ', '\t']).starts_with('(')).then_some(name)
}

/// Returns whether a line begins a statement inside of a bracket that is not closed.
fn begins_statement(line: &str) -> bool {
    let indented = line.trim_start_matches([' ', '\t']);
    match call_name(indented) {
        Some(name) => KNOWN.contains(&name) || indented.len() == line.len(),
        None => false,
    }
}

/// The position of the value after `=`, if that is what follows.
fn value_after(text: &str, at: usize) -> Option<usize> {
    let equals = text[at..].trim_start_matches([' ', '\t', '\r', '\n']);
    let value = equals.strip_prefix('=').filter(|value| !value.starts_with('='))?;
    let value = value.trim_start_matches([' ', '\t', '\r', '\n']);
    Some(text.len() - value.len())
}

/// The position after the string at `at`: on its line, unless it has three quotes. `None` for one
/// with three quotes that are not closed.
fn string_end(text: &str, at: usize) -> Option<usize> {
    let rest = &text[at..];
    let quote = &rest[..1];
    let triple = quote.repeat(3);
    let is_long = rest.starts_with(&triple);
    let close = if is_long { triple.as_str() } else { quote };
    let mut inside = close.len();
    while let Some(c) = rest[inside..].chars().next() {
        if rest[inside..].starts_with(close) {
            return Some(at + inside + close.len());
        }
        if c == '\n' && !is_long {
            return Some(at + inside);
        }
        inside += c.len_utf8();
        if c == '\\' {
            inside +=
                rest[inside..].chars().next().filter(|c| *c != '\n').map_or(0, char::len_utf8);
        }
    }
    (!is_long).then_some(text.len())
}
