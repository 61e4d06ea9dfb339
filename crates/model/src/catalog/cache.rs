//! The file that keeps a provider's list of models between runs. It holds no credential. A file that
//! cannot be read, or is of another address, counts as absent.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::listing::{ListedModel, MAX_LISTING_BYTES};

/// The form of the file; a file of another form counts as absent.
const VERSION: u32 = 2;
/// Largest file that is read: an answer, with the names of its members.
const MAX_BYTES: u64 = 2 * MAX_LISTING_BYTES as u64;

/// A provider's list of models.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CachedListing {
    version: u32,
    /// Address of the provider.
    base_url: String,
    /// When the provider last confirmed the list, in Unix milliseconds.
    pub checked_at_ms: i64,
    /// Identifies the list to the provider.
    pub etag: Option<String>,
    pub models: Vec<ListedModel>,
}

impl CachedListing {
    #[must_use]
    pub fn new(
        base_url: &str,
        checked_at_ms: i64,
        etag: Option<String>,
        models: Vec<ListedModel>,
    ) -> Self {
        Self { version: VERSION, base_url: base_url.to_owned(), checked_at_ms, etag, models }
    }

    /// Reads a file that was written for `base_url`; `None` when there is none.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn read(path: &Path, base_url: &str) -> Result<Option<Self>, String> {
        let text = match files::read_utf8(path, MAX_BYTES) {
            Ok(text) => text,
            Err(error) => {
                let error = error.into_io();
                return match error.kind() {
                    io::ErrorKind::NotFound => Ok(None),
                    _ => Err(format!("{}: {error}", path.display())),
                };
            }
        };
        let mut cached: Self =
            serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        // Earlier versions kept names with hidden characters.
        cached.models.retain(ListedModel::has_name);
        Ok((cached.version == VERSION && cached.base_url == base_url).then_some(cached))
    }

    /// Replaces the file, so that a reader finds the old one or the new one.
    ///
    /// # Errors
    /// Of the system.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let folder = path.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder)?;
        let temporary = path.with_extension(format!("{}.new", std::process::id()));
        let written = std::fs::write(&temporary, serde_json::to_vec(self)?)
            .and_then(|()| std::fs::rename(&temporary, path));
        if written.is_err() {
            // Ignored: the first error is reported.
            let _ = std::fs::remove_file(&temporary);
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_back_for_its_own_address() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("models/p.json");
        assert_eq!(CachedListing::read(&path, "http://a"), Ok(None));
        let listing =
            super::super::parse_listing(br#"[{"id":"m","context_length":9}]"#).unwrap().models;
        let cached = CachedListing::new("http://a", 5, Some("\"e\"".to_owned()), listing);
        cached.write(&path).unwrap();
        assert_eq!(CachedListing::read(&path, "http://a"), Ok(Some(cached.clone())));
        assert_eq!(CachedListing::read(&path, "http://b"), Ok(None));
        let names: Vec<_> = std::fs::read_dir(path.parent().unwrap()).unwrap().collect();
        assert_eq!(names.len(), 1, "no temporary file is left");
        for bad in ["", "{", "[]", r#"{"version":"1"}"#, "\u{0}"] {
            std::fs::write(&path, bad).unwrap();
            assert!(
                CachedListing::read(&path, "http://a").unwrap_err().contains("p.json"),
                "{bad}"
            );
        }
        let named = |id: &str| ListedModel { id: id.into(), ..cached.models[0].clone() };
        let models = vec![named("a\u{202e}b"), named("m")];
        CachedListing { models, ..cached.clone() }.write(&path).unwrap();
        assert_eq!(CachedListing::read(&path, "http://a"), Ok(Some(cached.clone())));
        let newer = CachedListing { version: VERSION + 1, ..cached };
        std::fs::write(&path, serde_json::to_vec(&newer).unwrap()).unwrap();
        assert_eq!(CachedListing::read(&path, "http://a"), Ok(None));
        std::fs::write(&path, vec![b' '; 9 << 20]).unwrap();
        assert!(CachedListing::read(&path, "http://a").is_err());
    }
}
