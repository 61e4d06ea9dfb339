//! Colours for a terminal, and what of foreign text may reach one.

use std::fmt;

use anstyle::{AnsiColor, Effects};

use crate::environment::Environment;

/// The colours of the output, if any.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Palette {
    is_on: bool,
}

/// A way to write.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Style {
    Bold,
    Dim,
    Good,
    Bad,
    Mark,
    Warn,
}

/// Text in a style; plain when colours are off.
pub(crate) struct Painted<T> {
    escapes: anstyle::Style,
    text: T,
}

impl Palette {
    /// Colours for a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`.
    pub(crate) fn for_terminal(environment: &Environment, is_terminal: bool) -> Self {
        let unwanted = environment.variable("NO_COLOR").is_some_and(|value| !value.is_empty());
        let is_dumb = environment.variable("TERM").is_some_and(|term| term == "dumb");
        Self { is_on: is_terminal && !unwanted && !is_dumb }
    }

    /// No colours.
    #[cfg(test)]
    pub(crate) fn off() -> Self {
        Self { is_on: false }
    }

    /// `text` in `style`.
    pub(crate) fn paint<T: fmt::Display>(self, style: Style, text: T) -> Painted<T> {
        let escapes = match style {
            _ if !self.is_on => anstyle::Style::new(),
            Style::Bold => Effects::BOLD.into(),
            Style::Dim => Effects::DIMMED.into(),
            Style::Good => AnsiColor::Green.on_default(),
            Style::Bad => AnsiColor::Red.on_default(),
            Style::Mark => AnsiColor::Cyan.on_default(),
            Style::Warn => AnsiColor::Yellow.on_default(),
        };
        Painted { escapes, text }
    }
}

impl<T: fmt::Display> fmt::Display for Painted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { escapes, text } = self;
        write!(f, "{escapes}{text}{escapes:#}")
    }
}

/// Foreign text without what could drive a terminal or turn the reading direction: escape
/// sequences, control characters other than newline and tab, direction overrides. A lone carriage
/// return becomes a newline.
pub(crate) fn clean(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\n' | '\t' => kept.push(c),
            '\r' if rest.peek() == Some(&'\n') => {}
            '\r' => kept.push('\n'),
            '\x1b' => skip_sequence(&mut rest),
            c if c.is_control() || is_direction(c) => {}
            c => kept.push(c),
        }
    }
    kept
}

/// Skips what follows an escape character: a control sequence up to its final byte, a string up to
/// its terminator, or one character. At a newline it gives up, so that no line is lost.
fn skip_sequence(rest: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    let is_last: fn(char) -> bool = match rest.next_if(|c| *c != '\n') {
        Some('[') => |c| ('\x40'..='\x7e').contains(&c),
        Some(']' | 'P' | 'X' | '^' | '_') => |c| c == '\x07' || c == '\\',
        _ => return,
    };
    while let Some(c) = rest.next_if(|c| *c != '\n') {
        if is_last(c) {
            return;
        }
    }
}

fn is_direction(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn control_characters_are_removed_from_foreign_text() {
        let check = |text: &str, expect: &str| assert_eq!(clean(text), expect, "{text:?}");
        check("plain\ttext\n", "plain\ttext\n");
        check("\x1b[31mred\x1b[0m", "red");
        check("\x1b]0;title\x07after", "after");
        check("\x1b]8;;https://x\x1b\\link", "link");
        check("\x1b(Btext", "Btext");
        check("\x1b[31", "");
        check("\x1b[12\nnext", "\nnext");
        check("one\r\ntwo\rthree", "one\ntwo\nthree");
        check("bell\x07 nul\0 c1\u{9b}31m", "bell nul c131m");
        check("a\u{202e}b", "ab");
    }

    #[test]
    fn colours_follow_the_setting() {
        let check = |is_on, style, expect: &str| {
            assert_eq!(Palette { is_on }.paint(style, "x").to_string(), expect);
        };
        check(true, Style::Bold, "\x1b[1mx\x1b[0m");
        check(true, Style::Dim, "\x1b[2mx\x1b[0m");
        check(true, Style::Good, "\x1b[32mx\x1b[0m");
        check(true, Style::Bad, "\x1b[31mx\x1b[0m");
        check(true, Style::Mark, "\x1b[36mx\x1b[0m");
        check(true, Style::Warn, "\x1b[33mx\x1b[0m");
        check(false, Style::Bad, "x");
    }

    proptest! {
        #[test]
        fn no_terminal_sequence_remains(text in "(\\PC|[\\x00-\\x1f\\x7f-\\x9f]|\x1b[\\[\\]P(])*") {
            let kept = clean(&text);
            prop_assert!(kept.chars().all(|c| c == '\n' || c == '\t' || !c.is_control()));
            let lines = |text: &str| text.matches('\n').count();
            prop_assert!(lines(&kept) >= lines(&text));
        }
    }
}
