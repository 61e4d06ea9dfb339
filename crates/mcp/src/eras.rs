//! Remembers the era of each server, so that a server of the earlier one is probed once. The file is a
//! cache: without it, servers are probed again.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use sha2::{Digest, Sha256};

use crate::definition::Transport;

/// Maximum number of remembered servers; beyond, the file starts over.
const MAX_SERVERS: usize = 500;
/// Largest file.
const MAX_BYTES: u64 = 64 << 10;

/// Which revision a server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Era {
    /// 2025-11-25 and earlier, with a handshake.
    #[serde(rename = "handshake")]
    Handshake,
    /// 2026-07-28, without.
    #[serde(rename = "discover")]
    Discover,
}

/// The remembered eras.
pub(crate) struct Eras {
    path: PathBuf,
    known: OnceLock<Mutex<BTreeMap<String, Era>>>,
}

impl Eras {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, known: OnceLock::new() }
    }

    /// The era of a server; blocks when the file is read for the first time.
    pub(crate) fn get(&self, transport: &Transport) -> Option<Era> {
        self.known().get(&key(transport)?).copied()
    }

    /// Remembers or forgets the era of a server; blocks while the file is written.
    pub(crate) fn set(&self, transport: &Transport, era: Option<Era>) {
        let Some(key) = key(transport) else { return };
        let mut known = self.known();
        let before = match era {
            Some(era) => known.insert(key, era),
            None => known.remove(&key),
        };
        if before == era {
            return;
        }
        if known.len() > MAX_SERVERS {
            known.clear();
        }
        let Ok(text) = serde_json::to_vec(&*known) else { return };
        // A partly written file is not JSON, and starts over.
        if let Err(error) = std::fs::write(&self.path, text) {
            let path = self.path.display();
            tracing::debug!(target: "mcp::eras", "{path} cannot be written: {error}");
        }
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, Era>> {
        let read = || {
            let bytes = files::read(&self.path, MAX_BYTES).unwrap_or_default();
            Mutex::new(serde_json::from_slice(&bytes).unwrap_or_default())
        };
        self.known.get_or_init(read).lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A digest of what decides the era: the program with its arguments, or the address.
fn key(transport: &Transport) -> Option<String> {
    let parts: Vec<&str> = match transport {
        Transport::Stdio(program) => [program.command.as_str()]
            .into_iter()
            .chain(program.args.iter().map(String::as_str))
            .collect(),
        Transport::Http(server) => vec![&server.url],
        Transport::Unusable(_) => return None,
    };
    let digest = Sha256::digest(parts.join("\0"));
    Some(digest.iter().take(12).map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::definition::HttpServer;

    #[test]
    fn eras_outlive_the_process_and_a_damaged_file_is_begun_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("eras.json");
        let server = |url: &str| {
            let (url, headers) = (url.to_owned(), BTreeMap::new());
            Transport::Http(HttpServer { url, headers, bearer: None, oauth: Default::default() })
        };
        let (one, other) = (server("https://a"), server("https://b"));
        let eras = Eras::new(path.clone());
        assert_eq!(eras.get(&one), None);
        eras.set(&one, Some(Era::Handshake));
        eras.set(&other, Some(Era::Discover));
        eras.set(&other, None);
        let again = Eras::new(path.clone());
        assert_eq!((again.get(&one), again.get(&other)), (Some(Era::Handshake), None));
        std::fs::write(&path, "{").unwrap();
        assert_eq!(Eras::new(path).get(&one), None);
    }
}
