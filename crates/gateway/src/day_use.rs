//! The use of the limits of a day, from the ledger: for meters that a shared store has lost (specification: What the
//! service does). The last two days count, in steps of [`STEP`], each as if all of it were used at its end, and as if
//! the limit had been used up when they began: so what is found is at least what the meter had, up to requests that are
//! open or not written yet.

use ratelimit::{Bound, Bucket, DAY, Limit, Micros};

use gateway_policy::dates;
use gateway_policy::plan::{DayScope, Dimension, Meter, Plan};
use gateway_policy::settings::{Catalog, Model};
use gateway_policy::tenants::Caller;
use gateway_store::Error;
use gateway_store::database::Database;
use gateway_store::ledger::{self, Sum, UsageQuery};

/// Seconds of a step.
const STEP: u64 = 600;
/// The time that is read: within the first day, all that may have been used before is refilled.
const READ: Micros = 2 * DAY;
/// Seconds by which other nodes' clocks may be ahead.
const AHEAD: u64 = 60;

/// The use of each meter of a day in `plan`, in its units.
///
/// # Errors
/// The ledger cannot be read.
pub(crate) async fn of_plan<'a>(
    database: &Database,
    caller: &Caller,
    (model, plan): (&Model, &'a Plan),
    catalog: &Catalog,
    now: Micros,
) -> Result<Vec<(&'a Meter, u64)>, Error> {
    let mut used = Vec::new();
    let mut read: Vec<(DayScope, Vec<Sum>)> = Vec::new();
    for meter in plan.all() {
        let Some(scope) = meter.day_scope() else { continue };
        if !read.iter().any(|(known, _)| *known == scope) {
            let query = query(caller, model, catalog, scope, now);
            // Sums without groups are at most 290, one for each step.
            let sums = ledger::sums(database, &query).await?.unwrap_or_default();
            read.push((scope, sums));
        }
        let sums = read.iter().find(|(known, _)| *known == scope).map_or(&[][..], |(_, all)| all);
        let Bound::Rate { limit, .. } = meter.bound(dates::month(now)) else { continue };
        used.push((meter, level(limit, meter.dimension, sums, now)));
    }
    Ok(used)
}

fn query(
    caller: &Caller,
    model: &Model,
    catalog: &Catalog,
    scope: DayScope,
    now: Micros,
) -> UsageQuery {
    let names = |all: Vec<&str>| all.into_iter().map(Into::into).collect();
    let is_shared = |other: &&str| {
        let other = catalog.find(other);
        other.is_some_and(|other| other.shared_limit == model.shared_limit)
    };
    let all = catalog.models().map(|model| &*model.name);
    let (models, projects) = match scope {
        DayScope::Model => (vec![&*model.name], vec![]),
        DayScope::Group => (all.filter(is_shared).collect(), vec![]),
        DayScope::Project => (vec![&*model.name], vec![&*caller.project.id]),
    };
    UsageQuery {
        organization: caller.organization.id.clone(),
        start: now.saturating_sub(READ) / 1_000_000,
        end: now / 1_000_000 + AHEAD,
        width: STEP,
        // Lines of batches draw on money alone.
        batch: Some(false),
        models: names(models),
        projects: names(projects),
        ..UsageQuery::default()
    }
}

/// The units that are still used now.
fn level(limit: Limit, dimension: Dimension, sums: &[Sum], now: Micros) -> u64 {
    let mut bucket = Bucket::default();
    bucket.advance(limit, now.saturating_sub(READ));
    bucket.owe(limit, limit.amount);
    for sum in sums {
        let end = (sum.bucket + 1).saturating_mul(STEP * 1_000_000);
        let amount = match dimension {
            Dimension::RequestsPerDay => sum.requests,
            _ => sum.input_tokens.saturating_add(sum.output_tokens),
        };
        bucket.advance(limit, end.min(now));
        bucket.owe(limit, amount);
    }
    bucket.advance(limit, now);
    bucket.used(limit)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMIT: Limit = Limit { amount: 200, window: DAY };
    const NOW: Micros = 1_794_268_800_000_000 + 123_456_789;

    fn sums(rows: &[(Micros, u64)]) -> Vec<Sum> {
        let mut sums: Vec<Sum> = Vec::new();
        for (at, requests) in rows.iter().filter(|(at, _)| *at >= NOW - READ) {
            let bucket = at / (STEP * 1_000_000);
            match sums.last_mut().filter(|last| last.bucket == bucket) {
                Some(last) => last.requests += requests,
                None => sums.push(Sum { bucket, requests: *requests, ..Sum::default() }),
            }
        }
        sums
    }

    fn found(rows: &[(Micros, u64)]) -> u64 {
        level(LIMIT, Dimension::RequestsPerDay, &sums(rows), NOW)
    }

    #[test]
    fn what_was_used_is_found() {
        let hour = DAY / 24;
        for (rows, expected) in [
            (&[][..], 0),
            (&[(NOW, 1)], 1),
            (&[(NOW, 200)], 200),
            (&[(NOW, 300)], 300),
            // In twelve hours, a hundred are refilled; the step that is not over yet takes up to ten minutes longer.
            (&[(NOW - 12 * hour, 150)], 51),
            (&[(NOW - 12 * hour, 100)], 1),
            (&[(NOW - 25 * hour, 200)], 0),
            // The limit was used up two days ago, and always as soon as it was refilled.
            (&[(NOW - 47 * hour, 8), (NOW - 24 * hour, 191), (NOW - hour, 191)], 190),
        ] {
            let found = found(rows);
            assert!((expected..=expected + 1).contains(&found), "{rows:?}: {found}");
        }
    }

    proptest! {
        /// Never less than a meter that has counted all requests since long ago, and never more than they are.
        #[test]
        fn no_use_is_lost(steps in prop::collection::vec((0..DAY / 20, 0..60u64), 1..120)) {
            let (mut bucket, mut rows) = (Bucket::default(), Vec::new());
            let mut at = NOW - steps.iter().map(|(pause, _)| pause).sum::<u64>();
            for (pause, requests) in steps {
                at += pause;
                bucket.advance(LIMIT, at);
                if bucket.fits(LIMIT, requests) {
                    bucket.take(LIMIT, requests);
                    rows.push((at, requests));
                }
            }
            let found = found(&rows);
            prop_assert!(found >= bucket.used(LIMIT), "{found} of {}", bucket.used(LIMIT));
            let all: u64 = sums(&rows).iter().map(|sum| sum.requests).sum();
            prop_assert!(found <= all, "{found} of {all}");
        }
    }
}
