//! Ends of turns that clients were sent and that could not be stored. They are stored before
//! anything else of the thread is, before its turns are read, and when it is unloaded; otherwise the
//! turns would read as running, and as interrupted after the next start.

use session::{TurnStatus, TurnView};
use store::{Store, StoreError};

use services::convert::event;
use services::recovery::{self, OrphanOutcome};

/// The turns whose ends are missing.
#[derive(Default)]
pub(super) struct MissingEnds {
    turns: Vec<TurnView>,
}

/// Ends that are remembered. A turn begins only where its beginning can be stored, so that there is
/// hardly ever more than one; beyond, the next start of the server closes the turns.
const MAX_MISSING: usize = 100;

impl MissingEnds {
    pub(super) fn add(&mut self, view: &TurnView) {
        if self.turns.len() < MAX_MISSING {
            self.turns.push(view.clone());
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// Closes the turns as clients were sent it.
    ///
    /// # Errors
    /// The store still fails, or the lease of the thread is lost; what is missing stays so.
    pub(super) async fn store(
        &mut self,
        store: &Store,
        thread: &str,
        now: i64,
    ) -> Result<(), StoreError> {
        // Other turns among these are running.
        for orphan in store.turns_in_progress(thread).await? {
            let Some(view) = self.turns.iter().find(|view| *view.id == *orphan.turn) else {
                continue;
            };
            let ended = view.completed_at.unwrap_or(now);
            recovery::close(store, vec![orphan], ended, &outcome(view)).await?;
        }
        self.turns.clear();
        Ok(())
    }
}

fn outcome(view: &TurnView) -> OrphanOutcome {
    match (view.status, &view.error) {
        (TurnStatus::Failed, Some(error)) => {
            let error = serde_json::to_string(&event::turn_error(error)).expect("plain data");
            OrphanOutcome::Failed { error }
        }
        _ => OrphanOutcome::Interrupted,
    }
}
