//! Makes all changes of a patch, or none.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::Mode;

use super::folder::Folder;
use super::step::Step;
use super::{Action, Change};
use crate::error::{Error, ErrorKind};
use crate::real_path::{real_entry, real_path};
use crate::resolved::Resolved;

/// Makes all changes or none.
///
/// Everything is checked and every new content is written to a file next to its target before the
/// first target changes. Then contents are put in place, in the order given, and after them files
/// are removed: a file that moves exists all the time under one name at least. Each step is a
/// rename, so that no reader sees half a file; when one fails, the earlier ones are undone. Hard
/// links to a changed file keep the old content. Nothing is flushed to disk.
///
/// `limits` is the policy that must allow each path; `None` for full access.
pub fn apply(changes: &[Change], limits: Option<&Resolved>) -> Result<(), Error> {
    apply_to(changes, targets(changes, limits)?)
}

/// As [`apply`], but only when the changes still lead to `approved`: their [`destinations`] when
/// they were decided about.
pub fn apply_approved(
    changes: &[Change],
    approved: &[PathBuf],
    limits: Option<&Resolved>,
) -> Result<(), Error> {
    let targets = targets(changes, limits)?;
    for (at, (change, target)) in changes.iter().zip(&targets).enumerate() {
        if approved.get(at) != Some(target) {
            let path = change.path.display();
            let message = format!(
                "{path} leads to {} now, elsewhere than when this was decided about",
                target.display()
            );
            return Err(Error::new(ErrorKind::TargetChanged, message)
                .next_step("nothing was changed; try again, so that it is decided about again"));
        }
    }
    apply_to(changes, targets)
}

/// The files that `changes` change, with symbolic links resolved, in the order of the changes.
pub fn destinations(changes: &[Change]) -> Result<Vec<PathBuf>, Error> {
    targets(changes, None)
}

fn apply_to(changes: &[Change], targets: Vec<PathBuf>) -> Result<(), Error> {
    let mut transaction = Transaction::default();
    for (change, target) in changes.iter().zip(targets) {
        if let Err(failure) = transaction.prepare(change, target) {
            return Err(transaction.undo(failure));
        }
    }
    transaction.steps.sort_by_key(Step::removes);
    for at in 0..transaction.steps.len() {
        let Some(step) = transaction.steps.get_mut(at) else { break };
        if let Err(source) = step.commit() {
            let failure = Error::io_at(&step.target, source);
            return Err(transaction.undo(failure));
        }
    }
    transaction.steps.iter_mut().for_each(Step::discard);
    Ok(())
}

/// The permission bits of the file, not those that change who runs it.
fn permissions(path: &Path) -> io::Result<Mode> {
    Ok(Mode::from_raw_mode(rustix::fs::stat(path)?.st_mode & 0o777))
}

/// Where each change takes place, with symbolic links resolved.
fn targets(changes: &[Change], limits: Option<&Resolved>) -> Result<Vec<PathBuf>, Error> {
    let limits = limits.map(|limits| limits.clone().settle());
    let mut targets: Vec<PathBuf> = Vec::with_capacity(changes.len());
    for change in changes {
        let path = change.path.as_path();
        let target = match (&change.action, &limits) {
            (Action::Write { .. }, Some(limits)) => limits.check_write(path)?,
            (Action::Write { .. }, None) => real_path(path)?,
            (Action::Remove, Some(limits)) => limits.check_write_entry(path)?,
            (Action::Remove, None) => real_entry(path)?,
        };
        if targets.contains(&target) {
            let message = format!("{} is changed more than once", path.display());
            return Err(Error::new(ErrorKind::InvalidChange, message)
                .next_step("put all changes of a file into one"));
        }
        targets.push(target);
    }
    Ok(targets)
}

#[derive(Default)]
struct Transaction {
    steps: Vec<Step>,
    created: Vec<PathBuf>,
}

impl Transaction {
    fn prepare(&mut self, change: &Change, target: PathBuf) -> Result<(), Error> {
        let (Some(parent), Some(name)) = (target.parent(), target.file_name()) else {
            return Err(not_a_file(&target));
        };
        let create = matches!(&change.action, Action::Write { create_parents: true, .. });
        let failed = |source| Error::io_at(&change.path, source);
        let folder = Folder::open(parent, create, &mut self.created).map_err(failed)?;
        let existing = folder.existing(name).map_err(failed)?;
        let step = match &change.action {
            Action::Write { contents, mode_of, .. } => {
                if existing.is_some_and(|existing| !existing.is_file) {
                    return Err(not_a_file(&change.path));
                }
                let mode = mode_of.as_deref().map(permissions).transpose().map_err(failed)?;
                Step::write(folder, target.clone(), existing, contents, mode)
            }
            Action::Remove => match existing {
                None => Err(io::ErrorKind::NotFound.into()),
                Some(existing) if existing.is_folder => {
                    return Err(not_a_file(&change.path));
                }
                Some(_) => Ok(Step::remove(folder, target.clone())),
            },
        };
        self.steps.push(step.map_err(failed)?);
        Ok(())
    }

    fn undo(mut self, failure: Error) -> Error {
        let mut files = Vec::new();
        for step in self.steps.iter_mut().rev() {
            if step.undo().is_err() {
                files.push(step.target.clone());
            }
        }
        for folder in self.created.iter().rev() {
            // A folder that another program has used in the meantime is not empty, and stays.
            let _ = fs::remove_dir(folder);
        }
        if files.is_empty() {
            return failure;
        }
        let files: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
        let message = format!("{failure}; these files could not be restored: {}", files.join(", "));
        Error::new(ErrorKind::NotRestored, message)
    }
}

fn not_a_file(path: &Path) -> Error {
    let message = format!("{} is not a regular file", path.display());
    Error::new(ErrorKind::InvalidChange, message)
}
