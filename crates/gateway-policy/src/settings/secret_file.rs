//! Files that contain one secret.

use std::path::Path;

use files::{SecretFile, read_secret};

use super::Secret;
use super::error::Fault;

/// Reads a token: at least 16 visible ASCII characters. Also returns a warning about the file.
pub(super) fn token(path: &Path, key: &[&str]) -> Result<(Secret, Option<String>), Fault> {
    let (token, warning) = text(path, key)?;
    if token.len() < 16 || !token.bytes().all(|byte| (0x21..0x7f).contains(&byte)) {
        let path = path.display();
        let message =
            format!("{path} must contain a token of at least 16 visible ASCII characters");
        return Err(Fault::new(key, message));
    }
    Ok((Secret::new(token), warning))
}

/// Reads the text of a file.
pub(super) fn text(path: &Path, key: &[&str]) -> Result<(String, Option<String>), Fault> {
    let read = read_secret(path).map_err(|error| Fault::new(key, error.to_string()))?;
    let SecretFile { text, warning } = read;
    Ok((text, warning))
}
