//! The way to a watched path: the folders and links that lead to it, each of which is watched, so that the
//! path is looked up again when one of them is replaced, or when the first missing one appears.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};

use rustix::fs::inotify::WatchFlags;
use rustix::io::Errno;

use super::inotify::{Inotify, LAST_ON_THE_WAY, LINK, ON_THE_WAY, Refusal, WatchNumber};
use crate::error::Unwatchable;
use crate::poll::is_absent;

/// Links on one way, as the kernel bounds them.
const MAX_LINKS: usize = 40;

/// The end of a way.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum End {
    Nothing,
    File(PathBuf),
    Folder(PathBuf),
}

/// A watched place on the way.
#[derive(Debug)]
pub(super) struct Stop {
    pub(super) number: WatchNumber,
    /// The entry of a folder that leads on; `None` for a link.
    pub(super) name: Option<OsString>,
    /// True if the entry is the watched path itself.
    pub(super) is_last: bool,
}

/// Looks `path` up and watches all on its way. The end is not watched.
///
/// # Errors
/// The reason why the way cannot be watched.
pub(super) fn find(inotify: &Inotify, path: &Path) -> Result<(Vec<Stop>, End), Unwatchable> {
    let mut finder =
        Finder { inotify, stops: Vec::new(), at: PathBuf::from("/"), rest: VecDeque::new() };
    finder.push_front(path);
    let end = finder.walk()?;
    Ok((finder.stops, end))
}

struct Finder<'i> {
    inotify: &'i Inotify,
    stops: Vec<Stop>,
    /// Without links.
    at: PathBuf,
    rest: VecDeque<OsString>,
}

impl Finder<'_> {
    fn push_front(&mut self, path: &Path) {
        for component in path.components().rev() {
            match component {
                Component::Normal(name) => self.rest.push_front(name.to_owned()),
                Component::ParentDir => self.rest.push_front(OsString::from("..")),
                _ => {}
            }
        }
    }

    fn walk(&mut self) -> Result<End, Unwatchable> {
        let mut links = 0;
        let mut is_folder = true;
        while let Some(name) = self.rest.pop_front() {
            if name == ".." {
                self.at.pop();
                continue;
            }
            let is_last = self.rest.is_empty();
            let next = self.at.join(&name);
            let Some(kind) = self.look(&name, &next, is_last)? else { return Ok(End::Nothing) };
            if !kind.is_symlink() {
                self.at = next;
                is_folder = kind.is_dir();
                continue;
            }
            links += 1;
            self.stop(&next, LINK, None, is_last)?;
            let target = next.read_link();
            let Some(target) = target.ok().filter(|_| links <= MAX_LINKS) else {
                // Replaced meanwhile, which has been reported, or a circle.
                return Ok(End::Nothing);
            };
            if target.is_absolute() {
                self.at = PathBuf::from("/");
            }
            self.push_front(&target);
        }
        let at = self.at.clone();
        Ok(if is_folder { End::Folder(at) } else { End::File(at) })
    }

    /// Watches the folder `self.at` and returns what its entry is; `None` when there is none.
    fn look(
        &mut self,
        name: &OsStr,
        next: &Path,
        is_last: bool,
    ) -> Result<Option<std::fs::FileType>, Unwatchable> {
        let events = if is_last { LAST_ON_THE_WAY } else { ON_THE_WAY };
        let is_watched = self.stop(&self.at.clone(), events, Some(name), is_last)?;
        let look = || match next.symlink_metadata() {
            Ok(metadata) => Ok(Some(metadata.file_type())),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(Unwatchable::because(format!("{}: {error}", next.display()))),
        };
        if let Some(kind) = look()? {
            return Ok(Some(kind));
        }
        // It can have appeared before its appearance was watched.
        self.stop(&self.at.clone(), LAST_ON_THE_WAY, Some(name), is_last)?;
        let found = look()?;
        if found.is_none() && !is_watched && self.at.is_dir() {
            return Err(unreadable(&self.at));
        }
        Ok(found)
    }

    /// Watches one place; returns whether that is possible. A folder that is not readable cannot be watched,
    /// but what is in it can.
    fn stop(
        &mut self,
        at: &Path,
        events: WatchFlags,
        name: Option<&OsStr>,
        is_last: bool,
    ) -> Result<bool, Unwatchable> {
        match self.inotify.add(at, events) {
            Ok(number) => {
                let name = name.map(OsStr::to_owned);
                self.stops.push(Stop { number, name, is_last });
                Ok(true)
            }
            Err(Refusal::Gone(Errno::ACCESS)) if is_last && name.is_some() => Err(unreadable(at)),
            Err(Refusal::Gone(_)) => Ok(false),
            Err(Refusal::Full(why)) => Err(why),
        }
    }
}

pub(super) fn unreadable(path: &Path) -> Unwatchable {
    Unwatchable::because(format!("{} cannot be read", path.display()))
}
