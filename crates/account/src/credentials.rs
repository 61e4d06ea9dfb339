//! The stored form of a login, and its encoding in the file.

use http_client::Secret;
use serde::{Deserialize, Serialize};

/// The version of the form that this program writes.
const VERSION: u32 = 1;
/// Tokens are refreshed this long before they expire, or after nine tenths of a shorter life.
const MARGIN_MS: i64 = 60_000;

/// A login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Login {
    ApiKey(Secret),
    Hosted(HostedLogin),
}

/// A login at the hosted service, with its tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostedLogin {
    /// Address of the service that issued the tokens. A refresh token is sent nowhere else.
    pub(crate) issuer: String,
    pub(crate) client_id: String,
    pub(crate) access_token: Secret,
    pub(crate) refresh_token: Option<Secret>,
    /// When the tokens were requested, by the clock of this machine.
    pub(crate) obtained_at_ms: i64,
    /// Lifetime of the access token, as the service stated it.
    pub(crate) lifetime_ms: Option<i64>,
    pub(crate) profile: Profile,
}

/// Who logged in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    /// The service's id of the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
    /// Name of the plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// The workspace, also called the account, that requests are made for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account_id: Option<String>,
}

/// The contents of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stored {
    Login(Login),
    /// The last login was ended by this program.
    Ended {
        reason: String,
    },
}

impl HostedLogin {
    /// Returns whether the access token is expected to be valid for a while. Compares durations,
    /// not points in time, so a clock that is wrong by any constant does no harm. A clock that was
    /// set back makes the token stale, which costs one refresh.
    pub(crate) fn is_fresh(&self, now_ms: i64) -> bool {
        let Some(lifetime) = self.lifetime_ms else { return true };
        let margin = MARGIN_MS.min(lifetime / 10);
        self.is_within(now_ms, lifetime.saturating_sub(margin))
    }

    /// Returns whether the access token has not expired yet.
    pub(crate) fn is_valid(&self, now_ms: i64) -> bool {
        self.lifetime_ms.is_none_or(|lifetime| self.is_within(now_ms, lifetime))
    }

    fn is_within(&self, now_ms: i64, duration_ms: i64) -> bool {
        let age = now_ms.saturating_sub(self.obtained_at_ms);
        (0..duration_ms).contains(&age)
    }
}

/// The form of the file.
#[derive(Serialize, Deserialize)]
struct Document {
    version: u32,
    #[serde(flatten)]
    contents: Contents,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
enum Contents {
    ApiKey {
        api_key: String,
    },
    Hosted {
        issuer: String,
        client_id: String,
        access_token: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        refresh_token: Option<String>,
        obtained_at_ms: i64,
        #[serde(skip_serializing_if = "Option::is_none")]
        lifetime_ms: Option<i64>,
        #[serde(default)]
        profile: Profile,
    },
    Ended {
        reason: String,
    },
}

impl Stored {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let contents = match self {
            Self::Ended { reason } => Contents::Ended { reason: reason.clone() },
            Self::Login(Login::ApiKey(key)) => {
                Contents::ApiKey { api_key: key.expose().to_owned() }
            }
            Self::Login(Login::Hosted(login)) => Contents::Hosted {
                issuer: login.issuer.clone(),
                client_id: login.client_id.clone(),
                access_token: login.access_token.expose().to_owned(),
                refresh_token: login.refresh_token.as_ref().map(|token| token.expose().to_owned()),
                obtained_at_ms: login.obtained_at_ms,
                lifetime_ms: login.lifetime_ms,
                profile: login.profile.clone(),
            },
        };
        let document = Document { version: VERSION, contents };
        let mut bytes =
            serde_json::to_vec_pretty(&document).expect("credentials are strings and numbers");
        bytes.push(b'\n');
        bytes
    }

    /// Reads what [`Stored::to_bytes`] wrote. The error contains no part of the text.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Version {
            version: u32,
        }
        let place =
            |error: &serde_json::Error| format!("line {}, column {}", error.line(), error.column());
        let version: Version = serde_json::from_slice(bytes)
            .map_err(|error| format!("it is not a credentials file ({})", place(&error)))?;
        if version.version != VERSION {
            return Err(format!(
                "it has version {}, and this program reads version {VERSION}",
                version.version
            ));
        }
        let document: Document = serde_json::from_slice(bytes)
            .map_err(|error| format!("a member is missing or wrong ({})", place(&error)))?;
        Ok(match document.contents {
            Contents::Ended { reason } => Self::Ended { reason },
            Contents::ApiKey { api_key } => Self::Login(Login::ApiKey(Secret::new(api_key))),
            Contents::Hosted {
                issuer,
                client_id,
                access_token,
                refresh_token,
                obtained_at_ms,
                lifetime_ms,
                profile,
            } => Self::Login(Login::Hosted(HostedLogin {
                issuer,
                client_id,
                access_token: Secret::new(access_token),
                refresh_token: refresh_token.map(Secret::new),
                obtained_at_ms,
                lifetime_ms,
                profile,
            })),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login(lifetime_ms: Option<i64>) -> HostedLogin {
        HostedLogin {
            issuer: "https://login.test".into(),
            client_id: "agentd".into(),
            access_token: Secret::new("access-secret"),
            refresh_token: Some(Secret::new("refresh-secret")),
            obtained_at_ms: 1_000_000,
            lifetime_ms,
            profile: Profile { email: Some("a@b.c".into()), ..Profile::default() },
        }
    }

    #[test]
    fn credentials_are_read_back() {
        let check = |stored: Stored| {
            assert_eq!(Stored::from_bytes(&stored.to_bytes()), Ok(stored.clone()));
            assert!(!format!("{stored:?}").contains("-secret"));
        };
        check(Stored::Ended { reason: "over".into() });
        check(Stored::Login(Login::ApiKey(Secret::new("sk-secret"))));
        check(Stored::Login(Login::Hosted(login(None))));
        check(Stored::Login(Login::Hosted(login(Some(5)))));
    }

    #[test]
    fn broken_files_are_described_without_their_contents() {
        let whole = Stored::Login(Login::Hosted(login(Some(5)))).to_bytes();
        for end in 0..whole.len() - 2 {
            let error = Stored::from_bytes(&whole[..end]).unwrap_err();
            assert!(!error.contains("secret"), "{error}");
        }
        for text in [
            "",
            "null",
            "[]",
            r#"{"version":2,"type":"apiKey","apiKey":"sk-secret"}"#,
            r#"{"version":1,"type":"apiKey","apiKey":null}"#,
            r#"{"version":1,"type":"sk-secret"}"#,
            r#"{"version":1,"type":"hosted","accessToken":"sk-secret","obtainedAtMs":"sk-secret"}"#,
        ] {
            let error = Stored::from_bytes(text.as_bytes()).unwrap_err();
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn freshness_depends_on_durations_alone() {
        let hour = 3_600_000;
        let check = |lifetime, age, fresh, valid| {
            let login = login(lifetime);
            let now = login.obtained_at_ms + age;
            assert_eq!((login.is_fresh(now), login.is_valid(now)), (fresh, valid), "{age}");
        };
        check(Some(hour), 0, true, true);
        check(Some(hour), hour - MARGIN_MS - 1, true, true);
        check(Some(hour), hour - MARGIN_MS, false, true);
        check(Some(hour), hour, false, false);
        // The clock was set back.
        check(Some(hour), -1, false, false);
        // Short lives have a short margin.
        check(Some(10_000), 8_999, true, true);
        check(Some(10_000), 9_000, false, true);
        check(Some(0), 0, false, false);
        check(Some(i64::MAX), hour, true, true);
        check(None, hour * 24 * 365, true, true);
    }
}
