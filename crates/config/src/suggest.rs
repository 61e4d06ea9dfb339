//! Finds the known name that a misspelled one resembles.

/// The name in `known` that is closest to `typed`, if they differ only in case, separators and at most
/// one letter in three.
pub(crate) fn closest<'a>(typed: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let typed = plain(typed);
    // No known name is this long, and the bound limits the time.
    if typed.len() > 100 {
        return None;
    }
    known
        .map(|name| (distance(&typed, &plain(name)), name))
        .filter(|(distance, name)| *distance <= name.len().div_ceil(3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

fn plain(name: &str) -> Vec<char> {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// Levenshtein's distance with one row of the table.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
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
