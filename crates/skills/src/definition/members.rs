//! The names of members, and which one a misspelt name was meant to be.

use strsim::generic_levenshtein;

/// Longest name that is compared, so that a long one costs little.
const MAX_CHARS: usize = 64;

/// The known name that this one resembles: other case, other separators, or at most one letter in three.
pub(super) fn meant<'k>(typed: &str, known: &[&'k str]) -> Option<&'k str> {
    let typed = plain(typed);
    if typed.len() > MAX_CHARS {
        return None;
    }
    let near = known.iter().map(|known| (generic_levenshtein(&typed, &plain(known)), *known));
    let near = near.filter(|(distance, known)| *distance <= known.len().div_ceil(3));
    near.min_by_key(|(distance, _)| *distance).map(|(_, known)| known)
}

fn plain(name: &str) -> Vec<char> {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_near_name_is_meant() {
        let known = ["interface", "dependencies"];
        for (typed, expected) in [
            ("dependancies", Some("dependencies")),
            ("Interface", Some("interface")),
            ("later", None),
            ("", None),
            (&"i".repeat(9_000), None),
        ] {
            assert_eq!(meant(typed, &known), expected, "{typed}");
        }
    }
}
