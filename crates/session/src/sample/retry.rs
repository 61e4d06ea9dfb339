//! Whether a failed request to the model is sent again, and how often. The waits are those of
//! [`http_client::retry`]; the driver waits and adds jitter.

use std::time::Duration;

use http_client::retry::Policy;

use crate::port::model::{Failure, FailureKind, Retry};
use crate::port::thread::Limits;

/// The waits between tries.
const POLICY: Policy = Policy::INTERACTIVE;

/// Failed tries of the current request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Attempts {
    /// Failed before their response began, since a response last began.
    request: u32,
    /// Failed while their response streamed in.
    stream: u32,
}

/// What follows a failed try.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The `attempt`-th retry of at most `limit` comes after `wait_ms`.
    Again { attempt: u32, limit: u32, wait_ms: u64 },
    /// The request failed after so many tries in a row.
    GiveUp { tries: u32 },
}

impl Attempts {
    /// Counts a failed try and decides what follows.
    pub(crate) fn failed(&mut self, failure: &Failure, limits: &Limits) -> Next {
        let (count, limit) = match failure.retry {
            Retry::Never => return Next::GiveUp { tries: self.request + 1 },
            Retry::Request => (&mut self.request, limits.request_retries),
            Retry::Stream => {
                self.request = 0;
                (&mut self.stream, limits.stream_retries)
            }
        };
        let attempt = *count + 1;
        match POLICY.wait(attempt, failure.retry_after) {
            Some(wait) if *count < limit => {
                *count = attempt;
                // At most the longest wait that a provider can ask for.
                let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
                Next::Again { attempt, limit, wait_ms }
            }
            _ => Next::GiveUp { tries: attempt },
        }
    }
}

/// The failure as it is reported while its request is sent again.
pub(crate) fn retried(failure: &Failure, attempt: u32, limit: u32, wait_ms: u64) -> Failure {
    let message =
        format!("{} (retry {attempt} of {limit} in {})", failure.message, duration(wait_ms));
    // This kind says that no other attempt follows.
    let kind = match failure.kind {
        FailureKind::ResponseTooManyFailedAttempts => FailureKind::HttpConnectionFailed,
        kind => kind,
    };
    Failure { kind, message, ..failure.clone() }
}

/// The failure as it ends the turn.
pub(crate) fn given_up(mut failure: Failure, tries: u32) -> Failure {
    if tries > 1 {
        failure.message.push_str(&format!(" (after {tries} tries)"));
    }
    let too_long = |asked: &Duration| *asked > POLICY.longest_asked;
    if let Some(asked) = failure.retry_after.filter(too_long) {
        let asked_ms = u64::try_from(asked.as_millis()).unwrap_or(u64::MAX);
        failure.message.push_str(&format!("; try again in {}", duration(asked_ms)));
    }
    failure
}

/// Seconds with one decimal below ten, whole ones above.
fn duration(ms: u64) -> String {
    if ms < 10_000 {
        format!("{}.{} s", ms / 1000, ms % 1000 / 100)
    } else {
        format!("{} s", ms.div_ceil(1000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(retry: Retry, retry_after_ms: Option<u64>) -> Failure {
        let kind = FailureKind::ResponseTooManyFailedAttempts;
        let retry_after = retry_after_ms.map(Duration::from_millis);
        Failure { retry, retry_after, ..Failure::new(kind, "busy") }
    }

    #[test]
    fn waits_grow_and_respect_the_provider() {
        let limits = Limits { stream_retries: 20, ..Limits::default() };
        let mut attempts = Attempts::default();
        let mut wait = |asked| match attempts.failed(&failure(Retry::Stream, asked), &limits) {
            Next::Again { wait_ms, .. } => wait_ms,
            Next::GiveUp { .. } => 0,
        };
        assert_eq!([wait(None), wait(None), wait(None)], [200, 400, 800]);
        assert_eq!(wait(Some(5_000)), 5_000);
        let longest_asked = u64::try_from(POLICY.longest_asked.as_millis()).unwrap();
        assert_eq!(wait(Some(longest_asked)), longest_asked);
        assert_eq!(wait(Some(u64::MAX)), 0, "given up");
        for _ in 0..10 {
            wait(None);
        }
        assert_eq!(u128::from(wait(None)), POLICY.longest.as_millis());
    }

    #[test]
    fn each_kind_of_retry_has_its_limit() {
        let limits = Limits { request_retries: 2, stream_retries: 1, ..Limits::default() };
        let mut attempts = Attempts::default();
        let mut next = |retry| attempts.failed(&failure(retry, None), &limits);
        let again = |attempt, limit, wait_ms| Next::Again { attempt, limit, wait_ms };
        assert_eq!(next(Retry::Request), again(1, 2, 200));
        assert_eq!(next(Retry::Request), again(2, 2, 400));
        // The response began, so that failures before a response are counted from zero.
        assert_eq!(next(Retry::Stream), again(1, 1, 200));
        assert_eq!(next(Retry::Request), again(1, 2, 200));
        assert_eq!(next(Retry::Request), again(2, 2, 400));
        assert_eq!(next(Retry::Request), Next::GiveUp { tries: 3 });
        assert_eq!(next(Retry::Stream), Next::GiveUp { tries: 2 });
        assert_eq!(next(Retry::Never), Next::GiveUp { tries: 1 });
    }

    #[test]
    fn failures_state_the_next_step() {
        let busy = failure(Retry::Request, None);
        let reported = retried(&busy, 1, 4, 200);
        assert_eq!(reported.message, "busy (retry 1 of 4 in 0.2 s)");
        assert_eq!(reported.kind, FailureKind::HttpConnectionFailed);
        assert_eq!(given_up(busy.clone(), 1), busy);
        let long = Failure { retry_after: Some(Duration::from_secs(3_600)), ..busy };
        assert_eq!(given_up(long, 3).message, "busy (after 3 tries); try again in 3600 s");
    }
}
