//! Written before told: the records of a batch are on disk before anything of it is carried out.
//! What happens when they cannot be: `unstored`; what is stored later: `missing`.

mod missing;
mod unstored;

use session::{Effect, Record};
use store::{ThreadRecord, Write};

use crate::error::Error;
use crate::loading::Extra;
use crate::thread::actor::{Actor, Step};
use crate::thread::log;

pub(super) use missing::MissingEnds;

impl Actor {
    /// Stores the records of the batch in one transaction, then does the rest in order.
    pub(super) async fn execute(&mut self, steps: Vec<Step>) {
        if let Err(error) = self.store(&steps).await {
            return self.execute_unstored(steps, &error).await;
        }
        for step in steps {
            self.perform(step).await;
        }
    }

    /// Stores the records of a batch, all or none; what is loaded of the thread follows.
    async fn store(&mut self, steps: &[Step]) -> Result<(), Error> {
        let mut writes: Vec<Write> = Vec::new();
        let mut before: Option<(ThreadRecord, Extra)> = None;
        for step in steps {
            let Effect::Persist(record) = &step.effect else { continue };
            if changes_loaded(record) && before.is_none() {
                before = Some((self.record.clone(), self.extra.clone()));
            }
            self.note(record);
            if !self.ephemeral {
                writes.push(log::write(&self.id, record, step.json.as_deref(), &self.extra));
            }
        }
        let outcome = self.commit(writes).await;
        if let (Err(_), Some((record, extra))) = (&outcome, before) {
            (self.record, self.extra) = (record, extra);
        }
        outcome
    }

    async fn commit(&mut self, writes: Vec<Write>) -> Result<(), Error> {
        if writes.is_empty() {
            return Ok(());
        }
        self.store_missing_ends().await;
        let core = self.core.clone();
        let store = core.store().await?;
        store.commit(writes).await.map_err(Error::from)
    }

    /// Stores the ends of turns that are missing, if the store works again.
    pub(super) async fn store_missing_ends(&mut self) {
        if self.missing_ends.is_empty() || self.ephemeral {
            return;
        }
        let (core, now) = (self.core.clone(), self.core.options.clock.now_ms());
        let stored = match core.store().await {
            Ok(store) => self.missing_ends.store(store, &self.id, now).await.map_err(Error::from),
            Err(error) => Err(error),
        };
        if let Err(why) = stored {
            tracing::warn!(
                target: "server::store",
                "the end of a turn of thread {} is still missing: {why}",
                self.id
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
            Record::Item { .. }
            | Record::History { .. }
            | Record::HistoryReplaced { .. }
            | Record::TurnFinished { .. }
            | Record::TokenUsage { .. } => {}
        }
    }
}

/// Whether [`Actor::note`] changes anything.
fn changes_loaded(record: &Record) -> bool {
    match record {
        Record::TurnStarted { .. }
        | Record::Preview(_)
        | Record::Settings(_)
        | Record::Introduced(_)
        | Record::Goal(_) => true,
        Record::Item { .. }
        | Record::History { .. }
        | Record::HistoryReplaced { .. }
        | Record::TurnFinished { .. }
        | Record::TokenUsage { .. } => false,
    }
}
