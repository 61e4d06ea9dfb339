//! The form of a command that is shown to the user.

use std::borrow::Cow;

use super::parse::is_unreadable;

/// Replaces every character that hides, moves or reverses other text by its number, as in `\u{1b}`.
/// Keeps new lines, tabs and visible characters.
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unreadable) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match is_unreadable(c) {
            true => shown.extend(c.escape_unicode()),
            false => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_are_shown() {
        let check = |text: &str, expect: &str| assert_eq!(visible(text), expect);
        check("ls 'é' \t\n\"x\"", "ls 'é' \t\n\"x\"");
        check("ls\u{1b}[2K\rrm", "ls\\u{1b}[2K\\u{d}rm");
        check("a\u{202e}b\u{200b}c\u{a0}d\u{9b}", "a\\u{202e}b\\u{200b}c\\u{a0}d\\u{9b}");
        check("\u{feff}\0\u{8}", "\\u{feff}\\u{0}\\u{8}");
    }
}
