//! Applies the hunks of one file to its text. Touches nothing but the lines that the hunks
//! remove and add: everything else stays as it is to the byte, line ends included.

use crate::lines::{self, FileLine};
use crate::parse::{Hunk, Line};
use crate::plan::ApplyError;
use crate::seek::{Haystack, TooCostly};

/// How many lines of a hunk an error shows.
const SHOWN_LINES: usize = 20;

/// The text of `path` after `hunks`, which stand in the order of the file.
pub(crate) fn apply_hunks(path: &str, old: &str, hunks: &[Hunk]) -> Result<String, ApplyError> {
    let file = lines::lines(old);
    let usual_end = match file.first() {
        Some(FileLine { end: "\r\n", .. }) => "\r\n",
        _ => "\n",
    };
    let ended = file.last().is_none_or(|line| !line.end.is_empty());
    let mut haystack = Haystack::new(&file);
    let mut new: Vec<FileLine<'_>> = Vec::with_capacity(file.len());
    let mut done = 0;
    for (at, hunk) in hunks.iter().enumerate() {
        let (start, counted) = locate(hunk, &mut haystack, done, file.len())
            .map_err(|failure| failure.describe(path, at + 1))?;
        new.extend_from_slice(&file[done..start]);
        done = start;
        for line in &hunk.lines[..counted] {
            match line {
                // The file's own line: a loose match must not change what only stands around.
                Line::Context(_) => {
                    new.extend(file.get(done));
                    done += 1;
                }
                Line::Remove(_) => done += 1,
                Line::Add(text) => new.push(FileLine { text, end: usual_end }),
            }
        }
    }
    new.extend_from_slice(&file[done..]);
    Ok(lines::join(&new, usual_end, ended))
}

enum Failure {
    NotFound { lines: Vec<String>, after: String },
    TooCostly,
}

impl From<TooCostly> for Failure {
    fn from(_: TooCostly) -> Self {
        Self::TooCostly
    }
}

impl Failure {
    fn describe(self, path: &str, hunk: usize) -> ApplyError {
        let path = path.to_owned();
        match self {
            Self::NotFound { lines, after } => {
                let mut shown = lines[..lines.len().min(SHOWN_LINES)].join("\n");
                if lines.len() > SHOWN_LINES {
                    shown.push_str("\n…");
                }
                ApplyError::NotFound { path, hunk, after, lines: shown }
            }
            Self::TooCostly => ApplyError::TooCostly(path),
        }
    }
}

/// The line of the file where the hunk begins, and how many of the hunk's lines count.
fn locate(
    hunk: &Hunk,
    haystack: &mut Haystack<'_>,
    done: usize,
    length: usize,
) -> Result<(usize, usize), Failure> {
    let mut from = done;
    for line in &hunk.contexts {
        from = match haystack.find(&[line], from, false)? {
            Some(at) => at + 1,
            None => {
                return Err(Failure::NotFound { lines: vec![line.clone()], after: place(from) });
            }
        };
    }
    let old: Vec<&str> = hunk.lines.iter().filter_map(old_line).collect();
    let all = hunk.lines.len();
    if old.is_empty() {
        // Nothing to hold on to: after the named line, else at the end of the file.
        let after_context = !hunk.contexts.is_empty() && !hunk.at_end;
        return Ok((if after_context { from } else { length }, all));
    }
    if let Some(at) = haystack.find(&old, from, hunk.at_end)? {
        return Ok((at, all));
    }
    // The named line may itself be the first line of the hunk.
    if !hunk.contexts.is_empty()
        && let Some(at) = haystack.find(&old, from.saturating_sub(1).max(done), hunk.at_end)?
    {
        return Ok((at, all));
    }
    // A last empty context line is often the end of the file, taken for a line.
    if let (Some(Line::Context(last)), [shorter @ .., _]) = (hunk.lines.last(), &old[..])
        && last.is_empty()
        && !shorter.is_empty()
        && let Some(at) = haystack.find(shorter, from, hunk.at_end)?
    {
        return Ok((at, all - 1));
    }
    let lines = old.iter().map(|line| (*line).to_owned()).collect();
    let after = if hunk.at_end { " at the end of the file".to_owned() } else { place(from) };
    Err(Failure::NotFound { lines, after })
}

fn old_line(line: &Line) -> Option<&str> {
    match line {
        Line::Context(text) | Line::Remove(text) => Some(text),
        Line::Add(_) => None,
    }
}

fn place(from: usize) -> String {
    if from == 0 { String::new() } else { format!(" after line {from}") }
}
