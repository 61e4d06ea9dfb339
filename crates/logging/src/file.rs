//! A server's log file, `<log_dir>/agentd.log`. Nothing is created on disk before the first line; a
//! full file is put aside, and the oldest one goes.

use std::fs::{DirBuilder, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tracing_subscriber::fmt::MakeWriter;

const NAME: &str = "agentd.log";
/// A file that would become longer is put aside.
const MAX_BYTES: u64 = 10 * 1024 * 1024;
/// Files that are kept besides the one that is written.
const KEPT: usize = 3;

/// The log file of one server. Clones write to the same file.
#[derive(Clone, Default)]
pub struct LogFile(Arc<Shared>);

#[derive(Default)]
struct Shared {
    folder: OnceLock<Box<dyn Fn() -> PathBuf + Send + Sync>>,
    open: Mutex<Option<Open>>,
}

struct Open {
    path: PathBuf,
    file: File,
    len: u64,
}

impl LogFile {
    /// Sets how the file's folder is found. It is called for every line, so that a change of the
    /// configuration counts at once. Lines before the first call are dropped; a second call has no
    /// effect.
    pub fn set_folder(&self, folder: impl Fn() -> PathBuf + Send + Sync + 'static) {
        // The one error is that a folder is set already.
        let _ = self.0.folder.set(Box::new(folder));
    }

    /// The file that the next line goes to; none before a folder is set.
    #[must_use]
    pub fn path(&self) -> Option<PathBuf> {
        self.0.folder.get().map(|folder| folder().join(NAME))
    }
}

impl<'w> MakeWriter<'w> for LogFile {
    type Writer = &'w LogFile;

    fn make_writer(&'w self) -> Self::Writer {
        self
    }
}

impl Write for &LogFile {
    /// Writes a whole line.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let Some(folder) = self.0.folder.get() else { return Ok(line.len()) };
        let folder = folder();
        let mut open = self.0.open.lock().unwrap_or_else(PoisonError::into_inner);
        let log = match open.take().filter(|open| open.path.parent() == Some(&folder)) {
            Some(log) => log,
            None => Open::new(&folder)?,
        };
        // After an error the file is opened again with the next line.
        *open = Some(log.write(line)?);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Open {
    fn new(folder: &Path) -> io::Result<Self> {
        let mut builder = DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(folder)?;
        let path = folder.join(NAME);
        let files::Opened { file, metadata } =
            files::append(&path).map_err(files::Error::into_io)?;
        Ok(Self { path, file, len: metadata.len() })
    }

    fn write(mut self, line: &[u8]) -> io::Result<Self> {
        if self.len + line.len() as u64 > MAX_BYTES {
            self = self.rotate()?;
        }
        self.file.write_all(line)?;
        self.len += line.len() as u64;
        Ok(self)
    }

    fn rotate(self) -> io::Result<Self> {
        let aside = |n: usize| self.path.with_file_name(format!("agentd.{n}.log"));
        for n in (1..KEPT).rev() {
            match std::fs::rename(aside(n), aside(n + 1)) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
                _ => {}
            }
        }
        std::fs::rename(&self.path, aside(1))?;
        Self::new(self.path.parent().unwrap_or(Path::new("/")))
    }
}
