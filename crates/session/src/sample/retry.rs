//! The decision to retry a failed request to the model, and the number of attempts. The waits are
//! those of [`http_client::retry`]; the driver draws the random part.

use std::time::Duration;

use http_client::retry::Policy;

use crate::port::model::{Failure, FailureKind, Retry, Retrying};
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

/// The action after a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Another attempt follows.
    Again(Retrying),
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
                Next::Again(Retrying { attempt, limit, wait })
            }
            _ => Next::GiveUp { tries: attempt },
        }
    }
}

/// The failure as it is reported while its request is sent again.
pub(crate) fn retried(failure: &Failure, retrying: Retrying) -> Failure {
    let Retrying { attempt, limit, wait } = retrying;
    let when = match wait.at_least {
        Duration::ZERO => format!("within {}", duration(wait.longest())),
        asked => format!("in {}", duration(asked)),
    };
    let message = format!("{} (retry {attempt} of {limit} {when})", failure.message);
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
    if let Some(asked) = failure.retry_after.filter(|asked| !asked.is_zero()) {
        failure.message.push_str(&match failure.kind {
            FailureKind::UsageLimitExceeded => format!("; the limit resets in {}", duration(asked)),
            _ => format!("; try again in {}", duration(asked)),
        });
    }
    failure
}

/// The largest two units of a duration; seconds with one decimal below ten. Rounded up.
fn duration(duration: Duration) -> String {
    let seconds = u64::try_from(duration.as_millis().div_ceil(1000)).unwrap_or(u64::MAX);
    let minutes = seconds.div_ceil(60);
    match seconds {
        _ if duration < Duration::from_secs(10) => {
            let tenths = duration.as_millis().div_ceil(100);
            format!("{}.{} s", tenths / 10, tenths % 10)
        }
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min {} s", seconds / 60, seconds % 60),
        7_200..172_800 => format!("{} h {} min", minutes / 60, minutes % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

#[cfg(test)]
mod tests {
    use http_client::retry::Wait;

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
            Next::Again(Retrying { wait, .. }) => Some(wait),
            Next::GiveUp { .. } => None,
        };
        let mut own = || wait(None).unwrap().longest().as_millis();
        assert_eq!([own(), own(), own()], [400, 800, 1600]);
        assert_eq!(wait(Some(5_000)).unwrap().at_least, Duration::from_secs(5));
        assert_eq!(wait(Some(600_000)).unwrap().at_least, POLICY.longest_asked);
        assert_eq!(wait(Some(600_001)), None, "given up");
        for _ in 0..10 {
            wait(None);
        }
        assert_eq!(wait(None).unwrap().longest(), POLICY.longest);
    }

    #[test]
    fn each_kind_of_retry_has_its_limit() {
        let limits = Limits { request_retries: 2, stream_retries: 1, ..Limits::default() };
        let mut attempts = Attempts::default();
        let mut next = |retry| attempts.failed(&failure(retry, None), &limits);
        let again = |attempt, limit, ms| {
            let wait = Wait { spread: Duration::from_millis(ms), ..Wait::default() };
            Next::Again(Retrying { attempt, limit, wait })
        };
        assert_eq!(next(Retry::Request), again(1, 2, 400));
        assert_eq!(next(Retry::Request), again(2, 2, 800));
        // The response began, so that failures before a response are counted from zero.
        assert_eq!(next(Retry::Stream), again(1, 1, 400));
        assert_eq!(next(Retry::Request), again(1, 2, 400));
        assert_eq!(next(Retry::Request), again(2, 2, 800));
        assert_eq!(next(Retry::Request), Next::GiveUp { tries: 3 });
        assert_eq!(next(Retry::Stream), Next::GiveUp { tries: 2 });
        assert_eq!(next(Retry::Never), Next::GiveUp { tries: 1 });
    }

    #[test]
    fn failures_state_the_next_step() {
        let busy = failure(Retry::Request, None);
        let message = |asked: Option<u64>| {
            let wait = POLICY.wait(1, asked.map(Duration::from_millis)).unwrap();
            let reported = retried(&busy, Retrying { attempt: 1, limit: 4, wait });
            assert_eq!(reported.kind, FailureKind::HttpConnectionFailed);
            reported.message
        };
        assert_eq!(message(None), "busy (retry 1 of 4 within 0.4 s)");
        assert_eq!(message(Some(1_250)), "busy (retry 1 of 4 in 1.3 s)");
        assert_eq!(message(Some(360_000)), "busy (retry 1 of 4 in 6 min 0 s)");
        assert_eq!(given_up(busy.clone(), 1), busy);
        let ended = |seconds, kind| {
            let retry_after = Some(Duration::from_secs(seconds));
            given_up(Failure { kind, retry_after, ..busy.clone() }, 3).message
        };
        let (busy, used_up) = (FailureKind::HttpConnectionFailed, FailureKind::UsageLimitExceeded);
        assert_eq!(ended(5, busy), "busy (after 3 tries); try again in 5.0 s");
        assert_eq!(ended(100, busy), "busy (after 3 tries); try again in 100 s");
        assert_eq!(ended(7_201, busy), "busy (after 3 tries); try again in 2 h 1 min");
        assert_eq!(ended(950_400, used_up), "busy (after 3 tries); the limit resets in 11 d 0 h");
    }
}
