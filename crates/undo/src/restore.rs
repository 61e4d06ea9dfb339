//! Writes the states of a plan: removals first, then folders, files and links, and last the modes of
//! folders. Each file appears whole; nothing is written through a link.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use crate::error::Error;
use crate::kernel::{OpenFolder, permissions};
use crate::plan::{Obstacle, Step, Unkept};
use crate::state::{Digest, State};

/// The mode of a folder that is made, until its entries are there.
pub(crate) const MODE_MEANWHILE: Mode = Mode::RWXU;
/// The bits that a folder needs while its entries are changed.
pub(crate) const OPENED_UP: u32 = 0o300;

/// The result of a restoration.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Absolute paths that are what they were.
    pub restored: Vec<PathBuf>,
    /// Entries that cannot be what they were, as the plan says.
    pub unkept: Vec<Unkept>,
    /// Absolute paths that stay as they are because something failed, and what.
    pub failed: Vec<(PathBuf, String)>,
}

/// Reads kept contents.
pub(crate) type Contents<'c> = dyn Fn(Digest) -> Result<Option<Vec<u8>>, Error> + 'c;

/// Carries the steps out that concern the folder at `root`.
pub(crate) fn restore(
    root: &Path,
    steps: &[Step],
    contents: &Contents<'_>,
) -> Result<Outcome, Error> {
    std::fs::create_dir_all(root).map_err(Error::io(root, "creating"))?;
    let folder = OpenFolder::root(root).map_err(Error::io(root, "opening"))?;
    let mut restorer =
        Restorer { root, folder, contents, opened_up: HashMap::new(), outcome: Outcome::default() };
    let replaces = |step: &Step| match (&step.from, &step.to) {
        (Some(from), Some(to)) => from.is_folder() != to.is_folder(),
        (from, to) => from.is_some() && to.is_none(),
    };
    for step in steps.iter().rev().filter(|step| replaces(step)) {
        restorer.run(step, Restorer::remove, step.to.is_none());
    }
    for step in steps.iter().filter(|step| step.to.is_some()) {
        restorer.run(step, Restorer::create, true);
    }
    restorer.close_up(steps);
    // One for all, since a call for each file takes long.
    sync(&restorer.folder).map_err(Error::io(root, "writing to the disk of"))?;
    restorer.outcome.restored.sort_unstable();
    Ok(restorer.outcome)
}

struct Restorer<'r> {
    root: &'r Path,
    folder: OpenFolder,
    contents: &'r Contents<'r>,
    /// Folders that were made writable for a while, with their modes.
    opened_up: HashMap<PathBuf, u32>,
    outcome: Outcome,
}

impl Restorer<'_> {
    fn run(
        &mut self,
        step: &Step,
        work: fn(&mut Self, &Place, &Step) -> Result<(), Error>,
        is_last: bool,
    ) {
        if self.is_given_up(step) {
            return;
        }
        let done = self.place(&step.path).and_then(|place| work(self, &place, step));
        match done {
            Ok(()) if is_last && !self.is_given_up(step) => {
                self.outcome.restored.push(step.path.clone());
            }
            Ok(()) => {}
            Err(error) => self.outcome.failed.push((step.path.clone(), error.to_string())),
        }
    }

    fn is_given_up(&self, step: &Step) -> bool {
        self.outcome.failed.iter().any(|(path, _)| *path == step.path)
            || self.outcome.unkept.iter().any(|unkept| unkept.path == step.path)
    }

    /// The folder of an entry, writable for this user.
    fn place(&mut self, path: &Path) -> Result<Place, Error> {
        let failed = |cause| Error::io(path, "restoring")(cause);
        let below = path.strip_prefix(self.root).unwrap_or(path);
        let (Some(parent), Some(name)) = (below.parent(), below.file_name()) else {
            return Err(failed(Errno::INVAL.into()));
        };
        let folder = match self.folder.below(parent) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(failed(io::Error::new(error.kind(), "its folder is gone")));
            }
            folder => folder.map_err(failed)?,
        };
        let mode = permissions(&folder.stat().map_err(failed)?);
        if mode & OPENED_UP != OPENED_UP {
            // Another owner's folder stays closed; the step then says so.
            if rustix::fs::fchmod(&folder, Mode::from_raw_mode(mode | OPENED_UP)).is_ok() {
                self.opened_up.entry(self.root.join(parent)).or_insert(mode);
            }
        }
        Ok(Place { folder, name: name.to_owned(), path: path.to_owned() })
    }

    fn remove(&mut self, place: &Place, step: &Step) -> Result<(), Error> {
        let is_folder = step.from.as_ref().is_some_and(State::is_folder);
        let flags = if is_folder { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        match rustix::fs::unlinkat(&place.folder, &place.name, flags) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            // Something came into it since the plan was made, or it could not be listed.
            Err(Errno::NOTEMPTY | Errno::EXIST) => {
                let path = place.path.clone();
                self.outcome.unkept.push(Unkept { path, obstacle: Obstacle::HoldsOthers });
                Ok(())
            }
            Err(error) => Err(place.failed(error.into())),
        }
    }

    fn create(&mut self, place: &Place, step: &Step) -> Result<(), Error> {
        match &step.to {
            Some(State::Folder { mode }) => {
                // Entries of it may follow; its own mode is set at the end.
                match rustix::fs::mkdirat(&place.folder, &place.name, MODE_MEANWHILE) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(place.failed(error.into())),
                }
                self.opened_up.insert(place.path.clone(), *mode);
                Ok(())
            }
            Some(State::Link { target }) => place.link(target).map_err(|e| place.failed(e)),
            Some(State::File { mode, contents, .. }) => {
                let Some(contents) = (self.contents)(*contents)? else {
                    return Err(Error::MissingContents { path: place.path.clone() });
                };
                place.write(&contents, *mode).map_err(|error| place.failed(error))
            }
            Some(State::Unkept { .. }) | None => Ok(()),
        }
    }

    /// Gives folders the modes that they had, or have to get.
    fn close_up(&mut self, steps: &[Step]) {
        let mut folders: Vec<_> = self.opened_up.drain().collect();
        folders.sort_unstable();
        for (path, mode) in folders.into_iter().rev() {
            let below = path.strip_prefix(self.root).unwrap_or(&path);
            let done = self
                .folder
                .below(below)
                .and_then(|folder| Ok(rustix::fs::fchmod(&folder, Mode::from_raw_mode(mode))?));
            match done {
                // A folder that a step has removed.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    let is_step = steps.iter().any(|step| step.path == path);
                    if is_step {
                        self.outcome.restored.retain(|restored| *restored != path);
                    }
                    self.outcome.failed.push((path, format!("setting its mode: {error}")));
                }
                Ok(()) => {}
            }
        }
    }
}

/// An entry in its folder, which is held open.
struct Place {
    folder: OpenFolder,
    name: OsString,
    path: PathBuf,
}

impl Place {
    fn failed(&self, cause: io::Error) -> Error {
        Error::io(&self.path, "restoring")(cause)
    }

    /// Writes a file next to its place and moves it there. A file with several names is written in
    /// place, so that it keeps them.
    fn write(&self, contents: &[u8], mode: u32) -> io::Result<()> {
        match self.folder.open_file(&self.name) {
            Ok(old) if old.metadata()?.nlink() > 1 => return self.overwrite(contents, mode),
            _ => {}
        }
        let aside = aside();
        let written = self.write_aside(&aside, contents, mode).and_then(|()| {
            Ok(rustix::fs::renameat(&self.folder, &aside, &self.folder, &self.name)?)
        });
        if written.is_err() {
            // The error of the write is the one to report.
            let _ = rustix::fs::unlinkat(&self.folder, &aside, AtFlags::empty());
        }
        written
    }

    fn write_aside(&self, aside: &OsStr, contents: &[u8], mode: u32) -> io::Result<()> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let private = Mode::from_raw_mode(0o600);
        let mut file: File = rustix::fs::openat(&self.folder, aside, flags, private)?.into();
        file.write_all(contents)?;
        file.set_permissions(Permissions::from_mode(mode))
    }

    fn overwrite(&self, contents: &[u8], mode: u32) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&self.folder, &self.name, flags, Mode::empty())?;
        let mut file: File = fd.into();
        file.write_all(contents)?;
        file.set_len(contents.len() as u64)?;
        file.set_permissions(Permissions::from_mode(mode))
    }

    fn link(&self, target: &OsStr) -> io::Result<()> {
        let aside = aside();
        rustix::fs::symlinkat(target, &self.folder, &aside)?;
        let moved = rustix::fs::renameat(&self.folder, &aside, &self.folder, &self.name);
        if moved.is_err() {
            // As above.
            let _ = rustix::fs::unlinkat(&self.folder, &aside, AtFlags::empty());
        }
        Ok(moved?)
    }
}

/// A name that no other file has.
fn aside() -> OsString {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{}{count}.tmp", aside_prefix(std::process::id())).into()
}

/// Returns whether a restoration of the process gave this name to a file that is not in its place
/// yet.
pub(crate) fn is_aside(name: &OsStr, process: u32) -> bool {
    name.as_encoded_bytes().starts_with(aside_prefix(process).as_bytes())
}

fn aside_prefix(process: u32) -> String {
    format!(".agentd-undo-{process}-")
}

#[cfg(target_os = "linux")]
fn sync(folder: &OpenFolder) -> io::Result<()> {
    Ok(rustix::fs::syncfs(folder)?)
}

#[cfg(not(target_os = "linux"))]
fn sync(folder: &OpenFolder) -> io::Result<()> {
    Ok(rustix::fs::fsync(folder)?)
}
