//! `application/x-www-form-urlencoded`: the bodies of requests and the queries of addresses.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// Everything but the unreserved characters of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

pub(crate) fn encode(members: &[(&str, &str)]) -> String {
    let mut text = String::new();
    for (name, value) in members {
        if !text.is_empty() {
            text.push('&');
        }
        text.extend(utf8_percent_encode(name, RESERVED));
        text.push('=');
        text.extend(utf8_percent_encode(value, RESERVED));
    }
    text
}

/// The value of a member; `None` if it is missing, occurs twice or is not UTF-8.
pub(crate) fn member<'q>(query: &'q str, wanted: &str) -> Option<Cow<'q, str>> {
    let mut found = query.split('&').filter_map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decode(name)? == wanted).then_some(value)
    });
    let value = found.next()?;
    if found.next().is_some() {
        return None;
    }
    decode(value)
}

fn decode(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains('+') {
        return percent_decode_str(text).decode_utf8().ok();
    }
    let spaced = text.replace('+', " ");
    let decoded = percent_decode_str(&spaced).decode_utf8().ok()?;
    Some(decoded.into_owned().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_survive_encoding() {
        let text = encode(&[("a b", "1&2=3"), ("c", "é+"), ("d", "")]);
        assert_eq!(text, "a%20b=1%262%3D3&c=%C3%A9%2B&d=");
        for (name, value) in [("a b", "1&2=3"), ("c", "é+"), ("d", "")] {
            assert_eq!(member(&text, name).as_deref(), Some(value));
        }
        assert_eq!(member("x=a+b", "x").as_deref(), Some("a b"));
        assert_eq!(member("x=1&x=2", "x"), None);
        assert_eq!(member("x=%FF", "x"), None);
        assert_eq!(member("", "x"), None);
    }
}
