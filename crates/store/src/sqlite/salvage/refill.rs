//! Inserts scanned rows into new tables, under their old keys. Omits incomplete rows: those with
//! text that cannot be unpacked or is not JSON, and those without a parent.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use rusqlite::types::Value;
use rusqlite::{Connection, ErrorCode, params, params_from_iter};
use serde::de::IgnoredAny;

use super::pages::{Page, Pages};
use super::record::Cells;
use super::scan::{Found, Scan, Table};
use crate::sqlite::failure::Failure;
use crate::sqlite::{content, keys};

/// The losses of a turn.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lost {
    /// The turn itself.
    pub(super) turn: bool,
    /// Its row, which was recreated from references to the turn.
    pub(super) record: bool,
    /// Number of items.
    pub(super) items: u64,
    /// Part of the model's history.
    pub(super) history: bool,
    /// Values of the turn other than its items.
    pub(super) details: bool,
}

/// All losses.
#[derive(Debug, Default)]
pub(super) struct Losses {
    /// By the key of the turn.
    pub(super) turns: BTreeMap<i64, Lost>,
    /// Keys of threads whose row is lost or recreated.
    pub(super) threads: BTreeSet<i64>,
    /// Keys of threads that lack optional values.
    pub(super) details: BTreeSet<i64>,
    /// Keys of threads that lack turns of their parent, or show too many.
    pub(super) lineages: BTreeSet<i64>,
}

impl Losses {
    pub(super) fn of_turn(&mut self, turn: i64) -> &mut Lost {
        self.turns.entry(turn).or_default()
    }
}

/// Fills the empty tables of `conn`, in one transaction.
pub(super) fn refill(conn: &Connection, pages: &Pages, scan: &Scan) -> Result<Losses, Failure> {
    let mut filling = Filling { conn, losses: Losses::default(), chunks: HashMap::new() };
    for (table, put) in [
        (Table::Thread, Filling::thread as Put<'_>),
        (Table::Chunk, Filling::chunk),
        (Table::Turn, Filling::turn),
        (Table::Item, Filling::item),
        (Table::History, Filling::history),
        (Table::Job, Filling::job),
        (Table::JobItem, Filling::job_item),
        (Table::Usage, Filling::usage),
        (Table::Queued, Filling::queued),
    ] {
        let mut reader = Reader { pages, current: None };
        for row in scan.rows.get(&table).into_iter().flatten() {
            if let Some(values) = reader.values(*row) {
                put(&mut filling, row.key, values)?;
            }
        }
    }
    filling.count_chunks()?;
    filling.segments(scan)?;
    filling.compare(scan)?;
    Ok(filling.losses)
}

type Put<'c> = fn(&mut Filling<'c>, i64, Vec<Value>) -> Result<(), Failure>;

/// Reads rows by position; caches one page.
struct Reader<'p> {
    pages: &'p Pages,
    current: Option<(u32, Page)>,
}

impl Reader<'_> {
    fn values(&mut self, row: Found) -> Option<Vec<Value>> {
        if self.current.as_ref().is_none_or(|(page, _)| *page != row.page) {
            self.current = Some((row.page, self.pages.read(row.page).ok()?));
        }
        let (page, content) = self.current.as_ref()?;
        Some(Cells::of(self.pages, *page, content)?.get(row.cell.into())?.values)
    }
}

struct Filling<'c> {
    conn: &'c Connection,
    losses: Losses,
    /// Number of references to each chunk.
    chunks: HashMap<i64, i64>,
}

impl Filling<'_> {
    fn thread(&mut self, key: i64, mut values: Vec<Value>) -> Result<(), Failure> {
        if values.len() == 22 {
            // Version 1 has a parent and a fork point instead of ordinals.
            values.drain(2..4);
            let turns = values[2].clone();
            values.extend([turns, Value::Integer(0), Value::Null, Value::Integer(0)]);
        }
        // A deleted thread whose forks show its turns has no source and no settings.
        let deleted = values.last() == Some(&Value::Integer(1));
        if !deleted && (!is_json(&values[15]) || !is_json(&values[17])) {
            return Ok(());
        }
        for optional in [16, 18, 19] {
            if values[optional] != Value::Null && !is_json(&values[optional]) {
                values[optional] = Value::Null;
                self.losses.details.insert(key);
            }
        }
        values[0] = Value::Integer(key);
        // The holder of the lease is dead.
        values[22] = Value::Null;
        self.insert(
            "INSERT OR IGNORE INTO thread (pk, id, turn_count, created_at, updated_at, archived,
                 source_kind, model_provider, cwd, name, preview, session_id, forked_from_id, model,
                 cli_version, source, git_info, settings, token_usage, extra, last_ordinal,
                 open_from, lease, deleted)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17,
                 ?18, ?19, ?20, ?21, ?22, ?23, ?24)",
            values,
        )?;
        Ok(())
    }

    fn chunk(&mut self, key: i64, mut values: Vec<Value>) -> Result<(), Failure> {
        let [_, Value::Blob(hash), _, Value::Integer(size), Value::Blob(data)] = values.as_slice()
        else {
            return Ok(());
        };
        if !content::is_chunk(hash, *size, data) {
            return Ok(());
        }
        values[0] = Value::Integer(key);
        values[2] = Value::Integer(0);
        self.insert(
            "INSERT OR IGNORE INTO chunk (id, hash, refs, size, data) VALUES (?1, ?2, ?3, ?4, ?5)",
            values,
        )?;
        Ok(())
    }

    fn turn(&mut self, key: i64, mut values: Vec<Value>) -> Result<(), Failure> {
        values[0] = Value::Integer(key);
        for optional in [8, 9] {
            if values[optional] != Value::Null && !is_json(&values[optional]) {
                values[optional] = Value::Null;
                self.of_turn(key).details = true;
            }
        }
        let whole = self.insert(
            "INSERT OR IGNORE INTO turn (pk, thread, id, status, owner, started_at_ms,
                 completed_at_ms, duration_ms, error, usage)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
            values,
        )?;
        if !whole {
            self.of_turn(key).turn = true;
        }
        Ok(())
    }

    fn item(&mut self, key: i64, mut values: Vec<Value>) -> Result<(), Failure> {
        values[0] = Value::Integer(key);
        values.resize(7, Value::Null);
        let (text, packed) = (&values[5], &values[6]);
        let whole = self.is_whole(text, packed)?;
        let chunks = references(packed);
        let whole = whole
            && self.insert(
                "INSERT OR IGNORE INTO item (pk, turn, id, kind, status, payload, packed)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                values,
            )?;
        if whole {
            self.refer(chunks);
        } else {
            self.of_turn(keys::turn_of(key)).items += 1;
        }
        Ok(())
    }

    fn history(&mut self, key: i64, mut values: Vec<Value>) -> Result<(), Failure> {
        values[0] = Value::Integer(key);
        if values.len() == 2 {
            values.extend([Value::Null, Value::Integer(0), Value::Integer(0)]);
        }
        let whole = self.is_whole(&values[1], &values[2])?;
        let chunks = references(&values[2]);
        let whole = whole
            && self.insert(
                "INSERT OR IGNORE INTO history (pk, fragment, packed, mark, anew)
                 VALUES (?1, ?2, ?3, ?4, ?5)",
                values,
            )?;
        if whole {
            self.refer(chunks);
        } else {
            self.of_turn(keys::turn_of(key)).history = true;
        }
        Ok(())
    }

    /// The caller can create a job again, so a lost one is not counted.
    fn job(&mut self, key: i64, mut values: Vec<Value>) -> Result<(), Failure> {
        if !is_json(&values[7]) {
            return Ok(());
        }
        values[0] = Value::Integer(key);
        self.insert(
            "INSERT OR IGNORE INTO job (pk, id, thread, fingerprint, status, created_at_ms,
                 ended_at_ms, detail)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            values,
        )?;
        Ok(())
    }

    /// A job that is continued adds its lost rows again.
    fn job_item(&mut self, key: i64, mut values: Vec<Value>) -> Result<(), Failure> {
        let result = &values[6];
        if !is_json(&values[3]) || (*result != Value::Null && !is_json(result)) {
            return Ok(());
        }
        values[0] = Value::Integer(key);
        self.insert(
            "INSERT OR IGNORE INTO job_item (pk, job, id, row, status, worker, result, error)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            values,
        )?;
        Ok(())
    }

    fn usage(&mut self, key: i64, mut values: Vec<Value>) -> Result<(), Failure> {
        let is_text = |value: &Value| matches!(value, Value::Text(_) | Value::Null);
        let is_number = |value: &Value| matches!(value, Value::Integer(_) | Value::Null);
        if !is_text(&values[7]) || !values[8..].iter().all(is_number) {
            return Ok(());
        }
        values[0] = Value::Integer(key);
        self.insert(
            "INSERT OR IGNORE INTO usage (pk, thread, turn, at_ms, project, provider, model,
                 service_tier, input, cached_input, cache_write, output, reasoning_output, cost)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
            values,
        )?;
        Ok(())
    }

    fn queued(&mut self, key: i64, mut values: Vec<Value>) -> Result<(), Failure> {
        if !is_json(&values[4]) {
            return Ok(());
        }
        values[0] = Value::Integer(key);
        self.insert(
            "INSERT OR IGNORE INTO queued (pk, thread, position, id, payload)
             VALUES (?1, ?2, ?3, ?4, ?5)",
            values,
        )?;
        Ok(())
    }

    /// Stores the number of references to each chunk, and deletes unused ones.
    fn count_chunks(&mut self) -> Result<(), Failure> {
        let mut count = self.conn.prepare("UPDATE chunk SET refs = ?2 WHERE id = ?1")?;
        for (chunk, refs) in &self.chunks {
            count.execute([chunk, refs])?;
        }
        self.conn.execute("DELETE FROM chunk WHERE refs = 0", [])?;
        Ok(())
    }

    fn segments(&mut self, scan: &Scan) -> Result<(), Failure> {
        let mut known = scan.indexed.segments.clone();
        for row in &scan.segments {
            let [thread, first, last, source, history_end] = *row;
            let ends = keys::turn_key(source, last).map(|key| keys::entries_of(key, key).end);
            let sound = 0 <= first
                && first <= last
                && source > 0
                && ends
                    .is_ok_and(|end| history_end == i64::MAX || (0..=end).contains(&history_end))
                && keys::thread_key(source).is_ok();
            if !sound {
                continue;
            }
            self.conn
                .prepare_cached(
                    "INSERT OR IGNORE INTO segment (thread, first, last, source, history_end)
                 SELECT pk, ?2, ?3, ?4, ?5 FROM thread WHERE pk = ?1",
                )?
                .execute(params![thread, first, last, source, history_end])?;
            known.remove(&(thread, first));
        }
        self.losses.lineages.extend(known.into_iter().map(|(thread, _)| thread));
        Ok(())
    }

    /// Compares the inserted rows with the indexes, and with the gaps between rows.
    fn compare(&mut self, scan: &Scan) -> Result<(), Failure> {
        let mut exists = self.conn.prepare("SELECT 1 FROM item WHERE pk = ?1")?;
        let mut by_turn: BTreeMap<i64, u64> = BTreeMap::new();
        for item in &scan.indexed.items {
            if !exists.exists([item])? {
                *by_turn.entry(keys::turn_of(*item)).or_default() += 1;
            }
        }
        for (turn, items) in by_turn {
            let lost = self.of_turn(turn);
            lost.items = lost.items.max(items);
        }
        for (table, first, last) in &scan.gaps {
            let (first, last) = match table {
                Table::History => (keys::turn_of(*first), keys::turn_of(*last)),
                _ => continue,
            };
            let turns = self
                .conn
                .prepare_cached("SELECT pk FROM turn WHERE pk >= ?1 AND pk <= ?2")?
                .query_map([first, last], |row| row.get(0))?
                .collect::<Result<Vec<i64>, _>>()?;
            for turn in turns {
                self.of_turn(turn).history = true;
            }
        }
        Ok(())
    }

    fn of_turn(&mut self, turn: i64) -> &mut Lost {
        self.losses.of_turn(turn)
    }

    fn refer(&mut self, chunks: Vec<i64>) {
        for chunk in chunks {
            *self.chunks.entry(chunk).or_default() += 1;
        }
    }

    /// Returns whether a text is readable.
    fn is_whole(&self, text: &Value, packed: &Value) -> Result<bool, Failure> {
        let Value::Blob(packed) = packed else { return Ok(is_json(text)) };
        match content::load(self.conn, String::new(), Some(packed.clone())) {
            Ok(text) => Ok(is_json(&Value::Text(text))),
            Err(Failure::Damaged(_)) => Ok(false),
            Err(other) => Err(other),
        }
    }

    /// Inserts a row; returns `false` if it violates a constraint.
    fn insert(&self, sql: &str, values: Vec<Value>) -> Result<bool, Failure> {
        match self.conn.prepare_cached(sql)?.execute(params_from_iter(values)) {
            Ok(added) => Ok(added > 0),
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => {
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }
}

fn references(packed: &Value) -> Vec<i64> {
    match packed {
        Value::Blob(packed) => content::references(packed),
        _ => Vec::new(),
    }
}

/// Returns whether a value is complete JSON, which clients require.
fn is_json(value: &Value) -> bool {
    matches!(value, Value::Text(text) if serde_json::from_str::<IgnoredAny>(text).is_ok())
}
