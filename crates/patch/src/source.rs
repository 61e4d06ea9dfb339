//! Splits the text of a patch into numbered lines, from its first marker on. Removes what models
//! leave around it: white space, code fences, the rest of a heredoc, a common indentation.

use crate::embedded;
use crate::error::Error;
use crate::marker::{BEGIN, Marker, marker};

/// The lines after `*** Begin Patch`, or from the first file on where that line is missing.
pub(crate) struct Source<'a> {
    pub(crate) lines: Vec<&'a str>,
    /// Number of lines before the first one.
    pub(crate) skipped: usize,
}

impl<'a> Source<'a> {
    /// The lines of a whole patch.
    pub(crate) fn new(text: &'a str) -> Result<Self, Error> {
        Self::read(text, false)
    }

    /// The lines of the beginning of a patch.
    pub(crate) fn beginning(text: &'a str) -> Result<Self, Error> {
        Self::read(text, true)
    }

    fn read(text: &'a str, is_beginning: bool) -> Result<Self, Error> {
        let text = text.trim_start_matches('\u{feff}');
        let mut lines: Vec<&str> =
            text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line)).collect();
        let first = lines.iter().take_while(|line| is_before(line)).count();
        let Some(&begin) = lines.get(first) else {
            let message = format!("the patch is empty; expected `{BEGIN}`");
            return Err(Error::syntax(None, message));
        };
        let is_begin = |line: &str| unquoted_marker(line) == Some(Marker::Begin);
        let (begin, skipped) = match unquoted_marker(begin) {
            Some(Marker::Begin) => (begin, first + 1),
            Some(found) if found.begins_patch() => (begin, first),
            // Words about the patch.
            _ => match lines.iter().position(|line| is_begin(line)) {
                Some(at) => (lines[at], at + 1),
                None => {
                    let message = format!("expected `{BEGIN}`, found `{}`", clip(begin));
                    return Err(Error::syntax(Some(first + 1), message));
                }
            },
        };
        let indentation = &begin[..begin.len() - begin.trim_start().len()];
        lines.drain(..skipped);
        unindent(&mut lines, indentation, is_beginning);
        Ok(Self { lines, skipped })
    }
}

/// The marker on a line that may begin with the quote of a shell's argument.
pub(crate) fn unquoted_marker(line: &str) -> Option<Marker<'_>> {
    marker(line.trim_start().trim_start_matches(['\'', '"', '`']))
}

/// Removes the indentation of the first marker from all lines, if the whole patch has it.
fn unindent(lines: &mut [&str], indentation: &str, is_beginning: bool) {
    let end = lines.iter().position(|line| marker(line) == Some(Marker::End));
    let without_end = if is_beginning { lines.len() } else { 0 };
    let lines = &mut lines[..end.map_or(without_end, |end| end + 1)];
    let is_indented = |line: &&str| line.starts_with(indentation) || line.trim().is_empty();
    if !indentation.is_empty() && lines.iter().all(is_indented) {
        for line in lines {
            *line = line.strip_prefix(indentation).unwrap_or("");
        }
    }
}

/// Returns whether a line before the patch can be ignored: blank, a code fence, or the start of a
/// heredoc.
fn is_before(line: &str) -> bool {
    let line = line.trim();
    let line = line.strip_prefix("$ ").unwrap_or(line);
    let is_command = |name: &&str| {
        let rest = line.strip_prefix(name);
        rest.is_some_and(|rest| rest.trim().is_empty() || rest.trim_start().starts_with("<<"))
    };
    line.is_empty()
        || line.starts_with("```")
        || line.starts_with("<<")
        || embedded::NAMES.iter().any(is_command)
}

/// Returns whether a line after the patch can be ignored: blank, a code fence, the end of a
/// heredoc, or closing quotes.
pub(crate) fn is_after(line: &str) -> bool {
    let line = line.trim();
    let is_delimiter = |c: char| c.is_ascii_alphanumeric() || c == '_';
    line.chars().all(is_delimiter) || line.chars().all(|c| "`'\")}]".contains(c))
}

/// Shortens a long line for an error message.
pub(crate) fn clip(line: &str) -> String {
    const MAX: usize = 120;
    if line.chars().count() <= MAX {
        return line.to_owned();
    }
    line.chars().take(MAX).chain(['…']).collect()
}
