//! What a patch makes of the files: hunks are found by their context, and the patch applies as a
//! whole or not at all.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use crate::apply::apply_hunks;
use crate::parse::{Operation, Patch};

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
        /// The lines, the first of them if there are many.
        lines: String,
    },
    /// Finding the hunks of a file takes too long.
    #[error("{0}: the patch is too costly to apply; split it, or repeat the file's lines exactly")]
    TooCostly(String),
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
    let mut seen: BTreeSet<PathBuf> = BTreeSet::new();
    let mut changes = Vec::with_capacity(patch.operations.len());
    for operation in &patch.operations {
        let change = change(operation, cwd, read)?;
        let mut paths = vec![change.path.clone()];
        if let ChangeKind::Update { move_to: Some(target) } = &change.kind {
            paths.push(target.clone());
        }
        for path in paths {
            let shown = path.display().to_string();
            if !seen.insert(path) {
                return Err(ApplyError::Twice(shown));
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
