//! Edits a file on disk: atomically, and locked against other writers.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::edit::{Edit, apply};
use crate::error::Error;
use crate::layer::{Layer, MAX_FILE_BYTES, text_of, version};
use crate::layer_name::LayerName;

/// Maximum wait for another writer.
const LOCK_WAIT: Duration = Duration::from_secs(10);
/// Symbolic links that are followed.
const MAX_LINKS: usize = 40;

/// A file after its edits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The file, with symbolic links resolved.
    pub path: PathBuf,
    /// `sha256:` and the digest of its bytes.
    pub version: String,
    /// Its text.
    pub text: String,
    /// False if the edits changed nothing.
    pub changed: bool,
}

/// Makes all edits in the file at `path`, or none. `validate` checks the new text before it is
/// written; it runs under the lock and must not write the file itself.
///
/// Symbolic links are followed. The file keeps its mode and, where that is permitted, its owner; a
/// new file is private. Edits that change nothing write nothing. Blocks while it reads and syncs,
/// and up to 10 s for other writers.
///
/// # Errors
/// An error of `validate`, [`Error::Edit`], [`Error::Conflict`], [`Error::TooLarge`],
/// [`Error::NotAFile`], [`Error::Busy`] or [`Error::Write`]. The file is then unchanged.
pub fn write(
    path: &Path,
    expected_version: Option<&str>,
    edits: &[Edit],
    validate: &mut dyn FnMut(&str) -> Result<(), Error>,
) -> Result<Written, Error> {
    let path = target(path).map_err(|cause| io(path, "follow the link", cause))?;
    let folder = path.parent().unwrap_or(Path::new("/"));
    make_private(folder).map_err(|cause| io(folder, "make the folder", cause))?;
    let _lock = lock(&beside(&path, "lock"))?;
    let (old, meta) = read(&path)?;
    let found = version(old.as_bytes());
    if let Some(expected) = expected_version.filter(|expected| *expected != found) {
        return Err(Error::Conflict { expected: expected.to_owned(), found });
    }
    let text = apply(&old, edits).map_err(|error| {
        let name = LayerName::User { file: path.clone() };
        Error::of_all(Layer::syntax_mistakes(&name, &old)).unwrap_or(error)
    })?;
    if text == old {
        return Ok(Written { path, version: found, text, changed: false });
    }
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(Error::TooLarge { path, limit: MAX_FILE_BYTES });
    }
    validate(&text)?;
    if meta.as_ref().is_some_and(|meta| meta.permissions().readonly()) {
        return Err(io(&path, "write", ErrorKind::PermissionDenied.into()));
    }
    let temporary = beside(&path, "tmp");
    let replaced = store(&temporary, &text, meta.as_ref())
        .and_then(|()| std::fs::rename(&temporary, &path))
        // tidy: open the folder, to sync it.
        .and_then(|()| File::open(folder)?.sync_all());
    if let Err(cause) = replaced {
        // A file that stays behind is replaced by the next writer.
        let _ = std::fs::remove_file(&temporary);
        return Err(io(&path, "write", cause));
    }
    Ok(Written { path, version: version(text.as_bytes()), text, changed: true })
}

fn io(path: &Path, action: &'static str, cause: std::io::Error) -> Error {
    Error::Write { path: path.to_owned(), action, cause: Arc::new(cause) }
}

/// Follows the symbolic links at `path`. The file that they lead to need not exist.
fn target(path: &Path) -> std::io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        match std::fs::read_link(&path) {
            Ok(next) => path = path.parent().unwrap_or(Path::new("/")).join(next),
            // Not a symbolic link, or nothing.
            Err(e) if matches!(e.kind(), ErrorKind::InvalidInput | ErrorKind::NotFound) => {
                return Ok(path);
            }
            Err(e) => return Err(e),
        }
    }
    Err(std::io::Error::other("too many symbolic links, or links in a cycle"))
}

fn make_private(folder: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// `.<name>.<ending>` in the folder of `path`. A fixed name suffices: a writer holds the lock, and
/// replaces what a killed writer left.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".");
    name.push(ending);
    path.with_file_name(name)
}

/// Locks the file at `path` until the returned handle is dropped or the process ends.
fn lock(path: &Path) -> Result<File, Error> {
    let failed = |cause| io(path, "lock", cause);
    // tidy: open the lock, in a folder that only the user writes.
    let file = private(OpenOptions::new().create(true).write(true), path).map_err(failed)?;
    let deadline = Instant::now() + LOCK_WAIT;
    let mut pause = Duration::from_micros(100);
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(std::fs::TryLockError::Error(cause)) => return Err(failed(cause)),
            Err(std::fs::TryLockError::WouldBlock) if Instant::now() > deadline => {
                return Err(Error::Busy { path: path.to_owned(), held_for: LOCK_WAIT });
            }
            Err(std::fs::TryLockError::WouldBlock) => std::thread::sleep(pause),
        }
        pause = (pause * 2).min(Duration::from_millis(2));
    }
}

fn private(options: &mut OpenOptions, path: &Path) -> std::io::Result<File> {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options.open(path)
}

fn read(path: &Path) -> Result<(String, Option<std::fs::Metadata>), Error> {
    let failed = |cause| io(path, "read", cause);
    let refused = |error| match error {
        files::Error::TooLarge { path, .. } => Error::TooLarge { path, limit: MAX_FILE_BYTES },
        files::Error::NotRegular { path, kind } => Error::NotAFile { path, kind },
        error => failed(error.into_io()),
    };
    let opened = match files::open(path) {
        Ok(opened) => opened,
        Err(error) if error.is_not_found() => return Ok((String::new(), None)),
        Err(error) => return Err(refused(error)),
    };
    let meta = opened.metadata.clone();
    let bytes = opened.read(path, MAX_FILE_BYTES).map_err(refused)?;
    let text =
        text_of(bytes).map_err(|_| failed(files::Error::NotText(path.to_owned()).into_io()))?;
    Ok((text, Some(meta)))
}

fn store(path: &Path, text: &str, like: Option<&std::fs::Metadata>) -> std::io::Result<()> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    // tidy: open a new file.
    let mut file = private(OpenOptions::new().create_new(true).write(true), path)?;
    file.write_all(text.as_bytes())?;
    if let Some(like) = like {
        #[cfg(unix)]
        {
            use std::os::unix::fs::{MetadataExt, fchown};
            let own = file.metadata()?;
            if (own.uid(), own.gid()) != (like.uid(), like.gid()) {
                // Only root may change the owner; otherwise the file becomes ours.
                let _ = fchown(&file, Some(like.uid()), Some(like.gid()));
            }
        }
        file.set_permissions(like.permissions())?;
    }
    file.sync_all()
}
