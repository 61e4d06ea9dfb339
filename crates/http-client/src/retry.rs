//! When a failed request is sent again, and after how long. Pure: no clock is read here, the caller brings
//! the time and the randomness.

use std::time::{Duration, SystemTime};

/// Doublings after which a wait no longer grows; keeps the multiplication in range.
const MAX_DOUBLINGS: u32 = 16;

/// The longest delay that randomness adds to the wait that a server asked for.
const MAX_SPREAD: Duration = Duration::from_secs(5);

/// Longest wait that is read; also what a longer one reads as, so that it is refused and not ignored.
const LONGEST_READ: Duration = Duration::from_hours(24 * 365);

/// The waits between attempts. Which failures deserve another attempt, and how many, is the
/// caller's decision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Policy {
    /// Longest wait before the second attempt; it doubles with each further one.
    pub first: Duration,
    /// Longest wait that doubling leads to.
    pub longest: Duration,
    /// Longest wait that a server can ask for.
    pub longest_asked: Duration,
}

/// A wait before another attempt: random between `at_least` and [`Self::longest`], so that clients
/// that failed together do not return together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wait {
    /// The wait that the server asked for; zero if it asked for nothing.
    pub at_least: Duration,
    /// The maximum of the random part.
    pub spread: Duration,
}

impl Policy {
    /// For requests that a person waits for.
    pub const INTERACTIVE: Self = Self {
        first: Duration::from_millis(400),
        longest: Duration::from_secs(30),
        longest_asked: Duration::from_mins(10),
    };

    /// The wait after `failures` failed attempts. The server's own wait wins; without one, the wait is
    /// random up to a bound that doubles each time ("full jitter"). `None` when the server asked for
    /// longer than `longest_asked`.
    #[must_use]
    pub fn wait(&self, failures: u32, asked: Option<Duration>) -> Option<Wait> {
        let Some(asked) = asked else {
            let doublings = failures.saturating_sub(1).min(MAX_DOUBLINGS);
            let spread = self.first.saturating_mul(1 << doublings).min(self.longest);
            return Some(Wait { at_least: Duration::ZERO, spread });
        };
        let wait = Wait { at_least: asked, spread: (asked / 10).min(MAX_SPREAD) };
        (asked <= self.longest_asked).then_some(wait)
    }
}

impl Wait {
    /// The longest that the wait can be.
    #[must_use]
    pub fn longest(self) -> Duration {
        self.at_least.saturating_add(self.spread)
    }

    /// The wait for `chance`, which is uniform in `0.0..1.0`.
    #[must_use]
    pub fn drawn(self, chance: f64) -> Duration {
        self.at_least.saturating_add(self.spread.mul_f64(chance.clamp(0.0, 1.0)))
    }
}

/// Returns whether the status says that the same request may succeed later: besides limits and
/// failures of the server, a timeout (408), a conflict (409) and a request that came too early
/// (425).
#[must_use]
pub fn is_transient(status: u16) -> bool {
    matches!(status, 408 | 409 | 425 | 429 | 500..600)
}

/// The wait that the headers of an answer ask for: `retry-after-ms`, else `retry-after` in seconds or
/// as a date. A date is relative to the server's clock (see [`server_time`]). `header` returns a
/// header's value by its lower-case name.
pub fn requested_wait<'h>(
    now: SystemTime,
    header: impl Fn(&str) -> Option<&'h str>,
) -> Option<Duration> {
    let text = |name: &str| header(name).map(str::trim);
    if let Some(ms) = text("retry-after-ms").and_then(|ms| ms.parse::<f64>().ok()) {
        return seconds(ms / 1000.0);
    }
    let value = text("retry-after")?;
    if let Ok(plain) = value.parse::<f64>() {
        return seconds(plain);
    }
    let until = httpdate::parse_http_date(value).ok()?;
    let wait = until.duration_since(server_time(now, text("date"))).unwrap_or_default();
    Some(wait.min(LONGEST_READ))
}

/// The time by the clock of the server, from the `date` of its answer; `now` by our own clock without a
/// date that can be read.
#[must_use]
pub fn server_time(now: SystemTime, date: Option<&str>) -> SystemTime {
    date.and_then(|date| httpdate::parse_http_date(date.trim()).ok()).unwrap_or(now)
}

/// The wait named by "try again in 1m2.5s", "… in 350ms" or "… in 20 seconds" inside `message`.
pub fn wait_in_message(message: &str) -> Option<Duration> {
    const PHRASE: &str = "try again in ";
    let lower = message.to_ascii_lowercase();
    lower.match_indices(PHRASE).find_map(|(at, phrase)| duration(&lower[at + phrase.len()..]))
}

/// The duration at the start of `text`: parts of a number and a unit, as Go prints durations
/// (`6m0s`, `1h2m3.5s`, `350ms`, `12µs`), and with words for units.
#[must_use]
pub fn duration(text: &str) -> Option<Duration> {
    let mut total = None;
    let mut rest = text.trim_start();
    while let Some((part, after)) = leading_part(rest) {
        total = Some(total.unwrap_or(0.0) + part);
        rest = after;
    }
    seconds(total?)
}

/// A number with its unit at the start of `text`, in seconds, and what follows it.
fn leading_part(text: &str) -> Option<(f64, &str)> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..digits].trim_end_matches('.').parse().ok()?;
    let text = text[digits..].trim_start_matches(' ');
    let letters = text.find(|c: char| !c.is_alphabetic()).unwrap_or(text.len());
    let scale = match &text[..letters] {
        "ns" | "nanosecond" | "nanoseconds" => 1e-9,
        // The micro sign and the Greek letter.
        "us" | "\u{b5}s" | "\u{3bc}s" | "microsecond" | "microseconds" => 1e-6,
        "ms" | "millisecond" | "milliseconds" => 0.001,
        "s" | "sec" | "second" | "seconds" => 1.0,
        "m" | "min" | "minute" | "minutes" => 60.0,
        "h" | "hour" | "hours" => 3600.0,
        "d" | "day" | "days" => 86_400.0,
        _ => return None,
    };
    Some((number * scale, &text[letters..]))
}

/// `None` for less than nothing. What is no finite number is longer than any wait.
fn seconds(value: f64) -> Option<Duration> {
    if value.is_finite() && value < 0.0 {
        return None;
    }
    Some(Duration::try_from_secs_f64(value).map_or(LONGEST_READ, |wait| wait.min(LONGEST_READ)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn waits_double_up_to_the_maximum_and_respect_the_server() {
        let policy = Policy { first: Duration::from_millis(200), ..Policy::INTERACTIVE };
        let longest = |failures| policy.wait(failures, None).unwrap().longest().as_millis();
        assert_eq!([longest(1), longest(2), longest(3)], [200, 400, 800]);
        assert_eq!(longest(60), policy.longest.as_millis());
        let drawn = |asked: Option<u64>, chance| {
            let asked = asked.map(Duration::from_millis);
            policy.wait(1, asked).map(|wait| wait.drawn(chance).as_millis())
        };
        assert_eq!(
            [drawn(None, 0.0), drawn(None, 0.5), drawn(None, 7.0)].map(Option::unwrap),
            [0, 100, 200]
        );
        // The server's wait is never shortened, also when it is shorter than our own.
        assert_eq!([drawn(Some(50), 0.0), drawn(Some(50), 1.0)], [Some(50), Some(55)]);
        assert_eq!(
            [drawn(Some(360_000), 0.0), drawn(Some(360_000), 1.0)],
            [Some(360_000), Some(365_000)]
        );
        assert_eq!(drawn(Some(600_000), 0.0), Some(600_000));
        assert_eq!(drawn(Some(600_001), 0.0), None);
    }

    #[test]
    fn waits_named_in_messages() {
        let check = |message: &str, ms: Option<u64>| {
            let found = wait_in_message(message).map(|wait| wait.as_millis());
            assert_eq!(found, ms.map(u128::from), "{message}");
        };
        check("Rate limit reached. Please try again in 1.5s. Visit …", Some(1500));
        check("Please try again in 350ms.", Some(350));
        check("Try again in 1m2s", Some(62_000));
        check("try again in 20 seconds", Some(20_000));
        check("try again in 7m12.5s.", Some(432_500));
        check("try again in 2h", Some(7_200_000));
        check("Please try again in 6m0s.", Some(360_000));
        check("try again in 1h0m0.25s", Some(3_600_250));
        check("try again in 1500µs", Some(1));
        check("try again in 1500μs", Some(1));
        check("try again in 2000000ns", Some(2));
        check("Do not try again in vain; try again in 3s", Some(3_000));
        check("try again in 99999999999999999999999h", Some(365 * 86_400_000));
        check("try again in a while", None);
        check("try again in 5", None);
        check("try later", None);
    }

    #[test]
    fn statuses_that_pass() {
        for status in [408, 409, 425, 429, 500, 502, 503, 529] {
            assert!(is_transient(status), "{status}");
        }
        for status in [200, 301, 400, 401, 403, 404, 410, 413, 422, 600] {
            assert!(!is_transient(status), "{status}");
        }
        // A wait without end is refused, not ignored.
        assert_eq!(Policy::INTERACTIVE.wait(1, seconds(f64::INFINITY)), None);
    }

    fn value<'v>(pairs: &[(&'static str, &'v str)], name: &str) -> Option<&'v str> {
        pairs.iter().find(|(other, _)| *other == name).map(|(_, value)| *value)
    }

    #[test]
    fn waits_named_in_headers() {
        let check = |pairs: &[(&'static str, &'static str)], ms: Option<u64>| {
            // Sun, 06 Nov 1994 08:49:32 GMT, 5 s behind the server's clock.
            let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_772);
            let wait = requested_wait(now, |name| value(pairs, name));
            assert_eq!(wait, ms.map(Duration::from_millis), "{pairs:?}");
        };
        check(&[("retry-after", "2")], Some(2000));
        check(&[("retry-after", "0.5")], Some(500));
        check(&[("retry-after-ms", "7"), ("retry-after", "2")], Some(7));
        check(&[("retry-after", "-1")], None);
        check(&[("retry-after", "soon")], None);
        let longest = Some(365 * 86_400_000);
        for endless in ["99999999999999999999999", "1e300", "inf", "-inf", "nan", "infinity"] {
            check(&[("retry-after", endless)], longest);
            check(&[("retry-after-ms", endless)], longest);
        }
        check(&[("retry-after", "Fri, 31 Dec 9999 23:59:59 GMT")], longest);
        let date = ("date", "Sun, 06 Nov 1994 08:49:37 GMT");
        check(&[("retry-after", "Sun, 06 Nov 1994 08:49:47 GMT"), date], Some(10_000));
        check(&[("retry-after", "Sun, 06 Nov 1994 08:49:07 GMT"), date], Some(0));
        for same in [
            "Sun, 06 Nov 1994 08:49:47 GMT",
            "Sunday, 06-Nov-94 08:49:47 GMT",
            "Sun Nov  6 08:49:47 1994",
        ] {
            check(&[("retry-after", same)], Some(15_000));
            check(&[("retry-after", same), ("date", "today")], Some(15_000));
            check(&[("retry-after", same), date], Some(10_000));
        }
        check(&[], None);
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_without_a_panic(text in "(try again in )?[0-9.msh ]{0,12}\\PC{0,6}") {
            let _ = wait_in_message(&text);
        }
    }
}
