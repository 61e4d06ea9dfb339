//! The environment of commands, by the `shell_environment_policy` of the configuration. Reads no
//! environment itself.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

/// `shell_environment_policy`, without `experimental_use_profile`, which concerns the shell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EnvPolicy {
    pub inherit: Inherit,
    /// True to keep variables whose name contains KEY, SECRET or TOKEN.
    pub ignore_default_excludes: bool,
    /// Patterns of names to remove, with the wildcards `*` and `?`; letter case is ignored.
    pub exclude: Vec<String>,
    /// Variables to add after the removals.
    pub set: BTreeMap<String, String>,
    /// If not empty, only names that match one of these patterns are kept, those in `set` included.
    pub include_only: Vec<String>,
    /// Names that no command gets: the variables with the keys of providers.
    pub secrets: Vec<String>,
}

/// The inherited variables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Inherit {
    #[default]
    All,
    /// [`CORE_VARIABLES`].
    Core,
    None,
}

/// The variables that `inherit = "core"` keeps.
pub const CORE_VARIABLES: [&str; 12] = [
    "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ",
    "USER", "USERNAME",
];

const SECRET_WORDS: [&str; 3] = ["KEY", "SECRET", "TOKEN"];

/// The environment of a command, sorted by name. Applies to `base`, in this order: `inherit`,
/// default excludes, `exclude`, `set`, `include_only`, `secrets`.
pub fn child_environment(
    base: impl IntoIterator<Item = (OsString, OsString)>,
    policy: &EnvPolicy,
) -> Vec<(OsString, OsString)> {
    let inherited = base.into_iter().filter(|(name, _)| inherits(policy, &name.to_string_lossy()));
    let mut variables: BTreeMap<OsString, OsString> = inherited.collect();
    for (name, value) in &policy.set {
        variables.insert(name.into(), value.into());
    }
    let kept = |name: &OsStr| {
        let text = name.to_string_lossy();
        let included = policy.include_only.is_empty() || matches_any(&policy.include_only, &text);
        included && !policy.secrets.iter().any(|secret| text == secret.as_str())
    };
    variables.into_iter().filter(|(name, _)| is_valid(name) && kept(name)).collect()
}

/// Returns whether `name` matches `pattern`, in which `*` stands for any characters and `?` for a
/// single one. Ignores letter case.
pub fn matches(pattern: &str, name: &str) -> bool {
    let pattern: Vec<char> = pattern.to_lowercase().chars().collect();
    let name: Vec<char> = name.to_lowercase().chars().collect();
    let (mut p, mut n) = (0, 0);
    // Where to resume after the last `*`, the only one that can need to match more characters.
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(&c) if c == '?' || Some(&c) == name.get(n) => {
                p += 1;
                n += 1;
            }
            _ => {
                let Some((star_p, star_n)) = star else { return false };
                star = Some((star_p, star_n + 1));
                p = star_p + 1;
                n = star_n + 1;
            }
        }
    }
    pattern.iter().skip(p).all(|c| *c == '*')
}

fn inherits(policy: &EnvPolicy, name: &str) -> bool {
    let inherited = match policy.inherit {
        Inherit::All => true,
        Inherit::Core => CORE_VARIABLES.iter().any(|core| core.eq_ignore_ascii_case(name)),
        Inherit::None => false,
    };
    let upper = name.to_uppercase();
    let secret = SECRET_WORDS.iter().any(|word| upper.contains(word));
    inherited && (policy.ignore_default_excludes || !secret) && !matches_any(&policy.exclude, name)
}

fn matches_any(patterns: &[String], name: &str) -> bool {
    patterns.iter().any(|pattern| matches(pattern, name))
}

/// Returns whether a name is valid: an empty one, or one with `=`, would become another variable.
fn is_valid(name: &OsStr) -> bool {
    !name.is_empty() && !name.as_encoded_bytes().contains(&b'=')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BASE: [&str; 9] = [
        "PATH",
        "HOME",
        "EDITOR",
        "OPENAI_API_KEY",
        "my_secret",
        "GH_TOKEN",
        "MONKEY",
        "AWS_REGION",
        "PROVIDER_PASS",
    ];

    fn names(policy: &EnvPolicy) -> Vec<String> {
        let base = BASE.iter().map(|name| (name.into(), "value".into()));
        let names = child_environment(base, policy).into_iter().map(|(name, _)| name);
        names.map(|name| name.into_string().unwrap()).collect()
    }

    fn strings(list: &[&str]) -> Vec<String> {
        list.iter().map(|item| item.to_string()).collect()
    }

    #[test]
    fn policies() {
        let check = |policy: EnvPolicy, expect: &[&str]| assert_eq!(names(&policy), expect);
        let default = EnvPolicy::default;
        check(default(), &["AWS_REGION", "EDITOR", "HOME", "PATH", "PROVIDER_PASS"]);
        check(EnvPolicy { inherit: Inherit::Core, ..default() }, &["HOME", "PATH"]);
        check(EnvPolicy { inherit: Inherit::None, ..default() }, &[]);
        check(
            EnvPolicy { exclude: strings(&["aws_*", "?ome"]), ..default() },
            &["EDITOR", "PATH", "PROVIDER_PASS"],
        );
        check(
            EnvPolicy {
                ignore_default_excludes: true,
                include_only: strings(&["*KEY", "PATH"]),
                ..default()
            },
            &["MONKEY", "OPENAI_API_KEY", "PATH"],
        );
        let set = BTreeMap::from([("A_TOKEN".into(), "1".into()), ("B".into(), "2".into())]);
        check(
            EnvPolicy { inherit: Inherit::None, set: set.clone(), ..default() },
            &["A_TOKEN", "B"],
        );
        check(
            EnvPolicy { inherit: Inherit::None, set, secrets: strings(&["A_TOKEN"]), ..default() },
            &["B"],
        );
        check(
            EnvPolicy { secrets: strings(&["PROVIDER_PASS"]), ..default() },
            &["AWS_REGION", "EDITOR", "HOME", "PATH"],
        );
    }

    #[test]
    fn invalid_names_are_removed() {
        let set = BTreeMap::from([("A=B".into(), "1".into()), (String::new(), "2".into())]);
        let policy = EnvPolicy { set, ..EnvPolicy::default() };
        assert!(child_environment([], &policy).is_empty());
    }

    #[test]
    fn patterns() {
        let check =
            |pattern, name, expect| assert_eq!(matches(pattern, name), expect, "{pattern} {name}");
        check("*", "", true);
        check("", "", true);
        check("", "A", false);
        check("A*C", "abbc", true);
        check("A*C", "abcd", false);
        check("*_*_*", "A_B_C", true);
        check("A?", "A", false);
        check("**a", "bba", true);
    }

    proptest! {
        #[test]
        fn a_name_matches_itself_with_parts_starred(name in "[A-Za-z_]{0,12}", cut in 0usize..12) {
            let cut = cut.min(name.len());
            prop_assert!(matches(&name, &name));
            let prefixed = format!("{}*", &name[..cut]);
            let suffixed = format!("*{}", &name[cut..]);
            prop_assert!(matches(&prefixed, &name));
            prop_assert!(matches(&suffixed, &name));
        }

        #[test]
        fn no_input_panics(pattern in ".{0,20}", name in ".{0,20}") {
            let _ = matches(&pattern, &name);
        }
    }
}
