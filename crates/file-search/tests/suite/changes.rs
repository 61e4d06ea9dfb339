//! Indexes that are kept up to date.

use std::path::Path;
use std::sync::Arc;

use file_search::{Error, Index, Indexes, Refresh};

use crate::support::{add, folder, paths, search};

fn sorted(index: &Arc<Index>) -> Vec<String> {
    let mut found = paths(search(index, "").unwrap());
    found.sort();
    found
}

/// A change of the folder, and what a search finds afterwards.
type Step<'a> = (&'a dyn Fn(&Path), &'a [&'a str]);

#[test]
fn a_search_sees_what_changed_before_it() {
    let tree = folder(["a/one", "a/b/two", "c/three"]);
    let indexes = Indexes::new(None);
    let index = indexes.open(tree.path()).unwrap();
    let all = ["a", "a/b", "a/b/two", "a/one", "c", "c/three"];
    assert_eq!(sorted(&index), all);
    let steps: [Step<'_>; 7] = [
        (
            &|root| add(root, Path::new("c/four")),
            &["a", "a/b", "a/b/two", "a/one", "c", "c/four", "c/three"],
        ),
        (&|root| std::fs::remove_dir_all(root.join("a")).unwrap(), &["c", "c/four", "c/three"]),
        (&|root| add(root, Path::new("a/d/e")), &["a", "a/d", "a/d/e", "c", "c/four", "c/three"]),
        (
            &|root| std::fs::rename(root.join("a/d"), root.join("c/d")).unwrap(),
            &["a", "c", "c/d", "c/d/e", "c/four", "c/three"],
        ),
        (
            &|root| std::fs::write(root.join(".ignore"), "c/d").unwrap(),
            &[".ignore", "a", "c", "c/four", "c/three"],
        ),
        (
            &|root| std::fs::write(root.join(".ignore"), "four\n").unwrap(),
            &[".ignore", "a", "c", "c/d", "c/d/e", "c/three"],
        ),
        (
            &|root| std::fs::remove_file(root.join(".ignore")).unwrap(),
            &["a", "c", "c/d", "c/d/e", "c/four", "c/three"],
        ),
    ];
    for (at, (change, expected)) in steps.into_iter().enumerate() {
        change(tree.path());
        let index = indexes.open(tree.path()).unwrap();
        assert_eq!(sorted(&index), expected, "step {at}");
    }
}

#[test]
fn named_changes_are_found() {
    let tree = folder(["a/one", "c/three"]);
    let index = Indexes::new(None).open(tree.path()).unwrap();
    assert_eq!(sorted(&index), ["a", "a/one", "c", "c/three"]);
    add(tree.path(), Path::new("c/x/four"));
    let changed = [tree.path().join("c/x"), tree.path().join("c/x/four")];
    assert_eq!(index.refresh_paths(&changed), Refresh::Begun);
    assert_eq!(sorted(&index), ["a", "a/one", "c", "c/three", "c/x", "c/x/four"]);
}

#[test]
fn a_root_that_is_removed_and_made_again_is_walked_again() {
    let tree = folder(["root/a"]);
    let root = tree.path().join("root");
    let indexes = Indexes::new(None);
    let index = indexes.open(&root).unwrap();
    assert_eq!(sorted(&index), ["a"]);
    std::fs::remove_dir_all(&root).unwrap();
    let Err(Error::Root { .. }) = indexes.open(&root) else { panic!("it is gone") };
    assert!(matches!(search(&index, ""), Err(Error::Root { .. })));
    std::fs::write(&root, "").unwrap();
    assert!(matches!(indexes.open(&root), Err(Error::NotAFolder(_))));
    std::fs::remove_file(&root).unwrap();
    add(tree.path(), Path::new("root/b"));
    let index = indexes.open(&root).unwrap();
    assert_eq!(sorted(&index), ["b"]);
}
