//! Plans the changes of a patch. Hunks are found by their context, and a patch applies completely
//! or not at all.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};

use crate::apply::apply_hunks;
use crate::error::Error;
use crate::parse::{Operation, Patch};

/// The change of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Absolute, without `.` and `..`.
    pub path: PathBuf,
    /// Add, delete or update.
    pub kind: ChangeKind,
    /// The contents before; `None` for a new file.
    pub before: Option<String>,
    /// The contents after; `None` for a deleted file.
    pub after: Option<String>,
    /// The contents of the file that a move replaces.
    pub replaced: Option<String>,
}

impl Change {
    /// The deletion of the file that this move replaces.
    pub fn replaced_file(&self) -> Option<Change> {
        let ChangeKind::Update { move_to: Some(target) } = &self.kind else { return None };
        self.replaced.as_ref().map(|contents| Change {
            path: target.clone(),
            kind: ChangeKind::Delete,
            before: Some(contents.clone()),
            after: None,
            replaced: None,
        })
    }
}

/// The kind of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// A new file.
    Add,
    /// A deleted file.
    Delete,
    /// Changed contents.
    Update {
        /// The new path, absolute.
        move_to: Option<PathBuf>,
    },
}

/// Plans the changes that `patch` makes to files, whose contents `read` returns (`None` if a file
/// does not exist).
///
/// # Errors
/// The first operation that does not apply, or an error of `read`.
pub fn plan(
    patch: &Patch,
    cwd: &Path,
    read: &mut dyn FnMut(&Path) -> Result<Option<String>, Error>,
) -> Result<Vec<Change>, Error> {
    let error = match plan_operations(&patch.operations, cwd, read) {
        Ok(changes) => return Ok(changes),
        Err(error) => error,
    };
    match &patch.alternative {
        Some(operations) => plan_operations(operations, cwd, read).map_err(|_| error),
        None => Err(error),
    }
}

type Read<'r> = &'r mut dyn FnMut(&Path) -> Result<Option<String>, Error>;

fn plan_operations(
    operations: &[Operation],
    cwd: &Path,
    read: Read<'_>,
) -> Result<Vec<Change>, Error> {
    // The change of each path; `None` for both ends of a move.
    let mut seen: HashMap<PathBuf, Option<usize>> = HashMap::new();
    let mut changes: Vec<Change> = Vec::with_capacity(operations.len());
    for operation in operations {
        let path = normal(&cwd.join(operation.path()));
        match seen.get(&path) {
            Some(Some(at)) => change_again(&mut changes[*at], operation)?,
            Some(None) => return Err(Error::contradicting_operations(&path.display().to_string())),
            None => {
                let change = change(operation, path, cwd, read)?;
                if let ChangeKind::Update { move_to: Some(target) } = &change.kind {
                    if seen.insert(target.clone(), None).is_some() {
                        return Err(Error::contradicting_operations(&target.display().to_string()));
                    }
                    seen.insert(change.path.clone(), None);
                } else {
                    seen.insert(change.path.clone(), Some(changes.len()));
                }
                changes.push(change);
            }
        }
    }
    Ok(changes)
}

/// Applies a further operation to a changed file: another update, or an addition after its
/// deletion.
fn change_again(change: &mut Change, operation: &Operation) -> Result<(), Error> {
    let shown = change.path.display().to_string();
    match (operation, &change.after) {
        (Operation::Update { move_to: None, hunks, .. }, Some(contents)) => {
            change.after = Some(apply_hunks(&shown, contents, hunks)?);
        }
        (Operation::Add { contents, .. }, None) => {
            change.kind = ChangeKind::Update { move_to: None };
            change.after = Some(contents.clone());
        }
        _ => return Err(Error::contradicting_operations(&shown)),
    }
    Ok(())
}

fn change(
    operation: &Operation,
    path: PathBuf,
    cwd: &Path,
    read: Read<'_>,
) -> Result<Change, Error> {
    let shown = path.display().to_string();
    let before = read(&path)?;
    match operation {
        Operation::Add { contents, .. } => {
            let kind = match before {
                None => ChangeKind::Add,
                Some(_) => ChangeKind::Update { move_to: None },
            };
            Ok(Change { path, kind, before, after: Some(contents.clone()), replaced: None })
        }
        Operation::Delete { .. } => {
            let before = Some(before.ok_or_else(|| Error::file_not_found(&shown))?);
            Ok(Change { path, kind: ChangeKind::Delete, before, after: None, replaced: None })
        }
        Operation::Update { move_to, hunks, .. } => {
            let old = before.ok_or_else(|| Error::file_not_found(&shown))?;
            let move_to = move_to.as_ref().map(|target| normal(&cwd.join(target)));
            let move_to = move_to.filter(|target| *target != path);
            let replaced = move_to.as_deref().map(read).transpose()?.flatten();
            let after = Some(apply_hunks(&shown, &old, hunks)?);
            let kind = ChangeKind::Update { move_to };
            Ok(Change { path, kind, before: Some(old), after, replaced })
        }
    }
}

/// Resolves `.` and `..` lexically.
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
