//! Tests of opening and reading files, and of work that hangs.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use files::{Error, FileKind, Pool};

fn fifo(path: &Path) {
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    let kind = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, path, kind, mode, 0).unwrap();
}

#[test]
fn texts_of_people_are_decoded() {
    let le = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    let be = |text: &str| text.encode_utf16().flat_map(u16::to_be_bytes).collect::<Vec<u8>>();
    for (bytes, expect) in [
        (b"plain \xc3\xa9".to_vec(), Some("plain \u{e9}")),
        ("\u{feff}marked".into(), Some("marked")),
        (le("\u{feff}Grüße 🦀\r\n"), Some("Grüße 🦀\r\n")),
        (be("\u{feff}Grüße 🦀"), Some("Grüße 🦀")),
        // Cut off within a character.
        (le("\u{feff}ab")[..5].to_vec(), Some("a")),
        (le("\u{feff}🦀")[..4].to_vec(), Some("\u{fffd}")),
        (vec![0xff, 0xfe], Some("")),
        (Vec::new(), Some("")),
        (vec![0xff], None),
        (le("ab"), Some("a\0b\0")),
        (b"caf\xe9".to_vec(), None),
    ] {
        assert_eq!(files::decoded(bytes.clone()).ok().as_deref(), expect, "{bytes:?}");
    }
}

#[test]
fn only_regular_files_are_read_and_refusals_name_the_kind() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fifo(&at("fifo"));
    let _socket = UnixListener::bind(at("socket")).unwrap();
    symlink("/dev/zero", at("device")).unwrap();
    symlink("fifo", at("link to fifo")).unwrap();
    symlink("nowhere", at("dangling")).unwrap();
    symlink("circle", at("circle")).unwrap();
    fs::write(at("file"), "text").unwrap();
    symlink("file", at("link")).unwrap();
    fs::File::create(at("sparse")).unwrap().set_len(10 << 30).unwrap();
    fs::write(at("binary"), [0xff]).unwrap();
    for (name, expect) in [
        ("file", Ok("text")),
        ("link", Ok("text")),
        ("fifo", Err("it is a named pipe (FIFO), not a regular file")),
        ("link to fifo", Err("it is a named pipe (FIFO), not a regular file")),
        ("socket", Err("it is a socket, not a regular file")),
        ("device", Err("it is a device, not a regular file")),
        (".", Err("it is a folder, not a regular file")),
        ("dangling", Err("No such file or directory")),
        ("file/below", Err("Not a directory")),
        ("circle", Err("Too many levels of symbolic links")),
        ("sparse", Err("it is larger than 1 MiB")),
        ("binary", Err("it is not UTF-8 text")),
    ] {
        match (files::read_text(&at(name), 1 << 20), expect) {
            (Ok(text), Ok(expect)) => assert_eq!(text, expect, "{name}"),
            (Err(error), Err(expect)) => {
                let error = error.to_string();
                assert!(error.starts_with(&at(name).display().to_string()), "{name}: {error}");
                assert!(error.contains(expect), "{name}: {error}");
            }
            (found, _) => panic!("{name}: {found:?}"),
        }
    }
    let refused = files::open_without_links(&at("link")).unwrap_err();
    assert!(matches!(refused, Error::NotRegular { kind: FileKind::Link, .. }), "{refused}");
    for name in ["fifo", "device", "."] {
        assert!(files::append(&at(name)).is_err(), "{name}");
    }
}

#[test]
fn reads_of_long_files_are_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sparse");
    fs::File::create(&path).unwrap().set_len(10 << 30).unwrap();
    assert_eq!(files::read_start(&path, 100).unwrap().len(), 100);
}

#[cfg(target_os = "linux")]
#[test]
fn files_that_the_kernel_makes_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    symlink("/proc/self/environ", at("link")).unwrap();
    symlink("/proc/self", at("folder")).unwrap();
    fs::write(at("file"), "text").unwrap();
    for (path, name) in [
        ("/proc/self/environ".into(), "proc"),
        ("/proc/self/maps".into(), "proc"),
        ("/proc/thread-self/environ".into(), "proc"),
        ("/proc/version".into(), "proc"),
        (format!("/proc/{}/environ", std::process::id()).into(), "proc"),
        ("/sys/kernel/mm/transparent_hugepage/enabled".into(), "sysfs"),
        (at("link"), "proc"),
        (at("folder/environ"), "proc"),
    ] {
        if !path.exists() {
            continue;
        }
        let results = [
            files::open(&path).map(drop),
            files::read(&path, 1 << 20).map(drop),
            files::read_start(&path, 10).map(drop),
            files::read_argument(&path, 1 << 20).map(drop),
            files::read_secret(&path).map(drop),
        ];
        for result in results {
            let error = result.unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("{}: it is a file that", path.display())),
                "{error}"
            );
            assert!(error.contains(&format!("the kernel makes (`{name}`)")), "{error}");
        }
    }
    // A link of the kernel to a stored file, as a shell passes one on.
    let file = fs::File::open(at("file")).unwrap();
    let descriptor = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
    assert_eq!(files::read_text(Path::new(&descriptor), 100).unwrap(), "text");
}

#[test]
fn secrets_may_be_readable_but_not_writable_by_others() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("token");
    fs::write(&path, "  s3cr3t\n").unwrap();
    for (mode, refused, warned) in [
        (0o600, false, false),
        (0o400, false, false),
        (0o644, false, true),
        (0o440, false, true),
        (0o620, true, false),
        (0o602, true, false),
        (0o666, true, false),
    ] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        match files::read_secret(&path) {
            Ok(secret) => {
                assert!(!refused, "{mode:o}");
                assert_eq!(secret.text, "s3cr3t");
                assert_eq!(secret.warning.is_some(), warned, "{mode:o}: {secret:?}");
                assert!(!format!("{secret:?}").contains("s3cr3t"));
            }
            Err(error) => {
                assert!(refused && matches!(error, Error::Writable { .. }), "{mode:o}");
                assert!(error.to_string().contains("chmod 600"), "{error}");
            }
        }
    }
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    fs::File::options().write(true).truncate(true).open(&path).unwrap().write_all(b" \n").unwrap();
    assert!(matches!(files::read_secret(&path), Err(Error::Empty(_))));
}

/// Time limit of work that never ends, so that a slow machine changes nothing.
const SHORT: Duration = Duration::from_millis(20);

/// Work that waits until the sender is dropped.
fn hung() -> (mpsc::Sender<()>, impl FnOnce() + Send + 'static) {
    let (release, held) = mpsc::channel::<()>();
    (release, move || {
        let _ = held.recv();
    })
}

#[tokio::test]
async fn an_unresponsive_file_system_fails_only_its_own_requests() {
    let pool = Pool::default();
    let (dead, alive) = (Path::new("/dead"), Path::new("/alive"));
    let mut held = Vec::new();
    for _ in 0..4 {
        let (release, work) = hung();
        held.push(release);
        let error = pool.run_within(SHORT, dead, work).await.unwrap_err();
        assert!(
            matches!(&error, Error::TimedOut { path, after: SHORT } if path == dead),
            "{error}"
        );
    }
    let refused = pool.run(dead, || ()).await.unwrap_err();
    assert!(matches!(&refused, Error::StillWaiting { path, .. } if path == dead), "{refused}");
    assert_eq!(pool.run(alive, || 1).await.unwrap(), 1);
    // Once the file system responds, waiting work ends and new work is accepted.
    held.clear();
    while !matches!(pool.run(dead, || 2).await, Ok(2)) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn hung_work_keeps_no_permit() {
    let pool = Pool::default();
    let mut held = Vec::new();
    let mut refused = 0;
    // Many more than the permits, each on its own path.
    for number in 0..200 {
        let (release, work) = hung();
        held.push(release);
        let place = std::path::PathBuf::from(format!("/dead/{number}"));
        match pool.run_within(SHORT, &place, work).await {
            Err(Error::TimedOut { .. }) => {}
            Err(Error::Exhausted { .. }) => refused += 1,
            other => panic!("{other:?}"),
        }
        if number == 100 {
            assert_eq!(pool.run(Path::new("/alive"), || 1).await.unwrap(), 1);
        }
    }
    assert_eq!(refused, 200 - 128);
    drop(held);
}

#[tokio::test]
async fn hung_work_keeps_no_permit_after_its_caller_is_gone() {
    let pool = Pool::default();
    let mut held = Vec::new();
    // More than the permits, each on its own path.
    for number in 0..40 {
        let (release, work) = hung();
        held.push(release);
        let place = std::path::PathBuf::from(format!("/dead/{number}"));
        let run = pool.run_within(SHORT, &place, work);
        // Given up at once; only the time limit of the work ends its permit.
        let _ = tokio::time::timeout(Duration::ZERO, run).await;
    }
    assert_eq!(pool.run(Path::new("/alive"), || 1).await.unwrap(), 1);
    drop(held);
}

#[tokio::test]
async fn a_dropped_caller_returns_its_permit() {
    let pool = Pool::default();
    for _ in 0..100 {
        let (release, work) = hung();
        let run = pool.run(Path::new("/x"), work);
        assert!(tokio::time::timeout(Duration::ZERO, run).await.is_err());
        drop(release);
    }
    assert_eq!(pool.run(Path::new("/x"), || 1).await.unwrap(), 1);
    let panicked = pool.run(Path::new("/x"), || panic!("on purpose")).await;
    let panicked: Result<(), Error> = panicked;
    assert!(matches!(panicked, Err(Error::Panicked { path }) if path == Path::new("/x")));
}
