//! Written before told: the records of a batch are on disk before anything of it is carried out,
//! and what to do when they cannot be.

use session::{Answer, Effect, Event, Input, Record, Refusal};
use store::Write;

use crate::thread::actor::{Actor, Step};
use crate::thread::log;

impl Actor {
    /// Stores the records of the batch in one transaction, then does the rest in order.
    pub(super) async fn execute(&mut self, steps: Vec<Step>) {
        if let Err(message) = self.store(&steps).await {
            return self.execute_unstored(steps, &message).await;
        }
        for step in steps {
            self.perform(step).await;
        }
    }

    async fn store(&mut self, steps: &[Step]) -> Result<(), String> {
        let mut writes: Vec<Write> = Vec::new();
        for step in steps {
            let Effect::Persist(record) = &step.effect else { continue };
            self.note(record);
            if !self.ephemeral {
                writes.push(log::write(&self.id, record, step.json.as_deref(), &self.extra));
            }
        }
        if writes.is_empty() {
            return Ok(());
        }
        let store = self.core.store().await.map_err(|error| error.message)?;
        store.commit(writes).await.map_err(|error| error.to_string())
    }

    /// Nothing of the batch is on disk, so nothing of it may be claimed: callers get the error,
    /// durable claims are left out, and the turn fails. Its end is told all the same.
    async fn execute_unstored(&mut self, steps: Vec<Step>, message: &str) {
        let told = format!("the thread cannot be stored: {message}");
        let mut ends = Vec::new();
        for step in steps {
            match step.effect {
                Effect::Reply {
                    reply,
                    result:
                        Ok(
                            Answer::Started(_)
                            | Answer::Steered { .. }
                            | Answer::Done
                            | Answer::Goal(_)
                            | Answer::Cleared(_),
                        ),
                } => {
                    let result = Err(Refusal::from(told.clone()));
                    self.perform(Step { effect: Effect::Reply { reply, result }, json: None })
                        .await;
                }
                Effect::Emit(Event::ItemCompleted { .. } | Event::TurnStarted(_)) => {}
                Effect::Sample { .. } | Effect::Run { .. } | Effect::Apply { .. } => {}
                _ => ends.push(step),
            }
        }
        for step in ends {
            self.perform(step).await;
        }
        let mut steps = Vec::new();
        self.core.warn("store", &told);
        self.step(Input::StoreFailed { message: told }, &mut steps);
        // Tried once more: with luck the turn's end is stored. If not, it is told nevertheless,
        // and the next start of the server closes the turn.
        let _ = self.store(&steps).await;
        for step in steps {
            self.perform(step).await;
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
            _ => {}
        }
    }
}
