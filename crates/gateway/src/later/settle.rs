//! Settles an answer that came later.

use std::sync::Arc;

use gateway_policy::plan::{Consumed, Demand, Plan};
use gateway_policy::tenants::Caller;
use gateway_store::records::later_answers::LaterAnswer;
use ratelimit::Bound;

use super::charge::{Ending, charge};
use crate::metrics::Answered;
use crate::settlement::{self, Origin};
use crate::state::Gateway;

/// Settles an answer, unless that was done before: in the ledger and on the meters, and then in the metrics and the log of
/// this node.
///
/// # Errors
/// The store's. The answer stays open, or was settled and is missing in the metrics.
pub(super) async fn settle(
    gateway: &Arc<Gateway>,
    answer: &LaterAnswer,
    ending: Ending,
) -> Result<(), gateway_store::Error> {
    let (end, bill) = charge(answer, ending, gateway.calibration.ratio(&answer.model));
    let backend = label(gateway, answer);
    let origin = Origin {
        request: answer.request.clone(),
        organization: answer.organization.clone(),
        project: answer.project.clone(),
        key: answer.key.clone(),
        model: answer.model.clone(),
        backend,
        endpoint: answer.endpoint,
        batch: answer.batch,
    };
    // Its money counts in the month in which it was reserved.
    let entry = origin.entry(&end, &bill, answer.created_at);
    if !gateway.spend.settle_later(answer, &entry).await? {
        return Ok(());
    }
    if let Some(outcome) = end.whole().filter(|_| !bill.usage_invalid) {
        gateway.calibration.learn(&answer.model, outcome);
    }
    settlement::count(&gateway.metrics, &entry, &bill);
    settlement::log(&entry, &answer.upstream, &end);
    if !answer.batch {
        let label = Answered { model: answer.model.to_string(), status: end.status };
        gateway.metrics.requests.get_or_create(&label).inc();
    }
    // A key that was revoked has no limits of tokens to count on, and another key's requests check the soft limits.
    if let Ok(caller) = gateway.directory.on_behalf(&answer.key, &answer.project).await {
        count_tokens(gateway, answer, &caller, &bill.consumed());
        gateway.spend.settled(&caller, entry.cost);
    }
    Ok(())
}

/// The label of the backend that had the answer.
fn label(gateway: &Gateway, answer: &LaterAnswer) -> Box<str> {
    let settings = gateway.settings.load();
    let mut upstreams = settings.upstreams.iter();
    match upstreams.find(|upstream| upstream.name == answer.upstream) {
        Some(upstream) => upstream.backend(&answer.backend).label.clone(),
        None => answer.upstream.clone(),
    }
}

/// Counts on the limits of tokens what exceeds the estimate of the request.
fn count_tokens(gateway: &Gateway, answer: &LaterAnswer, caller: &Caller, consumed: &Consumed) {
    let settings = gateway.settings.load();
    let Some(model) = settings.catalog.find(&answer.model).filter(|_| !answer.batch) else {
        return;
    };
    let plan = Plan::for_caller(caller, model, &settings);
    let (tokens, long_context) = (answer.tokens, answer.long_context);
    let demand = Demand { tokens, long_context, ..Demand::default() };
    let (date, organization) = (gateway.clock.now(), &answer.organization);
    let actual = plan.settlement(&demand, consumed);
    for (draw, actual) in plan.draws(&demand, date).iter().zip(actual) {
        // Money is corrected with the ledger, and requests have no other amount.
        let (Bound::Rate { .. }, Some(actual)) = (draw.bound, actual) else { continue };
        if let Err(error) =
            gateway.limits.correct(organization, draw, actual, gateway.clock.steady())
        {
            tracing::warn!("the tokens of {} were not counted: {error}", answer.id);
        }
    }
}
