//! What the thread does, one step at a time: the kernel's queue overflows when a test wants it to.

use std::fs;

use super::*;
use crate::changes::{Budget, Change};
use crate::limits::Limits;

struct Watched {
    folder: tempfile::TempDir,
    changes: Arc<Changes>,
    tree: Tree,
    id: RootId,
}

fn watched() -> Watched {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    fs::create_dir(&root).unwrap();
    let changes = Changes::new(root, Budget::new(usize::MAX));
    let inotify = Arc::new(Inotify::new().unwrap());
    let mut tree = Tree::new(inotify, usize::MAX, Polls::new(Limits::default()));
    let id = tree.insert(changes.clone(), true, Vec::new());
    let mut open = tree.settle(id, false).unwrap();
    assert!(tree.adopt(id, &mut open, false, usize::MAX).unwrap());
    Watched { folder, changes, tree, id }
}

impl Watched {
    fn at(&self, name: &str) -> PathBuf {
        self.changes.watched().join(name)
    }

    /// Handles what has happened, and returns what it changed.
    fn change(&mut self) -> Change {
        while rustix::io::ioctl_fionread(&*self.tree.inotify).unwrap() > 0 {
            self.tree.read_events().unwrap();
        }
        while self.tree.drop_unused() {}
        self.changes.take()
    }
}

#[test]
fn after_lost_events_everything_is_found_anew_and_watched() {
    let mut watched = watched();
    fs::create_dir_all(watched.at("old/sub")).unwrap();
    let most = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
    let (one, other) = (watched.at("one"), watched.at("other"));
    for _ in 0..most.trim().parse::<usize>().unwrap() {
        fs::write(&one, "").unwrap();
        fs::write(&other, "").unwrap();
    }
    // None of this has an event.
    fs::remove_dir_all(watched.at("old")).unwrap();
    fs::create_dir_all(watched.at("new/sub")).unwrap();
    while watched.tree.read_events().is_ok() {}
    watched.tree.recover();
    let overflow = Change { paths: vec![watched.changes.watched().to_owned()], overflow: true };
    assert_eq!(watched.change(), overflow);
    fs::write(watched.at("new/sub/file"), "").unwrap();
    let change = watched.change();
    assert_eq!(change, Change { paths: vec![watched.at("new/sub/file")], overflow: false });
}

/// Otherwise a long-lived watch would use up the system's watches.
#[test]
fn nothing_is_kept_of_what_is_gone() {
    let mut watched = watched();
    let before = (watched.tree.uses.len(), watched.tree.folders.0);
    for round in 0..3 {
        for number in 0..20 {
            fs::create_dir_all(watched.at(&format!("{number}/a/b"))).unwrap();
        }
        watched.change();
        assert_eq!(watched.tree.folders.0, before.1 + 60);
        for number in 0..20 {
            match number % 2 {
                0 => fs::remove_dir_all(watched.at(&number.to_string())).unwrap(),
                _ => {
                    let away = watched.folder.path().join(format!("{round}-{number}"));
                    fs::rename(watched.at(&number.to_string()), away).unwrap();
                }
            }
        }
        watched.change();
        assert_eq!((watched.tree.uses.len(), watched.tree.folders.0), before, "{round}");
    }
    watched.tree.remove(watched.id);
    watched.change();
    assert!(watched.tree.uses.is_empty() && watched.tree.unused.is_empty());
    assert_eq!(watched.tree.folders.0, 0);
}

#[test]
fn a_folder_behind_links_in_a_circle_is_gone() {
    let mut watched = watched();
    std::os::unix::fs::symlink("two", watched.at("one")).unwrap();
    std::os::unix::fs::symlink("one", watched.at("two")).unwrap();
    // Its event came before the links did.
    let mut open = vec![watched.at("one/sub")];
    assert!(watched.tree.adopt(watched.id, &mut open, true, usize::MAX).unwrap());
    assert!(!watched.change().overflow);
    fs::write(watched.at("later"), "").unwrap();
    assert_eq!(watched.change().paths, [watched.at("later")]);
}
