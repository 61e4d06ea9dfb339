//! Colours of code, line by line while it is written.
//!
//! A lexer of a few hundred lines knows comments, strings, numbers, keywords, calls and types of the
//! common languages. Grammars made of regular expressions know more, but the ones of a single language
//! take 25 to 200 ms and 7 to 40 MB to load, and 100 µs a line; this takes nothing to load and about
//! a microsecond a line.

mod languages;
mod themes;

use crate::context::Context;
use crate::palette::Depth;
use crate::text::{Color, Span, Style};
use languages::Language;
pub use themes::{Theme, ThemeError, theme, theme_names};

/// Bytes of a line over which it stays plain.
const LINE: usize = 2000;
/// Bytes of a block over which the rest stays plain.
const BLOCK: usize = 256 << 10;

/// The kind of a part of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Plain,
    Comment,
    String,
    Number,
    Keyword,
    Call,
    Type,
}

/// A code block that is written line by line.
#[derive(Clone, Debug, Default)]
pub struct Code {
    language: Option<&'static Language>,
    theme: Theme,
    is_colored: bool,
    /// The end of a string or comment that spans lines.
    until: Option<(&'static str, Kind)>,
    bytes: usize,
}

impl Code {
    /// A block in a language, by a name or file extension. An unknown language or theme is displayed
    /// plain or in the default theme; [`theme`] checks names.
    #[must_use]
    pub fn new(language: &str, context: &Context) -> Self {
        Self {
            language: languages::find(language),
            theme: context.theme.as_deref().and_then(|name| theme(name).ok()).unwrap_or_default(),
            is_colored: context.palette.depth != Depth::Monochrome,
            until: None,
            bytes: 0,
        }
    }

    /// A block in the language of a file, by its name.
    #[must_use]
    pub fn of_file(path: &str, context: &Context) -> Self {
        let name = path.rsplit('/').next().unwrap_or(path);
        let extension = name.rsplit_once('.').map_or(name, |(_, extension)| extension);
        Self::new(extension, context)
    }

    /// The next line.
    pub fn line(&mut self, line: &str) -> Vec<Span> {
        self.bytes = self.bytes.saturating_add(line.len());
        let language = self.language.filter(|_| self.is_colored);
        let Some(language) = language.filter(|_| line.len() <= LINE && self.bytes <= BLOCK) else {
            return vec![Span::new(line.to_owned(), Style::PLAIN)];
        };
        let mut lexer = Lexer { language, line, until: self.until, at: 0, parts: Vec::new() };
        lexer.run();
        self.until = lexer.until;
        let spans = lexer.parts.into_iter();
        spans.map(|(text, kind)| Span::new(text.to_owned(), self.style(kind))).collect()
    }

    fn style(&self, kind: Kind) -> Style {
        let color = match kind {
            Kind::Plain => Color::Default,
            Kind::Comment => self.theme.comment,
            Kind::String => self.theme.string,
            Kind::Number => self.theme.number,
            Kind::Keyword => self.theme.keyword,
            Kind::Call => self.theme.call,
            Kind::Type => self.theme.type_name,
        };
        Style::PLAIN.fg(color)
    }
}

struct Lexer<'l> {
    language: &'static Language,
    line: &'l str,
    until: Option<(&'static str, Kind)>,
    at: usize,
    parts: Vec<(&'l str, Kind)>,
}

impl<'l> Lexer<'l> {
    fn run(&mut self) {
        if self.language.is_diff {
            let kind = match self.line.bytes().next() {
                Some(b'+') => Kind::String,
                Some(b'-') => Kind::Number,
                Some(b'@') => Kind::Keyword,
                _ => Kind::Plain,
            };
            return self.take(self.line.len(), kind);
        }
        while self.at < self.line.len() {
            match self.until {
                Some((end, kind)) => self.delimited(end, kind),
                None => self.token(),
            }
        }
    }

    fn rest(&self) -> &'l str {
        &self.line[self.at..]
    }

    fn take(&mut self, bytes: usize, kind: Kind) {
        let text = &self.line[self.at..self.at + bytes];
        self.at += bytes;
        match self.parts.last_mut() {
            // Parts of the same kind are one.
            Some((last, same)) if *same == kind => {
                *last = &self.line[self.at - bytes - last.len()..self.at];
            }
            _ => self.parts.push((text, kind)),
        }
    }

    /// The rest of a string or comment, up to its end.
    fn delimited(&mut self, end: &'static str, kind: Kind) {
        let rest = self.rest();
        let mut from = 0;
        while let Some(found) = rest[from..].find(end).map(|at| at + from) {
            let escapes = rest[..found].bytes().rev().take_while(|byte| *byte == b'\\').count();
            if kind == Kind::Comment || escapes % 2 == 0 {
                self.until = None;
                return self.take(found + end.len(), kind);
            }
            from = found + end.len();
        }
        // A string in single quotes ends with its line.
        if end.len() == 1 && end != "`" {
            self.until = None;
        }
        self.take(rest.len(), kind);
    }

    fn token(&mut self) {
        let rest = self.rest();
        let language = self.language;
        let is_comment = |start: &&&str| rest.starts_with(**start) && self.may_comment(start);
        if language.line_comments.iter().find(is_comment).is_some() {
            return self.take(rest.len(), Kind::Comment);
        }
        let starts = |(start, _): &&(&str, &str)| rest.starts_with(*start);
        if let Some((start, end)) = language.block_comments.iter().find(starts) {
            self.until = Some((end, Kind::Comment));
            return self.take(start.len(), Kind::Comment);
        }
        if let Some(quote) = language.strings.iter().find(|quote| rest.starts_with(**quote)) {
            return self.string(quote);
        }
        let first = rest.chars().next().unwrap_or_default();
        if first.is_ascii_digit() {
            let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
            return self.take(end_of(rest, is_part), Kind::Number);
        }
        if first.is_alphabetic() || first == '_' {
            return self.word();
        }
        self.take(first.len_utf8(), Kind::Plain);
    }

    /// Returns whether a comment may start here: `#` and `--` only at the start of a word.
    fn may_comment(&self, start: &str) -> bool {
        !matches!(start, "#" | ";" | "%")
            || self.line[..self.at].bytes().last().is_none_or(|byte| byte.is_ascii_whitespace())
    }

    fn string(&mut self, quote: &'static str) {
        let rest = self.rest();
        if quote == "'" && self.language.has_lifetimes {
            let is_character = rest[1..].starts_with('\\')
                || rest[1..].chars().nth(1).is_some_and(|second| second == '\'');
            if !is_character {
                return self.take(1, Kind::Plain);
            }
        }
        self.until = Some((quote, Kind::String));
        self.take(quote.len(), Kind::String);
    }

    fn word(&mut self) {
        let rest = self.rest();
        let joins = self.language.word_characters;
        let end = end_of(rest, |c| c.is_alphanumeric() || c == '_' || joins.contains(c));
        let word = &rest[..end];
        let kind = if self.language.is_keyword(word) {
            Kind::Keyword
        } else if !self.language.has_code {
            Kind::Plain
        } else if rest[end..].starts_with('(') || rest[end..].starts_with("!(") {
            Kind::Call
        } else if word.starts_with(char::is_uppercase) && word.contains(char::is_lowercase) {
            Kind::Type
        } else {
            Kind::Plain
        };
        self.take(end, kind);
    }
}

fn end_of(text: &str, is_part: impl Fn(char) -> bool) -> usize {
    text.find(|c| !is_part(c)).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The parts of lines in a language, with a letter for the kind of each.
    fn check(language: &str, code: &str, expect: &str) {
        let language = languages::find(language).unwrap();
        let mut until = None;
        let mut shown = String::new();
        for line in code.lines() {
            let mut lexer = Lexer { language, line, until, at: 0, parts: Vec::new() };
            lexer.run();
            until = lexer.until;
            for (text, kind) in lexer.parts {
                match kind {
                    Kind::Plain => shown.push_str(text),
                    other => shown.push_str(&format!("{}<{text}>", &format!("{other:?}")[..1])),
                }
            }
            shown.push('\n');
        }
        assert_eq!(shown.trim_end(), expect);
    }

    #[test]
    fn parts_of_code() {
        check(
            "rs",
            "fn a<'a>(x: &'a String) { b(0x1f, \"c\\\"\", '\\n'); } // d\n/* e\nf */ let g = h!(1.5);",
            "K<fn> a<'a>(x: &'a T<String>) { C<b>(N<0x1f>, S<\"c\\\"\">, S<'\\n'>); } C<// d>\nC</* e>\nC<f */> K<let> g = C<h>!(N<1.5>);",
        );
        check(
            "python",
            "def f(x):  # a\n  \"\"\"b\n  c\"\"\"\n  return 'd' + x#e",
            "K<def> C<f>(x):  C<# a>\n  S<\"\"\"b>\nS<  c\"\"\"> \n  K<return> S<'d'> + x#e"
                .replace("> \n", ">\n")
                .as_str(),
        );
        check("sh", "if [ \"$#\" ]; then # a", "K<if> [ S<\"$#\"> ]; K<then> C<# a>");
        check("diff", "+a\n-b\n c", "S<+a>\nN<-b>\n c");
        check("json", "{\"a\": [1, true]}", "{S<\"a\">: [N<1>, K<true>]}");
    }

    #[test]
    fn long_lines_and_blocks_stay_plain() {
        let mut code = Code::new("rust", &Context::default());
        assert_eq!(code.line("let a").len(), 2);
        assert_eq!(code.line(&"let a;".repeat(400)).len(), 1);
        for _ in 0..BLOCK / 1000 {
            code.line(&"x".repeat(1000));
        }
        assert_eq!(code.line("let a").len(), 1);
    }

    proptest! {
        #[test]
        fn no_text_is_lost(lines in prop::collection::vec("[a-z\"'`/*#\\\\ (1é]{0,20}", 0..8), language in 0..languages::LANGUAGES.len()) {
            let name = languages::LANGUAGES[language].names.split(' ').next().unwrap();
            let mut code = Code::new(name, &Context::default());
            for line in lines {
                let shown: String = code.line(&line).iter().map(Span::text).collect();
                prop_assert_eq!(shown, line);
            }
        }
    }
}
