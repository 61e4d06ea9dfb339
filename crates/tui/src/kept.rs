//! What is kept in the agent's home between sessions: the messages of earlier ones, which the server writes,
//! and the message that was not sent when the program ended.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

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
    draft: PathBuf,
}

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
        Self {
            history: home.join("history.jsonl"),
            draft: home.join("drafts").join(format!("{name}.json")),
        }
    }

    /// The folder for images that unsent messages have and no other file has.
    pub(crate) fn images(&self) -> PathBuf {
        self.draft.with_file_name("images")
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
        let mut bytes = Vec::new();
        let read =
            regular(&self.draft).and_then(|file| file.take(DRAFT_BYTES).read_to_end(&mut bytes));
        match read {
            Ok(_) => serde_json::from_slice(&bytes).ok(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                tracing::warn!(target: "tui", "{}: {error}", self.draft.display());
                None
            }
        }
    }

    /// Keeps a message that was not sent yet, or removes the one that was kept.
    pub(crate) fn keep(&self, draft: &Draft) {
        let result = match draft.is_blank() {
            true => match std::fs::remove_file(&self.draft) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            },
            false => self.write(draft),
        };
        if let Err(error) = result {
            tracing::warn!(target: "tui", "{}: {error}", self.draft.display());
        }
    }

    fn write(&self, draft: &Draft) -> io::Result<()> {
        let folder = self.draft.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder)?;
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
    fn files_that_are_none_are_not_read() {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join("history.jsonl")).unwrap();
        std::fs::create_dir_all(home.path().join("drafts")).unwrap();
        let kept = Kept::new(home.path(), Path::new("/w"));
        rustix::fs::mkfifoat(rustix::fs::CWD, &kept.draft, rustix::fs::Mode::RWXU).unwrap();
        assert_eq!(kept.history(), Vec::<String>::new());
        assert_eq!(kept.draft(), None);
    }
}
