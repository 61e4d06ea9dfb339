//! What a patch makes of the files: hunks are found by their context, and the patch applies as a
//! whole or not at all.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use crate::parse::{Hunk, Line, Operation, Patch};

/// What happens to one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Absolute, without `.` and `..`.
    pub path: PathBuf,
    /// Add, delete or update.
    pub kind: ChangeKind,
    /// The contents before; `None` for a file that was not there.
    pub before: Option<String>,
    /// The contents after; `None` for a file that goes.
    pub after: Option<String>,
}

/// What kind of change it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// A new file.
    Add,
    /// A file less.
    Delete,
    /// Changed contents.
    Update {
        /// The new path, absolute.
        move_to: Option<PathBuf>,
    },
}

/// Why a file could not be read, in words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ReadError(String);

impl ReadError {
    /// With these words.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

/// Why the patch does not apply. Nothing of it does then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// A file cannot be read.
    #[error("{path}: {source}")]
    Read {
        /// The file.
        path: String,
        /// Why.
        source: ReadError,
    },
    /// A file to change or delete is not there.
    #[error("{0}: there is no such file")]
    Missing(String),
    /// A file to move to is there already.
    #[error("{0}: a file is there already; choose another name or delete it first")]
    Occupied(String),
    /// A file is named by two operations.
    #[error("{0}: named twice in one patch; put all changes of a file together")]
    Twice(String),
    /// The lines of a hunk were not found.
    #[error("{path}: hunk {hunk}: these lines were not found{after}:\n{lines}")]
    NotFound {
        /// The file.
        path: String,
        /// From 1.
        hunk: usize,
        /// Where they were looked for.
        after: String,
        /// The lines.
        lines: String,
    },
}

/// Plans a patch against the files that `read` gives (`None`: no such file).
///
/// # Errors
/// The first thing that does not fit.
pub fn plan(
    patch: &Patch,
    cwd: &Path,
    read: &mut dyn FnMut(&Path) -> Result<Option<String>, ReadError>,
) -> Result<Vec<Change>, ApplyError> {
    let mut seen: BTreeMap<PathBuf, ()> = BTreeMap::new();
    let mut changes = Vec::with_capacity(patch.operations.len());
    for operation in &patch.operations {
        let change = change(operation, cwd, read)?;
        let mut paths = vec![change.path.clone()];
        if let ChangeKind::Update { move_to: Some(target) } = &change.kind {
            paths.push(target.clone());
        }
        for path in paths {
            if seen.insert(path.clone(), ()).is_some() {
                return Err(ApplyError::Twice(path.display().to_string()));
            }
        }
        changes.push(change);
    }
    Ok(changes)
}

fn change(
    operation: &Operation,
    cwd: &Path,
    read: &mut dyn FnMut(&Path) -> Result<Option<String>, ReadError>,
) -> Result<Change, ApplyError> {
    let path = normal(&cwd.join(operation.path()));
    let shown = path.display().to_string();
    let mut contents_of = |path: &Path| {
        read(path).map_err(|source| ApplyError::Read { path: path.display().to_string(), source })
    };
    let before = contents_of(&path)?;
    match operation {
        Operation::Add { contents, .. } => {
            let kind = match before {
                None => ChangeKind::Add,
                Some(_) => ChangeKind::Update { move_to: None },
            };
            Ok(Change { path, kind, before, after: Some(contents.clone()) })
        }
        Operation::Delete { .. } => {
            let before = Some(before.ok_or(ApplyError::Missing(shown))?);
            Ok(Change { path, kind: ChangeKind::Delete, before, after: None })
        }
        Operation::Update { move_to, hunks, .. } => {
            let old = before.ok_or_else(|| ApplyError::Missing(shown.clone()))?;
            let move_to = move_to.as_ref().map(|target| normal(&cwd.join(target)));
            let move_to = move_to.filter(|target| *target != path);
            if let Some(target) = &move_to
                && contents_of(target)?.is_some()
            {
                return Err(ApplyError::Occupied(target.display().to_string()));
            }
            let after = Some(apply_hunks(&shown, &old, hunks)?);
            Ok(Change { path, kind: ChangeKind::Update { move_to }, before: Some(old), after })
        }
    }
}

/// `.` and `..` resolved by name.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                normal.pop();
            }
            other => normal.push(other),
        }
    }
    normal
}

fn apply_hunks(path: &str, old: &str, hunks: &[Hunk]) -> Result<String, ApplyError> {
    let ending = if old.contains("\r\n") { "\r\n" } else { "\n" };
    let ends_with_newline = old.is_empty() || old.ends_with('\n');
    let body = old.strip_suffix('\n').unwrap_or(old);
    let lines: Vec<&str> = if old.is_empty() {
        Vec::new()
    } else {
        body.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line)).collect()
    };
    let mut new: Vec<&str> = Vec::with_capacity(lines.len());
    let mut done = 0;
    for (number, hunk) in hunks.iter().enumerate() {
        let not_found = |lines: String, after: String| ApplyError::NotFound {
            path: path.to_owned(),
            hunk: number + 1,
            after,
            lines,
        };
        let mut from = done;
        for context in &hunk.contexts {
            let found = find(&lines, &[context.as_str()], from, false);
            from = found.ok_or_else(|| not_found(context.clone(), place(done)))? + 1;
        }
        let old_lines: Vec<&str> = hunk.lines.iter().filter_map(old_line).collect();
        let at = match locate(&lines, &old_lines, from, hunk) {
            Some(at) => at,
            // The named line may itself be the first line of the hunk.
            None => match hunk.contexts.is_empty() {
                false => locate(&lines, &old_lines, from.saturating_sub(1).max(done), hunk),
                true => None,
            }
            .ok_or_else(|| not_found(old_lines.join("\n"), place(from)))?,
        };
        new.extend_from_slice(&lines[done..at]);
        done = replace(&lines, at, &hunk.lines, &mut new);
    }
    new.extend_from_slice(&lines[done..]);
    let mut text = new.join(ending);
    if ends_with_newline && !new.is_empty() {
        text.push_str(ending);
    }
    Ok(text)
}

/// Context lines stay as they are in the file, however loosely they matched.
fn replace<'a>(
    lines: &[&'a str],
    mut at: usize,
    hunk: &'a [Line],
    new: &mut Vec<&'a str>,
) -> usize {
    for line in hunk {
        match line {
            Line::Context(_) => {
                new.push(lines[at]);
                at += 1;
            }
            Line::Remove(_) => at += 1,
            Line::Add(text) => new.push(text),
        }
    }
    at
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

/// Where the hunk's old lines stand; lines that are only added stand after their context, else at
/// the end of the file.
fn locate(lines: &[&str], old: &[&str], from: usize, hunk: &Hunk) -> Option<usize> {
    if old.is_empty() {
        let after_context = !hunk.contexts.is_empty() && !hunk.at_end;
        return Some(if after_context { from } else { lines.len() });
    }
    find(lines, old, from, hunk.at_end)
}

/// The first place at or after `from` where `wanted` stands: exactly, then without trailing, then
/// without surrounding white space.
fn find(lines: &[&str], wanted: &[&str], from: usize, at_end: bool) -> Option<usize> {
    let last = lines.len().checked_sub(wanted.len())?;
    let ways: [fn(&str) -> &str; 3] = [|line| line, str::trim_end, str::trim];
    ways.iter().find_map(|way| {
        let wanted: Vec<&str> = wanted.iter().map(|line| way(line)).collect();
        let stands =
            |at: usize| wanted.iter().zip(&lines[at..]).all(|(wanted, line)| *wanted == way(line));
        if at_end && last >= from && stands(last) {
            return Some(last);
        }
        (from..=last).find(|&at| stands(at))
    })
}
