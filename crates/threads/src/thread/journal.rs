//! The durable part of a thread: its records are on disk before anything of them is carried out.
//! Ends of turns that could not be stored are stored later (`missing`).

mod missing;
mod queue;
mod writes;

use std::sync::Arc;

use session::{Effect, Fragment, Id, Millis, Record, TurnError, TurnView};
use store::{StoreError, ThreadChanges, ThreadRecord, TurnsQuery, Write};

use crate::thread::step::Step;
use services::convert::{self, event};
use services::error::Error;
use services::options::Options;
use services::recovery::{self, ClosedItem, OrphanOutcome};
use services::thread_port::Extra;
use services::thread_store::ThreadStore;

use missing::MissingEnds;
use queue::QueueChanges;

/// The durable part of a thread.
pub struct Journal {
    id: Id,
    /// As the store has it.
    record: ThreadRecord,
    extra: Extra,
    /// Nothing of the thread is stored.
    ephemeral: bool,
    missing_ends: MissingEnds,
    queued: QueueChanges,
    /// Another server may write to the thread, and this one no longer does.
    lost_lease: bool,
    store: Arc<ThreadStore>,
    options: Arc<Options>,
}

impl Journal {
    pub fn new(
        (record, extra, ephemeral): (ThreadRecord, Extra, bool),
        store: Arc<ThreadStore>,
        options: Arc<Options>,
    ) -> Self {
        let id = record.id.as_str().into();
        let missing_ends = MissingEnds::default();
        let queued = QueueChanges::default();
        let lost_lease = false;
        Self { id, record, extra, ephemeral, missing_ends, queued, lost_lease, store, options }
    }

    pub(super) fn id(&self) -> &Id {
        &self.id
    }

    pub(super) fn record(&self) -> &ThreadRecord {
        &self.record
    }

    pub(super) fn extra(&self) -> &Extra {
        &self.extra
    }

    pub(super) fn is_ephemeral(&self) -> bool {
        self.ephemeral
    }

    pub(super) fn now(&self) -> Millis {
        self.options.clock.now_ms()
    }

    /// An id that no other has.
    pub(super) fn new_id(&self) -> String {
        self.options.ids.next()
    }

    /// Stores the records of a batch, all or none; the loaded record follows.
    pub(super) async fn store(&mut self, steps: &[Step]) -> Result<(), Error> {
        let mut writes: Vec<Write> = Vec::new();
        let mut before: Option<(ThreadRecord, Extra)> = None;
        let mut has_ended = false;
        for step in steps {
            let Effect::Persist(record) = &step.effect else { continue };
            if changes_loaded(record) && before.is_none() {
                before = Some((self.record.clone(), self.extra.clone()));
            }
            self.note(record);
            if !self.ephemeral {
                writes.push(writes::write(&self.id, record, step.json.as_deref(), &self.extra));
            }
            has_ended |= matches!(record, Record::TurnFinished { .. });
            writes.extend(self.queue_writes(record));
        }
        if self.ephemeral {
            writes.clear();
        }
        let outcome = self.commit(writes).await;
        if let (Err(_), Some((record, extra))) = (&outcome, before) {
            (self.record, self.extra) = (record, extra);
        }
        self.queued.stored(outcome.is_ok());
        if has_ended && outcome.is_ok() {
            self.store.turn_ended().notify_one();
        }
        outcome
    }

    async fn commit(&mut self, writes: Vec<Write>) -> Result<(), Error> {
        if writes.is_empty() {
            return Ok(());
        }
        self.store_missing_ends().await;
        self.commit_now(writes).await
    }

    /// # Errors
    /// The store refuses the writes, or the lease was lost before: only loading the thread again may take it.
    async fn commit_now(&mut self, writes: Vec<Write>) -> Result<(), Error> {
        if self.lost_lease {
            return Err(self.lost_lease_error());
        }
        let outcome = self.store.get().await?.commit(writes).await;
        outcome.map_err(|error| self.note_failure(error))
    }

    /// The error for clients; notes whether the lease is lost.
    fn note_failure(&mut self, error: StoreError) -> Error {
        match error {
            // A server that took the thread over may have deleted it since.
            StoreError::LeaseLost { .. } | StoreError::ThreadNotFound { .. } => {
                self.lost_lease = true;
                self.lost_lease_error()
            }
            error => error.into(),
        }
    }

    /// Returns whether this server may no longer write to the thread.
    pub(super) fn has_lost_lease(&self) -> bool {
        self.lost_lease
    }

    /// Why nothing more of the thread is stored, and what to do.
    pub(super) fn lost_lease_error(&self) -> Error {
        let id = &self.id;
        Error::wrong_state(format!(
            "another server has taken over thread {id}, so that this server has closed it"
        ))
        .next_step("call thread/resume to continue it where it is stored")
    }

    /// The end of this turn was sent to clients and is not stored.
    pub(super) fn add_missing_end(&mut self, view: &TurnView) {
        self.missing_ends.add(view);
    }

    /// Stores the ends of turns that are missing, if the store works again.
    pub(super) async fn store_missing_ends(&mut self) {
        if self.missing_ends.is_empty() || self.ephemeral || self.lost_lease {
            return;
        }
        let now = self.now();
        let stored = match self.store.get().await {
            Ok(store) => match self.missing_ends.store(store, &self.id, now).await {
                Ok(()) => Ok(()),
                Err(error) => Err(self.note_failure(error)),
            },
            Err(error) => Err(error),
        };
        if let Err(error) = stored {
            let id = &self.id;
            tracing::warn!(
                target: "server::store",
                "the end of a turn of thread {id} is still not stored: {error}"
            );
        }
    }

    /// Keeps the loaded record as the store has it.
    fn note(&mut self, record: &Record) {
        match record {
            Record::TurnStarted { at, .. } => self.record.updated_at = at / 1000,
            Record::Preview(text) => self.record.preview.clone_from(text),
            Record::Settings(settings) => {
                self.record.model.clone_from(&settings.model);
                self.record.model_provider.clone_from(&settings.provider);
                self.record.cwd = settings.cwd.display().to_string();
            }
            Record::Introduced(settings) => self.extra.introduced = Some((**settings).clone()),
            Record::Goal(goal) => self.extra.goal = goal.as_deref().cloned(),
            Record::ProjectDocuments(paths) => self.extra.documents.clone_from(paths),
            Record::ApprovedActions(actions) => self.extra.approved_actions.clone_from(actions),
            Record::Concessions(all) => self.extra.concessions.clone_from(all),
            Record::Item { .. }
            | Record::History { .. }
            | Record::HistoryReplaced { .. }
            | Record::TurnFinished { .. }
            | Record::TokenUsage { .. } => {}
        }
    }

    /// The model's history.
    pub(super) async fn history(&self) -> Result<Vec<Fragment>, Error> {
        let history = self.store.get().await?.history(&self.id).await?;
        Ok(convert::thread::fragments(history))
    }

    /// The newest turn that is stored, if it can be read.
    pub(super) async fn last_turn(&self) -> Option<Id> {
        if self.ephemeral {
            return None;
        }
        let turn = self.store.get().await.ok()?.last_turn(&self.id).await.ok()??;
        Some(turn.id.as_str().into())
    }

    /// The turn `turns` turns before the end: the oldest of the last ones, or of all if there are fewer.
    pub(super) async fn turn_from_end(&self, turns: u32) -> Result<Option<String>, Error> {
        let store = self.store.get().await?;
        let query = TurnsQuery { limit: turns, ..TurnsQuery::default() };
        let page = store.turns(&self.id, query).await?;
        Ok(page.rows.into_iter().last().map(|row| row.id))
    }

    /// Drops the last turns, and the record of which settings the model was informed of.
    pub(super) async fn roll_back(&mut self, turns: u32) -> Result<(), Error> {
        if self.ephemeral {
            return Err(Error::wrong_state(
                "an ephemeral thread keeps no turns, so there is nothing to roll back",
            ));
        }
        let extra = Extra { introduced: None, ..self.extra.clone() };
        let changes = ThreadChanges { extra: Some(Some(extra.json())), ..ThreadChanges::default() };
        let thread = self.id.to_string();
        let writes = vec![
            Write::RollBack { thread: thread.clone(), turns },
            Write::UpdateThread { thread, changes: Box::new(changes) },
        ];
        self.commit_now(writes).await?;
        self.extra = extra;
        Ok(())
    }

    /// Sets whether the thread leaves notes and gets those of others.
    pub(super) async fn set_without_memories(&mut self, without: bool) -> Result<(), Error> {
        let extra = Extra { without_memories: without, ..self.extra.clone() };
        let changes = ThreadChanges { extra: Some(Some(extra.json())), ..ThreadChanges::default() };
        self.change(changes).await?;
        self.extra = extra;
        Ok(())
    }

    /// Sets facts about the thread.
    pub(super) async fn change(&mut self, changes: ThreadChanges) -> Result<(), Error> {
        if !self.ephemeral {
            let (thread, changes) = (self.id.to_string(), Box::new(changes.clone()));
            let write = Write::UpdateThread { thread, changes };
            self.commit_now(vec![write]).await?;
        }
        let ThreadChanges { name, git_info, .. } = changes;
        self.record.name = name.unwrap_or_else(|| self.record.name.take());
        self.record.git_info = git_info.unwrap_or_else(|| self.record.git_info.take());
        Ok(())
    }

    /// Closes the turns that the store has in flight, as failed; returns the items closed with them.
    pub(super) async fn fail_stored_turns(
        &self,
        error: &TurnError,
    ) -> Result<Vec<ClosedItem>, Error> {
        if self.ephemeral {
            return Ok(Vec::new());
        }
        let store = self.store.get().await?;
        let orphans = store.turns_in_progress(&self.id).await?;
        let error = serde_json::to_string(&event::turn_error(error)).expect("plain data");
        let failed = OrphanOutcome::Failed { error };
        Ok(recovery::close(store, orphans, self.now(), &failed).await?)
    }

    /// Lets another server have the thread.
    pub(super) async fn release(&self) {
        if !self.ephemeral {
            self.store.release(&self.id).await;
        }
    }
}

/// Returns whether [`Journal::note`] changes anything.
fn changes_loaded(record: &Record) -> bool {
    match record {
        Record::TurnStarted { .. }
        | Record::Preview(_)
        | Record::Settings(_)
        | Record::Introduced(_)
        | Record::Goal(_)
        | Record::ProjectDocuments(_)
        | Record::ApprovedActions(_)
        | Record::Concessions(_)
        // It may pause the queue.
        | Record::TurnFinished { .. } => true,
        Record::Item { .. }
        | Record::History { .. }
        | Record::HistoryReplaced { .. }
        | Record::TokenUsage { .. } => false,
    }
}
