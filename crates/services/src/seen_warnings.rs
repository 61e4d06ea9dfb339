//! Warnings that a user needs once, not once a thread or run: which of them the clients of this home were
//! sent already. Two programs that remember at the same time may lose an entry, whose warning then comes once
//! more.

use std::path::PathBuf;
use std::sync::Arc;

use files::Pool;
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

use crate::options::Options;

/// The file, in the home.
const FILE: &str = "seen-warnings.json";
/// Warnings that are remembered; beyond that the oldest are forgotten.
const MAX_WARNINGS: usize = 200;
/// Largest such file.
const MAX_BYTES: u64 = 1 << 20;

/// Remembers the warnings that clients of this home were sent.
pub struct SeenWarnings {
    options: Arc<Options>,
    files: Pool,
    /// The contents of the file when it was read last.
    seen: Mutex<Seen>,
}

/// The contents of the file. One that cannot be read is as good as none.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Seen {
    /// The texts, the oldest first.
    warnings: Vec<String>,
}

impl SeenWarnings {
    pub fn new(options: Arc<Options>, files: Pool) -> Self {
        Self { options, files, seen: Mutex::default() }
    }

    /// Returns whether no client of this home was sent this warning, and remembers it.
    pub async fn is_first(&self, warning: &str) -> bool {
        let mut seen = self.seen.lock().await;
        if seen.has(warning) {
            return false;
        }
        let path = self.path();
        let read = move || files::read(&path, MAX_BYTES).ok();
        if let Ok(Some(bytes)) = self.files.run(&self.options.home, read).await {
            *seen = serde_json::from_slice(&bytes).unwrap_or_default();
        }
        if seen.has(warning) {
            return false;
        }
        let excess = (seen.warnings.len() + 1).saturating_sub(MAX_WARNINGS);
        seen.warnings.drain(..excess);
        seen.warnings.push(warning.to_owned());
        if let Err(error) = self.write(&seen).await {
            tracing::warn!(target: "server::warnings", "{FILE} in the home: {error}");
        }
        true
    }

    async fn write(&self, seen: &Seen) -> Result<(), String> {
        let bytes = serde_json::to_vec(seen).map_err(|error| error.to_string())?;
        let path = self.path();
        let write = move || filesystem::write(&path, &bytes).map_err(|error| error.to_string());
        let written = self.files.run(&self.options.home, write).await;
        written.map_err(|error| error.to_string())?
    }

    fn path(&self) -> PathBuf {
        self.options.home.join(FILE)
    }
}

impl Seen {
    fn has(&self, warning: &str) -> bool {
        self.warnings.iter().any(|seen| seen == warning)
    }
}
