//! The values from outside of the file that a configuration depends on.

use std::path::Path;

/// Values from outside of the file.
#[derive(Clone, Copy)]
pub struct LoadContext<'a> {
    /// Looks up an environment variable.
    pub environment: &'a dyn Fn(&str) -> Option<String>,
    /// The base of relative paths in the file, and the default folder of the store.
    pub folder: &'a Path,
    /// The base URL of the offline model, which serves requests when the file has no upstream.
    pub offline: &'a str,
}
