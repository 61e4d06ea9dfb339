//! The texts that are kept in the agent's home between sessions: the messages of earlier ones,
//! which the server writes, and the message that was not sent when the program ended.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::OFlags;

use crate::composer::Draft;

/// Bytes at the end of the history that are read.
const HISTORY_BYTES: u64 = 1 << 20;
/// Largest draft that is kept.
const DRAFT_BYTES: u64 = 32 << 20;

/// Where it is.
#[derive(Clone, Debug)]
pub struct Kept {
    history: PathBuf,
    images: PathBuf,
    /// None where no file can be written, and with very many terminals in one folder.
    place: Option<Arc<Place>>,
}

/// The file for the draft of one terminal. Others in the same folder have another one while this lives.
#[derive(Debug)]
struct Place {
    draft: PathBuf,
    /// Locked; the system unlocks it however the program ends.
    _lock: File,
}

/// Terminals in one folder, from which on drafts are not kept.
const MAX_PLACES: usize = 64;

impl Kept {
    /// In the agent's home; a draft belongs to a working folder.
    #[must_use]
    pub fn new(home: &Path, cwd: &Path) -> Self {
        // The name only has to be one for each folder.
        let name: String = cwd
            .to_string_lossy()
            .bytes()
            .map(|byte| match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' => char::from(byte).to_string(),
                b'/' => "-".to_owned(),
                _ => format!("%{byte:02x}"),
            })
            .collect();
        let name = &name[name.len().saturating_sub(200)..];
        let drafts = home.join("drafts");
        let place = Place::take(&drafts, name).unwrap_or_else(|error| {
            tracing::warn!(target: "tui", "unsent messages cannot be saved: {}: {error}", drafts.display());
            None
        });
        Self {
            history: home.join("history.jsonl"),
            images: drafts.join("images"),
            place: place.map(Arc::new),
        }
    }

    /// The folder for images that unsent messages have and no other file has.
    pub(crate) fn images(&self) -> PathBuf {
        self.images.clone()
    }

    /// Messages of earlier sessions, the oldest first; none where there is no readable file.
    pub(crate) fn history(&self) -> Vec<String> {
        let read = || -> io::Result<Vec<u8>> {
            let mut file = regular(&self.history)?;
            let length = file.metadata()?.len();
            file.seek(SeekFrom::Start(length.saturating_sub(HISTORY_BYTES)))?;
            let mut bytes = Vec::new();
            file.take(HISTORY_BYTES).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        match read() {
            Ok(bytes) => crate::history::parse(&bytes).0,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => {
                tracing::warn!(target: "tui", "{}: {error}", self.history.display());
                Vec::new()
            }
        }
    }

    /// The message that was not sent.
    pub(crate) fn draft(&self) -> Option<Draft> {
        let path = &self.place.as_ref()?.draft;
        let mut bytes = Vec::new();
        let read = regular(path).and_then(|file| file.take(DRAFT_BYTES).read_to_end(&mut bytes));
        match read {
            Ok(_) => serde_json::from_slice(&bytes).ok(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                tracing::warn!(target: "tui", "{}: {error}", path.display());
                None
            }
        }
    }

    /// Keeps a message that was not sent yet, or removes the one that was kept.
    pub(crate) fn keep(&self, draft: &Draft) {
        let Some(place) = &self.place else { return };
        let result = match draft.is_blank() {
            true => match std::fs::remove_file(&place.draft) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            },
            false => place.write(draft),
        };
        if let Err(error) = result {
            tracing::warn!(target: "tui", "{}: {error}", place.draft.display());
        }
    }
}

impl Place {
    /// Takes a place that no terminal has, first one with a draft that was left there.
    fn take(folder: &Path, name: &str) -> io::Result<Option<Place>> {
        // Drafts may hold secrets: readable by the user alone, as everything in the home.
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let mut free = None;
        for number in 0..MAX_PLACES {
            let stem = if number == 0 { name.to_owned() } else { format!("{name}.{number}") };
            let draft = folder.join(format!("{stem}.json"));
            let lock = folder.join(format!("{stem}.lock"));
            // After the last one that was ever taken.
            let is_new = !lock.exists() && !draft.exists();
            if is_new && free.is_some() {
                break;
            }
            let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).mode(0o600).custom_flags(flags);
            let file = options.open(&lock)?;
            match file.try_lock() {
                Ok(()) if draft.exists() => return Ok(Some(Place { draft, _lock: file })),
                Ok(()) => {
                    free.get_or_insert(Place { draft, _lock: file });
                }
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        Ok(free)
    }

    fn write(&self, draft: &Draft) -> io::Result<()> {
        let folder = self.draft.parent().unwrap_or(Path::new("."));
        // A name of its own, since it may hold a secret: readable by the user alone.
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(&serde_json::to_vec(draft)?)?;
        file.persist(&self.draft)?;
        Ok(())
    }
}

/// Opens a file that is one: a FIFO would never answer, and a link may lead anywhere.
fn regular(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("not a regular file")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draft_is_kept_until_it_is_blank() {
        let home = tempfile::tempdir().unwrap();
        let kept = Kept::new(home.path(), Path::new("/home/a b/é"));
        assert_eq!(kept.draft(), None);
        kept.keep(&Draft::plain("half a thou"));
        assert_eq!(kept.draft(), Some(Draft::plain("half a thou")));
        assert_eq!(Kept::new(home.path(), Path::new("/elsewhere")).draft(), None);
        kept.keep(&Draft::default());
        assert_eq!(kept.draft(), None);
        kept.keep(&Draft::default());
    }

    #[test]
    fn terminals_in_one_folder_have_drafts_of_their_own() {
        let home = tempfile::tempdir().unwrap();
        let open = || Kept::new(home.path(), Path::new("/w"));
        let (one, two) = (open(), open());
        one.keep(&Draft::plain("one"));
        assert_eq!(two.draft(), None);
        two.keep(&Draft::plain("two"));
        let three = open();
        assert_eq!(three.draft(), None);
        three.keep(&Draft::default());
        assert_eq!(one.draft(), Some(Draft::plain("one")));
        // Both end: what they left comes back one by one, whichever place it has.
        drop(one);
        let again = open();
        assert_eq!(again.draft(), Some(Draft::plain("one")));
        again.keep(&Draft::default());
        drop((two, again));
        assert_eq!(open().draft(), Some(Draft::plain("two")));
    }

    #[test]
    fn files_that_are_none_are_not_read() {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join("history.jsonl")).unwrap();
        std::fs::create_dir_all(home.path().join("drafts")).unwrap();
        let kept = Kept::new(home.path(), Path::new("/w"));
        let draft = &kept.place.as_ref().unwrap().draft;
        rustix::fs::mkfifoat(rustix::fs::CWD, draft, rustix::fs::Mode::RWXU).unwrap();
        assert_eq!(kept.history(), Vec::<String>::new());
        assert_eq!(kept.draft(), None);
    }
}
