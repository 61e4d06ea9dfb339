//! Who may connect over TCP: the modes of `--ws-auth`. Everything is settled before the program
//! starts to listen; a handshake only compares.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use files::{SecretError, SecretFile};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::token::{self, Claims};

/// How clients prove who they are.
#[derive(Clone)]
pub enum Auth {
    /// They need not.
    None,
    /// They know a token, of which this is the SHA-256.
    Capability([u8; 32]),
    /// They carry a token that was signed with this secret.
    Signed {
        /// At least 32 bytes.
        secret: Arc<[u8]>,
        /// What it must claim.
        claims: Claims,
        /// Seconds since 1970.
        now: Arc<dyn Fn() -> i64 + Send + Sync>,
    },
}

/// Shortest secret, in bytes: as long as what HS256 makes of it.
const LEAST_SECRET: usize = 32;

/// Why the program does not start.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// The path depends on the current folder.
    #[error("{flag} {path}: the path must be absolute")]
    Relative {
        /// The flag that named it.
        flag: &'static str,
        /// The path.
        path: PathBuf,
    },
    /// The file cannot be read, or others could have changed it.
    #[error("{flag} {source}")]
    Secret {
        /// The flag that named it.
        flag: &'static str,
        /// Why, with the path.
        source: SecretError,
    },
    /// What the file holds cannot be used.
    #[error("{flag} {path}: {why}")]
    Unusable {
        /// The flag that named it.
        flag: &'static str,
        /// The path.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Not the 64 digits of a SHA-256.
    #[error("--ws-token-sha256: 64 hexadecimal digits are needed, as `sha256sum` prints them")]
    NotAHash,
}

impl Auth {
    /// Clients need the token that the file holds. Also what the operator should know about the
    /// file.
    ///
    /// # Errors
    /// A file that cannot be read, that others can change, or that holds no token.
    pub fn capability_file(path: &Path) -> Result<(Self, Option<String>), AuthError> {
        const FLAG: &str = "--ws-token-file";
        let SecretFile { text: token, warning } = read_secret(FLAG, path)?;
        if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(AuthError::Unusable {
                flag: FLAG,
                path: path.to_owned(),
                why: "a token is one word of visible ASCII, to stand in an HTTP header",
            });
        }
        Ok((Self::Capability(hash(&token)), warning))
    }

    /// Clients need the token whose SHA-256 this is, in hexadecimal.
    ///
    /// # Errors
    /// When it is none.
    pub fn capability_sha256(hex: &str) -> Result<Self, AuthError> {
        let mut hash = [0; 32];
        if hex.len() != 64 || !hex.is_ascii() {
            return Err(AuthError::NotAHash);
        }
        for (byte, digits) in hash.iter_mut().zip(hex.as_bytes().chunks_exact(2)) {
            let digits = std::str::from_utf8(digits).map_err(|_| AuthError::NotAHash)?;
            if digits.starts_with('+') {
                return Err(AuthError::NotAHash);
            }
            *byte = u8::from_str_radix(digits, 16).map_err(|_| AuthError::NotAHash)?;
        }
        Ok(Self::Capability(hash))
    }

    /// Clients need a token signed with the secret that the file holds. Also what the operator
    /// should know about the file.
    ///
    /// # Errors
    /// A file that cannot be read, that others can change, or that holds too short a secret.
    pub fn signed_file(
        path: &Path,
        claims: Claims,
        now: Arc<dyn Fn() -> i64 + Send + Sync>,
    ) -> Result<(Self, Option<String>), AuthError> {
        const FLAG: &str = "--ws-shared-secret-file";
        let SecretFile { text: secret, warning } = read_secret(FLAG, path)?;
        if secret.len() < LEAST_SECRET {
            let why = "the secret is shorter than 32 bytes";
            return Err(AuthError::Unusable { flag: FLAG, path: path.to_owned(), why });
        }
        Ok((Self::Signed { secret: secret.into_bytes().into(), claims, now }, warning))
    }

    /// Whether whoever sent this token may come in. Takes the same time for all wrong tokens of a
    /// length.
    pub(crate) fn admits(&self, token: Option<&str>) -> bool {
        match (self, token) {
            (Self::None, _) => true,
            (_, None) => false,
            (Self::Capability(expected), Some(token)) => hash(token).ct_eq(expected).into(),
            (Self::Signed { secret, claims, now }, Some(token)) => {
                token::verify(token, secret, claims, now()).is_ok()
            }
        }
    }
}

impl std::fmt::Debug for Auth {
    /// Without the secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Capability(_) => "capability-token",
            Self::Signed { .. } => "signed-bearer-token",
        })
    }
}

fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

/// The secret in a file that a flag names by its absolute path; see [`files::read_secret`].
///
/// # Errors
/// See [`AuthError`].
fn read_secret(flag: &'static str, path: &Path) -> Result<SecretFile, AuthError> {
    if !path.is_absolute() {
        return Err(AuthError::Relative { flag, path: path.to_owned() });
    }
    files::read_secret(path).map_err(|source| AuthError::Secret { flag, source })
}
