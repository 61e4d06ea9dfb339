//! Credentials in the keyring of the operating system: one entry for each home.

use std::path::Path;

use crate::credentials::Stored;
use crate::error::Error;
use crate::keyring::KeyringEntry;

/// An entry for one home in the operating system's keyring.
pub(super) struct KeyringStore(KeyringEntry);

impl KeyringStore {
    /// The entry of the home whose credentials file would be `path`.
    pub(super) fn new(path: &Path) -> Result<Self, Error> {
        KeyringEntry::new("credentials", path).map(Self)
    }

    pub(super) fn read(&self) -> Result<Option<Stored>, Error> {
        let Some(bytes) = self.0.read()? else { return Ok(None) };
        Stored::from_bytes(&bytes).map(Some).map_err(|problem| {
            let next = "run `agentd logout`, and log in again";
            Error::Keyring(format!("the entry of the credentials: {problem}; {next}"))
        })
    }

    pub(super) fn write(&self, stored: &Stored) -> Result<(), Error> {
        self.0.write(&stored.to_bytes())
    }

    pub(super) fn delete(&self) -> Result<bool, Error> {
        self.0.delete()
    }
}
