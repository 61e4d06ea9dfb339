//! Finds out whether a shell would run the lines of a patch as commands. Reads words, quotes and
//! heredocs; a heredoc that writes a patch to a file is not run. Does not expand anything.

use crate::embedded::{NAMES, is_shell, mentions_begin};
use crate::marker::{Marker, marker};
use crate::unified;

/// Depth of scripts within scripts that is followed. Deeper ones count as running a patch: no one
/// writes them, and a refused command does no harm.
const MAX_DEPTH: usize = 4;

/// Words before a command that leave the rest a command.
const PREFIXES: [&str; 16] = [
    "!", "builtin", "command", "do", "elif", "else", "env", "exec", "if", "nohup", "sudo", "then",
    "time", "until", "while", "{",
];

/// Returns whether the script has a command that is the first line of a patch, calls `apply_patch`, or
/// is a shell whose script or standard input does so. The caller knows that it mentions a patch.
pub(crate) fn runs_patch(script: &str) -> bool {
    script_runs_patch(script, 0)
}

/// As [`runs_patch`], for a command of these words.
pub(crate) fn command_runs_patch(words: &[String]) -> bool {
    words_run_patch(words, 0)
}

fn script_runs_patch(script: &str, depth: usize) -> bool {
    if depth > MAX_DEPTH {
        return true;
    }
    let mut reader = Reader { rest: script, line: Vec::new(), word: None, heredocs: Vec::new() };
    reader.line.push(Command::default());
    loop {
        if reader.begins_patch() {
            return true;
        }
        let more = reader.step();
        if reader.rest.is_empty() || !more {
            reader.end_word();
            return reader.end_line(depth);
        }
        if reader.rest.starts_with('\n') {
            reader.end_word();
            if reader.end_line(depth) {
                return true;
            }
        }
    }
}

fn words_run_patch(words: &[String], depth: usize) -> bool {
    let is_prefix = |word: &&String| PREFIXES.contains(&word.as_str()) || is_assignment(word);
    let words = &words[words.iter().take_while(is_prefix).count()..];
    let Some((command, arguments)) = words.split_first() else { return false };
    if NAMES.contains(&command.as_str()) || mentions_begin(command) {
        return true;
    }
    if !is_shell(command) && command != "eval" {
        return false;
    }
    let is_called = || words.iter().any(|word| NAMES.contains(&word.as_str()));
    arguments.iter().filter(|word| mentions_begin(word)).any(|word| {
        let is_expanded = word.trim_start().starts_with(['$', '`']);
        is_expanded || is_called() || script_runs_patch(word, depth + 1)
    })
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

/// A command of the current line.
#[derive(Default)]
struct Command {
    words: Vec<String>,
    /// True if it reads the output of the command before it.
    is_piped: bool,
}

struct Heredoc {
    delimiter: String,
    strips_tabs: bool,
    /// Index of the command that reads it.
    command: usize,
}

struct Reader<'a> {
    rest: &'a str,
    /// The commands of the current line; the last one is being read.
    line: Vec<Command>,
    /// The current word.
    word: Option<String>,
    /// Heredocs whose bodies follow the line.
    heredocs: Vec<Heredoc>,
}

impl<'a> Reader<'a> {
    /// Returns whether a command begins here, and its text is the first line of a patch.
    fn begins_patch(&self) -> bool {
        let is_start =
            self.word.is_none() && self.line.last().is_some_and(|it| it.words.is_empty());
        if !is_start || !self.rest.starts_with(['*', '-', 'd']) {
            return false;
        }
        let mut lines = self.rest.lines();
        let Some(first) = lines.next() else { return false };
        marker(first).is_some_and(Marker::begins_patch) || unified::begins(first, lines.next())
    }

    /// Reads a character, a quoted text or an operator other than the end of the line. Returns false
    /// at a quote that does not end.
    fn step(&mut self) -> bool {
        let Some(c) = self.rest.chars().next() else { return false };
        let after = &self.rest[c.len_utf8()..];
        match c {
            '\n' => self.rest = after,
            '\'' => return self.quoted(after, after.split_once('\'')),
            '"' => return self.quoted(after, split_double_quote(after)),
            '\\' => {
                let escaped = after.chars().next();
                self.rest = &after[escaped.map_or(0, char::len_utf8)..];
                if let Some(escaped) = escaped.filter(|c| *c != '\n') {
                    self.word.get_or_insert_default().push(escaped);
                }
            }
            '#' if self.word.is_none() => {
                self.rest = &after[after.find('\n').unwrap_or(after.len())..];
            }
            '<' if after.starts_with("<<") => {
                self.end_word();
                self.rest = &after[2..];
            }
            '<' if after.starts_with('<') => self.heredoc(&after[1..]),
            // A part of `2>&1` or of `&>`.
            '&' if after.starts_with('>')
                || self.word.as_ref().is_some_and(|it| it.ends_with('>')) =>
            {
                self.word.get_or_insert_default().push(c);
                self.rest = after;
            }
            ';' | '&' | '|' | '(' | ')' | '`' => {
                let is_piped = c == '|' && !after.starts_with('|');
                self.end_word();
                self.rest = after;
                let is_second_half =
                    c == '|' && self.line.last().is_some_and(|it| it.words.is_empty());
                self.line
                    .push(Command { words: Vec::new(), is_piped: is_piped && !is_second_half });
            }
            c if c.is_whitespace() => {
                self.end_word();
                self.rest = after;
            }
            c => {
                self.word.get_or_insert_default().push(c);
                self.rest = after;
            }
        }
        true
    }

    fn quoted(&mut self, text: &'a str, ends: Option<(&'a str, &'a str)>) -> bool {
        let (quoted, rest) = ends.unwrap_or((text, ""));
        self.word.get_or_insert_default().push_str(quoted);
        self.rest = rest;
        ends.is_some()
    }

    fn heredoc(&mut self, text: &'a str) {
        self.end_word();
        let strips_tabs = text.starts_with('-');
        let text = text.strip_prefix('-').unwrap_or(text).trim_start_matches([' ', '\t']);
        let is_delimiter = |c: char| c.is_ascii_alphanumeric() || "_'\"\\-.".contains(c);
        let end = text.find(|c| !is_delimiter(c)).unwrap_or(text.len());
        let delimiter = text[..end].replace(['\'', '"', '\\'], "");
        self.rest = &text[end..];
        self.heredocs.push(Heredoc { delimiter, strips_tabs, command: self.line.len() - 1 });
    }

    fn end_word(&mut self) {
        if let (Some(word), Some(command)) = (self.word.take(), self.line.last_mut()) {
            command.words.push(word);
        }
    }

    /// Ends the line with the bodies of its heredocs. Returns whether one of its commands runs a patch.
    fn end_line(&mut self, depth: usize) -> bool {
        self.rest = self.rest.strip_prefix('\n').unwrap_or(self.rest);
        let line = std::mem::replace(&mut self.line, vec![Command::default()]);
        for heredoc in std::mem::take(&mut self.heredocs) {
            let body = self.body(&heredoc);
            let pipe = line[heredoc.command + 1..].iter().take_while(|it| it.is_piped);
            let mut readers = std::iter::once(&line[heredoc.command]).chain(pipe);
            let is_shell = |it: &Command| it.words.iter().any(|word| is_shell(word));
            if readers.any(is_shell) && mentions_begin(body) && script_runs_patch(body, depth + 1) {
                return true;
            }
        }
        line.iter().any(|command| words_run_patch(&command.words, depth))
    }

    /// Takes the body of a heredoc, up to its delimiter or the end of the script.
    fn body(&mut self, heredoc: &Heredoc) -> &'a str {
        let start = self.rest;
        let mut length = 0;
        for line in start.split_inclusive('\n') {
            let text = line.trim_end_matches(['\n', '\r']);
            let text = if heredoc.strips_tabs { text.trim_start_matches('\t') } else { text };
            if text == heredoc.delimiter {
                self.rest = &start[length + line.len()..];
                return &start[..length];
            }
            length += line.len();
        }
        self.rest = "";
        start
    }
}

/// Splits at the quote that ends a text in double quotes.
fn split_double_quote(text: &str) -> Option<(&str, &str)> {
    let mut is_escaped = false;
    let end = text.find(|c| {
        let ends = c == '"' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        ends
    })?;
    Some((&text[..end], &text[end + 1..]))
}
