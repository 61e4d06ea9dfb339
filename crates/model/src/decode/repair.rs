//! Repairs the Unicode of JSON text. Some servers cut a character at the border of two deltas: its UTF-8
//! bytes, or the escapes of its surrogate pair.

use std::borrow::Cow;

/// JSON text with U+FFFD in place of bytes that are not UTF-8 and of escaped surrogates without their
/// other half. `None` if there is nothing to repair.
pub(super) fn unicode(json: &[u8]) -> Option<Vec<u8>> {
    let text = String::from_utf8_lossy(json);
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some(at) = memchr::memchr(b'\\', rest) {
        out.extend_from_slice(&rest[..at]);
        rest = &rest[at..];
        let length = match (surrogate(rest), rest.get(6..).and_then(surrogate)) {
            (Some(Half::High), Some(Half::Low)) => 12,
            (Some(_), _) => {
                out.extend_from_slice("\u{fffd}".as_bytes());
                rest = &rest[6..];
                continue;
            }
            // Any other escape, whose second byte may be a backslash.
            (None, _) => rest.len().min(2),
        };
        out.extend_from_slice(&rest[..length]);
        rest = &rest[length..];
    }
    out.extend_from_slice(rest);
    (out != json).then_some(out)
}

/// JSON text that needs no repair: the text itself wherever it has no escaped character.
pub(super) fn whole(json: &[u8]) -> Cow<'_, [u8]> {
    if std::str::from_utf8(json).is_ok() && memchr::memmem::find(json, b"\\u").is_none() {
        return Cow::Borrowed(json);
    }
    unicode(json).map_or(Cow::Borrowed(json), Cow::Owned)
}

enum Half {
    High,
    Low,
}

/// The surrogate whose escape (`\uXXXX`) is at the start of `text`.
fn surrogate(text: &[u8]) -> Option<Half> {
    let digits = text.strip_prefix(b"\\u")?.get(..4)?;
    let digits = std::str::from_utf8(digits).ok()?;
    match u16::from_str_radix(digits, 16).ok()? {
        0xD800..0xDC00 => Some(Half::High),
        0xDC00..0xE000 => Some(Half::Low),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lone_halves_are_replaced() {
        let check = |json: &[u8], expected: Option<&str>| {
            let found = unicode(json).map(|repaired| String::from_utf8(repaired).unwrap());
            assert_eq!(found.as_deref(), expected, "{}", String::from_utf8_lossy(json));
        };
        check(br#""plain \n \u00e9""#, None);
        check(br#""\ud83d\ude00""#, None);
        check(br#""a\ud83d""#, Some("\"a\u{fffd}\""));
        check(br#""\ude00b""#, Some("\"\u{fffd}b\""));
        check(br#""\ud83d\ud83d\ude00""#, Some("\"\u{fffd}\\ud83d\\ude00\""));
        check(br#""\\ud83d""#, None);
        check(br#""\ud8"#, None);
        check(b"\"\xF0\x9F\"", Some("\"\u{fffd}\""));
    }

    proptest! {
        #[test]
        fn a_repaired_text_needs_no_repair(json in "(\\\\u[dD][89cC][0-9]{2}|\\\\.|\\PC){0,8}") {
            if let Some(repaired) = unicode(json.as_bytes()) {
                prop_assert_eq!(unicode(&repaired), None);
            }
        }
    }
}
