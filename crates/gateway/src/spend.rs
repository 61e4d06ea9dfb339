//! Keeps the spend meters of the limits in step with the ledger: before the first decision of a
//! month they are set to the ledger's sums, so that losing the state of the limits refunds nothing.
//! When a shared store has lost its state, so are the meters of a day.
//! The limits themselves are decided with the others, in `ratelimit`. Logs when a soft limit is
//! exceeded, once per month and again after a restart.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use ratelimit::{Bound, Draw, Limits, Micros};
use tokio::sync::{OnceCell, RwLock};

use gateway_policy::dates;
use gateway_policy::environment::Clock;
use gateway_policy::error::ApiError;
use gateway_policy::plan::{ORGANIZATION_SPEND, Plan, spend_meter};
use gateway_policy::settings::{Catalog, Model};
use gateway_policy::tenants::{Caller, DerivedKey, SpendAlert};
use gateway_store::database::Database;
use gateway_store::journal::Identity;
use gateway_store::ledger::{self, Entry, Ledger};
use gateway_store::records::later_answers::{self, LaterAnswer};

use crate::day_use;

/// Most alerts remembered as logged; beyond it some may be logged again.
const MAX_ALERTED: usize = 100_000;
/// Longest wait for this node's own rows before the ledger is read.
const FLUSH: Duration = Duration::from_secs(1);

/// The spend of all callers.
pub(crate) struct Spend {
    database: Arc<Database>,
    limits: Arc<Limits>,
    ledger: Ledger,
    clock: Arc<dyn Clock>,
    /// Counts alerts.
    alerts: Counter,
    alerted: Mutex<HashSet<(Box<str>, u32)>>,
    /// One request at a time seeds an organization again; several organizations share a turn.
    turns: [tokio::sync::Mutex<()>; 32],
    /// Written while an answer that came later is settled, read while meters are set from the ledger.
    settling: RwLock<()>,
}

impl Spend {
    pub(crate) fn new(
        database: &Arc<Database>,
        limits: &Arc<Limits>,
        ledger: &Ledger,
        clock: &Arc<dyn Clock>,
        alerts: Counter,
    ) -> Arc<Self> {
        Arc::new(Self {
            database: Arc::clone(database),
            limits: Arc::clone(limits),
            ledger: ledger.clone(),
            clock: Arc::clone(clock),
            alerts,
            alerted: Mutex::default(),
            turns: Default::default(),
            settling: RwLock::default(),
        })
    }

    /// Sets the meters of this month from the ledger, once per caller.
    ///
    /// # Errors
    /// 503 when the ledger cannot be read: the remaining budget is unknown.
    pub(crate) async fn seed(&self, caller: &Caller, now: Micros) -> Result<(), ApiError> {
        let month = dates::month(now);
        let seeded = caller.derived.get(DerivedKey::Seeded { month }, OnceCell::<()>::new);
        if seeded.initialized() {
            return Ok(());
        }
        seeded.get_or_try_init(|| self.set_meters(caller, month)).await.map(drop)
    }

    /// The turn to seed an organization again: others wait for it, and need no seed afterwards.
    pub(crate) async fn turn(&self, organization: &str) -> tokio::sync::MutexGuard<'_, ()> {
        let mut hasher = DefaultHasher::new();
        organization.hash(&mut hasher);
        self.turns[hasher.finish() as usize % self.turns.len()].lock().await
    }

    /// [`Spend::seed`] again, and the limits of the day that `plan` has, because the store of the limits has lost its
    /// state.
    ///
    /// # Errors
    /// See [`Spend::seed`].
    pub(crate) async fn seed_again(
        &self,
        caller: &Caller,
        (model, plan): (&Model, &Plan),
        catalog: &Catalog,
        now: Micros,
    ) -> Result<(), ApiError> {
        if let Err(left) = self.ledger.flush(FLUSH).await {
            tracing::warn!("the ledger is not written, so the limits cannot be restored: {left:?}");
            return Err(ApiError::store_unavailable());
        }
        self.set_meters(caller, dates::month(now)).await?;
        let organization = &*caller.organization.id;
        let used = day_use::of_plan(&self.database, caller, (model, plan), catalog, now).await;
        let used = used.map_err(|error| unreadable(organization, &error))?;
        for (meter, amount) in used {
            let bound = meter.bound(dates::month(now));
            let seeded = self.limits.seed(organization, &meter.name, bound, amount).await;
            seeded.map_err(|error| unavailable(&error))?;
        }
        Ok(())
    }

    /// Settles an answer that came later, in the ledger and then on the meters. Returns `false` if it was settled
    /// before. After a process that was killed between the two, the next one restores the meters of this node.
    ///
    /// # Errors
    /// The store's; or the journal is full.
    pub(crate) async fn settle_later(
        &self,
        answer: &LaterAnswer,
        entry: &Entry,
    ) -> Result<bool, gateway_store::Error> {
        let _turn = self.settling.write().await;
        let identity = Identity {
            request: &answer.request,
            organization: &answer.organization,
            project: &answer.project,
            key: &answer.key,
            model: &answer.model,
            endpoint: answer.endpoint,
            batch: answer.batch,
            received: answer.created_at,
        };
        let full = |error| gateway_store::Error::unavailable(format!("the journal: {error}"));
        // Charges nothing: it says that the meters may lag behind the ledger.
        let _changing = self.ledger.begin(&identity).map_err(full)?;
        if !later_answers::settle(&self.database, answer, entry.clone()).await? {
            return Ok(false);
        }
        let month = answer.month();
        // What was reserved in a month that has ended went with that month.
        if month != dates::month(self.clock.now()) {
            return Ok(true);
        }
        let (organization, project) = (&answer.organization, &answer.project);
        let bound = Bound::Spend { most: None, month };
        for meter in [ORGANIZATION_SPEND, &spend_meter(project)] {
            let held = Draw { meter, bound, amount: answer.held, set: 0 };
            let now = self.clock.now();
            if let Err(error) = self.limits.correct(organization, &held, entry.cost, now) {
                tracing::warn!("{organization} keeps what {} had reserved: {error}", answer.id);
            }
        }
        // Where nodes do not share their limits, this one may not have counted what another reserved. It logs itself
        // why it fails; then the meters are set with the next key.
        let _ = self.raise_meters(organization, project, month).await;
        Ok(true)
    }

    /// Checks the soft limits of a caller whose request cost this much. Never waits: the check runs
    /// in a task of its own.
    pub(crate) fn settled(self: &Arc<Self>, caller: &Arc<Caller>, cost: u64) {
        let has_alerts = |alerts: &[SpendAlert]| !alerts.is_empty();
        let (organization, project) = (&caller.organization.spend, &caller.project.spend);
        if cost == 0 || !(has_alerts(&organization.alerts) || has_alerts(&project.alerts)) {
            return;
        }
        let (spend, caller) = (Arc::clone(self), Arc::clone(caller));
        tokio::spawn(async move { spend.check_alerts(&caller).await });
    }

    async fn check_alerts(&self, caller: &Caller) {
        let now = self.clock.now();
        let month = dates::month(now);
        let project = spend_meter(&caller.project.id);
        let bound = Bound::Spend { most: None, month };
        let draws =
            [ORGANIZATION_SPEND, &project].map(|meter| Draw { meter, bound, amount: 0, set: 0 });
        let organization = &*caller.organization.id;
        // After an error the next request checks again.
        let Ok(states) = self.limits.look(organization, &draws, now).await else { return };
        let scopes = [
            (organization, &caller.organization.spend.alerts),
            (&*caller.project.id, &caller.project.spend.alerts),
        ];
        for ((scope, alerts), state) in scopes.into_iter().zip(states) {
            for alert in alerts.iter().filter(|alert| alert.threshold <= state.used) {
                if self.is_new(alert, month) {
                    self.alerts.inc();
                    tracing::warn!(
                        "spend alert {} of {scope}: {} of {} micro-dollars spent this month",
                        alert.id,
                        state.used,
                        alert.threshold
                    );
                }
            }
        }
    }

    fn is_new(&self, alert: &SpendAlert, month: u32) -> bool {
        let mut alerted = self.alerted.lock().unwrap_or_else(PoisonError::into_inner);
        if alerted.len() >= MAX_ALERTED {
            alerted.clear();
        }
        alerted.insert((alert.id.clone(), month))
    }

    async fn set_meters(&self, caller: &Caller, month: u32) -> Result<(), ApiError> {
        // A settlement that has changed the ledger, and not the meters yet, would count twice.
        let _turn = self.settling.read().await;
        self.raise_meters(&caller.organization.id, &caller.project.id, month).await
    }

    /// Raises the meters to what the ledger knows.
    async fn raise_meters(
        &self,
        organization: &str,
        project: &str,
        month: u32,
    ) -> Result<(), ApiError> {
        let bound = Bound::Spend { most: None, month };
        let meters = [(ORGANIZATION_SPEND.to_owned(), None), (spend_meter(project), Some(project))];
        for (meter, project) in meters {
            let spent = ledger::month_commitment_of(&self.database, organization, project, month);
            let spent = spent.await.map_err(|error| unreadable(organization, &error))?;
            let seeded = self.limits.seed(organization, &meter, bound, spent).await;
            seeded.map_err(|error| unavailable(&error))?;
        }
        Ok(())
    }
}

fn unreadable(organization: &str, error: &gateway_store::Error) -> ApiError {
    tracing::warn!("the use of {organization} cannot be read from the ledger: {error}");
    ApiError::store_unavailable()
}

fn unavailable(error: &ratelimit::Error) -> ApiError {
    tracing::warn!("limits: {error}");
    ApiError::limits_unavailable()
}
