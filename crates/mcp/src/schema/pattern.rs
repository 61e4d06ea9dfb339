//! Whether a pattern is a regular expression at all, in the dialects that validators use: patterns such
//! as `*.txt` are not, and hosted APIs refuse a schema with one.

/// See the module. It checks the structure: groups, classes, escapes, and that a quantifier follows
/// something. What the dialects differ in is allowed.
pub(super) fn is_plausible(pattern: &str) -> bool {
    let mut groups = 0_usize;
    let mut has_atom = false;
    let mut letters = pattern.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => {
                if letters.next().is_none() {
                    return false;
                }
                has_atom = true;
            }
            '[' => {
                if !skip_class(&mut letters) {
                    return false;
                }
                has_atom = true;
            }
            '(' => {
                groups += 1;
                // `(?:`, `(?=`, `(?<name>`
                if letters.next_if_eq(&'?').is_some() && letters.next().is_none() {
                    return false;
                }
                has_atom = false;
            }
            ')' => match groups.checked_sub(1) {
                Some(left) => (groups, has_atom) = (left, true),
                None => return false,
            },
            '*' | '+' | '?' => {
                if !has_atom {
                    return false;
                }
                // The lazy form; a second quantifier has nothing to repeat.
                letters.next_if_eq(&'?');
                has_atom = false;
            }
            '|' | '^' => has_atom = false,
            _ => has_atom = true,
        }
    }
    groups == 0
}

/// Skips a class of characters, up to its end.
fn skip_class(letters: &mut std::iter::Peekable<std::str::Chars<'_>>) -> bool {
    letters.next_if_eq(&'^');
    let mut is_empty = true;
    while let Some(letter) = letters.next() {
        match letter {
            ']' if !is_empty => return true,
            '\\' if letters.next().is_none() => return false,
            _ => {}
        }
        is_empty = false;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_and_what_is_none() {
        for good in
            ["", "^[a-z]+?$", "(?:a|b){2,3}", "\\d{4}-\\d\\d", "[^]]*", "(?=x)y", "[\\]a]", "a.b"]
        {
            assert!(is_plausible(good), "{good}");
        }
        for bad in ["*.txt", "(a", "a)", "[a", "a\\", "a|*", "(?", "a**", "(*a)"] {
            assert!(!is_plausible(bad), "{bad}");
        }
    }
}
