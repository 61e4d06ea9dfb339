//! Searches: the first line is a query, the others are paths. What is found are the paths that contain the
//! letters of its words in order, and the positions are places of such letters.

use std::collections::BTreeSet;

use file_search::{Hit, MAX_RESULTS, Query, search_paths};

fn fold(letter: char) -> char {
    let mut lower = letter.to_lowercase();
    match (lower.next(), lower.next()) {
        // Only ASCII becomes ASCII: not the Kelvin sign.
        (Some(only), None) if letter.is_ascii() || !only.is_ascii() => only,
        _ => letter,
    }
}

/// Returns whether `path` contains the letters of every word in order.
fn matches(path: &str, query: &str) -> bool {
    query.split_whitespace().all(|word| {
        let exact = word.chars().any(char::is_uppercase);
        let read = |letter: char| if exact { letter } else { fold(letter) };
        let mut letters = path.chars().map(read);
        word.chars().all(|wanted| letters.any(|letter| letter == read(wanted)))
    })
}

/// The paths of all files and folders.
fn entries<'p>(paths: &[&'p [u8]]) -> BTreeSet<&'p [u8]> {
    let ends = |path: &'p [u8]| {
        let slashes = (0..path.len()).filter(move |at| path[*at] == b'/');
        slashes.chain([path.len()]).map(move |end| &path[..end])
    };
    paths.iter().copied().flat_map(ends).filter(|path| !path.is_empty()).collect()
}

fn check(hit: &Hit, query: &str) {
    assert!(matches(&hit.path, query), "{hit:?}");
    assert!(hit.indices.is_sorted_by(|one, other| one < other), "{hit:?}");
    let letters: Vec<char> = hit.path.chars().collect();
    let chosen: String = hit.indices.iter().map(|at| letters[*at as usize]).collect();
    assert!(matches(&chosen, query), "{hit:?}: {chosen}");
}

/// Checks one input.
pub fn run(data: &[u8]) {
    let mut lines = data.split(|byte| *byte == b'\n');
    let text = String::from_utf8_lossy(lines.next().unwrap_or_default());
    let Ok(query) = Query::new(&text) else { return };
    // Slashes that say nothing are left out by the lister of folders.
    let is_plain = |path: &&[u8]| {
        !path.starts_with(b"/") && !path.ends_with(b"/") && !path.windows(2).any(|two| two == b"//")
    };
    let paths: Vec<&[u8]> = lines.filter(is_plain).collect();
    let found = search_paths(paths.iter().copied(), &query);
    found.iter().for_each(|hit| check(hit, &text));
    let shown = |path: &[u8]| String::from_utf8_lossy(path).into_owned();
    let all = entries(&paths).into_iter().map(shown).filter(|path| matches(path, &text));
    let mut expected: Vec<String> = all.collect();
    assert_eq!(found.len(), expected.len().min(MAX_RESULTS));
    if expected.len() <= MAX_RESULTS {
        let mut found: Vec<String> = found.into_iter().map(|hit| hit.path).collect();
        found.sort();
        expected.sort();
        assert_eq!(found, expected);
    }
}
