//! Follows answers that pass through the gateway for the end of one that comes later.

use std::sync::Arc;

use gateway_body::Outcome;
use gateway_store::records::later_answers::{self, LaterAnswer};

use super::charge::Ending;
use super::settle::settle;
use crate::account::{Account, request_id};
use crate::state::Gateway;

/// An answer in transit that may show the end of one that comes later.
pub(crate) struct Follow {
    /// The gateway.
    gateway: Arc<Gateway>,
    /// The upstream's id.
    id: Box<str>,
    /// The request that created it, if what passes is the answer to that.
    request: Option<Box<str>>,
    /// The part of it that passes.
    source: Source,
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
    /// Follows the events of an answer to the request that creates it.
    pub(crate) fn of_events(account: &Account, id: &str) -> Self {
        let request = Some(request_id(account.facts().request).into());
        let gateway = Arc::clone(account.gateway());
        Self { gateway, id: id.into(), request, source: Source::Events }
    }

    /// Follows an answer that a client fetches.
    pub(crate) fn fetched(gateway: &Arc<Gateway>, id: &str, source: Source) -> Self {
        Self { gateway: Arc::clone(gateway), id: id.into(), request: None, source }
    }

    /// Notes what has passed, in a task of its own. What is lost with this process, the gateway asks for later.
    pub(crate) fn note(self, outcome: Outcome) {
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            // Sums that are read right after this answer include it.
            let settling = self.gateway.ledger.settling();
            runtime.spawn(async move {
                let _settling = settling;
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
        let has_text = outcome.output_eighths > 0;
        if is_other || !(is_end || has_text || self.source == Source::Events) {
            return Ok(());
        }
        let answer = later_answers::find(database, &self.id).await?;
        // Another request's answer may have the same id.
        let is_it = |answer: &LaterAnswer| {
            self.request.as_ref().is_none_or(|request| *request == answer.request)
        };
        let Some(answer) = answer.filter(is_it) else { return Ok(()) };
        let is_whole = match self.source {
            Source::Events => true,
            Source::Replay => outcome.usage.is_some() && !outcome.usage_invalid,
            Source::Object => outcome.complete,
        };
        if is_end && is_whole {
            return settle(&self.gateway, &answer, Ending::Seen(outcome)).await;
        }
        let seen = outcome.output_eighths;
        if !is_end && seen <= answer.seen_eighths {
            return Ok(());
        }
        if !is_end {
            return later_answers::postpone(database, &answer, answer.poll_at, seen).await;
        }
        later_answers::postpone(database, &answer, self.gateway.clock.now(), 0).await?;
        self.gateway.poller.wake();
        Ok(())
    }
}
