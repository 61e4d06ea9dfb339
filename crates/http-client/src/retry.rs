//! When a failed request is sent again, and after how long. Pure: no clock is read here, dates are
//! relative to the answer's own `Date` header, and the caller brings the randomness.

use std::time::Duration;

/// Doublings after which a wait no longer grows; keeps the multiplication in range.
const MAX_DOUBLINGS: u32 = 16;

/// How long to wait between attempts. Which failures deserve another attempt, and how many, is the
/// caller's decision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Policy {
    /// Wait before the second attempt; it doubles with each further one.
    pub first: Duration,
    /// Longest wait that doubling leads to.
    pub longest: Duration,
    /// Longest wait that a server can ask for.
    pub longest_asked: Duration,
    /// Largest share of a wait that randomness adds, so that many clients do not return together.
    pub jitter: f64,
}

impl Policy {
    /// For requests that a person waits for.
    pub const INTERACTIVE: Self = Self {
        first: Duration::from_millis(200),
        longest: Duration::from_secs(30),
        longest_asked: Duration::from_mins(10),
        jitter: 0.1,
    };

    /// The wait after `failures` failed attempts, without jitter: doubled each time, and at least what
    /// the server asked for. `None` when it asked for longer than `longest_asked`.
    #[must_use]
    pub fn wait(&self, failures: u32, asked: Option<Duration>) -> Option<Duration> {
        let asked = asked.unwrap_or_default();
        let doublings = failures.saturating_sub(1).min(MAX_DOUBLINGS);
        let own = self.first.saturating_mul(1 << doublings).min(self.longest);
        (asked <= self.longest_asked).then(|| own.max(asked))
    }

    /// `wait` with up to [`Self::jitter`] of it added; `chance` is uniform in `0.0..1.0`.
    #[must_use]
    pub fn with_jitter(&self, wait: Duration, chance: f64) -> Duration {
        wait.mul_f64(1.0 + self.jitter * chance.clamp(0.0, 1.0))
    }
}

/// Whether the status says that the same request may succeed later.
#[must_use]
pub fn is_transient(status: u16) -> bool {
    status == 429 || (500..600).contains(&status)
}

/// The wait that the headers of an answer ask for: `retry-after-ms`, else `retry-after` in seconds or
/// as a date. A date is relative to the answer's `date` and is ignored without one. `header` returns a
/// header's value by its lower-case name.
pub fn requested_wait<'h>(header: impl Fn(&str) -> Option<&'h str>) -> Option<Duration> {
    let text = |name: &str| header(name).map(str::trim);
    if let Some(ms) = text("retry-after-ms").and_then(|ms| ms.parse::<f64>().ok()) {
        return seconds(ms / 1000.0);
    }
    let value = text("retry-after")?;
    if let Ok(plain) = value.parse::<f64>() {
        return seconds(plain);
    }
    let until = httpdate::parse_http_date(value).ok()?;
    let now = httpdate::parse_http_date(text("date")?).ok()?;
    Some(until.duration_since(now).unwrap_or_default())
}

/// The wait named by "try again in 1m2.5s", "… in 350ms" or "… in 20 seconds" inside `message`.
pub fn wait_in_message(message: &str) -> Option<Duration> {
    const PHRASE: &str = "try again in ";
    let lower = message.to_ascii_lowercase();
    let text = &lower[lower.find(PHRASE)? + PHRASE.len()..];
    let mut total = None;
    let mut rest = text;
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
    let letters = text.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(text.len());
    let scale = match &text[..letters] {
        "ms" | "millisecond" | "milliseconds" => 0.001,
        "s" | "sec" | "second" | "seconds" => 1.0,
        "m" | "min" | "minute" | "minutes" => 60.0,
        "h" | "hour" | "hours" => 3600.0,
        "d" | "day" | "days" => 86_400.0,
        _ => return None,
    };
    Some((number * scale, &text[letters..]))
}

fn seconds(value: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn waits_double_up_to_the_maximum_and_respect_the_server() {
        let policy = Policy { first: Duration::from_millis(200), ..Policy::INTERACTIVE };
        let wait = |attempt, asked| policy.wait(attempt, asked).map(|wait| wait.as_millis());
        assert_eq!(
            [wait(1, None), wait(2, None), wait(3, None)],
            [Some(200), Some(400), Some(800)]
        );
        assert_eq!(wait(60, None), Some(policy.longest.as_millis()));
        assert_eq!(wait(1, Some(Duration::from_secs(5))), Some(5_000));
        assert_eq!(wait(1, Some(policy.longest_asked)), Some(policy.longest_asked.as_millis()));
        assert_eq!(wait(1, Some(policy.longest_asked + Duration::from_millis(1))), None);
        assert_eq!(policy.with_jitter(Duration::from_secs(1), 0.0), Duration::from_secs(1));
        assert_eq!(policy.with_jitter(Duration::from_secs(1), 1.0), Duration::from_millis(1100));
        assert_eq!(policy.with_jitter(Duration::from_secs(1), 7.0), Duration::from_millis(1100));
    }

    #[test]
    fn waits_named_in_messages() {
        let check = |message: &str, ms: Option<u64>| {
            assert_eq!(wait_in_message(message), ms.map(Duration::from_millis), "{message}");
        };
        check("Rate limit reached. Please try again in 1.5s. Visit …", Some(1500));
        check("Please try again in 350ms.", Some(350));
        check("Try again in 1m2s", Some(62_000));
        check("try again in 20 seconds", Some(20_000));
        check("try again in 7m12.5s.", Some(432_500));
        check("try again in 2h", Some(7_200_000));
        check("try again in a while", None);
        check("try again in 5", None);
        check("try later", None);
    }

    fn value<'v>(pairs: &[(&'static str, &'v str)], name: &str) -> Option<&'v str> {
        pairs.iter().find(|(other, _)| *other == name).map(|(_, value)| *value)
    }

    #[test]
    fn waits_named_in_headers() {
        let check = |pairs: &[(&'static str, &'static str)], ms: Option<u64>| {
            let wait = requested_wait(|name| value(pairs, name));
            assert_eq!(wait, ms.map(Duration::from_millis), "{pairs:?}");
        };
        check(&[("retry-after", "2")], Some(2000));
        check(&[("retry-after", "0.5")], Some(500));
        check(&[("retry-after-ms", "7"), ("retry-after", "2")], Some(7));
        check(&[("retry-after", "-1")], None);
        check(&[("retry-after", "soon")], None);
        let date = ("date", "Sun, 06 Nov 1994 08:49:37 GMT");
        check(&[("retry-after", "Sun, 06 Nov 1994 08:49:47 GMT"), date], Some(10_000));
        check(&[("retry-after", "Sun, 06 Nov 1994 08:49:07 GMT"), date], Some(0));
        check(&[("retry-after", "Sun, 06 Nov 1994 08:49:47 GMT")], None);
        check(&[], None);
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_without_a_panic(text in "(try again in )?[0-9.msh ]{0,12}\\PC{0,6}") {
            let _ = wait_in_message(&text);
        }
    }
}
