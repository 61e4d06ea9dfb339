//! The server's own log, `<log_dir>/agentd.log`: what went wrong, one line each. Nothing is made on
//! disk before there is something to say.

use std::fs::{DirBuilder, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// A larger file is put aside.
const MAX_BYTES: u64 = 10 * 1024 * 1024;
/// Files that are kept besides the one that is written.
const KEPT: usize = 3;
/// Longest text of a line, in bytes.
const MAX_LINE: usize = 8 * 1024;

/// See the module.
#[derive(Default)]
pub(crate) struct Log {
    open: Mutex<Option<Open>>,
}

struct Open {
    path: PathBuf,
    file: File,
    len: u64,
}

impl Log {
    /// Writes a line into the log of that folder: the time in RFC 3339, `WARN`, the part of the
    /// server that it is about, what happened. A log that cannot be written stops nothing.
    pub(crate) fn warn(&self, dir: &Path, now_ms: i64, about: &str, message: &str) {
        let mut end = message.len().min(MAX_LINE);
        while !message.is_char_boundary(end) {
            end -= 1;
        }
        let message = message[..end].replace(['\n', '\r'], " ⏎ ");
        let time = jiff::Timestamp::from_millisecond(now_ms).unwrap_or_default();
        let line = format!("{time:.3} WARN {about}: {message}\n");
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.as_ref().is_none_or(|open| open.path.parent() != Some(dir)) {
            *open = Open::new(dir).ok();
        }
        if let Some(log) = &mut *open
            && log.write(line.as_bytes()).is_err()
        {
            // Opened anew with the next line.
            *open = None;
        }
    }
}

impl Open {
    fn new(dir: &Path) -> std::io::Result<Self> {
        let mut builder = DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(dir)?;
        let path = dir.join("agentd.log");
        let files::Opened { file, metadata } =
            files::append(&path).map_err(files::ReadError::into_io)?;
        Ok(Self { path, file, len: metadata.len() })
    }

    fn write(&mut self, line: &[u8]) -> std::io::Result<()> {
        if self.len + line.len() as u64 > MAX_BYTES {
            self.rotate()?;
        }
        self.file.write_all(line)?;
        self.len += line.len() as u64;
        Ok(())
    }

    fn rotate(&mut self) -> std::io::Result<()> {
        let aside = |n: usize| self.path.with_file_name(format!("agentd.{n}.log"));
        for n in (1..KEPT).rev() {
            match std::fs::rename(aside(n), aside(n + 1)) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e),
                _ => {}
            }
        }
        std::fs::rename(&self.path, aside(1))?;
        *self = Self::new(self.path.parent().unwrap_or(Path::new("/")))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn lines_are_one_line_each_and_files_go_round() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("deep/log");
        let log = Log::default();
        log.warn(&dir, 0, "store", "it failed\nbadly");
        let text = std::fs::read_to_string(dir.join("agentd.log")).unwrap();
        assert_eq!(text, "1970-01-01T00:00:00.000Z WARN store: it failed ⏎ badly\n");
        let long = "x".repeat(MAX_LINE);
        for _ in 0..5 * MAX_BYTES / MAX_LINE as u64 {
            log.warn(&dir, 0, "a", &long);
        }
        let mut names: Vec<String> = std::fs::read_dir(&dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["agentd.1.log", "agentd.2.log", "agentd.3.log", "agentd.log"]);
        for name in names {
            assert!(dir.join(name).metadata().unwrap().len() <= MAX_BYTES);
        }
    }
}
