//! How long a provider asks to wait before a request is sent again. Pure: no clock is read here,
//! dates are taken relative to the answer's own `Date` header.

use std::time::Duration;

use hyper::HeaderMap;

/// What the headers say about waiting: `retry-after-ms`, else `retry-after` in seconds or as a
/// date, which counts from the answer's `date` and is ignored without one.
pub(crate) fn from_headers(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
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
pub(crate) fn from_message(message: &str) -> Option<Duration> {
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

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(k, v)| (k.parse().unwrap(), v.parse().unwrap())).collect()
    }

    #[test]
    fn waits_named_in_messages() {
        let check = |message: &str, ms: Option<u64>| {
            assert_eq!(from_message(message), ms.map(Duration::from_millis), "{message}");
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

    #[test]
    fn waits_named_in_headers() {
        let check = |pairs: &[(&'static str, &'static str)], ms: Option<u64>| {
            let wait = from_headers(&headers(pairs));
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
        fn no_text_breaks_the_reader(text in "(try again in )?[0-9.msh ]{0,12}\\PC{0,6}") {
            let _ = from_message(&text);
        }
    }
}
