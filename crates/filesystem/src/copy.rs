//! Copies of files and folders.
//!
//! A file is copied inside the kernel, sharing its blocks where the file system can and leaving its holes
//! out, and takes its name when it is complete. So does a folder that is new. Links within a folder are
//! copied as links.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::draft::{Draft, DraftFolder, PRIVATE};
use crate::error::Error;

/// Folders below each other that are copied; more is an error.
const MAX_DEPTH: usize = 256;
/// Bytes that are copied between two looks at whether the copy is still wanted.
const PIECE_BYTES: u64 = 64 << 20;

/// Copies what is at `source` to the path `destination`, which is the copy itself and not the folder
/// around it. A file at `destination` is replaced; the entries of a folder are added to the folder at
/// `destination`, and created where they are missing. A symbolic link is copied as a link. Returns early
/// when `is_stopped` does.
///
/// # Errors
/// `source` is a folder and `with_contents` is not set; it contains `destination`; something in it is
/// neither file, folder nor link; a file would replace a folder or the other way around; the copy was
/// stopped; or the system refuses. What was copied to a folder that existed before stays; a new one is not
/// made.
pub fn copy(
    source: &Path,
    destination: &Path,
    with_contents: bool,
    is_stopped: &dyn Fn() -> bool,
) -> Result<(), Error> {
    let metadata = source.symlink_metadata().map_err(Error::io(source, "reading its metadata"))?;
    if !metadata.is_dir() {
        return copy_entry(source, destination, is_stopped);
    }
    if !with_contents {
        let reason = "it is a folder; set `recursive` to copy it with everything below it";
        return Err(Error::refused(source, reason));
    }
    check_apart(source, destination)?;
    copy_folder(source, destination, is_stopped)
}

/// Copies a folder to a new one, which gets its name when it is complete, or into one that exists.
fn copy_folder(
    source: &Path,
    destination: &Path,
    is_stopped: &dyn Fn() -> bool,
) -> Result<(), Error> {
    let found = destination.symlink_metadata();
    if !found.is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        return copy_entries(source, destination, is_stopped);
    }
    // Without a slash at the end, next to which nothing could be made.
    let target: PathBuf = destination.components().collect();
    let failed = || Error::io(destination, "creating the folder");
    let draft = DraftFolder::beside(&target).map_err(failed())?;
    copy_entries(source, draft.path(), is_stopped)
        .map_err(|error| error.moved(draft.path(), destination))?;
    let metadata = source.metadata().map_err(Error::io(source, "reading its metadata"))?;
    std::fs::set_permissions(draft.path(), metadata.permissions()).map_err(failed())?;
    draft.publish(&target).map_err(failed())
}

/// Refuses a destination within the source, which the copy would never finish copying.
fn check_apart(source: &Path, destination: &Path) -> Result<(), Error> {
    let real_source = source.canonicalize().map_err(Error::io(source, "resolving the path"))?;
    // The copy creates the rest of the destination, so that there are no links in it.
    let existing = destination.ancestors().find_map(|folder| folder.canonicalize().ok());
    if existing.is_some_and(|folder| folder.starts_with(&real_source)) {
        let reason = "a folder cannot be copied to itself, or to a folder below it";
        return Err(Error::refused(source, reason));
    }
    Ok(())
}

/// Copies without recursion: how deep a folder goes is up to others.
fn copy_entries(
    source: &Path,
    destination: &Path,
    is_stopped: &dyn Fn() -> bool,
) -> Result<(), Error> {
    let mut waiting = vec![(source.to_owned(), destination.to_owned(), 0)];
    // Modes are set at the end: a folder may be one that its owner cannot write.
    let mut modes = Vec::new();
    while let Some((from, to, depth)) = waiting.pop() {
        if depth > MAX_DEPTH {
            let reason =
                format!("more than {MAX_DEPTH} folders lie below each other; copy a part of it");
            return Err(Error::refused(&from, reason));
        }
        if make_folder(&to)? {
            modes.push((from.clone(), to.clone()));
        }
        for entry in from.read_dir().map_err(Error::io(&from, "listing the folder"))? {
            let entry = entry.map_err(Error::io(&from, "listing the folder"))?;
            let (from, to) = (entry.path(), to.join(entry.file_name()));
            let kind = entry.file_type().map_err(Error::io(&from, "reading its metadata"))?;
            if kind.is_dir() {
                waiting.push((from, to, depth + 1));
            } else {
                copy_entry(&from, &to, is_stopped)?;
            }
        }
    }
    for (from, to) in modes.iter().rev() {
        let mode = from.metadata().map_err(Error::io(from, "reading its metadata"))?.permissions();
        std::fs::set_permissions(to, mode).map_err(Error::io(to, "setting the mode"))?;
    }
    Ok(())
}

/// Makes sure that a folder is at `path`, and returns whether it is new.
fn make_folder(path: &Path) -> Result<bool, Error> {
    match std::fs::create_dir(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(false),
        Err(error) => Err(Error::io(path, "creating the folder")(error)),
    }
}

/// Copies a file or a symbolic link.
fn copy_entry(
    source: &Path,
    destination: &Path,
    is_stopped: &dyn Fn() -> bool,
) -> Result<(), Error> {
    if is_stopped() {
        return Err(Error::refused(source, "the copy was stopped before it was complete"));
    }
    if source.is_symlink() {
        return copy_link(source, destination);
    }
    let opened = files::open_without_links(source)?;
    if destination.is_dir() {
        let reason = "a folder is there; name the file that is to be created";
        return Err(Error::refused(destination, reason));
    }
    let failed = || Error::io(destination, "writing the copy");
    let target = match destination.is_symlink() {
        // As other programs do: the link stays, and its target is replaced.
        true => destination.canonicalize().map_err(failed())?,
        false => destination.to_owned(),
    };
    if is_same(&opened.metadata, &target) {
        return Err(Error::refused(source, "the copy would replace the file itself"));
    }
    if let Ok(found) = target.symlink_metadata()
        && !found.is_file()
    {
        return Err(Error::refused(destination, "something that is not a regular file is there"));
    }
    let draft = Draft::beside(&target, PRIVATE).map_err(failed())?;
    copy_contents((&opened.file, source), (&draft.file, destination), is_stopped)?;
    draft.file.set_permissions(opened.metadata.permissions()).map_err(failed())?;
    draft.publish(&target).map_err(failed())
}

fn is_same(source: &std::fs::Metadata, target: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    target
        .metadata()
        .is_ok_and(|target| (source.dev(), source.ino()) == (target.dev(), target.ino()))
}

/// Copies a link. One at the destination is replaced; anything else there is an error.
fn copy_link(source: &Path, destination: &Path) -> Result<(), Error> {
    let target: PathBuf = source.read_link().map_err(Error::io(source, "reading the link"))?;
    let failed = || Error::io(destination, "creating the link");
    if destination.is_symlink() {
        if destination.read_link().is_ok_and(|there| there == target) {
            return Ok(());
        }
        std::fs::remove_file(destination).map_err(failed())?;
    }
    std::os::unix::fs::symlink(&target, destination).map_err(failed())
}

fn copy_contents(
    (source, path): (&File, &Path),
    (target, destination): (&File, &Path),
    is_stopped: &dyn Fn() -> bool,
) -> Result<(), Error> {
    #[cfg(target_os = "linux")]
    if rustix::fs::ioctl_ficlone(target, source).is_ok() {
        return Ok(());
    }
    // What is full or too small is the destination.
    let failed = || {
        |error: io::Error| match error.kind() {
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge
            | io::ErrorKind::ReadOnlyFilesystem => {
                Error::io(destination, "writing the copy")(error)
            }
            _ => Error::io(path, "copying the file")(error),
        }
    };
    let mut at = 0;
    while let Some(data) = next_data(source, at).map_err(failed())? {
        at = data.start;
        while at < data.end {
            let copied = copy_piece(source, target, at, PIECE_BYTES.min(data.end - at));
            let copied = copied.map_err(failed())?;
            if copied == 0 {
                break;
            }
            at += copied;
            if is_stopped() {
                return Err(Error::refused(path, "the copy was stopped before it was complete"));
            }
        }
        if at < data.end {
            break;
        }
    }
    // What is a hole at the end of the source is one here, too.
    let length = source.metadata().map_err(failed())?.len().max(at);
    target.set_len(length).map_err(failed())
}

/// The first part of a file at or after `at` that is not a hole; `None` where there is none.
#[cfg(target_os = "linux")]
fn next_data(file: &File, at: u64) -> io::Result<Option<std::ops::Range<u64>>> {
    use rustix::fs::{SeekFrom, seek};
    use rustix::io::Errno;
    let start = match seek(file, SeekFrom::Data(at)) {
        Ok(start) => start,
        Err(Errno::NXIO) => return Ok(None),
        // A file system that knows no holes.
        Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok(Some(at..u64::MAX)),
        Err(error) => return Err(error.into()),
    };
    match seek(file, SeekFrom::Hole(start)) {
        Ok(end) => Ok(Some(start..end)),
        // It became shorter meanwhile.
        Err(Errno::NXIO) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Without the calls for holes, all of a file is data.
#[cfg(not(target_os = "linux"))]
fn next_data(_: &File, at: u64) -> io::Result<Option<std::ops::Range<u64>>> {
    Ok(Some(at..u64::MAX))
}

/// Copies up to `length` bytes at the position `at`, and returns how many; 0 at the end of the source.
fn copy_piece(mut source: &File, mut target: &File, at: u64, length: u64) -> io::Result<u64> {
    source.seek(SeekFrom::Start(at))?;
    target.seek(SeekFrom::Start(at))?;
    // The standard library leaves the copying to the kernel where that is possible.
    io::copy(&mut io::Read::take(&mut source, length), &mut target)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    const GO_ON: &dyn Fn() -> bool = &|| false;

    #[test]
    fn a_folder_is_copied_with_modes_and_links() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("tree/deep/locked")).unwrap();
        std::fs::write(at("tree/run"), "#!").unwrap();
        std::fs::set_permissions(at("tree/run"), PermissionsExt::from_mode(0o700)).unwrap();
        std::fs::write(at("tree/deep/locked/file"), "text").unwrap();
        std::fs::set_permissions(at("tree/deep/locked"), PermissionsExt::from_mode(0o555)).unwrap();
        symlink("../run", at("tree/deep/link")).unwrap();
        std::fs::create_dir(at("copy")).unwrap();
        std::fs::write(at("copy/run"), "old").unwrap();

        assert!(
            copy(&at("tree"), &at("copy"), false, GO_ON)
                .unwrap_err()
                .to_string()
                .contains("`recursive`")
        );
        // Once more over what is there, except where the mode forbids it to users other than root.
        copy(&at("tree"), &at("copy"), true, GO_ON).unwrap();
        let mode = |name: &str| at(name).metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode("copy/run"), mode("copy/deep/locked")), (0o700, 0o555));
        assert_eq!(std::fs::read(at("copy/deep/link")).unwrap(), b"#!");
        assert!(at("copy/deep/link").is_symlink());
        assert_eq!(std::fs::read(at("copy/deep/locked/file")).unwrap(), b"text");
    }

    #[test]
    fn what_cannot_be_copied_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("tree/below")).unwrap();
        std::fs::write(at("file"), "text").unwrap();
        symlink("tree", at("to-tree")).unwrap();
        symlink("file", at("to-file")).unwrap();
        let fifo = rustix::fs::FileType::Fifo;
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, at("fifo"), fifo, mode, 0).unwrap();
        for (source, destination, reason) in [
            ("tree", "tree", "to itself"),
            ("tree", "tree/below/copy", "to itself"),
            ("tree", "to-tree/new", "to itself"),
            ("tree", "file", "File exists"),
            ("file", "tree", "a folder is there"),
            ("file", "file", "replace the file itself"),
            ("file", "to-file", "replace the file itself"),
            ("file", "fifo", "not a regular file"),
            ("fifo", "new", "not a regular file"),
            ("missing", "new", "No such file"),
            ("file", "missing/new", "No such file"),
            ("to-file", "file", "File exists"),
        ] {
            let error = copy(&at(source), &at(destination), true, GO_ON).unwrap_err().to_string();
            assert!(error.contains(reason), "{source} to {destination}: {error}");
        }
        assert_eq!(std::fs::read(at("file")).unwrap(), b"text");
        assert!(!at("new").exists() && at("tree/below").read_dir().unwrap().next().is_none());
    }

    #[test]
    fn holes_stay_holes() {
        use std::os::unix::fs::{FileExt, MetadataExt};
        const LENGTH: u64 = 4 << 30;
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        for places in [&[][..], &[0], &[1 << 20, 3 << 30], &[LENGTH - 4]] {
            let file = File::create(&from).unwrap();
            file.set_len(LENGTH).unwrap();
            for place in places {
                file.write_all_at(b"data", *place).unwrap();
            }
            copy(&from, &to, false, GO_ON).unwrap();
            let copied = File::open(&to).unwrap();
            let metadata = copied.metadata().unwrap();
            assert_eq!(metadata.len(), LENGTH);
            assert!(metadata.blocks() * 512 < 1 << 20, "{} blocks", metadata.blocks());
            for place in places {
                let mut found = [0; 4];
                copied.read_exact_at(&mut found, *place).unwrap();
                assert_eq!(&found, b"data");
            }
        }
        std::fs::write(&from, "").unwrap();
        copy(&from, &to, false, GO_ON).unwrap();
        assert_eq!(std::fs::read(&to).unwrap(), b"");
    }

    #[test]
    fn a_new_folder_is_copied_as_a_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("tree/a")).unwrap();
        std::fs::write(at("tree/a/file"), "text").unwrap();
        let fifo = rustix::fs::FileType::Fifo;
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, at("tree/fifo"), fifo, mode, 0).unwrap();
        let error = copy(&at("tree"), &at("new"), true, GO_ON).unwrap_err().to_string();
        assert!(error.starts_with(&*at("tree/fifo").to_string_lossy()), "{error}");
        assert_eq!(folder.path().read_dir().unwrap().count(), 1, "nothing is left behind");
        // An error about the copy names the place that the caller knows.
        let error = copy(&at("tree"), &at("none/new"), true, GO_ON).unwrap_err().to_string();
        assert!(error.starts_with(&*at("none/new").to_string_lossy()), "{error}");
        std::fs::remove_file(at("tree/fifo")).unwrap();
        std::fs::set_permissions(at("tree"), PermissionsExt::from_mode(0o750)).unwrap();
        copy(&at("tree"), &at("new/"), true, GO_ON).unwrap();
        assert_eq!(at("new").metadata().unwrap().permissions().mode() & 0o777, 0o750);
        assert_eq!(std::fs::read(at("new/a/file")).unwrap(), b"text");
        assert_eq!(folder.path().read_dir().unwrap().count(), 2);
    }

    #[test]
    fn a_copy_that_is_stopped_leaves_no_half_file() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("file"), "text").unwrap();
        let looks = std::cell::Cell::new(0);
        let error = copy(&at("file"), &at("copy"), false, &|| {
            looks.set(looks.get() + 1);
            looks.get() > 1
        });
        // Where blocks are shared there is no second look.
        if error.is_err() {
            assert_eq!(folder.path().read_dir().unwrap().count(), 1);
        }
        assert!(
            copy(&at("file"), &at("copy"), false, &|| true)
                .unwrap_err()
                .to_string()
                .contains("stopped")
        );
    }
}
