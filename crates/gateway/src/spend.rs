//! Money beside the limits' own books: what the ledger knows is put into them before the first
//! decision of a month, so that a lost state file or store gives no money back; and soft limits
//! tell, once a month each and once more after a restart, that they were passed.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use ratelimit::{Bound, Draw, Micros};
use tokio::sync::OnceCell;

use crate::state::Gateway;
use gateway_policy::dates;
use gateway_policy::error::ApiError;
use gateway_policy::plan::{ORGANIZATION_SPEND, spend_meter};
use gateway_policy::tenants::{Caller, DerivedKey, SpendAlert};
use gateway_store::ledger;

/// Alerts that are remembered as told; beyond it some may be told again.
const MOST_TOLD: usize = 100_000;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Spend {
    told: Mutex<HashSet<(Box<str>, u32)>>,
}

impl Spend {
    /// Puts what the ledger knows of this month into the limits, once a caller.
    ///
    /// # Errors
    /// 503 when the ledger cannot be read: nobody knows what may still be spent.
    pub(crate) async fn seed(
        &self,
        gateway: &Gateway,
        caller: &Caller,
        now: Micros,
    ) -> Result<(), ApiError> {
        let month = dates::month(now);
        let seeded = caller.derived.get(DerivedKey::Seeded { month }, OnceCell::<()>::new);
        if seeded.initialized() {
            return Ok(());
        }
        seeded.get_or_try_init(|| put(gateway, caller, month)).await.map(drop)
    }

    /// The same, because the limits' store says that it has forgotten.
    ///
    /// # Errors
    /// See [`Spend::seed`].
    pub(crate) async fn seed_again(
        &self,
        gateway: &Gateway,
        caller: &Caller,
        now: Micros,
    ) -> Result<(), ApiError> {
        put(gateway, caller, dates::month(now)).await
    }

    /// Tells of soft limits that a request has passed. It never waits: somebody looks later.
    pub(crate) fn settled(&self, gateway: &Arc<Gateway>, caller: &Arc<Caller>, cost: u64) {
        let has_alerts = |alerts: &[SpendAlert]| !alerts.is_empty();
        let (organization, project) = (&caller.organization.spend, &caller.project.spend);
        if cost == 0 || !(has_alerts(&organization.alerts) || has_alerts(&project.alerts)) {
            return;
        }
        let (gateway, caller) = (Arc::clone(gateway), Arc::clone(caller));
        tokio::spawn(async move { gateway.spend.tell(&gateway, &caller).await });
    }

    async fn tell(&self, gateway: &Gateway, caller: &Caller) {
        let now = gateway.clock.now();
        let month = dates::month(now);
        let project = spend_meter(&caller.project.id);
        let bound = Bound::Spend { most: None, month };
        let draws = [ORGANIZATION_SPEND, &project].map(|meter| Draw { meter, bound, amount: 0 });
        let organization = &*caller.organization.id;
        // The next request looks again.
        let Ok(states) = gateway.limits.look(organization, &draws, now).await else { return };
        let scopes = [
            (organization, &caller.organization.spend.alerts),
            (&*caller.project.id, &caller.project.spend.alerts),
        ];
        for ((scope, alerts), state) in scopes.into_iter().zip(states) {
            for alert in alerts.iter().filter(|alert| alert.threshold <= state.used) {
                if self.is_new(alert, month) {
                    gateway.metrics.spend_alerts.inc();
                    gateway.log.line(format_args!(
                        "spend alert {} of {scope}: {} of {} micro-dollars spent this month",
                        alert.id, state.used, alert.threshold,
                    ));
                }
            }
        }
    }

    fn is_new(&self, alert: &SpendAlert, month: u32) -> bool {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() >= MOST_TOLD {
            told.clear();
        }
        told.insert((alert.id.clone(), month))
    }
}

async fn put(gateway: &Gateway, caller: &Caller, month: u32) -> Result<(), ApiError> {
    let organization = &*caller.organization.id;
    let project = &*caller.project.id;
    let bound = Bound::Spend { most: None, month };
    let meters = [(ORGANIZATION_SPEND.to_owned(), None), (spend_meter(project), Some(project))];
    for (meter, project) in meters {
        let spent = ledger::month_spend_of(&gateway.database, organization, project, month);
        let spent = spent.await.map_err(|error| {
            gateway.log.line(format_args!("what {organization} has spent: {error}"));
            ApiError::store_unavailable()
        })?;
        let seeded = gateway.limits.seed(organization, &meter, bound, spent).await;
        seeded.map_err(|error| {
            gateway.log.line(format_args!("limits: {error}"));
            crate::api::limits_unavailable()
        })?;
    }
    Ok(())
}
