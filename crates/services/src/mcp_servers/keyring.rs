//! The keyring of the operating system, for logins at MCP servers.

use std::path::Path;

use account::{Error, KeyringEntry};

/// The kind of these entries.
const KIND: &str = "mcp login";

/// The keyring of the operating system.
pub(super) struct OsKeyring;

impl mcp::Keyring for OsKeyring {
    fn read(&self, path: &Path) -> Result<Option<Vec<u8>>, String> {
        entry(path)?.read().map_err(reason)
    }

    fn write(&self, path: &Path, secret: &[u8]) -> Result<(), String> {
        entry(path)?.write(secret).map_err(reason)
    }

    fn delete(&self, path: &Path) -> Result<bool, String> {
        entry(path)?.delete().map_err(reason)
    }
}

fn entry(path: &Path) -> Result<KeyringEntry, String> {
    KeyringEntry::new(KIND, path).map_err(reason)
}

/// Without the advice about the key for accounts.
fn reason(error: Error) -> String {
    match error {
        Error::Keyring(reason) => reason,
        Error::NoKeyring => {
            "this program was built without support for keyrings (the feature `keyring`)".to_owned()
        }
        other => other.to_string(),
    }
}
