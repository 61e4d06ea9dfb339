//! Dotted keys such as `model_providers."my.id".base_url`, as written on the command line and in a
//! thread's overrides. Parses keys, never values.

/// Parts of a key; every known key has at most six.
const MAX_PARTS: usize = 32;

/// Why a text is not a dotted key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum KeyPathError {
    #[error("the key has more than {MAX_PARTS} parts")]
    TooManyParts,
    #[error("a part of the key is empty")]
    EmptyPart,
    #[error("the key has an unclosed {0}")]
    UnclosedQuote(char),
    #[error("`{0}` follows a quoted part of the key; write a dot between parts")]
    AfterQuote(String),
}

/// Splits `text` at its dots. A part in single quotes is taken literally; in one in double quotes, `\"` and
/// `\\` stand for the second character.
///
/// # Errors
/// The text is not a dotted key.
pub(crate) fn parse(text: &str) -> Result<Vec<String>, KeyPathError> {
    let mut parts = Vec::new();
    let mut rest = text.trim();
    loop {
        let (part, after) = next_part(rest)?;
        parts.push(part);
        if parts.len() > MAX_PARTS {
            return Err(KeyPathError::TooManyParts);
        }
        match after.strip_prefix('.') {
            Some(after) => rest = after,
            None if after.is_empty() => return Ok(parts),
            None => return Err(KeyPathError::AfterQuote(after.to_owned())),
        }
    }
}

/// Splits `key=value` at the first `=` outside of quotes.
pub(crate) fn split_assignment(text: &str) -> Option<(&str, &str)> {
    let (mut quote, mut is_escaped) = (None, false);
    for (at, c) in text.char_indices() {
        if std::mem::take(&mut is_escaped) {
            continue;
        }
        match (quote, c) {
            (Some('"'), '\\') => is_escaped = true,
            (None, '=') => return Some((&text[..at], &text[at + 1..])),
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), _) if open == c => quote = None,
            _ => {}
        }
    }
    None
}

/// The usual form of a dotted key; a text that is none stays as it is.
pub fn canonical(key: &str) -> String {
    parse(key).map_or_else(|_| key.to_owned(), |parts| join(&parts))
}

/// The parts of a dotted key; a text that is none is one part.
pub fn parts(key: &str) -> Vec<String> {
    parse(key).unwrap_or_else(|_| vec![key.to_owned()])
}

/// Joins parts into the form that [`parse`] reads.
pub fn join<S: AsRef<str>>(parts: &[S]) -> String {
    let mut joined = String::new();
    for part in parts {
        let part = part.as_ref();
        if !joined.is_empty() {
            joined.push('.');
        }
        let bare =
            !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
        let needs_escape = part.contains(['"', '\\']);
        if bare {
            joined.push_str(part);
        } else if needs_escape && !part.contains('\'') {
            joined.extend(["'", part, "'"]);
        } else {
            let escaped = part.replace('\\', r"\\").replace('"', r#"\""#);
            joined.extend(["\"", &escaped, "\""]);
        }
    }
    joined
}

fn next_part(rest: &str) -> Result<(String, &str), KeyPathError> {
    if let Some(inner) = rest.strip_prefix('\'') {
        let (part, after) = inner.split_once('\'').ok_or(KeyPathError::UnclosedQuote('\''))?;
        return Ok((part.to_owned(), after));
    }
    if let Some(inner) = rest.strip_prefix('"') {
        return escaped_part(inner).ok_or(KeyPathError::UnclosedQuote('"'));
    }
    let end = rest.find('.').unwrap_or(rest.len());
    let part = rest[..end].trim();
    if part.is_empty() {
        return Err(KeyPathError::EmptyPart);
    }
    Ok((part.to_owned(), &rest[end..]))
}

/// The part before the closing double quote, and what follows; `None` when nothing closes it.
fn escaped_part(inner: &str) -> Option<(String, &str)> {
    let mut part = String::new();
    let mut chars = inner.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match (c, chars.peek()) {
            ('"', _) => return Some((part, &inner[at + 1..])),
            ('\\', Some((_, next @ ('"' | '\\')))) => {
                part.push(*next);
                chars.next();
            }
            (c, _) => part.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn splits_dotted_keys() {
        for (text, expected) in [
            ("model", Ok(vec!["model"])),
            ("a.b-c.d_e", Ok(vec!["a", "b-c", "d_e"])),
            ("p.\"x.y\".z", Ok(vec!["p", "x.y", "z"])),
            ("p.'x=\"y'", Ok(vec!["p", "x=\"y"])),
            ("p.\"\"", Ok(vec!["p", ""])),
            (r#"p."x\"y\\z\w".q"#, Ok(vec!["p", r#"x"y\z\w"#, "q"])),
            (r#""a\""#, Err(())),
            ("", Err(())),
            ("a..b", Err(())),
            ("a.", Err(())),
            ("\"a", Err(())),
            ("\"a\"b", Err(())),
        ] {
            let parsed = parse(text).map_err(|_| ());
            let expected = expected.map(|v| v.into_iter().map(str::to_owned).collect::<Vec<_>>());
            assert_eq!(parsed, expected, "{text}");
        }
    }

    #[test]
    fn splits_assignments_outside_quotes() {
        assert_eq!(split_assignment("a=b=c"), Some(("a", "b=c")));
        assert_eq!(split_assignment("\"a=b\".c=d"), Some(("\"a=b\".c", "d")));
        assert_eq!(split_assignment(r#""a\"=b"=c"#), Some((r#""a\"=b""#, "c")));
        assert_eq!(split_assignment("a"), None);
        assert_eq!(split_assignment("\"a=b"), None);
    }

    proptest! {
        #[test]
        fn joined_parts_parse_back(parts in prop::collection::vec(r#"['"\\.a]{0,8}|.{0,8}"#, 1..6)) {
            prop_assert_eq!(parse(&join(&parts)), Ok(parts));
        }

        #[test]
        fn no_text_panics(text in ".{0,60}") {
            let _ = parse(&text);
            let _ = split_assignment(&text);
        }
    }
}
