//! Reading and changing files for patches: within the policy, through no symbolic link that was
//! not there when the policy was checked, and all changes or none.

mod folder;
mod step;

use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::policy::{Denied, Resolved, real_entry, real_path};
use folder::Folder;
use step::Step;

/// One change of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Absolute.
    pub path: PathBuf,
    pub action: Action,
}

/// What to do to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Gives the file this content; creates it when it does not exist. Behind a symbolic link,
    /// the file that it leads to is written.
    Write {
        contents: Vec<u8>,
        /// Create missing folders above it.
        create_parents: bool,
        /// Permission bits; `None` keeps those of an existing file.
        mode: Option<u32>,
    },
    /// Removes the file; of a symbolic link, the link.
    Remove,
}

/// Why changes were not made. Unless it is [`ApplyError::NotRestored`], no file has changed.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    #[error(transparent)]
    Denied(#[from] Denied),
    #[error("{} is changed more than once", .0.display())]
    Twice(PathBuf),
    #[error("{} is not a regular file", .0.display())]
    NotAFile(PathBuf),
    #[error("{}: {source}", .path.display())]
    Io { path: PathBuf, source: io::Error },
    /// A change failed and undoing the ones before it did as well.
    #[error("{failure}; these files could not be restored: {}", list(.files))]
    NotRestored { failure: Box<ApplyError>, files: Vec<PathBuf> },
}

/// Why a file could not be read as text.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("{} is not a regular file", .0.display())]
    NotAFile(PathBuf),
    #[error("{} has more than {max_bytes} bytes", .path.display())]
    TooLarge { path: PathBuf, max_bytes: u64 },
    #[error("{} is not UTF-8 text", .0.display())]
    NotText(PathBuf),
    #[error("{}: {source}", .path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// Reads a text file of at most `max_bytes`. Never waits: a pipe or a device is refused.
pub fn read_text(path: &Path, max_bytes: u64) -> Result<String, ReadError> {
    let failed = |source| ReadError::Io { path: path.to_owned(), source };
    let flags = (libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC).cast_unsigned();
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags.cast_signed())
        .open(path)
        .map_err(failed)?;
    let meta = file.metadata().map_err(failed)?;
    if !meta.is_file() {
        return Err(ReadError::NotAFile(path.to_owned()));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(meta.len().min(max_bytes)).unwrap_or(0));
    // The length may change while we read: the bound is on what is read.
    file.take(max_bytes.saturating_add(1)).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > max_bytes {
        return Err(ReadError::TooLarge { path: path.to_owned(), max_bytes });
    }
    String::from_utf8(bytes).map_err(|_| ReadError::NotText(path.to_owned()))
}

/// Makes all changes or none.
///
/// Everything is checked and every new content is written to a file beside its target before the
/// first target changes. Then contents are put in place, in the order given, and after them files
/// are removed: a file that moves exists all the time under one name at least. Each step is a
/// rename, so that no reader sees half a file; when one fails, the earlier ones are undone. Hard
/// links to a changed file keep the old content. Nothing is flushed to disk.
///
/// `limits` is the policy that must allow each path; `None` for full access.
pub fn apply(changes: &[Change], limits: Option<&Resolved>) -> Result<(), ApplyError> {
    let targets = targets(changes, limits)?;
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
            let failure = ApplyError::Io { path: step.target.clone(), source };
            return Err(transaction.undo(failure));
        }
    }
    transaction.steps.iter_mut().for_each(Step::discard);
    Ok(())
}

/// Where each change takes place, with symbolic links resolved.
fn targets(changes: &[Change], limits: Option<&Resolved>) -> Result<Vec<PathBuf>, ApplyError> {
    let mut targets: Vec<PathBuf> = Vec::with_capacity(changes.len());
    for change in changes {
        let path = change.path.as_path();
        let target = match (&change.action, limits) {
            (Action::Write { .. }, Some(limits)) => limits.check_write(path)?,
            (Action::Write { .. }, None) => real_path(path)?,
            (Action::Remove, Some(limits)) => limits.check_write_entry(path)?,
            (Action::Remove, None) => real_entry(path)?,
        };
        if targets.contains(&target) {
            return Err(ApplyError::Twice(path.to_owned()));
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
    fn prepare(&mut self, change: &Change, target: PathBuf) -> Result<(), ApplyError> {
        let (Some(parent), Some(name)) = (target.parent(), target.file_name()) else {
            return Err(ApplyError::NotAFile(target));
        };
        let create = matches!(&change.action, Action::Write { create_parents: true, .. });
        let failed = |source| ApplyError::Io { path: change.path.clone(), source };
        let folder = Folder::open(parent, create, &mut self.created).map_err(failed)?;
        let existing = folder.existing(name).map_err(failed)?;
        let step = match &change.action {
            Action::Write { contents, mode, .. } => {
                if existing.is_some_and(|existing| !existing.is_file) {
                    return Err(ApplyError::NotAFile(change.path.clone()));
                }
                Step::write(folder, target.clone(), existing, contents, *mode)
            }
            Action::Remove => match existing {
                None => Err(io::ErrorKind::NotFound.into()),
                Some(existing) if existing.is_folder => {
                    return Err(ApplyError::NotAFile(change.path.clone()));
                }
                Some(_) => Ok(Step::remove(folder, target.clone())),
            },
        };
        self.steps.push(step.map_err(failed)?);
        Ok(())
    }

    fn undo(mut self, failure: ApplyError) -> ApplyError {
        let mut files = Vec::new();
        for step in self.steps.iter_mut().rev() {
            if step.undo().is_err() {
                files.push(step.target.clone());
            }
        }
        for folder in self.created.iter().rev() {
            // Not empty when somebody else has used it meanwhile: then it stays.
            let _ = fs::remove_dir(folder);
        }
        if files.is_empty() {
            return failure;
        }
        ApplyError::NotRestored { failure: Box::new(failure), files }
    }
}

fn list(files: &[PathBuf]) -> String {
    files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(", ")
}
