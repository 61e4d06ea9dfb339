//! Calendar dates in UTC.

use jiff::civil::DateTime;
use jiff::tz::Offset;
use jiff::{Timestamp, ToSpan};
use ratelimit::Micros;

/// A moment in whole seconds, as wire types show time.
#[must_use]
pub fn seconds(moment: Micros) -> i64 {
    i64::try_from(moment / 1_000_000).unwrap_or(i64::MAX)
}

/// The month (UTC) of a moment, as `year * 12 + month - 1`: spend limits apply per month.
#[must_use]
pub fn month(moment: Micros) -> u32 {
    let date = utc(moment).date();
    u32::from(date.year().unsigned_abs()) * 12 + u32::from(date.month().unsigned_abs()) - 1
}

/// When the month after a moment's begins, in seconds since the Unix epoch.
#[must_use]
pub fn next_month(moment: Micros) -> i64 {
    let first = utc(moment).date().first_of_month();
    // Only after the year 9999 is there no next month.
    let next = first.checked_add(1.month()).unwrap_or(first);
    Offset::UTC.to_timestamp(next.into()).map_or(i64::MAX, Timestamp::as_second)
}

/// A moment as RFC 3339 has it, in UTC and whole seconds, rounded up: `2026-11-10T00:00:01Z`.
#[must_use]
pub fn rfc3339(moment: Micros) -> String {
    format!("{}Z", utc(moment.div_ceil(1_000_000).saturating_mul(1_000_000)))
}

/// The date and time of a moment in UTC, at most the end of the year 9999.
#[must_use]
pub fn utc(moment: Micros) -> DateTime {
    let timestamp = i64::try_from(moment).ok().and_then(|at| Timestamp::from_microsecond(at).ok());
    Offset::UTC.to_datetime(timestamp.unwrap_or(Timestamp::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        let check = |seconds: u64, expected: &str| {
            assert_eq!(utc(seconds * 1_000_000).date().to_string(), expected);
        };
        check(0, "1970-01-01");
        check(951_782_399, "2000-02-28");
        check(951_782_400, "2000-02-29");
        check(1_772_064_000, "2026-02-26");
        check(1_798_761_599, "2026-12-31");
        check(u64::MAX / 1_000_000, "9999-12-30");
        assert_eq!(rfc3339(1_794_268_800_000_000), "2026-11-10T00:00:00Z");
        assert_eq!(rfc3339(1_794_268_800_000_001), "2026-11-10T00:00:01Z");
        assert_eq!(next_month(0), 31 * 86_400);
        assert_eq!(next_month(1_798_761_599_999_999), 1_798_761_600);
        assert!(next_month(u64::MAX) > 253_000_000_000);
        assert_eq!(month(0), 1970 * 12);
        assert_eq!(month(1_772_064_000_000_000), 2026 * 12 + 1);
        assert_eq!(month(1_798_761_599_999_999) + 1, month(1_798_761_600_000_000));
    }
}
