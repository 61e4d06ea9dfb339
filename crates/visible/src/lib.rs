//! Text as it is shown to whoever approves it, a person or a model: every character that shows
//! nothing, or that hides, moves or reverses other text, is written as its number.

mod hidden;

use std::borrow::Cow;
use std::path::Path;

pub use hidden::is_hidden;

/// Replaces every hidden character by its number, as in `\u{1b}`. Keeps new lines and tabs.
pub fn text(text: &str) -> Cow<'_, str> {
    let is_hidden = |c: char| !matches!(c, '\n' | '\t') && is_hidden(c);
    if !text.chars().any(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match is_hidden(c) {
            true => shown.extend(c.escape_unicode()),
            false => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

/// As [`text`], and two texts never look the same: a backslash that would look like the start of
/// such a number is itself written as one. For text in which control characters are ordinary.
pub fn exact(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    push_exact(&mut shown, text, |c| matches!(c, '\n' | '\t'));
    shown
}

/// A path on one line: as [`exact`], and a byte that is not UTF-8 as in `\xff`. Two paths never look
/// the same.
pub fn path(path: &Path) -> String {
    let bytes = path.as_os_str().as_encoded_bytes();
    let mut shown = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        push_exact(&mut shown, chunk.valid(), |_| false);
        for byte in chunk.invalid() {
            shown.push_str(&format!("\\x{byte:02x}"));
        }
    }
    shown
}

fn push_exact(shown: &mut String, text: &str, keeps: impl Fn(char) -> bool) {
    for (at, c) in text.char_indices() {
        let rest = text.get(at..).unwrap_or_default();
        let looks_like_number = rest.starts_with("\\u{") || rest.starts_with("\\x");
        match looks_like_number || is_hidden(c) && !keeps(c) {
            true => shown.extend(c.escape_unicode()),
            false => shown.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn hidden_characters_are_shown() {
        let check = |given: &str, expect: &str| assert_eq!(text(given), expect);
        check("ls 'é' \t\n\"x\" 日本", "ls 'é' \t\n\"x\" 日本");
        check("ls\u{1b}[2K\rrm", "ls\\u{1b}[2K\\u{d}rm");
        check("a\u{202e}b\u{200b}c\u{a0}d\u{9b}", "a\\u{202e}b\\u{200b}c\\u{a0}d\\u{9b}");
        check("\u{feff}\0\u{8}", "\\u{feff}\\u{0}\\u{8}");
        check("\u{13441}\u{1d173}\u{1bca0}\u{fe0f}", "\\u{13441}\\u{1d173}\\u{1bca0}\\u{fe0f}");
    }

    #[test]
    fn what_is_shown_exactly_is_shown_in_one_way_only() {
        let check = |given: &str, expect: &str| assert_eq!(exact(given), expect);
        check("echo hi\n", "echo hi\n");
        check("\u{3}", "\\u{3}");
        check("\\u{3}", "\\u{5c}u{3}");
        check("\\\\u{3}", "\\\\u{5c}u{3}");
        check("\\u03 \\n \\xff", "\\u03 \\n \\u{5c}xff");
    }

    #[test]
    fn paths_are_shown_on_one_line_and_in_one_way_only() {
        let check = |given: &[u8], expect: &str| {
            assert_eq!(path(Path::new(OsStr::from_bytes(given))), expect);
        };
        check("/home/é x/日本".as_bytes(), "/home/é x/日本");
        check(b"/a\xff\xfe/b", "/a\\xff\\xfe/b");
        check(b"/a\\xff", "/a\\u{5c}xff");
        check(b"/a\\\xff", "/a\\\\xff");
        check(b"/a\nb\t", "/a\\u{a}b\\u{9}");
        // The character that stands for undecodable bytes elsewhere.
        check("/a\u{fffd}".as_bytes(), "/a\u{fffd}");
    }
}
