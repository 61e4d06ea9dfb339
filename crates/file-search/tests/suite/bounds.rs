//! What is refused.

use std::time::{Duration, Instant, SystemTime};

use file_search::{
    Error, IDLE, Indexes, MAX_QUERY_CHARS, MAX_QUERY_WORDS, MAX_RESULTS, Query, Stop, search_once,
};

use crate::support::{LIMIT, folder, paths, search};

#[test]
fn long_queries_are_refused() {
    assert!(Query::new(&"ä".repeat(MAX_QUERY_CHARS)).is_ok());
    let error = Query::new(&"ä".repeat(MAX_QUERY_CHARS + 1)).unwrap_err().to_string();
    assert_eq!(error, "the query has 257 characters, at most 256 are allowed; shorten it");
    assert!(Query::new(&"a ".repeat(MAX_QUERY_WORDS)).is_ok());
    assert!(matches!(
        Query::new(&"a ".repeat(MAX_QUERY_WORDS + 1)),
        Err(Error::QueryTooLong { .. })
    ));
}

#[test]
fn roots_that_are_no_folders_are_refused() {
    let tree = folder(["file"]);
    let indexes = Indexes::new(None);
    let made = std::process::Command::new("mkfifo").arg(tree.path().join("fifo")).status().unwrap();
    assert!(made.success());
    for (name, reason) in [
        ("none", "No such file or directory"),
        ("file", "it is not a folder"),
        ("fifo", "it is not a folder"),
        ("file/below", "Not a directory"),
    ] {
        let error = indexes.open(&tree.path().join(name)).unwrap_err().to_string();
        assert!(error.contains(name) && error.contains(reason), "{error}");
    }
}

#[test]
fn a_root_with_too_many_entries_is_an_error_that_says_so() {
    let tree = folder((0..20).map(|at| format!("{at}/file")));
    let index = Indexes::with_bound(None, 30).open(tree.path()).unwrap();
    let error = search(&index, "file").unwrap_err().to_string();
    assert!(error.contains("more than 30 entries; name a folder below it"), "{error}");
}

#[test]
fn results_are_bounded_and_the_best_of_all() {
    let files = (0..MAX_RESULTS * 4).map(|at| format!("deep/{at:04}/name_{at}.rs"));
    let tree = folder(files.chain(["best/name.rs".to_owned()]));
    let index = Indexes::new(None).open(tree.path()).unwrap();
    let hits = search(&index, "name").unwrap();
    assert_eq!(hits.len(), MAX_RESULTS);
    assert_eq!(paths(hits)[0], "best/name.rs");
}

#[test]
fn a_stopped_search_ends() {
    let tree = folder(["a"]);
    let index = Indexes::new(None).open(tree.path()).unwrap();
    assert!(index.walked(LIMIT));
    let stop = Stop::default();
    stop.set();
    let time = (SystemTime::now(), LIMIT);
    let outcome = search_once(&[index], Query::new("a").unwrap(), time, &stop);
    assert!(matches!(outcome, Err(Error::Cancelled)), "{outcome:?}");
}

#[test]
fn unused_indexes_are_dropped() {
    let (one, other) = (folder(["a"]), folder(["b"]));
    let indexes = Indexes::new(None);
    let kept = indexes.open(one.path()).unwrap();
    drop(indexes.open(other.path()).unwrap());
    assert_eq!(indexes.expire(Instant::now()), 2);
    let later = Instant::now() + IDLE + Duration::from_secs(1);
    assert_eq!(indexes.expire(later), 1);
    drop(kept);
    assert_eq!(indexes.expire(later), 0);
}

#[test]
fn the_index_goes_that_was_not_used_longest_and_never_one_that_is_in_use() {
    let trees: Vec<_> = (0..17).map(|_| folder(["a"])).collect();
    let indexes = Indexes::new(None);
    let open = |at: usize| indexes.open(trees[at].path());
    let held: Vec<_> = (0..16).map(|at| open(at).unwrap()).collect();
    let error = open(16).unwrap_err().to_string();
    assert!(error.contains("16 roots are being searched"), "{error}");
    drop(held);
    assert!(open(16).is_ok());
    assert_eq!(indexes.expire(Instant::now()), 16);
}

#[test]
fn a_root_that_is_given_twice_is_searched_once() {
    let tree = folder(["one/file", "other/file"]);
    let indexes = Indexes::new(None);
    let open = |name: &str| indexes.open(&tree.path().join(name)).unwrap();
    let roots = [open("one"), open("one/"), open("other"), open("one")];
    let time = (SystemTime::now(), LIMIT);
    let hits = search_once(&roots, Query::new("file").unwrap(), time, &Stop::default()).unwrap();
    let found: Vec<_> = hits.into_iter().map(|hit| (hit.root, hit.path)).collect();
    assert_eq!(found, [(0, "file".to_owned()), (2, "file".to_owned())]);
}
