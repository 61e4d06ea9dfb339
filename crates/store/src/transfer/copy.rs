//! Copies all threads of a store to another one, and compares what was copied. A thread is stored completely or not at
//! all, so a copy that was cut short is continued by running it again.
//!
//! Copied are turns, items, history, settings and queues. Usage and jobs stay where they are.

use sha2::{Digest, Sha256};

use super::{Line, Status, export, line, parse_line, transfer_error, writes};
use crate::{Direction, ListQuery, QueueWrite, QueuedEntry, Store, StoreError, Write};

/// Threads that are listed at a time.
const PAGE: u32 = 100;

/// The outcome of a copy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Copied {
    /// Threads that were copied.
    pub copied: u64,
    /// Threads that were in the target already, with the same contents.
    pub present: u64,
    /// Turns of all of them.
    pub turns: u64,
    /// Items of all of them.
    pub items: u64,
}

/// Copies the threads that lists show, archived ones included. Reads each again from the target, and compares it with
/// what was read from the source. A fork is copied completely, and no longer shares the turns of its parent.
///
/// # Errors
/// [`StoreError::Differs`] for a thread that is in the target with other contents; [`StoreError::TurnInFlight`] for one
/// that a server is working on. The threads before it are copied.
pub async fn copy_threads(from: &Store, to: &Store) -> Result<Copied, StoreError> {
    let mut copied = Copied::default();
    for archived in [false, true] {
        let mut cursor = None;
        loop {
            let direction = Direction::Ascending;
            let query =
                ListQuery { limit: PAGE, cursor, direction, archived, ..ListQuery::default() };
            let page = from.threads(query).await?;
            for thread in page.rows {
                copy_thread(from, to, &thread.record.id, &mut copied).await?;
            }
            match page.next_cursor {
                Some(next) => cursor = Some(next),
                None => break,
            }
        }
    }
    Ok(copied)
}

async fn copy_thread(
    from: &Store,
    to: &Store,
    thread: &str,
    copied: &mut Copied,
) -> Result<(), StoreError> {
    let source = match Contents::read(from, thread).await {
        // It was deleted since it was listed.
        Err(StoreError::ThreadNotFound { .. }) => return Ok(()),
        read => read?,
    };
    if source.is_in_progress {
        return Err(StoreError::TurnInFlight { thread: thread.to_owned() });
    }
    match Contents::read(to, thread).await {
        Ok(target) if target.digest == source.digest => copied.present += 1,
        Ok(_) => return Err(StoreError::Differs { thread: thread.to_owned() }),
        Err(StoreError::ThreadNotFound { .. }) => {
            store_thread(to, &source).await?;
            if Contents::read(to, thread).await?.digest != source.digest {
                return Err(StoreError::Differs { thread: thread.to_owned() });
            }
            copied.copied += 1;
        }
        Err(error) => return Err(error),
    }
    copied.turns += source.turns;
    copied.items += source.items;
    Ok(())
}

async fn store_thread(to: &Store, source: &Contents) -> Result<(), StoreError> {
    let (id, mut writes) = writes(source.lines.as_slice(), None)?;
    let entries = source.queue.iter().cloned().map(QueueWrite::Add);
    writes.extend(entries.map(|write| Write::Queue { thread: id.clone(), write }));
    to.commit(writes).await?;
    to.release(&id).await
}

/// A thread as it was read from a store.
#[derive(Default)]
struct Contents {
    /// Those of an export.
    lines: Vec<u8>,
    queue: Vec<QueuedEntry>,
    turns: u64,
    items: u64,
    is_in_progress: bool,
    digest: [u8; 32],
}

impl Contents {
    /// # Errors
    /// [`StoreError::ThreadNotFound`].
    async fn read(store: &Store, thread: &str) -> Result<Self, StoreError> {
        let mut contents = Self::default();
        export(store, thread, |line| {
            contents.lines.extend_from_slice(line.as_bytes());
            contents.lines.push(b'\n');
            Ok(())
        })
        .await?;
        contents.queue = store.queue(thread).await?;
        contents.compare_by()?;
        Ok(contents)
    }

    /// Computes the digest of what a copy has to keep.
    fn compare_by(&mut self) -> Result<(), StoreError> {
        let mut digest = Sha256::new();
        let mut add = |text: &str| {
            digest.update(text.len().to_le_bytes());
            digest.update(text.as_bytes());
        };
        for (at, text) in self.lines.split(|byte| *byte == b'\n').enumerate() {
            if text.is_empty() {
                continue;
            }
            let text = std::str::from_utf8(text).map_err(std::io::Error::other);
            let mut part = parse_line(at + 1, text.map_err(transfer_error)?)?;
            match &mut part {
                // Places outside of turns are joined by a copy, and the last line counts them.
                Line::Turn { turn: None } | Line::End { .. } => continue,
                Line::Turn { turn: Some(turn) } => {
                    self.turns += 1;
                    self.is_in_progress |= matches!(turn.status, Status::InProgress);
                    // As a copy stores turns without them.
                    turn.completed_at_ms.get_or_insert(turn.started_at_ms);
                    turn.duration_ms.get_or_insert(0);
                }
                Line::Item { .. } => self.items += 1,
                Line::Thread(_) | Line::History { .. } => {}
            }
            add(&line(&part)?);
        }
        for entry in &self.queue {
            add(&entry.id);
            add(&entry.payload);
        }
        self.digest = digest.finalize().into();
        Ok(())
    }
}
