//! Ends of turns that clients were sent and that could not be stored. They are stored before
//! anything else of the thread is, before its turns are read, and when it is unloaded; otherwise the
//! turns would read as running, and as interrupted after the next start.

use session::{TurnStatus, TurnView};

use crate::convert::event;
use crate::recovery::{self, Outcome};
use crate::server::Core;
use crate::thread::actor::Actor;

/// The turns whose ends are missing.
#[derive(Default)]
pub(in crate::thread) struct MissingEnds {
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
}

impl Actor {
    /// Stores the ends that are missing, if the store works again.
    pub(in crate::thread) async fn store_missing_ends(&mut self) {
        if self.missing_ends.turns.is_empty() || self.ephemeral {
            return;
        }
        let missing = std::mem::take(&mut self.missing_ends.turns);
        let core = self.core.clone();
        if let Err(why) = close(&core, &self.id, &missing).await {
            let message =
                format!("the end of a turn of thread {} is still missing: {why}", self.id);
            self.core.warn("store", &message);
            self.missing_ends.turns = missing;
        }
    }
}

async fn close(core: &Core, thread: &str, missing: &[TurnView]) -> Result<(), String> {
    let store = core.store().await.map_err(|error| error.message)?;
    // This store has the lease already; what it has in flight besides is running.
    let orphans = store.lease(thread).await.map_err(|error| error.to_string())?;
    for orphan in orphans {
        let is_it = |view: &&TurnView| *view.id == *orphan.turn;
        let Some(view) = missing.iter().find(is_it) else { continue };
        let now = view.completed_at.unwrap_or_else(|| core.options.clock.now_ms());
        let closed = recovery::close(store, vec![orphan], now, &outcome(view)).await;
        closed.map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// As clients were sent it.
fn outcome(view: &TurnView) -> Outcome {
    match (view.status, &view.error) {
        (TurnStatus::Failed, Some(error)) => {
            let error = serde_json::to_string(&event::turn_error(error)).expect("plain data");
            Outcome::Failed { error }
        }
        _ => Outcome::Interrupted,
    }
}
