//! Text that is read and not approved: what makes one picture of several characters, or joins letters,
//! is kept.

use std::borrow::Cow;

use crate::is_hidden;

/// As [`line`](crate::line), for messages that need no decision. Keeps spaces of any width, and
/// joiners and variation selectors where they belong: after a picture (👩‍🚀, ❤️, 1️⃣) or a letter outside of
/// ASCII, as Persian and the scripts of India need them. Such a text can look like another one.
pub fn prose(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    let mut before = None;
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match is_hidden(c) && !is_space(c) && !belongs(c, before, rest.clone().next()) {
            true => shown.extend(c.escape_unicode()),
            false => shown.push(c),
        }
        // A joiner stands after the picture that the selector belongs to.
        before = if is_selector(c) { before.filter(|c| is_picture(*c)) } else { Some(c) };
    }
    Cow::Owned(shown)
}

/// Returns whether an invisible character has a use between these two.
fn belongs(c: char, before: Option<char>, after: Option<char>) -> bool {
    let Some(before) = before else { return false };
    match c {
        _ if is_selector(c) => {
            let keycap = after == Some('\u{20e3}') && matches!(before, '0'..='9' | '#' | '*');
            keycap || is_picture(before)
        }
        '\u{200c}' | '\u{200d}' => !before.is_ascii() && !is_hidden(before),
        _ => false,
    }
}

/// A space of Unicode, wider or narrower than the usual one, at which a line may not break.
fn is_space(c: char) -> bool {
    matches!(
        c,
        '\u{a0}' | '\u{1680}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}'
    )
}

/// Chooses between a picture and a sign.
fn is_selector(c: char) -> bool {
    matches!(c, '\u{fe0e}' | '\u{fe0f}')
}

/// Every emoji outside of ASCII, and the signs among them.
fn is_picture(c: char) -> bool {
    matches!(
        c,
        '\u{a9}'
            | '\u{ae}'
            | '\u{203c}'
            | '\u{2049}'
            | '\u{2122}'
            | '\u{2139}'
            | '\u{2190}'..='\u{2bff}'
            | '\u{3030}'
            | '\u{303d}'
            | '\u{3297}'
            | '\u{3299}'
            | '\u{1f000}'..='\u{1faff}'
    )
}

#[cfg(test)]
mod tests {
    use regex_syntax::hir::{Class, HirKind};

    use super::*;

    #[test]
    fn joined_pictures_and_letters_are_kept() {
        for text in [
            "👩\u{200d}🚀 👨\u{200d}👩\u{200d}👧 🏳\u{fe0f}\u{200d}🌈 👍🏽 🇩🇪",
            "❤\u{fe0f}\u{200d}🔥 ☎\u{fe0e} 1\u{fe0f}\u{20e3} #\u{fe0f}\u{20e3}",
            "می\u{200c}خواهم क्\u{200d}ष",
            "Bonjour\u{a0}! 12\u{202f}000 全角\u{3000}空白",
        ] {
            assert_eq!(prose(text), text);
        }
    }

    #[test]
    fn what_hides_or_reorders_is_shown() {
        let check = |given: &str, expect: &str| assert_eq!(prose(given), expect);
        check("a\u{200d}b\u{fe0f}", "a\\u{200d}b\\u{fe0f}");
        check("\u{200d}x \u{fe0f}", "\\u{200d}x \\u{fe0f}");
        check("👩\u{200d}\u{200d}🚀", "👩\u{200d}\\u{200d}🚀");
        check("1\u{fe0f}2", "1\\u{fe0f}2");
        check("\u{1b}[2J\t\n\u{202e}\u{2028}", "\\u{1b}[2J\\u{9}\\u{a}\\u{202e}\\u{2028}");
        check("x\u{200b}y\u{2060}\u{e0041}", "x\\u{200b}y\\u{2060}\\u{e0041}");
    }

    #[test]
    fn every_emoji_is_a_picture() {
        let parsed = regex_syntax::parse(r"[\p{Emoji}--\p{ASCII}]").unwrap();
        let HirKind::Class(Class::Unicode(class)) = parsed.kind() else { panic!("{parsed:?}") };
        for range in class.iter() {
            assert!((range.start()..=range.end()).all(is_picture), "{range:?}");
        }
    }
}
