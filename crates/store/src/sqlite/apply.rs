//! Applies writes to the tables, inside of a transaction that the writer begins and ends.

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, params, params_from_iter};

use crate::sqlite::failure::Failure;
use crate::sqlite::rows::{create_thread, leased_thread, newest_turn, own_turn};
use crate::sqlite::{branches, content, jobs, joined, keys, queue, removal, search, text_index};
use crate::{Fragment, StoreError, ThreadChanges, TurnStatus, Write};

/// Applies one write on behalf of the store named `owner`, which must hold the lease of the thread
/// and run the turn. Each arm checks that in this transaction, because another store can have taken
/// the thread over since the previous commit.
pub(crate) fn apply(conn: &Connection, owner: &str, write: &Write) -> Result<(), Failure> {
    match write {
        Write::CreateThread(record) => create_thread(conn, owner, record).map(drop),
        Write::UpdateThread { thread, changes } => update_thread(conn, owner, thread, changes),
        Write::Fork { record, parent, last_turn } => {
            branches::fork(conn, owner, record, parent, last_turn.as_deref())
        }
        Write::RollBack { thread, turns } => branches::roll_back(conn, owner, thread, *turns),
        Write::Job { thread, write } => jobs::apply(conn, owner, thread, write),
        Write::Queue { thread, write } => queue::apply(conn, owner, thread, write),
        Write::AddUsage { thread, token_usage, usage } => {
            crate::sqlite::usage::add(conn, owner, thread, token_usage, usage)
        }
        Write::DeleteThread { thread } => removal::remove(conn, owner, thread),
        Write::StartTurn { thread, turn, started_at_ms } => {
            start_turn(conn, owner, thread, turn, *started_at_ms)
        }
        Write::PutItem { thread, turn, item, kind, status, payload } => {
            let turn = own_turn(conn, owner, thread, turn)?;
            put_item(conn, turn, item, kind, status.as_deref(), payload)
        }
        Write::AppendHistory { thread, turn, fragments, anew } => {
            let turn = match turn {
                Some(turn) => own_turn(conn, owner, thread, turn)?,
                None => newest_turn(conn, owner, thread)?,
            };
            append_history(conn, turn, fragments, *anew)
        }
        Write::FinishTurn { thread, turn, outcome, error, completed_at_ms, duration_ms, usage } => {
            let key = own_turn(conn, owner, thread, turn)?;
            let changed = conn
                .prepare_cached(
                    "UPDATE turn SET status = ?2, owner = NULL, completed_at_ms = ?3,
                         duration_ms = ?4, error = ?5, usage = ?6
                     WHERE pk = ?1 AND status = 0",
                )?
                .execute(params![
                    key,
                    TurnStatus::from(*outcome).code(),
                    completed_at_ms,
                    duration_ms,
                    error,
                    usage
                ])?;
            if changed == 0 {
                let (thread, turn) = (thread.clone(), turn.clone());
                return Err(StoreError::TurnFinished { thread, turn }.into());
            }
            text_index::add_ended(conn, key)?;
            joined::after_turn(conn, key)
        }
    }
}

/// Sets only the given columns, because setting an indexed column rewrites its index.
fn update_thread(
    conn: &Connection,
    owner: &str,
    id: &str,
    changes: &ThreadChanges,
) -> Result<(), Failure> {
    let thread = leased_thread(conn, owner, id)?;
    let text = |value: &Option<String>| value.clone().map(Value::from);
    let nullable = |value: &Option<Option<String>>| value.clone().map(Value::from);
    let columns = [
        ("preview", text(&changes.preview)),
        ("name", nullable(&changes.name)),
        ("model_provider", text(&changes.model_provider)),
        ("model", text(&changes.model)),
        ("cwd", text(&changes.cwd)),
        ("updated_at", changes.updated_at.map(Value::from)),
        ("archived", changes.archived.map(Value::from)),
        ("git_info", nullable(&changes.git_info)),
        ("settings", text(&changes.settings)),
        ("token_usage", nullable(&changes.token_usage)),
        ("extra", nullable(&changes.extra)),
    ];
    let (mut assignments, mut values) = (Vec::new(), vec![Value::from(thread)]);
    for (column, value) in columns {
        if let Some(value) = value {
            values.push(value);
            assignments.push(format!("{column} = ?{}", values.len()));
        }
    }
    if assignments.is_empty() {
        return Ok(());
    }
    let sql = format!("UPDATE thread SET {} WHERE pk = ?1", assignments.join(", "));
    conn.prepare_cached(&sql)?.execute(params_from_iter(values))?;
    if changes.name.is_some() || changes.preview.is_some() {
        let (name, preview): (Option<String>, String) = conn
            .prepare_cached("SELECT name, preview FROM thread WHERE pk = ?1")?
            .query_row([thread], |row| Ok((row.get(0)?, row.get(1)?)))?;
        search::index(conn, thread, name.as_deref(), &preview)?;
    }
    Ok(())
}

fn start_turn(
    conn: &Connection,
    owner: &str,
    thread: &str,
    turn: &str,
    started_at_ms: i64,
) -> Result<(), Failure> {
    let thread_key = leased_thread(conn, owner, thread)?;
    let ordinal = conn
        .prepare_cached(
            "UPDATE thread SET turn_count = turn_count + 1, last_ordinal = last_ordinal + 1,
                 updated_at = max(updated_at, ?2)
             WHERE pk = ?1 RETURNING last_ordinal",
        )?
        .query_row(params![thread_key, started_at_ms.div_euclid(1000)], |row| row.get(0))?;
    let inserted = conn
        .prepare_cached(
            "INSERT INTO turn (pk, thread, id, status, owner, started_at_ms)
             VALUES (?1, ?2, ?3, 0, ?4, ?5) ON CONFLICT (thread, id) DO NOTHING",
        )?
        .execute(params![
            keys::turn_key(thread_key, ordinal)?,
            thread_key,
            turn,
            owner,
            started_at_ms
        ])?;
    if inserted == 0 {
        let (thread, turn) = (thread.to_owned(), turn.to_owned());
        return Err(StoreError::TurnExists { thread, turn }.into());
    }
    Ok(())
}

fn put_item(
    conn: &Connection,
    turn: i64,
    item: &str,
    kind: &str,
    status: Option<&str>,
    payload: &str,
) -> Result<(), Failure> {
    let replaced: Option<(i64, Option<Vec<u8>>)> = conn
        .prepare_cached("SELECT pk, packed FROM item WHERE turn = ?1 AND id = ?2")?
        .query_row(params![turn, item], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let content::Stored { text, packed } = content::store(conn, payload)?;
    if let Some((key, old)) = replaced {
        conn.prepare_cached(
            "UPDATE item SET kind = ?2, status = ?3, payload = ?4, packed = ?5 WHERE pk = ?1",
        )?
        .execute(params![key, kind, status, text, packed])?;
        return content::release(conn, old.as_deref());
    }
    let range = keys::entries_of(turn, turn);
    let last = conn
        .prepare_cached("SELECT pk FROM item WHERE pk >= ?1 AND pk < ?2 ORDER BY pk DESC LIMIT 1")?
        .query_row([range.start, range.end], |row| row.get(0))
        .optional()?;
    let key = keys::next_entry(turn, last, "the number of items in a turn")?;
    conn.prepare_cached(
        "INSERT INTO item (pk, turn, id, kind, status, payload, packed)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?
    .execute(params![key, turn, item, kind, status, text, packed])?;
    Ok(())
}

fn append_history(
    conn: &Connection,
    turn: i64,
    fragments: &[Fragment],
    mut anew: bool,
) -> Result<(), Failure> {
    let range = keys::entries_of(turn, turn);
    let mut last = conn
        .prepare_cached(
            "SELECT pk FROM history WHERE pk >= ?1 AND pk < ?2 ORDER BY pk DESC LIMIT 1",
        )?
        .query_row([range.start, range.end], |row| row.get(0))
        .optional()?;
    let mut insert = conn.prepare_cached(
        "INSERT INTO history (pk, fragment, packed, mark, anew) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    if !fragments.is_empty() {
        let first = keys::next_entry(turn, last, "the model history of a turn")?;
        joined::before_insert(conn, first)?;
    }
    for fragment in fragments {
        let key = keys::next_entry(turn, last, "the model history of a turn")?;
        let content::Stored { text, packed } = content::store(conn, &fragment.text)?;
        insert.execute(params![key, text, packed, fragment.mark, anew])?;
        (last, anew) = (Some(key), false);
    }
    Ok(())
}
