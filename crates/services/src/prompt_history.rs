//! `history.jsonl` in the agent's home: what users typed, one JSON object a line, for interfaces
//! that offer it again. Shared by all servers on a home.

use std::fs::{File, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, Instant};

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

/// Appends a line. Above `max_bytes` the oldest lines go, down to four fifths of it; a line that is
/// longer by itself is not kept. Blocks on other writers, for 2 s at most.
pub fn append(
    home: &Path,
    entry: &HistoryEntry<'_>,
    max_bytes: Option<u64>,
) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(entry).map_err(std::io::Error::other)?;
    line.push(b'\n');
    let path = home.join(FILE);
    let files::Opened { mut file, .. } = files::append(&path).map_err(files::Error::into_io)?;
    // The file itself is the lock, so it is never replaced: it is shortened in place.
    lock(&file)?;
    let len = end_whole_line(&mut file)?;
    let size = line.len() as u64;
    if let Some(max) = max_bytes.filter(|max| len + size > *max) {
        shorten(&mut file, (max / 5 * 4).saturating_sub(size))?;
        if size > max {
            return Ok(());
        }
    }
    file.write_all(&line)
}

/// Maximum wait of a prompt for another server's lock; after that it is not kept.
const LOCK_WAIT: Duration = Duration::from_secs(2);

fn lock(file: &File) -> std::io::Result<()> {
    let deadline = Instant::now() + LOCK_WAIT;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if Instant::now() > deadline => {
                return Err(std::io::Error::other("another program has had it locked for 2 s"));
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// Removes a line that a crash left unfinished; returns the length of the file.
fn end_whole_line(file: &mut File) -> std::io::Result<u64> {
    let Ok(before_last) = file.seek(SeekFrom::End(-1)) else {
        // There is no byte before its end, or it cannot be read at all.
        return file.metadata().map(|metadata| metadata.len());
    };
    let len = before_last + 1;
    let mut last = [0];
    file.read_exact(&mut last)?;
    if last == *b"\n" {
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
            Err(std::io::Error::new(std::io::ErrorKind::InvalidData, why))
        }
    }
}

/// Longest line, in bytes: larger prompts are not accepted.
const MAX_LINE: u64 = 128 << 20;

/// Keeps the newest whole lines within `room`.
fn shorten(file: &mut File, room: u64) -> std::io::Result<()> {
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
fn tail(file: &mut File, len: u64, bytes: u64) -> std::io::Result<Vec<u8>> {
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
            let mut written = Vec::new();
            for (ts, text) in texts.iter().enumerate() {
                let entry = HistoryEntry { session_id: "t", ts: ts as i64, text };
                append(home.path(), &entry, Some(max)).unwrap();
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
}
