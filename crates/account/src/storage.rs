//! Where credentials are stored: a private file in the home, or the operating system's keyring. Every
//! function blocks.

mod file;
mod keyring;

use std::path::{Path, PathBuf};

use crate::credentials::Stored;
use crate::error::Error;
use crate::settings::StoreKind;
use file::FileStore;
pub use file::NAME as CREDENTIALS_FILE;
pub(crate) use file::Room;

/// The store of a home.
#[derive(Debug, Clone)]
pub(crate) struct Storage {
    file: FileStore,
    kind: StoreKind,
}

impl Storage {
    pub(crate) fn new(home: &Path, kind: StoreKind) -> Self {
        Self { file: FileStore::new(home), kind }
    }

    /// The file that processes lock.
    pub(crate) fn lock_path(&self) -> PathBuf {
        self.file.lock_path()
    }

    /// The file, for errors and the user.
    pub(crate) fn path(&self) -> &Path {
        self.file.path()
    }

    /// Reads the stored login; `None` when there is none.
    ///
    /// # Errors
    /// It cannot be read, or is damaged.
    pub(crate) fn read(&self) -> Result<Option<Stored>, Error> {
        match self.kind {
            StoreKind::File => self.file.read(),
            StoreKind::Keyring => keyring_of(&self.file)?.read(),
            StoreKind::Auto => match keyring_of(&self.file).and_then(|keyring| keyring.read()) {
                Ok(Some(stored)) => Ok(Some(stored)),
                // Without a keyring, the file has them.
                Ok(None) | Err(_) => self.file.read(),
            },
        }
    }

    /// Checks that credentials can be written, and reserves the space. Called before an operation that
    /// cannot be repeated.
    ///
    /// # Errors
    /// They cannot be written.
    pub(crate) fn reserve(&self) -> Result<Option<Room>, Error> {
        match self.kind {
            StoreKind::Keyring => keyring_of(&self.file).map(|_| None),
            StoreKind::File | StoreKind::Auto => self.file.reserve().map(Some),
        }
    }

    /// Writes credentials, so that they survive a crash.
    ///
    /// # Errors
    /// They cannot be written. What was stored before is then unchanged.
    pub(crate) fn write(&self, stored: &Stored, room: Option<Room>) -> Result<(), Error> {
        match self.kind {
            StoreKind::File => self.file.write(stored, room),
            StoreKind::Keyring => keyring_of(&self.file)?.write(stored),
            StoreKind::Auto => {
                match keyring_of(&self.file).and_then(|keyring| keyring.write(stored)) {
                    // One place holds them.
                    Ok(()) => self.file.delete().map(drop),
                    Err(error) => {
                        let file = self.file.path().display();
                        tracing::warn!(target: "account", "the credentials are stored in {file}: {error}");
                        self.file.write(stored, room)
                    }
                }
            }
        }
    }

    /// Deletes credentials, from every place where they may be. Returns whether there were any.
    ///
    /// # Errors
    /// They cannot be deleted.
    pub(crate) fn delete(&self) -> Result<bool, Error> {
        let in_keyring = match (self.kind, keyring_of(&self.file)) {
            (StoreKind::File, _) | (StoreKind::Auto, Err(_)) => false,
            (StoreKind::Auto | StoreKind::Keyring, Ok(keyring)) => keyring.delete()?,
            (StoreKind::Keyring, Err(error)) => return Err(error),
        };
        Ok(self.file.delete()? || in_keyring)
    }
}

fn keyring_of(file: &FileStore) -> Result<keyring::KeyringStore, Error> {
    keyring::KeyringStore::new(file.path())
}
