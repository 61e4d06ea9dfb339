//! Credentials in the keyring of the operating system: one entry for each home.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use keyring::Entry;
use sha2::{Digest, Sha256};

use crate::credentials::Stored;
use crate::error::Error;

const SERVICE: &str = "agentd";

/// See the module.
pub(super) struct KeyringStore {
    entry: Entry,
}

impl KeyringStore {
    /// The entry of the home whose credentials file would be `path`.
    pub(super) fn new(path: &Path) -> Result<Self, Error> {
        let digest = Sha256::digest(path.as_os_str().as_encoded_bytes());
        let name = format!("credentials {}", URL_SAFE_NO_PAD.encode(&digest[..12]));
        Ok(Self { entry: Entry::new(SERVICE, &name).map_err(|error| failed(&error))? })
    }

    pub(super) fn read(&self) -> Result<Option<Stored>, Error> {
        match self.entry.get_secret() {
            Ok(bytes) => Stored::from_bytes(&bytes).map(Some).map_err(|problem| {
                let next = "run `agentd logout`, and log in again";
                Error::Keyring(format!("its entry `{SERVICE}`: {problem}; {next}"))
            }),
            Err(keyring::Error::NoEntry) => Ok(None),
            Err(error) => Err(failed(&error)),
        }
    }

    pub(super) fn write(&self, stored: &Stored) -> Result<(), Error> {
        self.entry.set_secret(&stored.to_bytes()).map_err(|error| failed(&error))
    }

    pub(super) fn delete(&self) -> Result<bool, Error> {
        match self.entry.delete_credential() {
            Ok(()) => Ok(true),
            Err(keyring::Error::NoEntry) => Ok(false),
            Err(error) => Err(failed(&error)),
        }
    }
}

fn failed(error: &keyring::Error) -> Error {
    Error::Keyring(error.to_string())
}
