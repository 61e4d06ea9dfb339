//! Follows answers that pass through the gateway for the end of one that comes later.

use std::sync::Arc;

use gateway_body::Outcome;
use gateway_store::records::later_answers;

use super::charge::Ending;
use super::settle::settle;
use crate::state::Gateway;

/// An answer in transit that may show the end of one that comes later.
pub(crate) struct Follow {
    /// The gateway.
    pub(crate) gateway: Arc<Gateway>,
    /// The upstream's id.
    pub(crate) id: Box<str>,
    /// The part of it that passes.
    pub(crate) source: Source,
}

/// The part of an answer that passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Its events from the first on.
    Events,
    /// Its events from any position on: the text before is missing.
    Replay,
    /// The object.
    Object,
}

impl Follow {
    /// Notes what has passed, in a task of its own. What is lost with this process, the gateway asks for later.
    pub(crate) fn note(self, outcome: Outcome) {
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                if let Err(error) = self.stored(outcome).await {
                    tracing::warn!("what was seen of {} was not stored: {error}", self.id);
                }
            });
        }
    }

    async fn stored(&self, outcome: Outcome) -> Result<(), gateway_store::Error> {
        let database = &self.gateway.database;
        let is_end = outcome.progress.is_some_and(gateway_body::Progress::is_end);
        let is_other = outcome.id.as_ref().is_some_and(|id| **id != *self.id);
        if is_other || !(is_end || self.source == Source::Events) {
            return Ok(());
        }
        let Some(answer) = later_answers::find(database, &self.id).await? else { return Ok(()) };
        let is_whole = match self.source {
            Source::Events => true,
            Source::Replay => outcome.usage.is_some() && !outcome.usage_invalid,
            Source::Object => outcome.complete,
        };
        if is_end && is_whole {
            return settle(&self.gateway, &answer, Ending::Seen(outcome)).await;
        }
        let seen = outcome.output_eighths;
        if !is_end {
            return later_answers::postpone(database, &answer, answer.poll_at, seen).await;
        }
        later_answers::postpone(database, &answer, self.gateway.clock.now(), 0).await?;
        self.gateway.poller.wake();
        Ok(())
    }
}
