//! Makes salvaged rows consistent: recreates threads whose row is lost from their turns, and
//! removes lost turns from segments. Then reports the losses of each thread.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::{Connection, params};

use super::ThreadLoss;
use super::refill::{Losses, Lost};
use super::scan::{Listed, Scan};
use crate::sqlite::failure::Failure;
use crate::sqlite::lineage::{Lineage, Segment};
use crate::sqlite::{content, keys, removal};

/// Recreates the lost rows of threads, with the id from an index or a generated one. Deleted
/// threads stay deleted.
pub(super) fn revive(conn: &Connection, scan: &Scan, losses: &mut Losses) -> Result<(), Failure> {
    let ids = lost_ids(conn, scan)?;
    let used = conn
        .prepare(
            "SELECT DISTINCT thread FROM turn WHERE thread NOT IN (SELECT pk FROM thread)
             UNION SELECT source FROM segment WHERE source NOT IN (SELECT pk FROM thread)
             UNION SELECT pk >> ?1 FROM history WHERE pk >> ?1 NOT IN (SELECT pk FROM thread)",
        )?
        .query_map([keys::ENTRY_BITS], |row| row.get(0))?
        .collect::<Result<Vec<i64>, _>>()?;
    for thread in ids.keys().copied().chain(used).collect::<BTreeSet<i64>>() {
        let (turns, last, from, to): (i64, Option<i64>, Option<i64>, Option<i64>) = conn
            .query_row(
                "SELECT count(*), max(pk), min(nullif(started_at_ms, 0)) / 1000,
                 max(nullif(started_at_ms, 0)) / 1000
             FROM turn WHERE thread = ?1",
                [thread],
                |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)),
            )?;
        let last = last.max(last_with_history(conn, thread)?);
        let unlisted = Listed::default();
        let listed = scan.indexed.listed.get(&thread);
        // Lists and their indexes omit threads without a turn.
        let was_listed = listed.is_some();
        let listed = listed.unwrap_or(&unlisted);
        let times = || listed.times.iter().copied();
        let open_from: Option<i64> = conn.query_row(
            "SELECT max(last) + 1 FROM segment WHERE thread = ?1",
            [thread],
            |row| row.get(0),
        )?;
        let shows_turns = turns > 0 || open_from.is_some() || last.is_some();
        let id = match ids.get(&thread) {
            Some(id) => id.clone(),
            None if shows_turns => format!("00000000-0000-7000-8000-{thread:012x}"),
            None => deleted_id(thread),
        };
        let deleted = id == deleted_id(thread);
        let open_from = open_from.unwrap_or(0);
        conn.execute(
            "INSERT OR IGNORE INTO thread (pk, id, turn_count, created_at, updated_at, archived,
                 source_kind, model_provider, cwd, preview, session_id, model, cli_version, source,
                 settings, last_ordinal, open_from, deleted)
             VALUES (?1, ?2, ?3, ?4, ?5, ?10, ?11, '', ?9, '', ?2, '', '', '', '', ?6, ?7, ?8)",
            params![
                thread,
                id,
                turns.max((shows_turns || was_listed).into()),
                times().chain(from).min().unwrap_or(0),
                times().chain(to).max().unwrap_or(0),
                last.map_or(0, keys::ordinal).max(open_from),
                open_from,
                deleted,
                listed.folder.as_deref().unwrap_or_default(),
                listed.archived,
                // A kind that lists show by default.
                listed.source_kind.as_deref().unwrap_or("cli")
            ],
        )?;
        if !deleted {
            losses.threads.insert(thread);
        }
    }
    // A row that is older than its turns would assign a used ordinal to the next turn.
    conn.execute(
        "UPDATE thread SET turn_count = max(turn_count, 1), last_ordinal = newest.pk & ?1
         FROM (SELECT thread, max(pk) AS pk FROM turn GROUP BY thread) AS newest
         WHERE thread.pk = newest.thread AND deleted = 0 AND last_ordinal < newest.pk & ?1",
        [keys::MAX_ORDINAL],
    )?;
    Ok(())
}

/// The key of the last position of a thread with history, unless it is before its first turn.
fn last_with_history(conn: &Connection, thread: i64) -> Result<Option<i64>, Failure> {
    let places = keys::turns_of(thread);
    let entries = keys::entries_of(places.start, places.end - 1);
    let newest: Option<i64> = conn
        .prepare_cached("SELECT max(pk) FROM history WHERE pk >= ?1 AND pk < ?2")?
        .query_row([entries.start, entries.end], |row| row.get(0))?;
    Ok(newest.map(keys::turn_of).filter(|place| keys::ordinal(*place) > 0))
}

/// The stored id of a deleted thread.
fn deleted_id(thread: i64) -> String {
    format!("deleted:{thread}")
}

/// Ids of the threads whose row is lost, by key.
fn lost_ids(conn: &Connection, scan: &Scan) -> Result<BTreeMap<i64, String>, Failure> {
    let mut uses: BTreeMap<&str, usize> = BTreeMap::new();
    for id in scan.indexed.threads.values().flatten() {
        *uses.entry(id).or_default() += 1;
    }
    let mut exists = conn.prepare("SELECT 1 FROM thread WHERE pk = ?1 OR id = ?2")?;
    let mut runs = conn.prepare("SELECT 1 FROM turn WHERE owner = ?1")?;
    let mut ids = BTreeMap::new();
    for (thread, candidates) in &scan.indexed.threads {
        for id in candidates {
            let is_owner = uses.get(id.as_str()) != Some(&1) || runs.exists([id])?;
            if !is_owner && !exists.exists(params![thread, id])? {
                ids.entry(*thread).or_insert_with(|| id.clone());
            }
        }
    }
    Ok(ids)
}

/// Finds lost turns that threads show, then reports the losses of each thread.
pub(super) fn examine(conn: &Connection, losses: &mut Losses) -> Result<Vec<ThreadLoss>, Failure> {
    for thread in live_threads(conn)? {
        for segment in Lineage::of(conn, thread)?.segments {
            for turn in lost_turns(conn, &segment)? {
                losses.turns.entry(turn).or_default().turn = true;
            }
        }
    }
    report(conn, losses)
}

/// Removes lost turns from the segments of each thread.
pub(super) fn close_gaps(conn: &Connection) -> Result<(), Failure> {
    for thread in live_threads(conn)? {
        let lineage = Lineage::of(conn, thread)?;
        let mut runs: Vec<Segment> = Vec::new();
        for segment in &lineage.segments {
            let mut first = segment.first;
            for turn in lost_turns(conn, segment)? {
                // The position remains, without a turn.
                let place = keys::ordinal(turn);
                runs.push(Segment { first, last: place - 1, ..*segment });
                first = place;
            }
            runs.push(Segment { first, ..*segment });
        }
        if runs == lineage.segments {
            continue;
        }
        let Some(open) = runs.pop() else { continue };
        Lineage { segments: runs }.write(conn, thread)?;
        conn.prepare_cached("UPDATE thread SET open_from = ?2 WHERE pk = ?1")?
            .execute([thread, open.first])?;
    }
    Ok(())
}

pub(super) fn live_threads(conn: &Connection) -> Result<Vec<i64>, Failure> {
    let threads = conn
        .prepare("SELECT pk FROM thread WHERE deleted = 0")?
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    Ok(threads)
}

/// The keys of the missing turns of a segment.
pub(super) fn lost_turns(conn: &Connection, segment: &Segment) -> Result<Vec<i64>, Failure> {
    let turns = segment.turns()?;
    let mut there = conn.prepare_cached("SELECT pk FROM turn WHERE pk >= ?1 AND pk < ?2")?;
    let there = there
        .query_map([turns.start, turns.end], |row| row.get(0))?
        .collect::<Result<BTreeSet<i64>, _>>()?;
    Ok(turns.filter(|turn| !there.contains(turn)).collect())
}

/// Deletes rows without a thread or turn, and rows of deleted threads that no thread shows.
pub(super) fn sweep(conn: &Connection) -> Result<(), Failure> {
    for (table, orphans) in [
        ("item", "turn NOT IN (SELECT pk FROM turn)".to_owned()),
        ("history", format!("pk >> {} NOT IN (SELECT pk FROM thread)", keys::ENTRY_BITS)),
    ] {
        let packed = conn
            .prepare(&format!("SELECT packed FROM {table} WHERE packed IS NOT NULL AND {orphans}"))?
            .query_map([], |row| row.get(0))?
            .collect::<Result<Vec<Vec<u8>>, _>>()?;
        for packed in packed {
            content::release(conn, Some(&packed))?;
        }
        conn.execute(&format!("DELETE FROM {table} WHERE {orphans}"), [])?;
    }
    conn.execute("DELETE FROM turn WHERE thread NOT IN (SELECT pk FROM thread)", [])?;
    let deleted = conn
        .prepare("SELECT pk FROM thread WHERE deleted = 1")?
        .query_map([], |row| row.get(0))?
        .collect::<Result<Vec<i64>, _>>()?;
    removal::collect(conn, &deleted)
}

/// The losses of each thread, by id.
fn report(conn: &Connection, losses: &Losses) -> Result<Vec<ThreadLoss>, Failure> {
    let threads = conn
        .prepare("SELECT pk, id FROM thread WHERE deleted = 0 ORDER BY pk")?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<Vec<(i64, String)>, _>>()?;
    let mut report = Vec::new();
    for (key, thread) in threads {
        let mut parts = Vec::new();
        if losses.threads.contains(&key) {
            parts.push("its name and settings".to_owned());
        }
        if losses.details.contains(&key) {
            parts.push("optional values such as its token usage".to_owned());
        }
        if losses.lineages.contains(&key) {
            parts.push("turns that it shares with the thread that it was forked from".to_owned());
        }
        let (mut turns, mut records, mut items, mut history, mut details) = (0, 0, 0, 0, 0);
        for segment in Lineage::of(conn, key)?.segments {
            let first = keys::turn_key(segment.source, segment.first)?;
            let end = segment.turns()?.end;
            for (_, lost) in losses.turns.range(first..end) {
                let Lost { turn, record, items: some, history: seen, details: values } = lost;
                turns += u64::from(*turn);
                records += u64::from(*record);
                items += if *turn { 0 } else { *some };
                history += u64::from(*seen);
                details += u64::from(*values);
            }
        }
        for (count, what) in [
            (turns, "turns"),
            (records, "turns' own records (status, times, token usage)"),
            (items, "items"),
            (history, "turns' parts of the model's history"),
            (details, "turns' token usage or error"),
        ] {
            if count > 0 {
                parts.push(format!("{count} {what}"));
            }
        }
        if !parts.is_empty() {
            report.push(ThreadLoss { thread, lost: parts.join(", ") });
        }
    }
    Ok(report)
}
