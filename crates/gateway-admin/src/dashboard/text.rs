//! Numbers, money and moments as text.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};
use ratelimit::Micros;

use gateway_policy::dates::utc;
use gateway_policy::tenants::MicroDollars;

/// `1,234,567`.
pub(super) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Three significant digits: `12.3 k`, `4.56 M`.
pub(super) fn short(number: u64) -> String {
    const UNITS: [(u64, &str); 4] =
        [(1_000_000_000_000, "T"), (1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")];
    let Some((unit, name)) = UNITS.into_iter().find(|(unit, _)| number >= *unit) else {
        return number.to_string();
    };
    let (whole, rest) = (number / unit, number % unit);
    let decimals = match whole {
        0..10 => format!(".{:02}", rest * 100 / unit),
        10..100 => format!(".{}", rest * 10 / unit),
        _ => String::new(),
    };
    let decimals = decimals.trim_end_matches('0').trim_end_matches('.');
    format!("{whole}{decimals} {name}")
}

/// `$1,234.56`; below a dollar with four decimals, and never `$0` for a non-zero amount.
pub(super) fn money(amount: MicroDollars) -> String {
    match amount {
        0 => "$0.00".to_owned(),
        1..100 => "<$0.0001".to_owned(),
        100..1_000_000 if !amount.is_multiple_of(10_000) => format!("$0.{:04}", amount / 100),
        _ => {
            let cents = amount.saturating_add(5_000) / 10_000;
            format!("${}.{:02}", count(cents / 100), cents % 100)
        }
    }
}

/// Cents as dollars: `$1,234`, `$0.50`.
pub(super) fn cents(cents: u64) -> String {
    match cents % 100 {
        0 => format!("${}", count(cents / 100)),
        rest => format!("${}.{rest:02}", count(cents / 100)),
    }
}

/// Milliseconds as minutes: `1.5`.
pub(super) fn minutes(milliseconds: u64) -> String {
    let tenths = milliseconds.saturating_add(3_000) / 6_000;
    match tenths % 10 {
        0 => count(tenths / 10),
        tenth => format!("{}.{tenth}", count(tenths / 10)),
    }
}

/// A duration: `42 s`, `3 min 5 s`, `14 h 29 min`.
pub(super) fn span(time: Micros) -> String {
    let seconds = time.div_ceil(1_000_000);
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..172_800 => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// A date of Unix seconds: `2026-11-21`.
pub(super) fn date(seconds: i64) -> String {
    utc(micros(seconds)).date().to_string()
}

/// A date and time of Unix seconds: `2026-11-21 16:04`.
pub(super) fn moment(seconds: i64) -> String {
    utc(micros(seconds)).strftime("%Y-%m-%d %H:%M").to_string()
}

/// `November 2026`.
pub(super) fn month(now: Micros) -> String {
    utc(now).strftime("%B %Y").to_string()
}

/// The Unix second at which the month of `now` began.
pub(super) fn month_start(now: Micros) -> u64 {
    let days_before = utc(now).day().unsigned_abs() - 1;
    (now / ratelimit::DAY).saturating_sub(days_before.into()) * 86_400
}

/// `used` of `limit` in whole percent, rounded down; 100 if the limit is 0.
pub(super) fn percent(used: u64, limit: u64) -> u64 {
    match limit {
        0 => 100,
        _ => u64::try_from(u128::from(used) * 100 / u128::from(limit)).unwrap_or(u64::MAX),
    }
}

/// Percent-encodes `text` as the value of a query or a segment of a path.
pub(super) fn query_value(text: &str) -> PercentEncode<'_> {
    /// Everything but the unreserved characters of RFC 3986.
    const RESERVED: &AsciiSet =
        &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
    utf8_percent_encode(text, RESERVED)
}

fn micros(seconds: i64) -> Micros {
    u64::try_from(seconds).unwrap_or(0).saturating_mul(1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_formatted_for_readers() {
        let check = |text: String, expected: &str| assert_eq!(text, expected);
        check(count(0), "0");
        check(count(999), "999");
        check(count(1_234_567), "1,234,567");
        check(short(999), "999");
        check(short(1_000), "1 k");
        check(short(12_340), "12.3 k");
        check(short(4_560_000), "4.56 M");
        check(short(999_999), "999 k");
        check(short(u64::MAX), "18446744 T");
        check(money(0), "$0.00");
        check(money(1), "<$0.0001");
        check(money(4_200), "$0.0042");
        check(money(50_000), "$0.05");
        check(money(1_234_560_000), "$1,234.56");
        check(money(u64::MAX), "$18,446,744,073,709.55");
        check(cents(123_400), "$1,234");
        check(cents(50), "$0.50");
        check(minutes(90_000), "1.5");
        check(minutes(120_000), "2");
        check(span(0), "0 s");
        check(span(1), "1 s");
        check(span(185_000_000), "3 min 5 s");
        check(span(52_140_000_000), "14 h 29 min");
        check(date(1_772_064_000), "2026-02-26");
        check(moment(1_772_064_000 + 3_661), "2026-02-26 01:01");
        check(month(1_772_064_000_000_000), "February 2026");
        assert_eq!(month_start(1_772_064_000_000_001), 1_772_064_000 - 25 * 86_400);
        assert_eq!([percent(1, 3), percent(5, 0), percent(u64::MAX, 1)], [33, 100, u64::MAX]);
        check(query_value("/a?b=ü&c").to_string(), "%2Fa%3Fb%3D%C3%BC%26c");
    }
}
