//! Finds the known name that a misspelled one resembles.

use strsim::generic_levenshtein;

/// The name in `known` that is closest to `typed`, if they differ only in case, separators and at most
/// one letter in three.
pub(crate) fn closest<'a>(typed: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let typed = plain(typed);
    // No known name is this long, and the bound limits the time.
    if typed.len() > 100 {
        return None;
    }
    known
        .map(|name| (generic_levenshtein(&typed, &plain(name)), name))
        .filter(|(distance, name)| *distance <= name.len().div_ceil(3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Returns whether two names differ in case and separators only.
pub(crate) fn is_same_name(one: &str, other: &str) -> bool {
    let one = plain(one);
    !one.is_empty() && one == plain(other)
}

fn plain(name: &str) -> Vec<char> {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggests_near_names_only() {
        let known = ["model", "model_provider", "workspace-write", "sandbox_mode"];
        for (typed, expected) in [
            ("modle", Some("model")),
            ("modl", Some("model")),
            ("model_providr", Some("model_provider")),
            ("workspaceWrite", Some("workspace-write")),
            ("sandboxMode", Some("sandbox_mode")),
            ("colour", None),
            ("", None),
        ] {
            assert_eq!(closest(typed, known.into_iter()), expected, "{typed}");
        }
    }
}
