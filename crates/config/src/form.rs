//! Comparison of a value with the form that its key wants. Says nothing about a value that differs.

use crate::kind::{Kind, MAX_NICKNAME};
use crate::value::Value;

/// Returns whether an alternative accepts values of this shape.
pub(crate) fn same_shape(value: &Value, kind: &Kind) -> bool {
    match (value, kind) {
        (Value::Table(_), Kind::Table(_) | Kind::Map(..) | Kind::Profile)
        | (Value::Array(_), Kind::List(_)) => true,
        (Value::Table(_) | Value::Array(_), _) => false,
        (_, leaf) => leaf_fits(value, leaf),
    }
}

pub(crate) fn leaf_fits(value: &Value, kind: &Kind) -> bool {
    match (value, kind) {
        (Value::Boolean(_), Kind::Boolean) | (Value::Text(_), Kind::Text) => true,
        (Value::Text(path), Kind::Path) => !path.is_empty() && !path.contains('\0'),
        (Value::Integer(_) | Value::Other(_), Kind::Whole { min, max }) => {
            value.whole().is_some_and(|n| (*min..=*max).contains(&n))
        }
        (Value::Integer(_) | Value::Other(_), Kind::Time { min, max, .. }) => {
            match (value.whole(), value.float()) {
                (Some(n), _) => (*min..=*max).contains(&n),
                // Bounds are small enough to be floats.
                #[allow(clippy::cast_precision_loss)]
                (None, Some(n)) => (*min as f64..=*max as f64).contains(&n),
                (None, None) => false,
            }
        }
        (Value::Text(name), Kind::Choice(names, also)) => {
            names.contains(&name.as_str()) || also.contains(&name.as_str())
        }
        (Value::Text(url), Kind::Url) => is_url(url),
        (Value::Text(uuid), Kind::Uuid) => is_uuid(uuid),
        (Value::Text(name), Kind::Nickname) => is_nickname(name),
        (Value::Text(code), Kind::Country) => is_country(code),
        (Value::Text(name), Kind::TimeZone) => is_time_zone(name),
        (Value::Text(name), Kind::Host) => is_host(name),
        _ => false,
    }
}

/// Returns whether `text` is `http://` or `https://` followed by a host.
pub(crate) fn is_url(text: &str) -> bool {
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    host.is_some_and(|host| {
        host.starts_with(|c: char| !matches!(c, '/' | '?' | '#' | ':'))
            && !host.contains(|c: char| c.is_whitespace() || c.is_control())
    })
}

fn is_uuid(text: &str) -> bool {
    let groups: Vec<&str> = text.split('-').collect();
    groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12])
        && groups.iter().all(|group| group.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Returns whether people and the model can read `text` as a name, and cannot take it for a
/// thread's id.
fn is_nickname(text: &str) -> bool {
    !text.trim().is_empty()
        && text.chars().count() <= MAX_NICKNAME
        && !text.contains(visible::is_hidden)
        && !is_uuid(text.trim())
}

fn is_country(code: &str) -> bool {
    code.len() == 2 && code.bytes().all(|byte| byte.is_ascii_alphabetic())
}

/// Areas of the IANA time zone database (its files `africa` to `southamerica`, `etcetera` and
/// `backward`).
const TIME_ZONE_AREAS: [&str; 16] = [
    "Africa",
    "America",
    "Antarctica",
    "Arctic",
    "Asia",
    "Atlantic",
    "Australia",
    "Brazil",
    "Canada",
    "Chile",
    "Etc",
    "Europe",
    "Indian",
    "Mexico",
    "Pacific",
    "US",
];
/// Names of that database without an area.
const TIME_ZONES_WITHOUT_AREA: [&str; 44] = [
    "CET",
    "CST6CDT",
    "Cuba",
    "EET",
    "EST",
    "EST5EDT",
    "Egypt",
    "Eire",
    "GB",
    "GB-Eire",
    "GMT",
    "GMT+0",
    "GMT-0",
    "GMT0",
    "Greenwich",
    "HST",
    "Hongkong",
    "Iceland",
    "Iran",
    "Israel",
    "Jamaica",
    "Japan",
    "Kwajalein",
    "Libya",
    "MET",
    "MST",
    "MST7MDT",
    "NZ",
    "NZ-CHAT",
    "Navajo",
    "PRC",
    "PST8PDT",
    "Poland",
    "Portugal",
    "ROC",
    "ROK",
    "Singapore",
    "Turkey",
    "UCT",
    "UTC",
    "Universal",
    "W-SU",
    "WET",
    "Zulu",
];

/// Returns whether `name` is one of the database or, with an area of it, could be one: the names in
/// an area change every year.
fn is_time_zone(name: &str) -> bool {
    let Some((area, places)) = name.split_once('/') else {
        return TIME_ZONES_WITHOUT_AREA.contains(&name);
    };
    let is_place = |place: &str| {
        place.starts_with(|c: char| c.is_ascii_alphabetic())
            && place.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_+-".contains(&byte))
    };
    TIME_ZONE_AREAS.contains(&area)
        && places.split('/').count() <= 2
        && places.split('/').all(is_place)
}

/// Returns whether `name` is that of a host (RFC 1123), without scheme, port and path.
fn is_host(name: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    name.len() <= 253 && name.split('.').all(is_label)
}
