//! The common writes of a running turn as one statement: it counts the append in the row that fences
//! the thread, and inserts the rows only if that row is as the owner knows it. So an append costs one
//! round trip, and a node that lost the thread changes nothing.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::apply::changed_columns;
use super::connection::Connection;
use super::failure::Failure;
use super::owned::Places;
use super::rows::Fence;
use super::value::{Columns, Value};
use crate::{StoreError, ThreadChanges, TurnStatus, UsageRecord, Write};

/// Bytes of payloads, and writes, after which a transaction begins another statement.
const MAX_BYTES: usize = 4 << 20;
const MAX_WRITES: usize = 10_000;

/// The rows of an append to one thread.
#[derive(Debug, Default)]
pub(super) struct Append<'w> {
    /// The thread after it.
    places: Places,
    /// Ordinals of the turns that it ends.
    ended_here: BTreeMap<&'w str, i64>,
    columns: BTreeMap<&'static str, Value>,
    started: Vec<Started<'w>>,
    /// The ends of turns, by ordinal.
    ended: BTreeMap<i64, Ended<'w>>,
    items: Vec<Item<'w>>,
    /// The places of `items`, by ordinal and id.
    item_places: BTreeMap<(i64, &'w str), usize>,
    fragments: Vec<NewFragment<'w>>,
    used: Option<&'w UsageRecord>,
    writes: usize,
    bytes: usize,
}

#[derive(Debug)]
struct Started<'w> {
    ordinal: i64,
    id: &'w str,
    started_at_ms: i64,
}

#[derive(Debug)]
struct Ended<'w> {
    status: i64,
    error: Option<&'w str>,
    completed_at_ms: i64,
    duration_ms: i64,
    usage: Option<&'w str>,
}

#[derive(Debug)]
struct Item<'w> {
    ordinal: i64,
    id: &'w str,
    kind: &'w str,
    status: Option<&'w str>,
    payload: &'w str,
}

#[derive(Debug)]
struct NewFragment<'w> {
    ordinal: i64,
    text: &'w str,
    mark: u8,
    anew: bool,
}

/// The transaction that stores the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// As a commit of their own, which has this random number, and which the fence counts.
    Alone(i64),
    /// In a transaction that has locked the thread, and counts by itself.
    Within,
}

impl<'w> Append<'w> {
    /// No rows yet, for a thread with these places.
    pub(super) fn new(places: &Places) -> Self {
        Self { places: places.clone(), ..Self::default() }
    }

    /// The rows of writes to one thread; `None` if they do more than an append, or could be refused.
    pub(super) fn of(writes: &'w [Write], places: &Places) -> Option<Self> {
        let mut append = Self::new(places);
        writes.iter().all(|write| append.add(write)).then_some(append)
    }

    /// Returns whether it is of a kind that an append can have.
    pub(super) fn may_take(write: &Write) -> bool {
        matches!(
            write,
            Write::UpdateThread { .. }
                | Write::StartTurn { .. }
                | Write::PutItem { .. }
                | Write::AppendHistory { .. }
                | Write::FinishTurn { .. }
                | Write::AddUsage { .. }
        )
    }

    /// Adds a write; `false` if it cannot be part of this append, which then stays as it was.
    pub(super) fn add(&mut self, write: &'w Write) -> bool {
        let is_added = match write {
            Write::UpdateThread { changes, .. } => self.update(changes),
            Write::StartTurn { turn, started_at_ms, .. } => self.start(turn, *started_at_ms),
            Write::PutItem { turn, item, kind, status, payload, .. } => {
                let ordinal = self.ordinal(turn);
                ordinal.is_some_and(|ordinal| {
                    let status = status.as_deref();
                    self.put(Item { ordinal, id: item, kind, status, payload });
                    true
                })
            }
            Write::AppendHistory { turn, fragments, anew, .. } => {
                let ordinal = match turn {
                    Some(turn) => self.ordinal(turn),
                    None => Some(self.places.last_ordinal),
                };
                ordinal.is_some_and(|ordinal| {
                    let rows = fragments.iter().enumerate().map(|(at, fragment)| NewFragment {
                        ordinal,
                        text: &fragment.text,
                        mark: fragment.mark,
                        anew: *anew && at == 0,
                    });
                    self.bytes +=
                        fragments.iter().map(|fragment| fragment.text.len()).sum::<usize>();
                    self.fragments.extend(rows);
                    true
                })
            }
            Write::FinishTurn {
                turn, outcome, error, completed_at_ms, duration_ms, usage, ..
            } => {
                let running = self.places.running.remove(turn);
                running.is_some_and(|ordinal| {
                    self.ended_here.insert(turn, ordinal);
                    let end = Ended {
                        status: TurnStatus::from(*outcome).code(),
                        error: error.as_deref(),
                        completed_at_ms: *completed_at_ms,
                        duration_ms: *duration_ms,
                        usage: usage.as_deref(),
                    };
                    self.ended.insert(ordinal, end).is_none()
                })
            }
            Write::AddUsage { token_usage, usage, .. } => {
                let is_first = self.used.is_none() && !self.columns.contains_key("cwd");
                if is_first {
                    self.used = Some(usage);
                    self.columns.insert("token_usage", Value::payload(token_usage));
                }
                is_first
            }
            _ => false,
        };
        self.writes += usize::from(is_added);
        is_added
    }

    /// True if further writes should go to another statement.
    pub(super) fn is_full(&self) -> bool {
        self.bytes >= MAX_BYTES || self.writes >= MAX_WRITES
    }

    /// The ordinal of a turn that this node runs, or ran before this append ended it.
    fn ordinal(&self, turn: &str) -> Option<i64> {
        self.places.running.get(turn).or_else(|| self.ended_here.get(turn)).copied()
    }

    fn update(&mut self, changes: &ThreadChanges) -> bool {
        let is_searched = changes.name.is_some() || changes.preview.is_some();
        let moves = changes.cwd.is_some() && self.used.is_some();
        let sets_time = changes.updated_at.is_some() && !self.started.is_empty();
        if is_searched || moves || sets_time {
            return false;
        }
        self.columns.extend(changed_columns(changes));
        true
    }

    fn start(&mut self, turn: &'w str, started_at_ms: i64) -> bool {
        if self.ordinal(turn).is_some() || self.columns.contains_key("updated_at") {
            return false;
        }
        self.places.last_ordinal += 1;
        let ordinal = self.places.last_ordinal;
        self.places.running.insert(turn.to_owned(), ordinal);
        self.started.push(Started { ordinal, id: turn, started_at_ms });
        true
    }

    fn put(&mut self, item: Item<'w>) {
        self.bytes += item.payload.len();
        // A statement changes a row only once.
        match self.item_places.entry((item.ordinal, item.id)) {
            Entry::Occupied(known) => {
                if let Some(slot) = self.items.get_mut(*known.get()) {
                    *slot = item;
                }
            }
            Entry::Vacant(free) => {
                free.insert(self.items.len());
                self.items.push(item);
            }
        }
    }

    /// Stores the rows. `None` if the thread is not as `fence` says; then nothing has changed. Returns
    /// where the next append goes.
    ///
    /// # Errors
    /// [`StoreError::TurnExists`] in a transaction; else, a duplicate row.
    pub(super) async fn store(
        self,
        connection: &Connection,
        (tenant, me, thread): (&str, &str, &str),
        fence: Fence,
        mode: Mode,
    ) -> Result<Option<Places>, Failure> {
        let mut statement = Statement::default();
        let fenced = [fence.thread.into(), me.into(), fence.epoch.into(), fence.seq.into()];
        statement.values.extend(fenced);
        let fence = match mode {
            Mode::Alone(token) => {
                statement.values.push(token.into());
                "fence AS (UPDATE #lease SET last_seq = last_seq + 1, appended_by = $5
                     WHERE thread = $1 AND owner = $2 AND epoch = $3 AND last_seq = $4
                     RETURNING thread)"
            }
            Mode::Within => {
                "fence AS (SELECT thread FROM #lease
                     WHERE thread = $1 AND owner = $2 AND epoch = $3 AND last_seq = $4)"
            }
        };
        statement.part(fence);
        self.set_columns(&mut statement);
        self.insert_turns(&mut statement, mode);
        self.end_turns(&mut statement);
        self.put_items(&mut statement);
        self.insert_fragments(&mut statement);
        if let Some(used) = self.used {
            insert_usage(&mut statement, (tenant, thread), used);
        }
        let started = match self.started.is_empty() {
            true => "'{}'::text[]",
            false => "ARRAY (SELECT id FROM started)",
        };
        let parts = statement.parts.join(", ");
        let sql = format!("WITH {parts} SELECT thread, {started} FROM fence");
        let stored = match mode {
            Mode::Alone(_) => connection.prompt_row(&sql, &statement.values, self.bytes).await?,
            Mode::Within => connection.row(&sql, &statement.values).await?,
        };
        let Some(row) = stored else { return Ok(None) };
        let mut columns = Columns::of(&row);
        columns.int()?;
        let added = columns.texts()?;
        if let Some(known) = self.started.iter().find(|turn| !added.iter().any(|id| id == turn.id))
        {
            let (thread, turn) = (thread.to_owned(), known.id.to_owned());
            return Err(StoreError::TurnExists { thread, turn }.into());
        }
        Ok(Some(self.places))
    }

    fn set_columns(&self, statement: &mut Statement) {
        let mut assignments = Vec::new();
        for (column, value) in &self.columns {
            assignments.push(format!("{column} = {}", statement.bind(value.clone())));
        }
        if let Some(last) = self.started.last() {
            let newest = self.started.iter().map(|turn| turn.started_at_ms.div_euclid(1000)).max();
            let count = i64::try_from(self.started.len()).unwrap_or(i64::MAX);
            assignments.push(format!(
                "turn_count = turn_count + {}, last_ordinal = {},
                 updated_at = greatest(updated_at, {})",
                statement.bind(count.into()),
                statement.bind(last.ordinal.into()),
                statement.bind(newest.into()),
            ));
        }
        if !assignments.is_empty() {
            statement.part(&format!(
                "head AS (UPDATE #thread AS thread SET {} FROM fence
                     WHERE thread.pk = fence.thread)",
                assignments.join(", ")
            ));
        }
    }

    fn insert_turns(&self, statement: &mut Statement, mode: Mode) {
        if self.started.is_empty() {
            return;
        }
        // Alone, a turn that exists fails the statement; in a transaction, it would fail all of that.
        let otherwise = match mode {
            Mode::Alone(_) => "",
            Mode::Within => "ON CONFLICT (thread, id) DO NOTHING",
        };
        let end = |turn: &Started<'_>| self.ended.get(&turn.ordinal);
        let turns = || self.started.iter();
        let values = [
            Value::ints(turns().map(|turn| turn.ordinal)),
            Value::texts(turns().map(|turn| turn.id)),
            Value::ints(turns().map(|turn| turn.started_at_ms)),
            Value::ints(turns().map(|turn| end(turn).map_or(0, |end| end.status))),
            Value::Ints(turns().map(|turn| end(turn).map(|end| end.completed_at_ms)).collect()),
            Value::Ints(turns().map(|turn| end(turn).map(|end| end.duration_ms)).collect()),
            payloads(turns().map(|turn| end(turn).and_then(|end| end.error))),
            payloads(turns().map(|turn| end(turn).and_then(|end| end.usage))),
        ];
        let places = statement.bind_all(values);
        statement.part(&format!(
            "started AS (INSERT INTO #turn (thread, ordinal, id, status, owner, started_at_ms,
                     completed_at_ms, duration_ms, error, usage)
                 SELECT fence.thread, added.ordinal, added.id, added.status,
                     CASE WHEN added.status = 0 THEN $2 END, added.started_at_ms,
                     added.completed_at_ms, added.duration_ms, added.error, added.usage
                 FROM fence, unnest({places}) AS added (ordinal, id, started_at_ms, status,
                     completed_at_ms, duration_ms, error, usage) {otherwise}
                 RETURNING id)"
        ));
    }

    fn end_turns(&self, statement: &mut Statement) {
        let first_new = self.started.first().map_or(i64::MAX, |turn| turn.ordinal);
        let ended: Vec<(i64, &Ended<'_>)> =
            self.ended.range(..first_new).map(|(ordinal, end)| (*ordinal, end)).collect();
        if ended.is_empty() {
            return;
        }
        let turns = || ended.iter();
        let values = [
            Value::ints(turns().map(|(ordinal, _)| *ordinal)),
            Value::ints(turns().map(|(_, end)| end.status)),
            Value::ints(turns().map(|(_, end)| end.completed_at_ms)),
            Value::ints(turns().map(|(_, end)| end.duration_ms)),
            payloads(turns().map(|(_, end)| end.error)),
            payloads(turns().map(|(_, end)| end.usage)),
        ];
        let places = statement.bind_all(values);
        statement.part(&format!(
            "ended AS (UPDATE #turn AS turn SET status = added.status, owner = NULL,
                     completed_at_ms = added.completed_at_ms, duration_ms = added.duration_ms,
                     error = added.error, usage = added.usage
                 FROM fence, unnest({places}) AS added (ordinal, status, completed_at_ms,
                     duration_ms, error, usage)
                 WHERE turn.thread = fence.thread AND turn.ordinal = added.ordinal)"
        ));
    }

    fn put_items(&self, statement: &mut Statement) {
        if self.items.is_empty() {
            return;
        }
        let items = || self.items.iter();
        let status = |item: &Item<'_>| item.status.map(|text| super::value::escaped(text).into());
        let values = [
            Value::ints(items().map(|item| item.ordinal)),
            Value::texts(items().map(|item| item.id)),
            Value::texts(items().map(|item| item.kind)),
            Value::Texts(items().map(status).collect()),
            payloads(items().map(|item| Some(item.payload))),
        ];
        let places = statement.bind_all(values);
        statement.part(&format!(
            "put AS (INSERT INTO #item (thread, ordinal, position, id, kind, status, payload)
                 SELECT fence.thread, added.ordinal, added.number + coalesce((
                         SELECT max(known.position) FROM #item AS known
                         WHERE known.thread = fence.thread AND known.ordinal = added.ordinal), -1),
                     added.id, added.kind, added.status, added.payload
                 FROM fence, unnest({places}) WITH ORDINALITY
                     AS added (ordinal, id, kind, status, payload, number)
                 ON CONFLICT (thread, ordinal, id) DO UPDATE SET kind = excluded.kind,
                     status = excluded.status, payload = excluded.payload)"
        ));
    }

    fn insert_fragments(&self, statement: &mut Statement) {
        if self.fragments.is_empty() {
            return;
        }
        let fragments = || self.fragments.iter();
        let values = [
            Value::ints(fragments().map(|fragment| fragment.ordinal)),
            Value::ints(fragments().map(|fragment| fragment.mark.into())),
            Value::Bools(fragments().map(|fragment| fragment.anew).collect()),
            payloads(fragments().map(|fragment| Some(fragment.text))),
        ];
        let places = statement.bind_all(values);
        statement.part(&format!(
            "said AS (INSERT INTO #history (thread, ordinal, position, mark, anew, fragment)
                 SELECT fence.thread, added.ordinal, added.number + coalesce((
                         SELECT max(known.position) FROM #history AS known
                         WHERE known.thread = fence.thread AND known.ordinal = added.ordinal), -1),
                     added.mark, added.anew, added.fragment
                 FROM fence, unnest({places}) WITH ORDINALITY
                     AS added (ordinal, mark, anew, fragment, number))"
        ));
    }
}

fn insert_usage(statement: &mut Statement, (tenant, thread): (&str, &str), usage: &UsageRecord) {
    let values: [Value; 13] = [
        tenant.into(),
        thread.into(),
        usage.turn.as_deref().into(),
        usage.at_ms.into(),
        (&usage.provider).into(),
        (&usage.model).into(),
        usage.service_tier.as_deref().into(),
        usage.input.into(),
        usage.cached_input.into(),
        usage.cache_write.into(),
        usage.output.into(),
        usage.reasoning_output.into(),
        usage.cost.into(),
    ];
    let places = statement.bind_all(values);
    statement.part(&format!(
        "used AS (INSERT INTO #usage (project, tenant, thread, turn, at_ms, provider, model,
                 service_tier, input, cached_input, cache_write, output, reasoning_output, cost)
             SELECT thread.cwd, {places}
             FROM fence JOIN #thread AS thread ON thread.pk = fence.thread)"
    ));
}

fn payloads<'t>(texts: impl Iterator<Item = Option<&'t str>>) -> Value {
    Value::AllBytes(texts.map(|text| text.map(|text| text.as_bytes().to_vec())).collect())
}

/// The parts of a statement, and its values.
#[derive(Debug, Default)]
struct Statement {
    parts: Vec<String>,
    values: Vec<Value>,
}

impl Statement {
    fn part(&mut self, sql: &str) {
        self.parts.push(sql.to_owned());
    }

    fn bind(&mut self, value: Value) -> String {
        self.values.push(value);
        format!("${}", self.values.len())
    }

    fn bind_all<const N: usize>(&mut self, values: [Value; N]) -> String {
        values.map(|value| self.bind(value)).join(", ")
    }
}
