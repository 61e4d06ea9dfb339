//! What the gateway takes from the machine, and the program's `cli` injects: time and chance.

use ratelimit::Micros;

/// Time. Tests have one that they set.
pub trait Clock: Send + Sync + 'static {
    /// Microseconds since 1970-01-01 UTC.
    fn now(&self) -> Micros;
}

/// Chance, fit for secrets.
pub trait Random: Send + Sync + 'static {
    /// Fills `bytes`.
    fn fill(&self, bytes: &mut [u8]);
}

/// The whole second of a moment, as wire types show time.
#[must_use]
pub fn seconds(moment: Micros) -> i64 {
    i64::try_from(moment / 1_000_000).unwrap_or(i64::MAX)
}

/// The month (UTC) that a moment lies in, as `year * 12 + month - 1`: spend limits hold for one.
#[must_use]
pub fn month(moment: Micros) -> u32 {
    let (year, month, _) = civil(moment);
    u32::try_from(year).unwrap_or(0) * 12 + u32::from(month) - 1
}

/// Year, month and day (UTC). Days are turned into dates by eras of 400 years.
#[must_use]
pub fn civil(moment: Micros) -> (i64, u8, u8) {
    let days = i64::try_from(moment / ratelimit::DAY).unwrap_or(0) + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, u8::try_from(month).unwrap_or(1), u8::try_from(day).unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        let check = |seconds: u64, date| assert_eq!(civil(seconds * 1_000_000), date);
        check(0, (1970, 1, 1));
        check(951_782_399, (2000, 2, 28));
        check(951_782_400, (2000, 2, 29));
        check(1_772_064_000, (2026, 2, 26));
        check(1_798_761_599, (2026, 12, 31));
        assert_eq!(month(1_798_761_599_999_999) + 1, month(1_798_761_600_000_000));
    }
}
