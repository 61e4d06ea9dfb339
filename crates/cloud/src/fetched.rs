//! Credentials that a cloud gave, and why it gave none.

use std::time::{Duration, SystemTime};

use crate::account::Key;

/// Credentials of a cloud, and when they end.
#[derive(Debug, Clone)]
// A build without clouds fetches none.
#[cfg_attr(not(any(feature = "bedrock", feature = "vertex")), allow(dead_code))]
pub(crate) struct Fetched {
    pub(crate) key: Key,
    /// `None` if they do not end.
    pub(crate) ends: Option<SystemTime>,
}

/// Time before their end at which credentials are fetched again.
const RENEW_BEFORE: Duration = Duration::from_secs(240);

/// Time within which a fetch has ended, whatever its outcome.
const LONGEST_FETCH: Duration = Duration::from_secs(30);

impl Fetched {
    pub(crate) fn is_fresh(&self, now: SystemTime) -> bool {
        self.ends.is_none_or(|ends| ends > now + RENEW_BEFORE)
    }

    /// They can be used while others are fetched.
    pub(crate) fn outlasts_a_fetch(&self, now: SystemTime) -> bool {
        self.ends.is_none_or(|ends| ends > now + LONGEST_FETCH)
    }

    /// They can be used, although they are due for renewal.
    pub(crate) fn is_valid(&self, now: SystemTime) -> bool {
        self.ends.is_none_or(|ends| ends > now)
    }
}

/// Why there are no credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloudError {
    pub message: String,
    /// A later try may succeed.
    pub passes: bool,
}

impl CloudError {
    pub(crate) fn permanent(message: impl Into<String>) -> Self {
        Self { message: message.into(), passes: false }
    }

    #[cfg(any(feature = "bedrock", feature = "vertex"))]
    pub(crate) fn transient(message: impl Into<String>) -> Self {
        Self { message: message.into(), passes: true }
    }
}

#[cfg(test)]
mod tests {
    use http_client::Secret;

    use super::*;

    #[test]
    fn credentials_are_renewed_before_their_end() {
        let now = SystemTime::now();
        let at = |seconds: u64| Fetched {
            key: Key::Bearer(Secret::new("t")),
            ends: Some(now + Duration::from_secs(seconds)),
        };
        assert!(at(3600).is_fresh(now));
        assert!(!at(239).is_fresh(now) && at(239).outlasts_a_fetch(now));
        assert!(!at(30).outlasts_a_fetch(now) && at(30).is_valid(now));
        assert!(!at(0).is_valid(now));
        assert!(Fetched { ends: None, ..at(0) }.is_fresh(now));
    }
}
