//! Authentication over TCP: the modes of `--ws-auth`. Files and flags are read before the program
//! listens; a handshake only compares.

use std::path::Path;
use std::sync::Arc;

use files::SecretFile;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::token::{self, Claims};
use crate::{Error, ErrorKind};

/// The authentication of clients.
#[derive(Clone)]
pub enum Auth {
    /// Any client may connect.
    None,
    /// A shared token, stored as its SHA-256.
    Capability([u8; 32]),
    /// A token signed with this secret.
    Signed {
        /// At least 32 bytes.
        secret: Arc<[u8]>,
        /// The claims that a token must make.
        claims: Claims,
        /// Seconds since 1970.
        now: Arc<dyn Fn() -> i64 + Send + Sync>,
    },
}

/// Shortest secret, in bytes: the output length of HS256 (RFC 7518, section 3.2).
const MIN_SECRET_BYTES: usize = 32;

impl Auth {
    /// Requires this token.
    #[must_use]
    pub fn capability(token: &str) -> Self {
        Self::Capability(hash(token))
    }

    /// Requires the token in the file that `flag` names. The second value is a warning about the file, for
    /// the operator.
    ///
    /// # Errors
    /// When the file cannot be read, is writable by other users, or holds no valid token.
    pub fn capability_file(
        flag: &'static str,
        path: &Path,
    ) -> Result<(Self, Option<String>), Error> {
        let SecretFile { text: token, warning } = read_secret(flag, path)?;
        if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            let why = "the token must be a single word of visible ASCII, because it is sent in an \
                       HTTP header";
            return Err(unusable(flag, path, why));
        }
        Ok((Self::Capability(hash(&token)), warning))
    }

    /// Requires the token with this SHA-256, in hexadecimal.
    ///
    /// # Errors
    /// When `hex` is no SHA-256.
    pub fn capability_sha256(hex: &str) -> Result<Self, Error> {
        let hash = (hex.len() == 64).then(|| const_hex::decode_to_array(hex).ok()).flatten();
        hash.map(Self::Capability).ok_or_else(|| {
            let message =
                "--ws-token-sha256: expected 64 hexadecimal digits, as `sha256sum` prints them";
            Error::new(ErrorKind::InvalidCredential, message)
        })
    }

    /// Requires a token signed with the secret in the file. The second value is a warning about the
    /// file, for the operator.
    ///
    /// # Errors
    /// When the file cannot be read, is writable by other users, or holds too short a secret.
    pub fn signed_file(
        path: &Path,
        claims: Claims,
        now: Arc<dyn Fn() -> i64 + Send + Sync>,
    ) -> Result<(Self, Option<String>), Error> {
        const FLAG: &str = "--ws-shared-secret-file";
        let SecretFile { text: secret, warning } = read_secret(FLAG, path)?;
        if secret.len() < MIN_SECRET_BYTES {
            let short = unusable(FLAG, path, "the secret is shorter than 32 bytes");
            return Err(short.next_step("generate one with `openssl rand -hex 32`"));
        }
        Ok((Self::Signed { secret: secret.into_bytes().into(), claims, now }, warning))
    }

    /// Returns whether a client with this token may connect. Takes the same time for all wrong
    /// tokens of one length.
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

/// Reads the secret in a file that a flag names by its absolute path; see [`files::read_secret`].
///
/// # Errors
/// The path is relative, the file cannot be read, or other users can write it.
fn read_secret(flag: &'static str, path: &Path) -> Result<SecretFile, Error> {
    if !path.is_absolute() {
        return Err(unusable(flag, path, "the path is relative").next_step("give an absolute one"));
    }
    // The error begins with the path.
    files::read_secret(path)
        .map_err(|error| Error::new(ErrorKind::InvalidCredential, format!("{flag} {error}")))
}

fn unusable(flag: &str, path: &Path, why: &str) -> Error {
    let message = format!("{flag} {}: {why}", path.display());
    Error::new(ErrorKind::InvalidCredential, message)
}
