//! The check that a pattern is a regular expression in every dialect that hosted APIs validate
//! with: they refuse a schema with a pattern that theirs cannot compile.

use std::iter::Peekable;
use std::str::Chars;

/// Most repetitions that a quantifier can demand.
const MAX_REPEATED: u32 = 1000;

/// The role of a part of a pattern before a quantifier.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// It can be repeated.
    Atom,
    /// There is nothing to repeat.
    Other,
}

/// Returns whether the pattern keeps to what the dialects have in common: groups without a name,
/// classes, escapes of ASCII, anchors, and greedy or lazy quantifiers. Properties of Unicode,
/// references to groups, flags, and a look at what precedes or follows are not among it.
pub(super) fn is_common(pattern: &str) -> bool {
    let mut letters = pattern.chars().peekable();
    check(&mut letters).is_some()
}

fn check(letters: &mut Peekable<Chars<'_>>) -> Option<()> {
    let mut groups = 0_usize;
    let mut last = Part::Other;
    while let Some(letter) = letters.next() {
        last = match letter {
            '\\' => match letters.peek() {
                Some('b' | 'B') => letters.next().map(|_| Part::Other)?,
                _ => escaped(letters).map(|_| Part::Atom)?,
            },
            '[' => class(letters).map(|()| Part::Atom)?,
            '(' => {
                groups += 1;
                if letters.next_if_eq(&'?').is_some() {
                    letters.next_if_eq(&':')?;
                }
                Part::Other
            }
            ')' => {
                groups = groups.checked_sub(1)?;
                Part::Atom
            }
            '*' | '+' | '?' | '{' => {
                let repeats = last == Part::Atom && (letter != '{' || repetitions(letters));
                // The lazy form. A second quantifier has nothing to repeat.
                letters.next_if_eq(&'?');
                repeats.then_some(Part::Other)?
            }
            '|' | '^' | '$' => Part::Other,
            ']' | '}' => return None,
            _ => Part::Atom,
        };
    }
    (groups == 0).then_some(())
}

/// The rest of `{2}`, `{2,}` or `{2,3}`.
fn repetitions(letters: &mut Peekable<Chars<'_>>) -> bool {
    let Some(least) = number(letters) else { return false };
    let is_ordered = match letters.next_if_eq(&',') {
        None => true,
        Some(_) if letters.peek() == Some(&'}') => true,
        Some(_) => number(letters).is_some_and(|most| least <= most),
    };
    is_ordered && letters.next() == Some('}')
}

fn number(letters: &mut Peekable<Chars<'_>>) -> Option<u32> {
    let mut number = letters.next()?.to_digit(10)?;
    while let Some(digit) = letters.peek().and_then(|letter| letter.to_digit(10)) {
        letters.next();
        number = (number * 10 + digit).min(MAX_REPEATED + 1);
    }
    (number <= MAX_REPEATED).then_some(number)
}

/// The rest of an escape: the character that it stands for, or `Some(None)` for a set of characters.
fn escaped(letters: &mut Peekable<Chars<'_>>) -> Option<Option<char>> {
    match hexadecimal_digits(letters.peek().copied()?) {
        Some(digits) => {
            letters.next();
            let mut code = 0;
            for _ in 0..digits {
                code = code * 16 + letters.next()?.to_digit(16)?;
            }
            char::from_u32(code).map(Some)
        }
        None => match letters.next()? {
            'd' | 'D' | 's' | 'S' | 'w' | 'W' => Some(None),
            't' => Some(Some('\t')),
            'n' => Some(Some('\n')),
            'r' => Some(Some('\r')),
            'f' => Some(Some('\u{c}')),
            'v' => Some(Some('\u{b}')),
            // `\<` and `\>` are the ends of words in some.
            '<' | '>' => None,
            mark => mark.is_ascii_punctuation().then_some(Some(mark)),
        },
    }
}

fn hexadecimal_digits(escape: char) -> Option<usize> {
    match escape {
        'x' => Some(2),
        'u' => Some(4),
        _ => None,
    }
}

/// The rest of a class of characters. A `[` in it is a class of its own in some dialects, and so are
/// doubled marks an operation.
fn class(letters: &mut Peekable<Chars<'_>>) -> Option<()> {
    letters.next_if_eq(&'^');
    let mut is_first = true;
    loop {
        if letters.peek() == Some(&']') {
            letters.next();
            return (!is_first).then_some(());
        }
        let start = member(letters)?;
        if letters.next_if_eq(&'-').is_some() {
            if letters.peek() == Some(&']') {
                letters.next();
                return Some(());
            }
            let (start, end) = (start?, member(letters)??);
            if start > end {
                return None;
            }
        }
        is_first = false;
    }
}

fn member(letters: &mut Peekable<Chars<'_>>) -> Option<Option<char>> {
    let letter = letters.next()?;
    match letter {
        '\\' => escaped(letters),
        '[' => None,
        '&' | '~' | '|' if letters.peek() == Some(&letter) => None,
        letter => Some(Some(letter)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_that_all_dialects_read() {
        for good in [
            "",
            "^[a-z]+?$",
            "(?:a|b){2,3}",
            "\\d{4}-\\d\\d",
            "[^\\]]*",
            "[\\]a]",
            "a.b",
            "^(#|0x)[0-9A-Fa-f_-]{6,}$",
            "\\bw\\x41\\u00e4[\\w.-]",
            "[-a]\\$\\/ä*",
        ] {
            assert!(is_common(good), "{good}");
        }
    }

    #[test]
    fn patterns_that_some_dialect_refuses() {
        for bad in [
            "*.txt",
            "(a",
            "a)",
            "[a",
            "a\\",
            "a|*",
            "(?",
            "a**",
            "(*a)",
            "\\p{L}+",
            "\\p{Lu}",
            "(?<=a+)b",
            "(?<!a)b",
            "(?=x)y",
            "(?!x)y",
            "a++",
            "a*+",
            "a{2}+",
            "(?>a)",
            "(?<n>a)",
            "(?P<n>a)",
            "(?P=n)",
            "(?i)a",
            "(a)\\1",
            "\\k<n>",
            "\\Aa\\z",
            "\\Qa\\E",
            "\\h",
            "\\R",
            "\\u{41}",
            "\\x4",
            "[z-a]",
            "[\\d-z]",
            "[a-\\w]",
            "[[:alpha:]]",
            "[a&&b]",
            "[]",
            "[]a]",
            "a{",
            "a{,2}",
            "a{3,2}",
            "a{9999999999}",
            "x{2",
            "a}",
            "a]",
            "^*",
            "\\b+",
            "\\ä",
            "\\ ",
            "a{x}",
        ] {
            assert!(!is_common(bad), "{bad}");
        }
    }
}
