//! Which paths match, and which characters are reported.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use file_search::{Indexes, Query, search_paths};
use proptest::prelude::*;

use crate::support::{add, folder, found, search};

/// Whether `path` contains the letters of every word in order.
fn matches(path: &str, query: &str) -> bool {
    let fold = |text: &str| -> Vec<char> {
        text.chars()
            .map(|char| {
                let mut lower = char.to_lowercase();
                match (lower.next(), lower.next()) {
                    (Some(only), None) => only,
                    _ => char,
                }
            })
            .collect()
    };
    query.split_whitespace().all(|word| {
        let exact = word.chars().any(char::is_uppercase);
        let read = |text: &str| if exact { text.chars().collect() } else { fold(text) };
        let mut letters = read(path).into_iter();
        read(word).into_iter().all(|wanted| letters.any(|letter| letter == wanted))
    })
}

fn paths() -> impl Strategy<Value = Vec<String>> {
    proptest::collection::vec("[abA1._-]{1,5}|[aäÖ]{1,4}", 1..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn matches_are_those_of_a_plain_implementation(
        files in proptest::collection::vec(paths(), 1..8),
        query in "[abA1./_äö ]{0,5}",
    ) {
        // What is a file for one path and a folder for another is left out, and so are `.` and `..`.
        let tree = tempfile::tempdir().unwrap();
        for parts in files {
            if parts.iter().any(|part| part == "." || part == "..") {
                continue;
            }
            let path = tree.path().join(parts.join("/"));
            let _ = std::fs::create_dir_all(path.parent().unwrap());
            let _ = std::fs::write(path, "");
        }
        let index = Indexes::new(None).open(tree.path()).unwrap();
        let hits = search(&index, &query).unwrap();
        let mut all: Vec<String> = walk(tree.path(), tree.path());
        all.retain(|path| matches(path, &query));
        let mut found: Vec<_> = hits.iter().map(|hit| hit.path.clone()).collect();
        found.sort();
        all.sort();
        prop_assert_eq!(found, all);
        for hit in &hits {
            check_indices(&hit.path, &hit.indices, &query);
        }
        let again = search(&index, &query).unwrap();
        prop_assert_eq!(again, hits);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Most entries of a large tree are decided by bounds; one alone is always compared and scored.
    #[test]
    fn the_best_of_many_have_the_scores_that_they_have_alone(
        folders in proptest::collection::vec("[abcA]{1,3}(/[abA._-]{1,3}){0,2}", 8..16),
        names in proptest::collection::vec("[abcA1._-]{4,9}", 60..100),
        query in "[abcA._]{1,3}|[abc]{4,5}|[abc]{0,2}/[abc]{0,2}|[abc]{1,2} [abcA/.]{1,3}|[aä]{2}",
    ) {
        let is_plain = |path: &&String| !path.split('/').any(|part| part == "." || part == "..");
        let paths: Vec<String> = folders
            .iter()
            .flat_map(|folder| names.iter().map(move |name| format!("{folder}/{name}")))
            .collect();
        let paths: Vec<&[u8]> = paths.iter().filter(is_plain).map(|path| path.as_bytes()).collect();
        let query = Query::new(&query).unwrap();
        let found = search_paths(paths.iter().copied(), &query);
        let alone = |path: &[u8]| {
            search_paths([path], &query).into_iter().find(|hit| hit.path.as_bytes() == path)
        };
        let mut all: Vec<_> = paths
            .iter()
            .collect::<std::collections::BTreeSet<_>>()
            .into_iter()
            .filter_map(|path| alone(path).map(|hit| hit.score))
            .collect();
        all.sort_unstable_by(|one, other| other.cmp(one));
        let files: Vec<_> = found.iter().filter(|hit| !hit.is_folder).collect();
        for hit in &files {
            let expected = alone(hit.path.as_bytes());
            prop_assert_eq!(expected.as_ref(), Some(*hit));
        }
        let scores: Vec<_> = files.iter().map(|hit| hit.score).collect();
        prop_assert_eq!(&scores[..], &all[..scores.len()]);
        // Folders take places only where they are among the best.
        prop_assert!(found.len() == file_search::MAX_RESULTS || all.len() == scores.len());
    }
}

/// The characters at `indices` contain each word in order, and no more characters than the words have.
fn check_indices(path: &str, indices: &[u32], query: &str) {
    assert!(indices.is_sorted_by(|one, other| one < other), "{path}: {indices:?}");
    let chars: Vec<char> = path.chars().collect();
    let chosen: String = indices.iter().map(|at| chars[*at as usize]).collect();
    assert!(matches(&chosen, query), "{path}: {query}: {chosen}");
    let letters: usize = query.split_whitespace().map(|word| word.chars().count()).sum();
    assert!(chosen.chars().count() <= letters, "{path}: {query}: {chosen}");
}

fn walk(root: &Path, folder: &Path) -> Vec<String> {
    let mut all = Vec::new();
    for entry in folder.read_dir().unwrap() {
        let path = entry.unwrap().path();
        all.push(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned());
        if path.is_dir() {
            all.extend(walk(root, &path));
        }
    }
    all
}

#[test]
fn names_that_are_not_utf8_are_marked_and_positions_are_those_of_the_marked_text() {
    let tree = folder(["x/"]);
    add(tree.path(), Path::new(OsStr::from_bytes(b"x/o\xffd\xfe/n\xc3\xa4me.rs")));
    let index = Indexes::new(None).open(tree.path()).unwrap();
    for query in ["name", "nme.rs", "odm", "näm"] {
        let hits = search(&index, query).unwrap();
        if query == "name" {
            assert_eq!(hits, [], "{query}");
            continue;
        }
        let [hit] = &hits[..] else { panic!("{query}: {hits:?}") };
        assert_eq!(hit.path, "x/o\u{fffd}d\u{fffd}/näme.rs");
        assert_eq!(hit.file_name(), "näme.rs");
        check_indices(&hit.path, &hit.indices, query);
    }
}

#[test]
fn marks_of_what_is_not_utf8_are_letters_like_others() {
    let query = Query::new("\u{fffd}\u{fffd}").unwrap();
    for (path, is_found) in [
        (&b"x/\xa4\xa4"[..], true),
        (b"x/\xa4\xd0\x91\xa4", true),
        (b"x/n\xc3\xa4\x1ame\xa4 nK\xa4 \xf6<\xd0\x87\xd0\x91\xab ", true),
        // The second byte of a character is no letter.
        (b"x/\xd0\x91\xa4", false),
    ] {
        let found = search_paths([path], &query).len();
        assert_eq!(found, usize::from(is_found), "{:?}", String::from_utf8_lossy(path));
    }
}

#[test]
fn links_are_results_and_are_not_followed() {
    let tree = folder(["a/file.rs"]);
    std::os::unix::fs::symlink("..", tree.path().join("a/loop")).unwrap();
    std::os::unix::fs::symlink("nowhere", tree.path().join("broken")).unwrap();
    let mut all = found(tree.path(), "");
    all.sort();
    assert_eq!(all, ["a", "a/file.rs", "a/loop", "broken"]);
    let index = Indexes::new(None).open(tree.path()).unwrap();
    let hits = search(&index, "loop").unwrap();
    assert!(!hits[0].is_folder);
    // A root that is a link is the folder that it leads to.
    std::os::unix::fs::symlink("a", tree.path().join("link")).unwrap();
    assert_eq!(found(&tree.path().join("link"), "file"), ["file.rs"]);
}

#[test]
fn a_list_of_paths_is_searched_as_a_folder_with_them_is() {
    let files = ["src/main.rs", "src/mail/list.rs", "docs/main.md", "domain"];
    let query = Query::new("main").unwrap();
    let listed: Vec<_> = search_paths(files.iter().map(|path| path.as_bytes()), &query)
        .into_iter()
        .map(|hit| hit.path)
        .collect();
    assert_eq!(listed, found(folder(files).path(), "main"));
    assert_eq!(search_paths([&b"a/b/c"[..]], &Query::new("").unwrap()).len(), 3);
}
