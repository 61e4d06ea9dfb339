//! Secrets in the keyring of the operating system, by name. Every function blocks.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

use crate::error::Error;

#[cfg(feature = "keyring")]
const SERVICE: &str = "agentd";

/// One entry of the keyring.
pub struct KeyringEntry {
    #[cfg(feature = "keyring")]
    entry: keyring::Entry,
}

impl KeyringEntry {
    /// The entry of a kind of secret whose file would be `path`.
    ///
    /// # Errors
    /// There is no keyring, or this program does not support one.
    #[cfg(feature = "keyring")]
    pub fn new(kind: &str, path: &Path) -> Result<Self, Error> {
        let entry = keyring::Entry::new(SERVICE, &name(kind, path));
        Ok(Self { entry: entry.map_err(|error| failed(&error))? })
    }

    /// This program does not support a keyring.
    ///
    /// # Errors
    /// [`Error::NoKeyring`].
    #[cfg(not(feature = "keyring"))]
    pub fn new(kind: &str, path: &Path) -> Result<Self, Error> {
        let _ = name(kind, path);
        Err(Error::NoKeyring)
    }
}

/// The name of the entry: it does not contain the path, which may be long.
fn name(kind: &str, path: &Path) -> String {
    let digest = Sha256::digest(path.as_os_str().as_encoded_bytes());
    format!("{kind} {}", URL_SAFE_NO_PAD.encode(&digest[..12]))
}

#[cfg(feature = "keyring")]
impl KeyringEntry {
    /// The secret; `None` when there is none.
    ///
    /// # Errors
    /// The keyring cannot be used.
    pub fn read(&self) -> Result<Option<Vec<u8>>, Error> {
        match self.entry.get_secret() {
            Ok(bytes) => Ok(Some(bytes)),
            Err(keyring::Error::NoEntry) => Ok(None),
            Err(error) => Err(failed(&error)),
        }
    }

    /// Replaces the secret.
    ///
    /// # Errors
    /// The keyring cannot be used.
    pub fn write(&self, secret: &[u8]) -> Result<(), Error> {
        self.entry.set_secret(secret).map_err(|error| failed(&error))
    }

    /// Deletes the secret. Returns whether there was one.
    ///
    /// # Errors
    /// The keyring cannot be used.
    pub fn delete(&self) -> Result<bool, Error> {
        match self.entry.delete_credential() {
            Ok(()) => Ok(true),
            Err(keyring::Error::NoEntry) => Ok(false),
            Err(error) => Err(failed(&error)),
        }
    }
}

#[cfg(feature = "keyring")]
fn failed(error: &keyring::Error) -> Error {
    Error::Keyring(error.to_string())
}

// No value exists without the feature.
#[cfg(not(feature = "keyring"))]
impl KeyringEntry {
    /// See [`KeyringEntry::new`].
    ///
    /// # Errors
    /// [`Error::NoKeyring`].
    pub fn read(&self) -> Result<Option<Vec<u8>>, Error> {
        Err(Error::NoKeyring)
    }

    /// See [`KeyringEntry::new`].
    ///
    /// # Errors
    /// [`Error::NoKeyring`].
    pub fn write(&self, _: &[u8]) -> Result<(), Error> {
        Err(Error::NoKeyring)
    }

    /// See [`KeyringEntry::new`].
    ///
    /// # Errors
    /// [`Error::NoKeyring`].
    pub fn delete(&self) -> Result<bool, Error> {
        Err(Error::NoKeyring)
    }
}
