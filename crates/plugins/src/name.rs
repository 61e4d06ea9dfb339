//! Names of marketplaces and plugins, and relative paths in their files. Names become folder names.

use std::path::PathBuf;

/// Longest name, in bytes.
const MAX_NAME: usize = 64;
/// Longest path, in bytes.
const MAX_PATH: usize = 1_024;
/// Names that cannot be used: devices of Windows, and folders with a meaning of their own.
const RESERVED: [&str; 12] = [
    "con",
    "prn",
    "aux",
    "nul",
    "git",
    "cache",
    "installed",
    "marketplaces",
    "node_modules",
    "local",
    "remote",
    "builtin",
];

/// Checks the name of a marketplace or plugin: 1 to 64 letters, digits, `-`, `_` and `.`, which begin
/// and end with a letter or digit.
///
/// # Errors
/// A sentence that says what is wrong.
pub fn check_name(name: &str) -> Result<(), String> {
    let shown = visible::text(name.get(..MAX_NAME).unwrap_or(name)).into_owned();
    let problem = |why: &str| Err(format!("the name `{shown}` {why}"));
    if name.is_empty() {
        return Err("the name is empty".to_owned());
    }
    if name.len() > MAX_NAME {
        return Err(format!("the name is longer than {MAX_NAME} characters"));
    }
    if !name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.')) {
        return problem("can have letters, digits, `-`, `_` and `.` only");
    }
    let ends = [name.bytes().next(), name.bytes().last()];
    if !ends.into_iter().flatten().all(|b| b.is_ascii_alphanumeric()) || name.contains("..") {
        return problem("must begin and end with a letter or digit, and have no `..`");
    }
    if RESERVED.iter().any(|reserved| name.eq_ignore_ascii_case(reserved)) {
        return problem("is reserved; choose another");
    }
    Ok(())
}

/// A path below a folder, such as `./plugins/one`: without `.` components, empty for the folder itself.
///
/// # Errors
/// It is absolute, leaves the folder, or has characters that names cannot have.
pub(crate) fn relative_path(text: &str) -> Result<PathBuf, String> {
    if text.len() > MAX_PATH {
        return Err(format!("the path is longer than {MAX_PATH} bytes"));
    }
    let shown = visible::text(text);
    if text.starts_with('/') || text.contains('\\') || text.contains(':') {
        return Err(format!(
            "the path `{shown}` must be relative to the folder, as in `./plugins/one`"
        ));
    }
    if text.chars().any(|c| c.is_control() || visible::is_hidden(c)) {
        return Err(format!("the path `{shown}` has characters that are not visible"));
    }
    let mut path = PathBuf::new();
    for component in text.split('/').filter(|component| !matches!(*component, "" | ".")) {
        if component == ".." {
            return Err(format!("the path `{shown}` leads out of the folder"));
        }
        path.push(component);
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names() {
        for good in ["a", "my-plugin", "A_1.2", "x".repeat(64).as_str()] {
            assert_eq!(check_name(good), Ok(()), "{good}");
        }
        let long = "x".repeat(65);
        let bad = [
            "",
            ".",
            "..",
            "a..b",
            "../a",
            "a/b",
            "a\\b",
            "-a",
            "a-",
            ".a",
            "a b",
            "é",
            "a\0",
            "CON",
            "cache",
            "git",
            "a\n",
            "\u{202e}a",
            &long,
        ];
        for name in bad {
            assert!(check_name(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn relative_paths() {
        let check = |text: &str, expect: Option<&str>| {
            assert_eq!(relative_path(text).ok(), expect.map(PathBuf::from), "{text:?}");
        };
        check("./plugins/one", Some("plugins/one"));
        check("./", Some(""));
        check(".", Some(""));
        check("a//b/.", Some("a/b"));
        for bad in ["/etc", "..", "./../x", "a/../../b", "C:\\x", "a\\b", "a\nb", "a\u{202e}"] {
            check(bad, None);
        }
    }

    proptest! {
        #[test]
        fn relative_paths_stay_below(text in "[./a-c\\\\:~]{0,24}") {
            if let Ok(path) = relative_path(&text) {
                prop_assert!(path.components().all(|c| matches!(c, std::path::Component::Normal(_))));
            }
        }

        #[test]
        fn checked_names_are_one_component(name in ".{0,80}") {
            if check_name(&name).is_ok() {
                prop_assert_eq!(std::path::Path::new(&name).components().count(), 1);
            }
        }
    }
}
