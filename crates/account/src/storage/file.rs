//! The credentials file: private to its owner, replaced as a whole, and synced.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::credentials::Stored;
use crate::error::Error;

/// Name of the file, in the home.
pub const NAME: &str = "credentials.json";
/// A file that is written, and renamed when it is complete.
const DRAFT: &str = ".credentials.json.tmp";
const LOCK: &str = ".credentials.json.lock";
/// Largest file, which also bounds the tokens.
const MAX_BYTES: u64 = 256 << 10;

/// The credentials file of a home.
#[derive(Debug, Clone)]
pub(super) struct FileStore {
    path: PathBuf,
}

/// Space for a file that is to be written. Removed when it is not used.
#[derive(Debug)]
pub(crate) struct Room {
    file: File,
    path: PathBuf,
    is_used: bool,
}

impl FileStore {
    pub(super) fn new(home: &Path) -> Self {
        Self { path: home.join(NAME) }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn lock_path(&self) -> PathBuf {
        self.path.with_file_name(LOCK)
    }

    pub(super) fn read(&self) -> Result<Option<Stored>, Error> {
        let (bytes, warning) = match files::read_own_secret(&self.path, MAX_BYTES) {
            Ok(read) => read,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(self.failed("read", error.into_io())),
        };
        if let Some(warning) = warning {
            tracing::warn!(target: "account::storage", "{warning}");
        }
        let stored = Stored::from_bytes(&bytes).map_err(|problem| {
            let path = self.path.display();
            self.failed(
                "read",
                format!("{problem}; run `agentd logout` to remove {path}, and log in again"),
            )
        })?;
        Ok(Some(stored))
    }

    pub(super) fn reserve(&self) -> Result<Room, Error> {
        let path = self.path.with_file_name(DRAFT);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(self.failed("write", error));
            }
            _ => {}
        }
        // tidy: open a new file.
        let mut options = OpenOptions::new();
        options.create_new(true).write(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(&path).map_err(|error| self.failed("write", error))?;
        let mut room = Room { file, path, is_used: false };
        room.fill().map_err(|error| self.failed("write", error))?;
        Ok(room)
    }

    pub(super) fn write(&self, stored: &Stored, room: Option<Room>) -> Result<(), Error> {
        let room = match room {
            Some(room) => room,
            None => self.reserve()?,
        };
        let bytes = stored.to_bytes();
        if bytes.len() as u64 > MAX_BYTES {
            let problem = format!("the credentials are larger than {} KiB", MAX_BYTES >> 10);
            return Err(self.failed("write", problem));
        }
        room.replace(&self.path, &bytes).map_err(|error| self.failed("write", error))
    }

    pub(super) fn delete(&self) -> Result<bool, Error> {
        match std::fs::remove_file(&self.path) {
            Ok(()) => {
                sync_folder(&self.path).map_err(|error| self.failed("delete", error))?;
                Ok(true)
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(self.failed("delete", error)),
        }
    }

    fn failed(&self, action: &'static str, cause: impl ToString) -> Error {
        Error::Storage { action, path: self.path.clone(), cause: cause.to_string() }
    }
}

impl Room {
    /// Reserves the space: a full disk shows now.
    fn fill(&mut self) -> std::io::Result<()> {
        self.file.write_all(&[b' '; 32 << 10])?;
        self.file.sync_data()
    }

    fn replace(mut self, path: &Path, bytes: &[u8]) -> std::io::Result<()> {
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(bytes)?;
        self.file.set_len(bytes.len() as u64)?;
        self.file.sync_all()?;
        std::fs::rename(&self.path, path)?;
        self.is_used = true;
        sync_folder(path)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if !self.is_used {
            // One that stays behind is replaced by the next writer.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Makes the entry of `path` durable.
fn sync_folder(path: &Path) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    // tidy: open the folder, to sync it.
    #[cfg(unix)]
    File::open(folder)?.sync_all()?;
    #[cfg(not(unix))]
    let _ = folder;
    Ok(())
}
