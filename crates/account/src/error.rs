//! The error of this crate: what failed, where, and what to do next. No message contains a credential.

use std::path::PathBuf;
use std::time::Duration;

/// Why there is no login, or no token of one.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// No credentials are stored.
    #[error("no account is logged in; run `agentd login`, or call `account/login/start`")]
    NotLoggedIn,
    /// The operation needs a hosted login.
    #[error(
        "this needs an account of the hosted service, and none is logged in; run `agentd login`, or call \
         `account/login/start` with `{{\"type\": \"hosted\"}}`"
    )]
    NotHosted,
    /// The login was ended.
    #[error("{reason}; log in again with `agentd login`, or call `account/login/start`")]
    Ended { reason: String },
    /// The configuration does not permit the login.
    #[error("{0}")]
    NotPermitted(String),
    /// The configuration names no login service.
    #[error(
        "no login service is configured; set `hosted_base_url` in config.toml to its address, or log \
         in with an API key (`agentd login --with-api-key`)"
    )]
    NoLoginService,
    /// The value of a setting or a parameter cannot be used.
    #[error("{0}")]
    Invalid(String),
    /// The credentials cannot be read or written.
    #[error("cannot {action} {}: {cause}", .path.display())]
    Storage { action: &'static str, path: PathBuf, cause: String },
    /// The operating system's keyring cannot be used.
    #[error(
        "the keyring of the operating system cannot be used: {0}; unlock it, or set \
             `cli_auth_credentials_store = \"file\"`"
    )]
    Keyring(String),
    /// The keyring is not part of this program.
    #[error(
        "`cli_auth_credentials_store = \"keyring\"`: this program was built without support for \
         keyrings; write `\"file\"` or `\"auto\"`, or build it with the feature `keyring`"
    )]
    NoKeyring,
    /// Another process holds the lock.
    #[error(
        "another process has been refreshing the login for {} s ({}); try again, and look for a \
         process of `agentd` that hangs", .waited.as_secs(), .path.display()
    )]
    Busy { path: PathBuf, waited: Duration },
    /// The login service cannot be reached, or did not answer in time.
    #[error("{endpoint}: {problem}; check the network and `hosted_base_url`")]
    Unreachable { endpoint: String, problem: String },
    /// The login service gave an answer that the standards do not allow.
    #[error("{endpoint} {problem}; check `hosted_base_url`")]
    BadAnswer { endpoint: String, problem: String },
    /// The login service refused the request.
    #[error("{endpoint} refused: {code}{}", .description.as_deref().map(|d| format!(" ({d})")).unwrap_or_default())]
    Refused { endpoint: String, code: String, description: Option<String> },
    /// The user or the login service ended the login.
    #[error("the login failed: {0}; start it again")]
    LoginFailed(String),
    /// The user did not finish the login in time.
    #[error("the login was not finished within {} minutes; start it again", .0.as_secs() / 60)]
    LoginTimedOut(Duration),
    /// The provider no longer accepts the tokens that a client provided.
    #[error("the tokens that the client provided are no longer accepted")]
    ExternalRejected { account_id: String },
    /// A defect.
    #[error("the work on the login ended unexpectedly; please report it")]
    Panicked,
}

impl Error {
    /// Returns whether the same request may succeed later without a new login.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Busy { .. } | Self::BadAnswer { .. } => true,
            Self::Refused { code, .. } => {
                matches!(code.as_str(), "server_error" | "temporarily_unavailable" | "slow_down")
            }
            _ => false,
        }
    }
}
