//! `history.jsonl` in the agent's home: what users typed, one JSON object a line, for interfaces
//! that offer it again. Shared by all servers on a home.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;

/// Name of the file.
pub(crate) const FILE: &str = "history.jsonl";

/// One line.
#[derive(Serialize)]
pub(crate) struct Entry<'e> {
    /// The thread.
    pub(crate) session_id: &'e str,
    /// Seconds since the epoch.
    pub(crate) ts: i64,
    pub(crate) text: &'e str,
}

/// Appends a line. Above `max_bytes` the oldest lines go, down to four fifths of it; a line that is
/// longer by itself is not kept. Blocks on other writers, for 2 s at most.
pub(crate) fn append(
    home: &Path,
    entry: &Entry<'_>,
    max_bytes: Option<u64>,
) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(entry).map_err(std::io::Error::other)?;
    line.push(b'\n');
    let path = home.join(FILE);
    let mut options = OpenOptions::new();
    options.read(true).create(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&path)?;
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

/// How long a prompt waits for another server's; past it the prompt is not kept.
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

/// Ends a line that a crash left unfinished by taking it away; gives the length.
fn end_whole_line(file: &mut File) -> std::io::Result<u64> {
    let len = file.metadata()?.len();
    if len == 0 {
        return Ok(0);
    }
    let mut last = [0];
    file.seek(SeekFrom::Start(len - 1))?;
    file.read_exact(&mut last)?;
    if last == *b"\n" {
        return Ok(len);
    }
    let text = all(file)?;
    let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    file.set_len(whole as u64)?;
    Ok(whole as u64)
}

/// Keeps the newest whole lines within `room`.
fn shorten(file: &mut File, room: u64) -> std::io::Result<()> {
    let text = all(file)?;
    let from = text.len().saturating_sub(usize::try_from(room).unwrap_or(usize::MAX));
    let start = match from {
        0 => 0,
        // The line that `from` cuts goes as a whole.
        _ => text[from - 1..]
            .iter()
            .position(|byte| *byte == b'\n')
            .map_or(text.len(), |at| from + at),
    };
    file.set_len(0)?;
    file.write_all(&text[start..])
}

fn all(file: &mut File) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.read_to_end(&mut text)?;
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
                let entry = Entry { session_id: "t", ts: ts as i64, text };
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
