//! Settles what this node had open when it was killed: in the ledger, and then on the limits of spend. Other limits refill.

use std::collections::HashSet;

use gateway_policy::dates;
use gateway_policy::environment::Clock;
use gateway_policy::plan::{ORGANIZATION_SPEND, spend_meter};
use gateway_store::database::Database;
use gateway_store::journal::{self, Journal, Recovered};
use gateway_store::ledger;
use ratelimit::{Bound, Draw, Limits};

use crate::open::OpenError;

/// Recovers this node's journal, and those of processes that have ended. Nothing is admitted yet.
///
/// # Errors
/// The store's, or that of the limits: nothing is lost, and the next start tries again.
pub(crate) async fn recover(
    (database, limits): (&Database, &Limits),
    (own, others): (Journal, Vec<Journal>),
    writer: u64,
    clock: &dyn Clock,
) -> Result<(), OpenError> {
    for journal in std::iter::once(&own).chain(&others) {
        let (recovered, damaged) = journal::recover(database, journal, writer, clock.now()).await?;
        if damaged > 0 {
            tracing::error!(
                "{damaged} slots of the journal of open requests are damaged: what these requests cost is missing in \
                 the ledger, and stays reserved"
            );
        }
        report(&recovered);
        let month = dates::month(clock.now());
        let spent = spent(database, &recovered, month).await?;
        // What is missing in the ledger must stay on the meters.
        let is_whole = damaged == 0 && recovered.iter().all(|one| !one.is_lost);
        if is_whole && restores(limits, &spent, month)? {
            recovered.into_iter().for_each(Recovered::free);
            continue;
        }
        recovered.into_iter().for_each(|one| correct(limits, one, month, clock));
    }
    Ok(())
}

/// A meter as the ledger knows it: its organization, its name, and the sum of the month.
type Spent = (Box<str>, String, u64);

/// All meters on which these requests draw.
async fn spent(
    database: &Database,
    recovered: &[Recovered],
    month: u32,
) -> Result<Vec<Spent>, OpenError> {
    let (mut done, mut spent) = (HashSet::new(), Vec::new());
    for Recovered { entry, .. } in recovered {
        let (organization, project) = (&entry.organization, &*entry.project);
        for project in [None, Some(project)] {
            if done.insert((organization, project)) {
                let sum = ledger::month_commitment_of(database, organization, project, month);
                let meter = project.map_or_else(|| ORGANIZATION_SPEND.to_owned(), spend_meter);
                spent.push((organization.clone(), meter, sum.await?));
            }
        }
    }
    Ok(spent)
}

fn report(recovered: &[Recovered]) {
    for Recovered { entry, is_charged, is_lost, .. } in recovered {
        let request = &entry.request;
        if *is_lost {
            tracing::error!(%request, cost = entry.cost, "the ledger rejects the request of a process that was killed");
        } else if *is_charged {
            tracing::warn!(
                %request,
                organization = %entry.organization,
                project = %entry.project,
                key = %entry.key,
                model = %entry.model,
                ended = entry.ended.name(),
                input_tokens = entry.input_tokens,
                output_tokens = entry.output_tokens,
                cost_microdollars = entry.cost,
                "this node was killed"
            );
        }
    }
}

/// Sets the meters of this process to what the ledger has, as nothing else is open. May be repeated. Returns `false` for
/// a shared store.
fn restores(limits: &Limits, spent: &[Spent], month: u32) -> Result<bool, OpenError> {
    let bound = Bound::Spend { most: None, month };
    for (organization, meter, sum) in spent {
        if !limits.restore(organization, meter, bound, *sum)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Replaces what a request had reserved by what it costs, on meters that other nodes use, too. It may not be known whether
/// the process had reported the end of a request: then only what exceeds the reservation is added. Its slot is freed
/// first. So what is counted may be too much, and never too little.
fn correct(limits: &Limits, recovered: Recovered, month: u32, clock: &dyn Clock) {
    let Recovered { ref entry, held, is_charged, was_settled, .. } = recovered;
    let exceeds = was_settled && entry.cost > held;
    let counts = dates::month(entry.at) == month && matches!(limits, Limits::Redis(_));
    let (organization, meter) = (entry.organization.clone(), spend_meter(&entry.project));
    let (request, cost) = (entry.request.clone(), entry.cost);
    recovered.free();
    if !(counts && (is_charged || exceeds)) {
        return;
    }
    let bound = Bound::Spend { most: None, month };
    for meter in [ORGANIZATION_SPEND, &meter] {
        let draw = Draw { meter, bound, amount: held, set: 0 };
        if let Err(error) = limits.correct(&organization, &draw, cost, clock.steady()) {
            tracing::warn!(%request, "{organization} keeps what the request had reserved: {error}");
        }
    }
}
