//! Applies writes inside of a transaction that the caller begins and ends.

use std::fmt::Write as _;

use super::append::{Append, Mode};
use super::failure::Failure;
use super::owned::Places;
use super::rows::{Transaction, lost, places_of, turn_not_found};
use super::value::{Columns, Value};
use super::{branches, jobs, queue, usage};
use crate::query::searched_text;
use crate::{Fragment, ItemRow, StoreError, ThreadChanges, Write};

impl Transaction<'_> {
    /// Applies writes in order: those that append to one thread in one statement, others one by one.
    pub(super) async fn apply_all(&mut self, writes: &[Write]) -> Result<(), Failure> {
        let mut rest = writes;
        // The thread of the write before, and where an append to it goes.
        let mut places: Option<(&str, Places)> = None;
        while let [first, others @ ..] = rest {
            let thread = first.thread();
            let known = match places.take() {
                Some((of, known)) if of == thread => Some(known),
                _ if Append::may_take(first) => {
                    let key = self.leased_thread(thread).await?;
                    Some(places_of(self.connection, self.me, key).await?)
                }
                _ => None,
            };
            let mut append = Append::new(&known.unwrap_or_default());
            let added = rest.iter().take_while(|write| {
                write.thread() == thread && !append.is_full() && append.add(write)
            });
            let count = added.count();
            if count == 0 {
                self.apply(first).await?;
                let is_new = matches!(first, Write::CreateThread(_));
                places = is_new.then(|| (thread, Places::default()));
                rest = others;
                continue;
            }
            let fence = self.locked.get(thread).copied().ok_or_else(|| lost(thread))?;
            let name = (self.tenant, self.me, thread);
            let stored = append.store(self.connection, name, fence, Mode::Within).await?;
            places = Some((thread, stored.ok_or_else(|| lost(thread))?));
            rest = &rest[count..];
        }
        Ok(())
    }

    /// Applies one write. The node must hold the lease of the thread, and run the turn.
    async fn apply(&mut self, write: &Write) -> Result<(), Failure> {
        match write {
            Write::CreateThread(record) => self.create_thread(record).await.map(drop),
            Write::UpdateThread { thread, changes } => self.update_thread(thread, changes).await,
            Write::Fork { record, parent, last_turn } => {
                branches::fork(self, record, parent, last_turn.as_deref()).await
            }
            Write::RollBack { thread, turns } => branches::roll_back(self, thread, *turns).await,
            Write::Job { thread, write } => jobs::apply(self, thread, write).await,
            Write::Queue { thread, write } => queue::apply(self, thread, write).await,
            Write::AddUsage { thread, token_usage, usage } => {
                usage::add(self, thread, token_usage, usage).await
            }
            Write::DeleteThread { thread } => branches::remove(self, thread).await,
            Write::StartTurn { thread, turn, started_at_ms } => {
                self.start_turn(thread, turn, *started_at_ms).await
            }
            Write::PutItem { thread, turn, item, kind, status, payload } => {
                let place = self.own_turn(thread, turn).await?;
                let row = ItemRow {
                    id: item.clone(),
                    kind: kind.clone(),
                    status: status.clone(),
                    payload: payload.clone(),
                };
                self.put_item(place, &row).await
            }
            Write::AppendHistory { thread, turn, fragments, anew } => {
                let place = match turn {
                    Some(turn) => self.own_turn(thread, turn).await?,
                    None => self.newest_place(thread).await?,
                };
                self.append_history(place, fragments, *anew).await
            }
            Write::FinishTurn { thread, turn, .. } => self.finish_turn(thread, turn, write).await,
        }
    }

    async fn start_turn(
        &mut self,
        thread: &str,
        turn: &str,
        started_at_ms: i64,
    ) -> Result<(), Failure> {
        let key = self.leased_thread(thread).await?;
        let ordinal = self
            .connection
            .row(
                "UPDATE #thread SET turn_count = turn_count + 1, last_ordinal = last_ordinal + 1,
                     updated_at = greatest(updated_at, $2)
                 WHERE pk = $1 RETURNING last_ordinal",
                &[key.into(), started_at_ms.div_euclid(1000).into()],
            )
            .await?;
        let ordinal = Columns::of(&ordinal.ok_or_else(|| turn_not_found(thread, turn))?).int()?;
        let added = self
            .connection
            .execute(
                "INSERT INTO #turn (thread, ordinal, id, status, owner, started_at_ms)
                 VALUES ($1, $2, $3, 0, $4, $5) ON CONFLICT (thread, id) DO NOTHING",
                &[key.into(), ordinal.into(), turn.into(), self.me.into(), started_at_ms.into()],
            )
            .await?;
        if added == 0 {
            let (thread, turn) = (thread.to_owned(), turn.to_owned());
            return Err(StoreError::TurnExists { thread, turn }.into());
        }
        Ok(())
    }

    async fn finish_turn(
        &mut self,
        thread: &str,
        turn: &str,
        write: &Write,
    ) -> Result<(), Failure> {
        let Write::FinishTurn { outcome, error, completed_at_ms, duration_ms, usage, .. } = write
        else {
            return Ok(());
        };
        let (key, ordinal) = self.own_turn(thread, turn).await?;
        let changed = self
            .connection
            .execute(
                "UPDATE #turn SET status = $3, owner = NULL, completed_at_ms = $4,
                     duration_ms = $5, error = $6, usage = $7
                 WHERE thread = $1 AND ordinal = $2 AND status = 0",
                &[
                    key.into(),
                    ordinal.into(),
                    crate::TurnStatus::from(*outcome).code().into(),
                    (*completed_at_ms).into(),
                    (*duration_ms).into(),
                    Value::payload_or_null(error.as_deref()),
                    Value::payload_or_null(usage.as_deref()),
                ],
            )
            .await?;
        if changed == 0 {
            let (thread, turn) = (thread.to_owned(), turn.to_owned());
            return Err(StoreError::TurnFinished { thread, turn }.into());
        }
        Ok(())
    }

    async fn put_item(&self, (key, ordinal): (i64, i64), item: &ItemRow) -> Result<(), Failure> {
        let values = [
            key.into(),
            ordinal.into(),
            (&item.id).into(),
            (&item.kind).into(),
            item.status.as_deref().into(),
            Value::payload(&item.payload),
        ];
        self.connection
            .execute(
                "INSERT INTO #item (thread, ordinal, position, id, kind, status, payload)
                 SELECT $1, $2, coalesce(max(item.position), -1) + 1, $3, $4, $5, $6
                 FROM #item AS item WHERE item.thread = $1 AND item.ordinal = $2
                 ON CONFLICT (thread, ordinal, id) DO UPDATE
                 SET kind = excluded.kind, status = excluded.status, payload = excluded.payload",
                &values,
            )
            .await?;
        Ok(())
    }

    async fn append_history(
        &self,
        (key, ordinal): (i64, i64),
        fragments: &[Fragment],
        anew: bool,
    ) -> Result<(), Failure> {
        if fragments.is_empty() {
            return Ok(());
        }
        let bytes = |fragment: &Fragment| Some(fragment.text.as_bytes().to_vec());
        let values = [
            key.into(),
            ordinal.into(),
            Value::ints(fragments.iter().map(|fragment| fragment.mark.into())),
            Value::AllBytes(fragments.iter().map(bytes).collect()),
            anew.into(),
        ];
        self.connection
            .execute(
                "INSERT INTO #history (thread, ordinal, position, mark, anew, fragment)
                 SELECT $1, $2, added.number + (
                         SELECT coalesce(max(history.position), -1) FROM #history AS history
                         WHERE history.thread = $1 AND history.ordinal = $2),
                     added.mark, $5 AND added.number = 1, added.fragment
                 FROM unnest($3, $4) WITH ORDINALITY AS added (mark, fragment, number)",
                &values,
            )
            .await?;
        Ok(())
    }

    /// Sets only the given columns, because setting an indexed column rewrites its indexes.
    async fn update_thread(&mut self, id: &str, changes: &ThreadChanges) -> Result<(), Failure> {
        let key = self.leased_thread(id).await?;
        let mut update = Update::of(key);
        update.add_all(changes);
        if changes.name.is_some() || changes.preview.is_some() {
            let stored = "SELECT name, preview FROM #thread WHERE pk = $1";
            if let Some(row) = self.connection.row(stored, &[key.into()]).await? {
                let mut columns = Columns::of(&row);
                let (name, preview) = (columns.text_or_null()?, columns.text()?);
                let name = changes.name.clone().unwrap_or(name);
                let preview = changes.preview.clone().unwrap_or(preview);
                let searched = searched_text(name.as_deref(), &preview);
                update.add("searched", Value::searched(&searched));
            }
        }
        if update.is_empty() {
            return Ok(());
        }
        let sql = format!("UPDATE #thread SET {} WHERE pk = $1", update.assignments);
        self.connection.execute(&sql, &update.values).await?;
        Ok(())
    }
}

/// New values of some columns of a thread; the first value is its key.
pub(super) struct Update {
    pub(super) assignments: String,
    pub(super) values: Vec<Value>,
}

impl Update {
    fn of(thread: i64) -> Self {
        Self { assignments: String::new(), values: vec![thread.into()] }
    }

    fn is_empty(&self) -> bool {
        self.assignments.is_empty()
    }

    fn add_all(&mut self, changes: &ThreadChanges) {
        for (column, value) in changed_columns(changes) {
            self.add(column, value);
        }
    }

    fn add(&mut self, column: &str, value: Value) {
        self.values.push(value);
        let separator = if self.assignments.is_empty() { "" } else { ", " };
        // A `String` takes any text.
        let _ = write!(self.assignments, "{separator}{column} = ${}", self.values.len());
    }
}

/// The columns that changes set, except the text that is searched.
pub(super) fn changed_columns(changes: &ThreadChanges) -> Vec<(&'static str, Value)> {
    let text = |value: &Option<String>| value.as_ref().map(Value::from);
    let payload = |value: &Option<Option<String>>| {
        value.as_ref().map(|value| Value::payload_or_null(value.as_deref()))
    };
    let columns = [
        ("preview", text(&changes.preview)),
        ("name", changes.name.as_ref().map(|name| name.as_deref().into())),
        ("model_provider", text(&changes.model_provider)),
        ("model", text(&changes.model)),
        ("cwd", text(&changes.cwd)),
        ("updated_at", changes.updated_at.map(Value::from)),
        ("archived", changes.archived.map(Value::from)),
        ("git_info", payload(&changes.git_info)),
        ("settings", changes.settings.as_ref().map(|json| Value::payload(json))),
        ("token_usage", payload(&changes.token_usage)),
        ("extra", payload(&changes.extra)),
    ];
    columns.into_iter().filter_map(|(column, value)| Some((column, value?))).collect()
}
