//! Dates in the configuration.

use ratelimit::Micros;

use super::error::Fault;

/// The beginning of a date such as `2027-02-26`, in UTC. `key` is its place in the file.
///
/// # Errors
/// It is not a date.
pub(super) fn midnight(date: &str, key: &[&str]) -> Result<Micros, Fault> {
    let fault = || Fault::new(key, format!("`{date}` is not a date in the form 2027-02-26"));
    let date: jiff::civil::Date = date.parse().map_err(|_| fault())?;
    let midnight = date.to_zoned(jiff::tz::TimeZone::UTC).map_err(|_| fault())?;
    Micros::try_from(midnight.timestamp().as_microsecond()).map_err(|_| fault())
}
