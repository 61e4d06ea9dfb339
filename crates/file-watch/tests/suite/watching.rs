//! What is reported of a disk that changes: the picture of whoever follows the changes equals the disk.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::picture::Picture;
use crate::rest::{PATIENCE, becomes_right};
use file_watch::{Change, Error, Limits, Watch, Watcher};

/// Awaits `work`, which must not take forever.
async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, work).await.expect("changes are reported in time")
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// A watcher that examines instead of watching.
fn polling() -> Watcher {
    Watcher::new(Limits { folders: 0, interval: Duration::from_millis(20), ..Limits::default() })
}

fn both() -> [(&'static str, Watcher); 2] {
    [("watched", Watcher::default()), ("examined", polling())]
}

/// Takes changes until one names `path`; returns the paths of all.
async fn until(watch: &Watch, path: &Path) -> Vec<PathBuf> {
    let mut seen = Vec::new();
    within(async {
        loop {
            let Change { paths, overflow } = watch.next().await;
            seen.extend(paths);
            // As when a path is examined from now on that was watched.
            if overflow || seen.iter().any(|seen| seen == path) {
                return;
            }
        }
    })
    .await;
    seen
}

#[tokio::test]
async fn a_file_is_reported_when_it_is_written_replaced_removed_and_made_again() {
    for (how, watcher) in both() {
        let folder = folder();
        let file = folder.path().join("file");
        std::fs::write(&file, "one").unwrap();
        std::fs::write(folder.path().join("other"), "").unwrap();
        let watch = watcher.watch(&file, false).unwrap();
        let steps: [&dyn Fn(); 6] = [
            &|| std::fs::write(&file, "two and more").unwrap(),
            &|| {
                let new = folder.path().join("new");
                std::fs::write(&new, "three").unwrap();
                std::fs::rename(new, &file).unwrap();
            },
            // The new one is watched.
            &|| std::fs::write(&file, "four and more").unwrap(),
            &|| std::fs::remove_file(&file).unwrap(),
            &|| std::fs::write(&file, "five").unwrap(),
            &|| std::fs::rename(&file, folder.path().join("away")).unwrap(),
        ];
        for (number, step) in steps.into_iter().enumerate() {
            step();
            let seen = until(&watch, &file).await;
            assert!(seen.iter().all(|path| *path == file), "{how} {number}: {seen:?}");
        }
    }
}

#[tokio::test]
async fn a_folder_reports_its_entries_and_only_with_recursive_those_below() {
    for (how, watcher) in both() {
        let folder = folder();
        std::fs::create_dir_all(folder.path().join("sub/deep")).unwrap();
        let flat = watcher.watch(folder.path(), false).unwrap();
        let deep = watcher.watch(folder.path(), true).unwrap();
        let below = folder.path().join("sub/deep/file");
        std::fs::write(&below, "").unwrap();
        until(&deep, &below).await;
        let own = folder.path().join("own");
        std::fs::write(&own, "").unwrap();
        until(&deep, &own).await;
        let seen = until(&flat, &own).await;
        assert!(!seen.contains(&below), "{how}");
    }
}

#[tokio::test]
async fn what_does_not_exist_yet_is_watched_from_when_it_does() {
    for (how, watcher) in both() {
        let folder = folder();
        let path = folder.path().join("a/b/c");
        let watch = watcher.watch(&path, true).unwrap();
        assert_eq!(watch.path(), path);
        for round in 0..3 {
            std::fs::create_dir_all(path.join("d")).unwrap();
            std::fs::write(path.join("d/file"), round.to_string()).unwrap();
            until(&watch, &path.join("d/file")).await;
            // Also when a folder far above goes away.
            std::fs::rename(folder.path().join("a"), folder.path().join(format!("{how}{round}")))
                .unwrap();
            until(&watch, &path).await;
        }
    }
}

#[tokio::test]
async fn links_on_the_way_are_followed_and_those_below_are_not() {
    for (how, watcher) in both() {
        let folder = folder();
        let at = |name: &str| folder.path().join(name);
        for name in ["one/in", "two/in", "else"] {
            std::fs::create_dir_all(at(name)).unwrap();
        }
        std::os::unix::fs::symlink("one", at("link")).unwrap();
        std::os::unix::fs::symlink(at("else"), at("one/in/out")).unwrap();
        std::os::unix::fs::symlink(at("one"), at("one/in/circle")).unwrap();
        let watch = watcher.watch(&at("link/in"), true).unwrap();
        std::fs::write(at("else/unseen"), "").unwrap();
        std::fs::write(at("one/in/file"), "").unwrap();
        let seen = until(&watch, &at("link/in/file")).await;
        assert!(!seen.iter().any(|path| path.ends_with("unseen")), "{how}: {seen:?}");
        // The link is replaced as programs do it that switch versions.
        std::os::unix::fs::symlink("two", at("new")).unwrap();
        std::fs::rename(at("new"), at("link")).unwrap();
        until(&watch, &at("link/in")).await;
        std::fs::write(at("two/in/later"), "").unwrap();
        until(&watch, &at("link/in/later")).await;
        // A circle leads nowhere, until it does.
        std::os::unix::fs::symlink("round", at("round")).unwrap();
        let nowhere = Watcher::default().watch(&at("round/x"), false).unwrap();
        std::fs::remove_file(at("round")).unwrap();
        std::fs::create_dir(at("round")).unwrap();
        std::fs::write(at("round/x"), "").unwrap();
        until(&nowhere, &at("round/x")).await;
    }
}

#[tokio::test]
async fn folders_that_move_take_their_place_in_the_picture() {
    for (how, watcher) in both() {
        let folder = folder();
        let at = |name: &str| folder.path().join(name);
        for name in ["a/x/y", "b/z", "c"] {
            std::fs::create_dir_all(at(name)).unwrap();
        }
        std::fs::write(at("a/x/y/file"), "").unwrap();
        let watch = watcher.watch(folder.path(), true).unwrap();
        let mut picture = Picture::of(folder.path());
        let exchange = || {
            let flags = rustix::fs::RenameFlags::EXCHANGE;
            let (cwd, a, b) = (rustix::fs::CWD, at("a"), at("b"));
            rustix::fs::renameat_with(cwd, &a, cwd, &b, flags).unwrap();
        };
        let steps: [&dyn Fn(); 5] = [
            &|| std::fs::rename(at("a/x"), at("c/x")).unwrap(),
            &exchange,
            &|| std::fs::rename(at("c"), at("a/c")).unwrap(),
            &|| std::fs::write(at("a/c/x/y/file"), "changed").unwrap(),
            &|| {
                std::fs::remove_dir_all(at("a")).unwrap();
                std::fs::create_dir_all(at("a/c/x")).unwrap();
                std::fs::write(at("a/c/x/new"), "changed").unwrap();
            },
        ];
        for (number, step) in steps.into_iter().enumerate() {
            step();
            becomes_right(&mut picture, &watch, &format!("{how} {number}")).await;
        }
        // Where folders are now, changes are still seen.
        for name in ["a/c/x/new", "b/last"] {
            std::fs::write(at(name), "again").unwrap();
            becomes_right(&mut picture, &watch, &format!("{how} {name}")).await;
        }
    }
}

/// The system's limit is simulated by one of the watcher, which takes the same way.
#[tokio::test]
async fn at_the_limit_of_watched_folders_changes_are_found_by_examination() {
    let limits = Limits { folders: 4, interval: Duration::from_millis(20), ..Limits::default() };
    let watcher = Watcher::new(limits);
    let folder = folder();
    let watch = watcher.watch(folder.path(), true).unwrap();
    let mut picture = Picture::of(folder.path());
    // The limit is reached while it is watched, and by a second watch from its start.
    for number in 0..9 {
        std::fs::create_dir_all(folder.path().join(format!("{number}/deep"))).unwrap();
        becomes_right(&mut picture, &watch, "grows").await;
    }
    let second = watcher.watch(folder.path(), true).unwrap();
    let mut of_second = Picture::of(folder.path());
    std::fs::write(folder.path().join("8/deep/file"), "").unwrap();
    becomes_right(&mut picture, &watch, "first").await;
    becomes_right(&mut of_second, &second, "second").await;
}

#[tokio::test]
async fn what_has_too_many_entries_to_remember_has_overflows() {
    let watcher = Watcher::new(Limits {
        folders: 0,
        polled_entries: 3,
        interval: Duration::from_millis(20),
        ..Limits::default()
    });
    let folder = folder();
    for number in 0..9 {
        std::fs::write(folder.path().join(number.to_string()), "").unwrap();
    }
    let watch = watcher.watch(folder.path(), true).unwrap();
    std::fs::write(folder.path().join("5"), "changed").unwrap();
    let change = within(watch.next()).await;
    assert_eq!(change, Change { paths: vec![folder.path().to_owned()], overflow: true });
}

#[tokio::test]
async fn bounds_are_errors_that_say_what_to_do() {
    let folder = folder();
    let limits = Limits { watches: 2, polled: 1, folders: 1, ..Limits::default() };
    let watcher = Watcher::new(limits);
    let text = |error: Error| error.to_string();
    let refused = |path: &Path| text(watcher.watch(path, true).map(drop).unwrap_err());
    assert!(refused(Path::new("relative")).contains("absolute"));
    std::fs::create_dir_all(folder.path().join("a/b")).unwrap();
    let first = watcher.watch(folder.path(), true).unwrap();
    let message = refused(folder.path());
    assert!(message.contains("end another watch") && message.contains("1 folders"), "{message}");
    let second = watcher.watch(&folder.path().join("none"), false).unwrap();
    assert!(refused(folder.path()).contains("2 paths are watched already"));
    drop(second);
    drop(first);
    within(async {
        while watcher.watch(folder.path(), true).is_err() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// None of them is opened.
#[tokio::test]
async fn pipes_sockets_and_names_that_are_no_text_are_reported() {
    use std::os::unix::ffi::OsStrExt;
    for (_, watcher) in both() {
        let folder = folder();
        let pipe = folder.path().join("pipe");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, mode).unwrap();
        let (of_pipe, of_folder) =
            (watcher.watch(&pipe, true).unwrap(), watcher.watch(folder.path(), true).unwrap());
        let socket = folder.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        until(&of_folder, &socket).await;
        let odd = folder.path().join(std::ffi::OsStr::from_bytes(b"odd\xff"));
        std::fs::create_dir(&odd).unwrap();
        until(&of_folder, &odd).await;
        std::fs::write(odd.join("in"), "").unwrap();
        until(&of_folder, &odd.join("in")).await;
        std::fs::remove_file(&pipe).unwrap();
        until(&of_pipe, &pipe).await;
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_begin_of_a_large_watch_rests_and_holds_nothing_meanwhile() {
    let (root, other) = (folder(), folder());
    for number in 0..300 {
        std::fs::create_dir(root.path().join(number.to_string())).unwrap();
    }
    let watcher = Watcher::default();
    let rests = std::cell::Cell::new(0);
    let rest = || {
        rests.set(rests.get() + 1);
        drop(watcher.watch(other.path(), true).unwrap());
    };
    let watch = watcher.watch_resting(root.path(), true, &rest).unwrap();
    assert!(rests.get() >= 4, "{}", rests.get());
    let file = root.path().join("299/file");
    std::fs::write(&file, "").unwrap();
    until(&watch, &file).await;
}
