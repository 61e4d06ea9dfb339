//! Whatever happens below a watched folder: at rest, the picture of whoever follows the changes equals
//! the disk.

use std::path::Path;

use crate::picture::Picture;
use crate::rest::becomes_right;
use file_watch::Watcher;

/// A step of a random history, on folders and files of a few names.
#[derive(Clone, Debug)]
enum Step {
    MakeFolder(String),
    Write(String),
    Rename(String, String),
    Exchange(String, String),
    Remove(String),
    MoveOut(String),
    Link(String, String),
}

fn step() -> impl proptest::strategy::Strategy<Value = Step> {
    use proptest::prelude::*;
    let path = || "[ab](/[ab]){0,3}";
    prop_oneof![
        path().prop_map(Step::MakeFolder),
        path().prop_map(Step::Write),
        (path(), path()).prop_map(|(from, to)| Step::Rename(from, to)),
        (path(), path()).prop_map(|(one, other)| Step::Exchange(one, other)),
        path().prop_map(Step::Remove),
        path().prop_map(Step::MoveOut),
        (path(), path()).prop_map(|(from, to)| Step::Link(from, to)),
    ]
}

/// Steps that are impossible change nothing.
fn perform(step: &Step, root: &Path, outside: &Path) {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    let at = |path: &String| root.join(path);
    match step {
        Step::MakeFolder(path) => drop(std::fs::create_dir_all(at(path))),
        Step::Write(path) => drop(std::fs::write(at(path), path)),
        Step::Rename(from, to) => drop(std::fs::rename(at(from), at(to))),
        Step::Exchange(one, other) => {
            let _ = renameat_with(CWD, at(one), CWD, at(other), RenameFlags::EXCHANGE);
        }
        Step::Remove(path) => {
            drop(std::fs::remove_file(at(path)).or_else(|_| std::fs::remove_dir_all(at(path))));
        }
        // What was moved out before comes back in another place.
        Step::MoveOut(path) => {
            let _ = renameat_with(CWD, outside, CWD, at(path), RenameFlags::EXCHANGE);
        }
        Step::Link(from, to) => drop(std::os::unix::fs::symlink(at(from), at(to))),
    }
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(48))]

    #[test]
    fn after_any_history_the_picture_is_right(
        bursts in proptest::collection::vec(proptest::collection::vec(step(), 1..40), 1..4),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let (root, outside) = (folder.path().join("root"), folder.path().join("outside"));
        std::fs::create_dir_all(outside.join("a/b")).unwrap();
        std::fs::create_dir(&root).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let watch = Watcher::default().watch(&root, true).unwrap();
        let mut picture = Picture::of(&root);
        for burst in &bursts {
            burst.iter().for_each(|step| perform(step, &root, &outside));
            runtime.block_on(becomes_right(&mut picture, &watch, "at rest"));
        }
        assert_eq!(picture.overflows, 0);
    }
}
