//! Names of worktrees and of their branches. Only letters, digits and `._-` come into one, so that no name is
//! an option of git, leaves its folder or is no ref.

/// Longest name, in characters, without the number that tells it from others.
const MAX_NAME: usize = 50;
/// The part of a branch before the name.
const PREFIX: &str = "agentd/";
/// Digits of an id that make a name.
const ID_DIGITS: usize = 8;

/// The name that a client's text makes; `None` if it has no letter and no digit.
pub(super) fn slug(text: &str) -> Option<String> {
    let mut name = String::new();
    for c in text.trim().chars() {
        let kept = c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let c = if kept { c } else { '-' };
        // `..` is part of no ref, and of no name of a folder.
        if matches!(c, '.' | '-') && name.ends_with(['.', '-']) {
            continue;
        }
        name.push(c);
        if name.len() == MAX_NAME {
            break;
        }
    }
    let mut name = name.trim_matches(['.', '-']);
    while let Some(shorter) = name.strip_suffix(".lock") {
        name = shorter.trim_end_matches(['.', '-']);
    }
    name.contains(|c: char| c.is_ascii_alphanumeric()).then(|| name.to_owned())
}

/// The name of a worktree for which the client has none.
pub(super) fn from_id(id: &str) -> String {
    let digits: Vec<char> = id.chars().filter(char::is_ascii_alphanumeric).collect();
    digits[digits.len().saturating_sub(ID_DIGITS)..].iter().collect()
}

/// The name that is tried at this attempt, from 1.
pub(super) fn numbered(name: &str, attempt: usize) -> String {
    if attempt == 1 { name.to_owned() } else { format!("{name}-{attempt}") }
}

/// The branch of the worktree of this name.
pub(super) fn branch(name: &str) -> String {
    format!("{PREFIX}{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_only_what_a_ref_and_a_folder_can_have() {
        for (text, name) in [
            ("fix-login", Some("fix-login")),
            ("Fix the login, please!", Some("Fix-the-login-please")),
            ("--upload-pack=/bin/sh", Some("upload-pack-bin-sh")),
            ("-b", Some("b")),
            ("../../etc", Some("etc")),
            ("a..b", Some("a.b")),
            ("a.lock", Some("a")),
            ("a.lock.lock", Some("a")),
            (".lock", Some("lock")),
            ("x@{1}", Some("x-1")),
            ("a/b\0c\nd", Some("a-b-c-d")),
            ("fix_é_ü", Some("fix_-_")),
            ("", None),
            ("...", None),
            ("___", None),
            ("日本", None),
        ] {
            assert_eq!(slug(text).as_deref(), name, "{text:?}");
        }
        assert_eq!(slug(&"x".repeat(500)).unwrap().len(), MAX_NAME);
    }

    #[test]
    fn ids_make_short_names() {
        assert_eq!(from_id("0199-abcd-12345678-9f"), "3456789f");
        assert_eq!(from_id("t1"), "t1");
        assert_eq!(numbered("x", 1), "x");
        assert_eq!(branch(&numbered("x", 3)), "agentd/x-3");
    }
}
