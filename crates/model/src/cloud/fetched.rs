//! Credentials that a cloud gave, and why it gave none.

use std::time::{Duration, SystemTime};

use crate::{Failure, KeySource, Retry};

/// Credentials of a cloud, and when they end.
#[derive(Debug, Clone)]
// A build without clouds fetches none.
#[cfg_attr(not(any(feature = "bedrock", feature = "vertex")), allow(dead_code))]
pub(super) struct Fetched {
    pub(super) key: KeySource,
    /// `None` if they do not end.
    pub(super) ends: Option<SystemTime>,
}

/// Time before their end at which credentials are fetched again.
const RENEW_BEFORE: Duration = Duration::from_secs(240);

impl Fetched {
    pub(super) fn is_fresh(&self, now: SystemTime) -> bool {
        self.ends.is_none_or(|ends| ends > now + RENEW_BEFORE)
    }

    /// They can be used, although they are due for renewal.
    pub(super) fn is_valid(&self, now: SystemTime) -> bool {
        self.ends.is_none_or(|ends| ends > now)
    }
}

/// Why there are no credentials.
#[derive(Debug)]
pub(super) struct CloudError {
    pub(super) message: String,
    /// A later try may succeed.
    pub(super) passes: bool,
}

impl From<Failure> for CloudError {
    fn from(failure: Failure) -> Self {
        Self { message: failure.message, passes: failure.retry != Retry::Never }
    }
}

impl CloudError {
    pub(super) fn permanent(message: impl Into<String>) -> Self {
        Self { message: message.into(), passes: false }
    }

    #[cfg(any(feature = "bedrock", feature = "vertex"))]
    pub(super) fn transient(message: impl Into<String>) -> Self {
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
            key: KeySource::Bearer(Secret::new("t")),
            ends: Some(now + Duration::from_secs(seconds)),
        };
        assert!(at(3600).is_fresh(now));
        assert!(!at(239).is_fresh(now) && at(239).is_valid(now));
        assert!(!at(0).is_valid(now));
        assert!(Fetched { ends: None, ..at(0) }.is_fresh(now));
    }
}
