//! Where a login is stored: in a private file that is replaced as a whole, or in the keyring of the
//! operating system. Every function blocks.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::definition::LoginStore;
use crate::port::Keyring;

/// Largest file.
const MAX_BYTES: u64 = 256 << 10;

/// The storage place of one login.
#[derive(Clone)]
pub(super) struct Place {
    /// The file, which also identifies the entry of the keyring.
    pub(super) path: PathBuf,
    pub(super) store: LoginStore,
    pub(super) keyring: Arc<dyn Keyring>,
}

impl Place {
    /// Reads the stored bytes.
    ///
    /// # Errors
    /// It cannot be read.
    pub(super) fn read(&self) -> Result<Option<Vec<u8>>, String> {
        match self.store {
            LoginStore::File => self.read_file(),
            LoginStore::Keyring => self.keyring.read(&self.path).map_err(with_advice),
            LoginStore::Auto => match self.keyring.read(&self.path) {
                Ok(Some(bytes)) => Ok(Some(bytes)),
                // Without a keyring, the file has it.
                Ok(None) | Err(_) => self.read_file(),
            },
        }
    }

    /// Replaces what is stored.
    ///
    /// # Errors
    /// It cannot be written. What was stored before is then unchanged.
    pub(super) fn write(&self, bytes: &[u8]) -> Result<(), String> {
        match self.store {
            LoginStore::File => self.write_file(bytes),
            LoginStore::Keyring => self.keyring.write(&self.path, bytes).map_err(with_advice),
            LoginStore::Auto => match self.keyring.write(&self.path, bytes) {
                // One place holds it.
                Ok(()) => self.delete_file().map(drop),
                Err(reason) => {
                    let path = self.path.display();
                    tracing::warn!(target: "mcp::auth", "the login is stored in {path}: {reason}");
                    self.write_file(bytes)
                }
            },
        }
    }

    /// Deletes what is stored, wherever it is. Returns whether there was anything.
    ///
    /// # Errors
    /// It cannot be deleted.
    pub(super) fn delete(&self) -> Result<bool, String> {
        let in_keyring = match self.store {
            LoginStore::File => false,
            LoginStore::Keyring => self.keyring.delete(&self.path).map_err(with_advice)?,
            LoginStore::Auto => self.keyring.delete(&self.path).unwrap_or(false),
        };
        Ok(self.delete_file()? || in_keyring)
    }

    fn read_file(&self) -> Result<Option<Vec<u8>>, String> {
        let (bytes, warning) = match files::read_own_secret(&self.path, MAX_BYTES) {
            Ok(read) => read,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(problem("read", &self.path, &error)),
        };
        if let Some(warning) = warning {
            tracing::warn!(target: "mcp::auth", "{warning}");
        }
        Ok(Some(bytes))
    }

    fn write_file(&self, bytes: &[u8]) -> Result<(), String> {
        replace(&self.path, bytes).map_err(|error| problem("write", &self.path, &error))
    }

    fn delete_file(&self) -> Result<bool, String> {
        match std::fs::remove_file(&self.path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(problem("delete", &self.path, &error)),
        }
    }
}

fn with_advice(reason: String) -> String {
    format!(
        "`mcp_oauth_credentials_store = \"keyring\"`: {reason}; set it to `file`, or to `auto`, which \
         uses files where there is no keyring"
    )
}

/// Replaces a private file as a whole, durably.
fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    folder_of(path)?;
    let draft = path.with_extension(format!("{}.tmp", std::process::id()));
    // tidy: open a new file.
    let mut options = OpenOptions::new();
    options.create(true).truncate(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&draft)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&draft, path)
}

/// Makes the folder of a file, private to its owner.
pub(super) fn folder_of(path: &Path) -> std::io::Result<()> {
    let Some(folder) = path.parent() else { return Ok(()) };
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

pub(super) fn problem(action: &str, path: &Path, error: &dyn std::fmt::Display) -> String {
    format!("cannot {action} {}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// A keyring with one entry, or one that cannot be used.
    #[derive(Default)]
    struct FakeKeyring {
        secret: Mutex<Option<Vec<u8>>>,
        is_locked: bool,
    }

    impl FakeKeyring {
        fn secret(&self) -> Result<std::sync::MutexGuard<'_, Option<Vec<u8>>>, String> {
            match self.is_locked {
                true => Err("it is locked".to_owned()),
                false => Ok(self.secret.lock().unwrap()),
            }
        }
    }

    impl Keyring for FakeKeyring {
        fn read(&self, _: &Path) -> Result<Option<Vec<u8>>, String> {
            Ok(self.secret()?.clone())
        }

        fn write(&self, _: &Path, secret: &[u8]) -> Result<(), String> {
            *self.secret()? = Some(secret.to_vec());
            Ok(())
        }

        fn delete(&self, _: &Path) -> Result<bool, String> {
            Ok(self.secret()?.take().is_some())
        }
    }

    #[test]
    fn a_login_is_in_the_keyring_or_in_the_file() {
        for (store, is_locked, in_file) in [
            (LoginStore::File, false, true),
            (LoginStore::Auto, false, false),
            (LoginStore::Auto, true, true),
            (LoginStore::Keyring, false, false),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let keyring = Arc::new(FakeKeyring { is_locked, ..FakeKeyring::default() });
            let path = folder.path().join("logins/a.json");
            let file = Place { path: path.clone(), store: LoginStore::File, keyring };
            let place = Place { store, ..file.clone() };
            assert_eq!(place.read(), Ok(None));
            // One of an earlier configuration.
            file.write(b"old").unwrap();
            let expected = (store != LoginStore::Keyring).then(|| b"old".to_vec());
            assert_eq!(place.read(), Ok(expected));
            place.write(b"new").unwrap();
            assert_eq!(place.read(), Ok(Some(b"new".to_vec())), "{store:?}");
            if store == LoginStore::Auto {
                assert_eq!(path.exists(), in_file, "one place has it");
            }
            assert_eq!(file.keyring.read(&path).ok().flatten().is_some(), !in_file);
            assert_eq!(place.delete(), Ok(true));
            assert_eq!((place.read(), place.delete()), (Ok(None), Ok(false)));
        }
    }

    #[test]
    fn without_a_keyring_the_error_names_the_key() {
        let keyring = Arc::new(FakeKeyring { is_locked: true, ..FakeKeyring::default() });
        let place = Place { path: "/x".into(), store: LoginStore::Keyring, keyring };
        let errors =
            [place.read().unwrap_err(), place.write(b"").unwrap_err(), place.delete().unwrap_err()];
        for error in errors {
            assert!(error.contains("mcp_oauth_credentials_store"), "{error}");
            assert!(error.contains("it is locked"), "{error}");
        }
    }
}
