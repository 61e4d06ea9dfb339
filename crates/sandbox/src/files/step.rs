//! A step of a transaction: prepared next to its target, committed, undone or completed.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::Mode;

use super::folder::{Existing, Folder};

pub(super) struct Step {
    folder: Folder,
    pub(super) target: PathBuf,
    name: OsString,
    /// A file next to the target: has the new content before the commit, and the old one after it.
    aside: OsString,
    kind: Kind,
    committed: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Create,
    Replace,
    Remove,
}

impl Step {
    /// Writes `contents` next to the target, with the final mode and, if permitted, the final owner.
    pub(super) fn write(
        folder: Folder,
        target: PathBuf,
        existing: Option<Existing>,
        contents: &[u8],
        mode: Option<Mode>,
    ) -> io::Result<Step> {
        let kind = if existing.is_some() { Kind::Replace } else { Kind::Create };
        let step = Step::new(folder, target, kind);
        let mut file = std::fs::File::from(step.folder.create(&step.aside)?);
        let written = file.write_all(contents).and_then(|()| {
            if let Some(existing) = existing {
                keep_owner(&file, existing)?;
            }
            match mode.or(existing.map(|existing| existing.mode)) {
                Some(mode) => Ok(rustix::fs::fchmod(&file, mode)?),
                None => Ok(()),
            }
        });
        match written {
            Ok(()) => Ok(step),
            Err(error) => {
                let _ = step.folder.remove(&step.aside);
                Err(error)
            }
        }
    }

    pub(super) fn remove(folder: Folder, target: PathBuf) -> Step {
        Step::new(folder, target, Kind::Remove)
    }

    fn new(folder: Folder, target: PathBuf, kind: Kind) -> Step {
        let name = target.file_name().unwrap_or_default().to_owned();
        let aside = unique_name(&target);
        Step { folder, target, name, aside, kind, committed: false }
    }

    pub(super) fn removes(&self) -> bool {
        self.kind == Kind::Remove
    }

    pub(super) fn commit(&mut self) -> io::Result<()> {
        match self.kind {
            Kind::Create => self.folder.rename_new(&self.aside, &self.name)?,
            Kind::Replace => self.exchange()?,
            Kind::Remove => self.folder.rename_new(&self.name, &self.aside)?,
        }
        self.committed = true;
        Ok(())
    }

    /// Restores the state before [`Step::write`] or [`Step::remove`].
    pub(super) fn undo(&mut self) -> io::Result<()> {
        match (self.kind, self.committed) {
            (Kind::Create, true) => self.folder.remove(&self.name),
            (Kind::Create | Kind::Replace, false) => self.folder.remove(&self.aside),
            (Kind::Replace, true) => {
                self.exchange()?;
                self.folder.remove(&self.aside)
            }
            (Kind::Remove, true) => self.folder.rename_new(&self.aside, &self.name),
            (Kind::Remove, false) => Ok(()),
        }
    }

    /// Deletes the old content. A failure is ignored, because the change has succeeded.
    pub(super) fn discard(&mut self) {
        if self.kind != Kind::Create {
            let _ = self.folder.remove(&self.aside);
        }
    }

    fn exchange(&self) -> io::Result<()> {
        let mut spare = self.aside.clone();
        spare.push("~");
        self.folder.exchange(&self.aside, &self.name, &spare)
    }
}

/// Keeps the owner, which only root can do; otherwise the file belongs to this user.
fn keep_owner(file: &std::fs::File, existing: Existing) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, fchown};
    let meta = file.metadata()?;
    if (meta.uid(), meta.gid()) == existing.owner {
        return Ok(());
    }
    match fchown(file, Some(existing.owner.0), Some(existing.owner.1)) {
        Err(e) if e.kind() != io::ErrorKind::PermissionDenied => Err(e),
        _ => Ok(()),
    }
}

/// A name that is unique in this process. Creating the file exclusively avoids those of other
/// processes.
fn unique_name(target: &Path) -> OsString {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    const MAX_NAME_PART: usize = 100;
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = target.file_name().unwrap_or(OsStr::new("file")).to_string_lossy();
    let part: String = name.chars().take(MAX_NAME_PART / 4).collect();
    format!(".{part}.{}-{number}.tmp", std::process::id()).into()
}
