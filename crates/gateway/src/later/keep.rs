//! Keeps the account of an answer that comes later in the store.

use std::sync::Arc;
use std::time::Duration;

use gateway_body::Outcome;
use gateway_store::records::later_answers::{self, LaterAnswer};
use tokio::task::JoinHandle;

use super::poll;
use crate::account::{Account, ComesLater, Facts, request_id};
use crate::bill::End;
use crate::later_kind::is_plain;
use crate::state::Gateway;

/// Delay after a failed call to the store: the first and the longest.
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// Returns whether the answer to this request may have its end later, by what has passed of it.
pub(crate) fn may_come_later(account: &Account, outcome: &Outcome) -> bool {
    let is_over = match outcome.progress {
        Some(progress) => progress.is_end(),
        None => outcome.complete || outcome.failed,
    };
    account.facts().later.is_some() && !is_over && outcome.id.as_deref().is_some_and(is_plain)
}

/// Keeps the account of the answer with that id, for which [`may_come_later`] returned true. The task ends when the store
/// has it; while the store is unreachable, the account stays open. Each such task has an open reservation, whose number is
/// bounded. Outside of a runtime, which has ended then, the account is settled.
pub(crate) fn keep(account: Account, status: u16, outcome: Outcome) -> Option<JoinHandle<()>> {
    let runtime = tokio::runtime::Handle::try_current().ok()?;
    Some(runtime.spawn(stored(account, status, outcome)))
}

async fn stored(mut account: Account, status: u16, outcome: Outcome) {
    let gateway = Arc::clone(account.gateway());
    let (Some(later), Some(id)) = (&account.facts().later, &outcome.id) else { return };
    let answer = answer(&gateway, account.facts(), later, id, outcome.output_eighths);
    account.may_be_kept();
    let mut pause = RETRY.0;
    let cause = loop {
        // Until it is handed over, meters that are set from the store would count its money twice.
        let turn = gateway.spend.keeping().await;
        let kept = later_answers::keep(&gateway.database, &answer).await;
        match kept {
            Ok(true) => {
                account.hand_over(status);
                drop(turn);
                return;
            }
            Ok(false) => break "an answer with this id is open already".to_owned(),
            Err(error) if error.is_unavailable() => {
                drop(turn);
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(RETRY.1);
            }
            Err(error) => break error.to_string(),
        }
    };
    let (id, request) = (&answer.id, &answer.request);
    tracing::warn!(%request, "the end of {id} will not be followed, it costs its maximum: {cause}");
    account.close(End::answered(status, Some(Outcome { complete: true, ..outcome })));
}

fn answer(
    gateway: &Gateway,
    facts: &Facts,
    later: &ComesLater,
    id: &str,
    seen_eighths: u64,
) -> LaterAnswer {
    let expiry = gateway.settings.load().server.background_expiry;
    let expiry = expiry.max(later.kind.patience()).as_micros();
    let now = gateway.clock.now();
    let expires_at = facts.received.saturating_add(u64::try_from(expiry).unwrap_or(u64::MAX));
    LaterAnswer {
        id: id.into(),
        kind: later.kind.name().into(),
        request: request_id(facts.request).into(),
        organization: facts.caller.organization.id.clone(),
        project: facts.caller.project.id.clone(),
        key: facts.caller.key.clone(),
        model: facts.model.name.clone(),
        upstream: facts.model.upstream.name.clone(),
        backend: facts.backend.as_ref().map(|backend| backend.name.clone()).unwrap_or_default(),
        region: later.region.clone(),
        endpoint: facts.endpoint,
        batch: facts.batch,
        held: if facts.draws_money() { facts.demand.cost } else { 0 },
        tokens: facts.demand.tokens,
        long_context: facts.demand.long_context,
        input_estimate: facts.input_estimate,
        most_output: facts.unseen_output,
        most_reported: facts.model.max_reported_tokens,
        price: facts.price.clone(),
        asked: facts.asked.clone(),
        seen_eighths,
        created_at: facts.received,
        expires_at,
        poll_at: poll::next(gateway, 0, now).min(expires_at),
        polls: 0,
    }
}
