//! Finds the rows of threads and turns by their ids.

use rusqlite::{Connection, OptionalExtension, params};

use crate::sqlite::failure::Failure;
use crate::sqlite::{keys, search};
use crate::{StoreError, ThreadRecord};

/// Row id of a thread.
pub(crate) fn find_thread(conn: &Connection, thread: &str) -> Result<i64, Failure> {
    conn.prepare_cached("SELECT pk FROM thread WHERE id = ?1 AND deleted = 0")?
        .query_row([thread], |row| row.get(0))
        .optional()?
        .ok_or_else(|| StoreError::ThreadNotFound { thread: thread.to_owned() }.into())
}

/// Row id of a thread that `owner` may write to.
pub(crate) fn leased_thread(conn: &Connection, owner: &str, thread: &str) -> Result<i64, Failure> {
    let found: Option<(i64, bool)> = conn
        .prepare_cached("SELECT pk, lease IS ?2 FROM thread WHERE id = ?1 AND deleted = 0")?
        .query_row([thread, owner], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    match found {
        Some((key, true)) => Ok(key),
        Some((_, false)) => Err(StoreError::LeaseLost { thread: thread.to_owned() }.into()),
        None => Err(StoreError::ThreadNotFound { thread: thread.to_owned() }.into()),
    }
}

/// Key of a turn of the thread itself that `owner` may write to: it holds the lease of the thread,
/// and runs the turn unless that has ended.
pub(crate) fn own_turn(
    conn: &Connection,
    owner: &str,
    thread: &str,
    turn: &str,
) -> Result<i64, Failure> {
    let found: Option<(i64, bool)> = conn
        .prepare_cached(
            "SELECT turn.pk, thread.lease IS ?3 AND (turn.status <> 0 OR turn.owner IS ?3)
             FROM thread CROSS JOIN turn ON turn.thread = thread.pk
             WHERE thread.id = ?1 AND turn.id = ?2",
        )?
        .query_row([thread, turn, owner], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    match found {
        Some((key, true)) => Ok(key),
        Some((_, false)) => Err(StoreError::LeaseLost { thread: thread.to_owned() }.into()),
        None => {
            leased_thread(conn, owner, thread)?;
            let (thread, turn) = (thread.to_owned(), turn.to_owned());
            Err(StoreError::TurnNotFound { thread, turn }.into())
        }
    }
}

/// Key of the newest turn of a thread that `owner` may write to, or of the position before its
/// first own turn.
pub(crate) fn newest_turn(conn: &Connection, owner: &str, thread: &str) -> Result<i64, Failure> {
    let found: Option<(i64, i64, bool)> = conn
        .prepare_cached(
            "SELECT pk, last_ordinal, lease IS ?2 FROM thread WHERE id = ?1 AND deleted = 0",
        )?
        .query_row([thread, owner], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    match found {
        Some((thread, ordinal, true)) => Ok(keys::turn_key(thread, ordinal)?),
        Some((_, _, false)) => Err(StoreError::LeaseLost { thread: thread.to_owned() }.into()),
        None => Err(StoreError::ThreadNotFound { thread: thread.to_owned() }.into()),
    }
}

/// Stores a thread with its lease, and returns its row id.
pub(crate) fn create_thread(
    conn: &Connection,
    owner: &str,
    record: &ThreadRecord,
) -> Result<i64, Failure> {
    let inserted = conn
        .prepare_cached(
            "INSERT INTO thread (id, session_id, forked_from_id, preview, name, model_provider,
                 model, cwd, created_at, updated_at, source_kind, source, archived, git_info,
                 settings, cli_version, token_usage, extra, lease)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17,
                 ?18, ?19)
             ON CONFLICT (id) DO NOTHING",
        )?
        .execute(params![
            record.id,
            record.session_id,
            record.forked_from_id,
            record.preview,
            record.name,
            record.model_provider,
            record.model,
            record.cwd,
            record.created_at,
            record.updated_at,
            record.source_kind,
            record.source,
            record.archived,
            record.git_info,
            record.settings,
            record.cli_version,
            record.token_usage,
            record.extra,
            owner,
        ])?;
    if inserted == 0 {
        return Err(StoreError::ThreadExists { thread: record.id.clone() }.into());
    }
    let key = keys::thread_key(conn.last_insert_rowid())?;
    search::index(conn, key, record.name.as_deref(), &record.preview)?;
    Ok(key)
}
