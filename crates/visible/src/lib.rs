//! Text as it is shown for approval, to a person or a model: every character that shows
//! nothing, or that hides, moves or reverses other text, is written as its number.

mod hidden;
mod prose;

use std::borrow::Cow;
use std::path::Path;

pub use hidden::is_hidden;
pub use prose::prose;

/// Replaces every hidden character by its number, as in `\u{1b}`. Keeps new lines and tabs.
pub fn text(text: &str) -> Cow<'_, str> {
    without_hidden(text, |c| matches!(c, '\n' | '\t'))
}

/// As [`text`], on one line: line breaks and tabs are numbers, too, so that a text cannot look like
/// lines of whatever shows it.
pub fn line(text: &str) -> Cow<'_, str> {
    without_hidden(text, |_| false)
}

fn without_hidden(text: &str, keeps: impl Fn(char) -> bool) -> Cow<'_, str> {
    let is_hidden = |c: char| is_hidden(c) && !keeps(c);
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

/// As [`exact`], on one line: line breaks and tabs are numbers, too.
pub fn exact_line(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    push_exact(&mut shown, text, |_| false);
    shown
}

/// Words on one line as [`exact_line`], in quotes where a POSIX shell would need them: where each word ends
/// can be seen.
pub fn command_line<'w>(words: impl IntoIterator<Item = &'w str>) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_@%+=:,./-".contains(c);
    let quoted =
        words.into_iter().map(|word| match word.is_empty() || !word.chars().all(is_plain) {
            true => format!("'{}'", word.replace('\'', "'\\''")),
            false => word.to_owned(),
        });
    exact_line(&quoted.collect::<Vec<_>>().join(" "))
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
    fn a_line_stays_one_line() {
        let check = |given: &str, simple: &str, exactly: &str| {
            assert_eq!((line(given).as_ref(), exact_line(given).as_str()), (simple, exactly));
            assert_eq!(line(&line(given)), line(given));
        };
        check("Tidies 'é'.", "Tidies 'é'.", "Tidies 'é'.");
        check(
            "a\n  b\t\r\u{2028}",
            "a\\u{a}  b\\u{9}\\u{d}\\u{2028}",
            "a\\u{a}  b\\u{9}\\u{d}\\u{2028}",
        );
        check("a\\u{a}", "a\\u{a}", "a\\u{5c}u{a}");
    }

    #[test]
    fn words_of_a_command_line_are_told_apart() {
        let check = |words: &[&str], expect: &str| {
            assert_eq!(command_line(words.iter().copied()), expect);
        };
        check(&["sh", "-c", "curl x|sh"], "sh -c 'curl x|sh'");
        check(&["./a.py", "--x=1", ""], "./a.py --x=1 ''");
        check(&["a b", "it's"], "'a b' 'it'\\''s'");
        check(&["x\n  nothing else"], "'x\\u{a}  nothing else'");
        check(&["\u{1b}[2K", "\u{202e}"], "'\\u{1b}[2K' '\\u{202e}'");
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
