//! The output and error files of a batch. They are generated from the store in the order of lines,
//! so that a node that continues another node's file writes the same bytes.

use sha2::{Digest, Sha256};

use gateway_store::database::Database;
use gateway_store::records::batches::Batch;
use gateway_store::records::files::{self, CHUNK, File, Purpose};
use gateway_store::records::{batch_lines, ids};

/// Results per read: a single one may have 32 MB.
const AT_ONCE: u32 = 8;

/// Writes the file with the responses (`failed`: with the errors). Returns its id, or `None` when
/// there is nothing to write.
///
/// # Errors
/// The store's; the call may be repeated.
pub(super) async fn write(
    database: &Database,
    batch: &Batch,
    failed: bool,
    now: i64,
) -> Result<Option<Box<str>>, gateway_store::Error> {
    let first = batch_lines::results(database, &batch.id, failed, -1, 1).await?;
    if first.is_empty() {
        return Ok(None);
    }
    let id = id(&batch.id, failed);
    let (written, complete) = match files::progress(database, &id).await? {
        Some(progress) => progress,
        None => begin(database, batch, &id, failed, now).await?,
    };
    if !complete {
        fill(database, batch, failed, &id, written).await?;
        let gone = || gateway_store::Error::unavailable("a file of a batch was deleted");
        files::complete(database, &id).await?.ok_or_else(gone)?;
    }
    Ok(Some(id))
}

/// Deterministic: a batch has one file of each kind.
fn id(batch: &str, failed: bool) -> Box<str> {
    let kind = if failed { "error" } else { "output" };
    let hash = Sha256::digest(format!("{batch}:{kind}"));
    let time: String = batch.trim_start_matches("batch_").chars().take(12).collect();
    format!("file-{time}{}", ids::hex(&hash[..10])).into()
}

async fn begin(
    database: &Database,
    batch: &Batch,
    id: &str,
    failed: bool,
    now: i64,
) -> Result<(u64, bool), gateway_store::Error> {
    let kind = if failed { "error" } else { "output" };
    let file = File {
        id: id.into(),
        project: batch.project.clone(),
        purpose: Purpose::BatchOutput.name().into(),
        filename: format!("{}_{kind}.jsonl", batch.id).into(),
        bytes: 0,
        created_at: now,
        expires_at: batch.output_expires_after.map(|after| now.saturating_add(after)),
    };
    files::insert(database, &file).await?;
    Ok((0, false))
}

/// Appends what follows the first `written` bytes.
async fn fill(
    database: &Database,
    batch: &Batch,
    failed: bool,
    id: &str,
    written: u64,
) -> Result<(), gateway_store::Error> {
    let (mut buffer, mut start, mut after) = (Vec::new(), 0, -1);
    loop {
        let results = batch_lines::results(database, &batch.id, failed, after, AT_ONCE).await?;
        let is_last = results.is_empty();
        for (number, text) in results {
            after = number;
            buffer.extend_from_slice(text.as_bytes());
            buffer.push(b'\n');
        }
        let mut from = 0;
        while buffer.len() - from >= CHUNK || (is_last && from < buffer.len()) {
            let chunk = &buffer[from..buffer.len().min(from + CHUNK)];
            let end = start + chunk.len() as u64;
            if end > written {
                let moved = || gateway_store::Error::unavailable("another node writes a file");
                files::append(database, id, start, chunk).await?.ok_or_else(moved)?;
            }
            (start, from) = (end, from + chunk.len());
        }
        buffer.drain(..from);
        if is_last {
            return Ok(());
        }
    }
}
