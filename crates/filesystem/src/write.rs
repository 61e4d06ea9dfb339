//! Writing of whole files.
//!
//! A new file, and one that can be replaced without loss, appears whole or not at all: its contents are
//! on disk before it takes the name. A file is written in place where a replacement would lose
//! something: other hard links, an owner that this user cannot set, or a folder that cannot be written.

use std::fs::{File, Metadata};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, Gid, Uid};
use rustix::io::Errno;

use crate::draft::{Draft, NEW_FILE, PRIVATE, copy_attributes};
use crate::error::Error;
use crate::read::MAX_FILE_BYTES;

/// Symbolic links that are followed one after the other, as the kernel does.
const MAX_LINKS: usize = 40;

/// Writes `contents` to the file at `path`, and creates it if it does not exist. An existing file keeps
/// its mode, owner, attributes and hard links; a symbolic link stays, and its target is written.
///
/// # Errors
/// The folder does not exist, something at `path` is not a regular file, `contents` is longer than
/// [`MAX_FILE_BYTES`], or the system refuses. The old contents then stay, unless the file had to be
/// written in place (see the module).
pub fn write(path: &Path, contents: &[u8]) -> Result<(), Error> {
    if contents.len() as u64 > MAX_FILE_BYTES {
        return Err(
            files::Error::TooLarge { path: path.to_owned(), max_bytes: MAX_FILE_BYTES }.into()
        );
    }
    if path.as_os_str().as_encoded_bytes().ends_with(b"/") {
        return Err(Error::refused(path, "the path names a folder, not a file"));
    }
    let target = link_target(path).map_err(Error::io(path, "following the link"))?;
    match files::open_for_writing(&target) {
        Ok(old) => replace(&target, &old.file, &old.metadata, contents),
        Err(files::Error::Io { cause, .. }) if cause.kind() == io::ErrorKind::NotFound => {
            create(&target, contents)
        }
        Err(error) => return Err(error.into()),
    }
    .map_err(Error::io(path, "writing the file"))
}

fn create(target: &Path, contents: &[u8]) -> io::Result<()> {
    let mut draft = Draft::beside(target, NEW_FILE)?;
    draft.file.write_all(contents)?;
    draft.publish(target)
}

fn replace(target: &Path, old: &File, metadata: &Metadata, contents: &[u8]) -> io::Result<()> {
    match prepared(target, old, metadata) {
        Some(mut draft) => {
            draft.file.write_all(contents)?;
            keep_mode(&draft.file, metadata)?;
            draft.publish(target)
        }
        None => {
            in_place(old, contents)?;
            keep_mode(old, metadata)
        }
    }
}

/// Sets the mode that a file had before it was written: a write clears the set-user bits.
fn keep_mode(file: &File, before: &Metadata) -> io::Result<()> {
    if file.metadata()?.mode() == before.mode() {
        return Ok(());
    }
    match file.set_permissions(before.permissions()) {
        // Only its owner can: a file of another user's, written in place, loses them.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        done => done,
    }
}

/// An empty file that can take the place of `old`; `None` where something would be lost.
fn prepared(target: &Path, old: &File, metadata: &Metadata) -> Option<Draft> {
    if metadata.nlink() > 1 {
        return None;
    }
    let draft = Draft::beside(target, PRIVATE).ok()?;
    let made = draft.file.metadata().ok()?;
    if (made.uid(), made.gid()) != (metadata.uid(), metadata.gid()) {
        let (owner, group) = (Uid::from_raw(metadata.uid()), Gid::from_raw(metadata.gid()));
        rustix::fs::fchown(&draft.file, Some(owner), Some(group)).ok()?;
    }
    copy_attributes(old, &draft.file).ok()?;
    // Last, since a change of the owner clears the set-user bits.
    draft.file.set_permissions(metadata.permissions()).ok()?;
    Some(draft)
}

fn in_place(mut old: &File, contents: &[u8]) -> io::Result<()> {
    // Space first, so that a full disk leaves the old contents. Not every file system can.
    match rustix::fs::fallocate(old, FallocateFlags::KEEP_SIZE, 0, contents.len().max(1) as u64) {
        Err(Errno::NOSPC) => return Err(Errno::NOSPC.into()),
        _ => old.write_all(contents)?,
    }
    old.set_len(contents.len() as u64)?;
    old.sync_all()
}

/// Follows the symbolic links at the end of `path`. What they lead to need not exist.
fn link_target(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        match std::fs::read_link(&path) {
            Ok(next) => path = path.parent().unwrap_or(Path::new("/")).join(next),
            // Not a symbolic link, or nothing.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::InvalidInput | io::ErrorKind::NotFound
                ) =>
            {
                return Ok(path);
            }
            Err(error) => return Err(error),
        }
    }
    Err(Errno::LOOP.into())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_set_user_bit_stays() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("file"), "one").unwrap();
        std::fs::write(at("linked"), "one").unwrap();
        std::fs::hard_link(at("linked"), at("other")).unwrap();
        for name in ["file", "linked"] {
            let mode = PermissionsExt::from_mode(0o4755);
            std::fs::set_permissions(at(name), mode).unwrap();
            write(&at(name), b"longer than before").unwrap();
            assert_eq!(at(name).metadata().unwrap().mode() & 0o7777, 0o4755, "{name}");
        }
    }

    #[test]
    fn a_file_keeps_its_mode_links_and_attributes() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("script"), "old").unwrap();
        std::fs::set_permissions(at("script"), PermissionsExt::from_mode(0o751)).unwrap();
        let script = File::open(at("script")).unwrap();
        let none = rustix::fs::XattrFlags::empty();
        let has_attributes = rustix::fs::fsetxattr(&script, "user.note", b"kept", none).is_ok();
        std::os::unix::fs::symlink("script", at("link")).unwrap();
        write(&at("link"), b"new").unwrap();

        assert!(at("link").is_symlink());
        assert_eq!(std::fs::read(at("script")).unwrap(), b"new");
        assert_eq!(at("script").metadata().unwrap().mode() & 0o7777, 0o751);
        if has_attributes {
            let mut value = [0; 8];
            let length = rustix::fs::getxattr(at("script"), "user.note", &mut value).unwrap();
            assert_eq!(&value[..length], b"kept");
        }
        // The name leads to another file now: whoever had the old one open still reads it.
        assert_eq!(io::read_to_string(script).unwrap(), "old");
        assert_eq!(folder.path().read_dir().unwrap().count(), 2);
    }

    #[test]
    fn a_file_with_several_names_is_written_under_all_of_them() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("one"), "a longer text").unwrap();
        std::fs::hard_link(at("one"), at("other")).unwrap();
        write(&at("one"), b"short").unwrap();
        assert_eq!(std::fs::read(at("other")).unwrap(), b"short");
        write(&at("other"), b"").unwrap();
        assert_eq!(std::fs::read(at("one")).unwrap(), b"");
    }

    #[test]
    fn new_files_appear_also_through_links_that_led_nowhere() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::os::unix::fs::symlink("target", at("link")).unwrap();
        write(&at("link"), b"1").unwrap();
        assert_eq!(std::fs::read(at("target")).unwrap(), b"1");
        // The mode that any other program would give it.
        std::fs::write(at("plain"), "").unwrap();
        assert_eq!(at("target").metadata().unwrap().mode(), at("plain").metadata().unwrap().mode());
    }

    #[test]
    fn refusals_leave_everything_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("folder")).unwrap();
        std::fs::write(at("file"), "old").unwrap();
        std::os::unix::fs::symlink("circle", at("circle")).unwrap();
        let fifo = rustix::fs::FileType::Fifo;
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, at("fifo"), fifo, mode, 0).unwrap();
        for (name, contents, reason) in [
            ("folder", 1, "folder"),
            ("missing/file", 1, "No such file"),
            ("fifo", 1, "not a regular file"),
            ("circle", 1, "symbolic links"),
            ("file/", 1, "names a folder"),
            ("file/below", 1, "Not a directory"),
            ("file", MAX_FILE_BYTES as usize + 1, "larger than 32 MiB"),
        ] {
            let error = write(&at(name), &vec![b'x'; contents]).unwrap_err().to_string();
            assert!(error.contains(reason), "{name}: {error}");
        }
        assert!(write(Path::new("/dev/null"), b"x").unwrap_err().to_string().contains("device"));
        assert_eq!(std::fs::read(at("file")).unwrap(), b"old");
        assert_eq!(folder.path().read_dir().unwrap().count(), 4);
    }
}
