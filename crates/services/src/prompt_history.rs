//! `history.jsonl` in the agent's home: what users typed, one JSON object a line, for interfaces
//! that offer it again. Shared by all servers on a home.

use std::fs::{File, Metadata, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use files::Opened;
use serde::Serialize;

/// Name of the file.
pub const FILE: &str = "history.jsonl";

/// One line.
#[derive(Serialize)]
pub struct HistoryEntry<'e> {
    /// The thread.
    pub session_id: &'e str,
    /// Seconds since the epoch.
    pub ts: i64,
    pub text: &'e str,
}

/// The file. It stays open from the first prompt on: opening and closing it each time would take as many
/// system calls again, and wake what watches the home.
pub struct PromptHistory {
    path: PathBuf,
    /// Held during a write: the lock of the file keeps out other processes only.
    opened: Mutex<Option<Opened>>,
}

impl PromptHistory {
    /// The file in this home; it is opened with the first prompt.
    pub fn new(home: &Path) -> Self {
        Self { path: home.join(FILE), opened: Mutex::default() }
    }

    /// Appends a line. Above `max_bytes` the oldest lines go, down to four fifths of it; a line that is
    /// longer by itself is not kept. Blocks on other writers, for 2 s at most.
    ///
    /// # Errors
    /// The file cannot be opened, locked, read or written; the next prompt tries again.
    pub fn append(&self, entry: &HistoryEntry<'_>, max_bytes: Option<u64>) -> io::Result<()> {
        let mut line = serde_json::to_vec(entry).map_err(io::Error::other)?;
        line.push(b'\n');
        let mut place = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut opened, len) = self.locked(place.take())?;
        write(&mut opened.file, len, &line, max_bytes)?;
        opened.file.unlock()?;
        *place = Some(opened);
        Ok(())
    }

    /// The file that is at the path now, locked, and its length. `kept` was opened before.
    fn locked(&self, kept: Option<Opened>) -> io::Result<(Opened, u64)> {
        if let Some(kept) = kept {
            lock(&kept.file)?;
            match self.path.metadata() {
                Ok(now) if is_same(&kept.metadata, &now) => return Ok((kept, now.len())),
                // It was removed or replaced, which this server follows.
                _ => {}
            }
        }
        let opened = files::append(&self.path).map_err(files::Error::into_io)?;
        // The file itself is the lock, so it is never replaced: it is shortened in place.
        lock(&opened.file)?;
        let len = opened.file.metadata()?.len();
        Ok((opened, len))
    }
}

#[cfg(unix)]
fn is_same(before: &Metadata, now: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    (before.dev(), before.ino()) == (now.dev(), now.ino())
}

/// On other systems, an open file cannot be removed or replaced.
#[cfg(not(unix))]
fn is_same(_: &Metadata, _: &Metadata) -> bool {
    true
}

/// Appends to a file of `len` bytes.
fn write(file: &mut File, len: u64, line: &[u8], max_bytes: Option<u64>) -> io::Result<()> {
    let len = end_whole_line(file, len)?;
    let size = line.len() as u64;
    if let Some(max) = max_bytes.filter(|max| len + size > *max) {
        shorten(file, (max / 5 * 4).saturating_sub(size))?;
        if size > max {
            return Ok(());
        }
    }
    file.write_all(line)
}

/// Maximum wait of a prompt for another server's lock; after that it is not kept.
const LOCK_WAIT: Duration = Duration::from_secs(2);

fn lock(file: &File) -> io::Result<()> {
    let deadline = Instant::now() + LOCK_WAIT;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if Instant::now() > deadline => {
                return Err(io::Error::other("another program has had it locked for 2 s"));
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// Removes a line that a crash left unfinished; returns the length of the file, which was `len`.
fn end_whole_line(file: &mut File, len: u64) -> io::Result<u64> {
    let Some(before_last) = len.checked_sub(1) else { return Ok(0) };
    if byte_at(file, before_last)? == b'\n' {
        return Ok(len);
    }
    // A crash leaves at most one unfinished line.
    let text = tail(file, len, MAX_LINE)?;
    match text.iter().rposition(|byte| *byte == b'\n') {
        Some(at) => {
            let torn = (text.len() - at - 1) as u64;
            file.set_len(len - torn)?;
            Ok(len - torn)
        }
        None if len <= MAX_LINE => file.set_len(0).map(|()| 0),
        None => {
            let why = format!("it does not end in a line of at most {MAX_LINE} bytes; remove it");
            Err(io::Error::new(io::ErrorKind::InvalidData, why))
        }
    }
}

#[cfg(unix)]
fn byte_at(file: &File, at: u64) -> io::Result<u8> {
    let mut byte = [0];
    std::os::unix::fs::FileExt::read_exact_at(file, &mut byte, at)?;
    Ok(byte[0])
}

#[cfg(not(unix))]
fn byte_at(mut file: &File, at: u64) -> io::Result<u8> {
    let mut byte = [0];
    file.seek(SeekFrom::Start(at))?;
    file.read_exact(&mut byte)?;
    Ok(byte[0])
}

/// Longest line, in bytes: larger prompts are not accepted.
const MAX_LINE: u64 = 128 << 20;

/// Keeps the newest whole lines within `room`.
fn shorten(file: &mut File, room: u64) -> io::Result<()> {
    let len = file.metadata()?.len();
    // With the byte before it, which shows whether a line begins there.
    let text = tail(file, len, room.saturating_add(1))?;
    let start = match text.len() as u64 > room {
        false => 0,
        // A line that is cut is removed as a whole.
        true => text.iter().position(|byte| *byte == b'\n').map_or(text.len(), |at| at + 1),
    };
    file.set_len(0)?;
    file.write_all(&text[start..])
}

/// The last bytes of a file of `len` bytes.
fn tail(file: &mut File, len: u64, bytes: u64) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    file.seek(SeekFrom::Start(len.saturating_sub(bytes)))?;
    file.take(bytes).read_to_end(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_newest_lines_stay_whole_and_within_the_bound(
            texts in proptest::collection::vec(".{0,60}", 1..40),
            max in 60u64..600,
            torn in "[a-z]{0,20}",
        ) {
            let home = tempfile::tempdir().unwrap();
            let path = home.path().join(FILE);
            std::fs::write(&path, torn).unwrap();
            let history = PromptHistory::new(home.path());
            let mut written = Vec::new();
            for (ts, text) in texts.iter().enumerate() {
                let entry = HistoryEntry { session_id: "t", ts: ts as i64, text };
                history.append(&entry, Some(max)).unwrap();
                written.push(format!("{}\n", serde_json::to_string(&entry).unwrap()));
                let file = std::fs::read_to_string(&path).unwrap();
                prop_assert!(file.len() as u64 <= max);
                let tail = file.split_inclusive('\n').collect::<Vec<_>>();
                let fits = written.last().unwrap().len() as u64 <= max;
                prop_assert_eq!(!tail.is_empty() && tail.last().unwrap() == written.last().unwrap(), fits);
                for line in tail {
                    prop_assert!(written.iter().any(|whole| whole == line));
                }
            }
        }
    }

    #[test]
    fn what_happens_to_the_file_between_two_prompts_is_followed() {
        type Change = fn(&Path);
        let cases: [(&str, Change, &str); 5] = [
            ("nothing", |_| {}, "ab"),
            ("removed", |path| std::fs::remove_file(path).unwrap(), "b"),
            ("emptied", |path| std::fs::write(path, "").unwrap(), "b"),
            (
                "replaced",
                |path| {
                    let other = path.with_extension("new");
                    std::fs::write(&other, "{\"text\":\"x\"}\n").unwrap();
                    std::fs::rename(other, path).unwrap();
                },
                "xb",
            ),
            (
                "written by another server",
                |path| {
                    let other = PromptHistory::new(path.parent().unwrap());
                    other
                        .append(&HistoryEntry { session_id: "u", ts: 1, text: "o" }, None)
                        .unwrap();
                },
                "aob",
            ),
        ];
        for (case, change, expected) in cases {
            let home = tempfile::tempdir().unwrap();
            let path = home.path().join(FILE);
            let history = PromptHistory::new(home.path());
            let keep = |text| history.append(&HistoryEntry { session_id: "t", ts: 0, text }, None);
            keep("a").unwrap();
            change(&path);
            keep("b").unwrap();
            let lines = std::fs::read_to_string(&path).unwrap();
            let text = |line| {
                let line: serde_json::Value = serde_json::from_str(line).unwrap();
                line["text"].as_str().unwrap().to_owned()
            };
            assert_eq!(lines.lines().map(text).collect::<String>(), expected, "{case}");
        }
    }
}
