//! Keeps the spend meters of the limits in step with the ledger: before the first decision of a
//! month they are set to the ledger's sums, so that losing the state of the limits refunds nothing.
//! When a shared store has lost its state, so are the meters of a day.
//! The limits themselves are decided with the others, in `ratelimit`. When a soft limit is exceeded,
//! one node raises its alert, once in a month: a line of the log, and a message to the webhook.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use prometheus_client::metrics::counter::Counter;
use ratelimit::{Bound, Draw, Limits, Micros};
use tokio::sync::{Notify, OnceCell, RwLock};

use gateway_policy::dates;
use gateway_policy::environment::{Clock, Random};
use gateway_policy::error::ApiError;
use gateway_policy::plan::{ORGANIZATION_SPEND, Plan, spend_meter};
use gateway_policy::settings::{Catalog, Model, Settings};
use gateway_policy::tenants::{Caller, DerivedKey, MicroDollars, SpendAlert};
use gateway_store::database::Database;
use gateway_store::journal::Identity;
use gateway_store::ledger::{self, Entry, Ledger};
use gateway_store::records::later_answers::{self, LaterAnswer};
use gateway_store::records::outbox;

use crate::day_use;
use crate::raised_alert::RaisedAlert;
use crate::throttle::Throttle;

/// Most alerts remembered as raised; beyond it, the store is asked again.
const MAX_ALERTED: usize = 100_000;
/// Longest wait for this node's own rows before the ledger is read.
const FLUSH: Duration = Duration::from_secs(1);

/// The spend of all callers.
pub(crate) struct Spend {
    services: SpendServices,
    /// Counts alerts.
    alerts: Counter,
    alerted: Mutex<HashSet<(Box<str>, u32, MicroDollars)>>,
    /// Notified when an alert has a message to send.
    raised: Arc<Notify>,
    /// Limits that could not be decided.
    undecided: Throttle,
    /// One request at a time seeds an organization again; several organizations share a turn.
    turns: [tokio::sync::Mutex<()>; 32],
    /// Written while an answer that came later is settled, read while meters are set from the ledger.
    settling: RwLock<()>,
}

/// The services of the gateway that the spend needs.
pub(crate) struct SpendServices {
    pub(crate) database: Arc<Database>,
    pub(crate) limits: Arc<Limits>,
    pub(crate) ledger: Ledger,
    pub(crate) settings: Arc<ArcSwap<Settings>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) random: Arc<dyn Random>,
}

impl Spend {
    pub(crate) fn new(services: SpendServices, alerts: Counter) -> Arc<Self> {
        Arc::new(Self {
            services,
            alerts,
            alerted: Mutex::default(),
            raised: Arc::default(),
            undecided: Throttle::default(),
            turns: Default::default(),
            settling: RwLock::default(),
        })
    }

    /// The signal that there are messages to send.
    pub(crate) fn raised(&self) -> Arc<Notify> {
        Arc::clone(&self.raised)
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

    /// 503, because the limits cannot be decided. Logs it, at most once a minute.
    pub(crate) fn limits_unavailable(&self, error: &ratelimit::Error) -> ApiError {
        match self.undecided.count(self.services.clock.steady()) {
            None => {}
            Some(0) => tracing::warn!("limits: {error}"),
            Some(more) => {
                tracing::warn!(
                    "limits: {error} (and {more} more refused requests since the last line)"
                );
            }
        }
        ApiError::limits_unavailable()
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
        if let Err(left) = self.services.ledger.flush(FLUSH).await {
            tracing::warn!("the ledger is not written, so the limits cannot be restored: {left:?}");
            return Err(ApiError::store_unavailable());
        }
        self.set_meters(caller, dates::month(now)).await?;
        let organization = &*caller.organization.id;
        let used =
            day_use::of_plan(&self.services.database, caller, (model, plan), catalog, now).await;
        let used = used.map_err(|error| unreadable(organization, &error))?;
        for (meter, amount) in used {
            let bound = meter.bound(dates::month(now));
            let seeded = self.services.limits.seed(organization, &meter.name, bound, amount).await;
            seeded.map_err(|error| self.limits_unavailable(&error))?;
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
        // Charges nothing: it says that the ledger may have more than the meters.
        let _changing = self.services.ledger.begin(&identity).map_err(full)?;
        if !later_answers::settle(&self.services.database, answer, entry.clone()).await? {
            return Ok(false);
        }
        let month = answer.month();
        // What was reserved in a month that has ended went with that month.
        if month != dates::month(self.services.clock.now()) {
            return Ok(true);
        }
        let (organization, project) = (&answer.organization, &answer.project);
        let bound = Bound::Spend { most: None, month };
        for meter in [ORGANIZATION_SPEND, &spend_meter(project)] {
            let held = Draw { meter, bound, amount: answer.held, set: 0 };
            let now = self.services.clock.steady();
            if let Err(error) = self.services.limits.correct(organization, &held, entry.cost, now) {
                tracing::warn!("{organization} keeps what {} had reserved: {error}", answer.id);
            }
        }
        // Where nodes do not share their limits, this one may not have counted what another reserved. It logs itself
        // why it fails; then the meters are set with the next key.
        let _ = self.raise_meters(organization, project, month).await;
        Ok(true)
    }

    /// A guard to hold from the moment when an answer is kept in the store until its reservation is handed over: no meter is
    /// set from the store meanwhile by the settlement of another one.
    pub(crate) async fn keeping(&self) -> tokio::sync::RwLockReadGuard<'_, ()> {
        self.settling.read().await
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
        let now = self.services.clock.now();
        let month = dates::month(now);
        let project = spend_meter(&caller.project.id);
        let bound = Bound::Spend { most: None, month };
        let draws =
            [ORGANIZATION_SPEND, &project].map(|meter| Draw { meter, bound, amount: 0, set: 0 });
        let organization = &*caller.organization.id;
        // After an error the next request checks again.
        let Ok(states) =
            self.services.limits.look(organization, &draws, self.services.clock.steady()).await
        else {
            return;
        };
        let scopes = [
            (None, &caller.organization.spend.alerts),
            (Some(&*caller.project.id), &caller.project.spend.alerts),
        ];
        for ((project, alerts), state) in scopes.into_iter().zip(states) {
            for alert in alerts.iter().filter(|alert| alert.threshold <= state.used) {
                if self.is_new(alert, month) {
                    let raised = RaisedAlert { alert, organization, project, spent: state.used };
                    self.raise(&raised, now).await;
                }
            }
        }
    }

    /// Raises an alert, unless another node has, or this one before a restart.
    async fn raise(&self, raised: &RaisedAlert<'_>, now: Micros) {
        let SpendServices { database, settings, random, .. } = &self.services;
        let RaisedAlert { alert, spent, .. } = raised;
        let (id, scope) = (&alert.id, raised.scope());
        let message = settings.load().webhook.is_some().then(|| raised.message(now, &**random));
        match outbox::raise(database, alert, dates::month(now), message.as_ref()).await {
            Ok(true) => {
                self.alerts.inc();
                let most = alert.threshold;
                tracing::warn!(
                    "spend alert {id} of {scope}: {spent} of {most} micro-dollars spent this month"
                );
                self.raised.notify_one();
            }
            Ok(false) => {}
            Err(error) => {
                self.forget(alert, dates::month(now));
                tracing::warn!("spend alert {id} of {scope} waits for its next request: {error}");
            }
        }
    }

    fn is_new(&self, alert: &SpendAlert, month: u32) -> bool {
        let mut alerted = self.alerted.lock().unwrap_or_else(PoisonError::into_inner);
        if alerted.len() >= MAX_ALERTED {
            alerted.clear();
        }
        alerted.insert((alert.id.clone(), month, alert.threshold))
    }

    fn forget(&self, alert: &SpendAlert, month: u32) {
        let mut alerted = self.alerted.lock().unwrap_or_else(PoisonError::into_inner);
        alerted.remove(&(alert.id.clone(), month, alert.threshold));
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
            let spent =
                ledger::month_commitment_of(&self.services.database, organization, project, month);
            let spent = spent.await.map_err(|error| unreadable(organization, &error))?;
            let seeded = self.services.limits.seed(organization, &meter, bound, spent).await;
            seeded.map_err(|error| self.limits_unavailable(&error))?;
        }
        Ok(())
    }
}

fn unreadable(organization: &str, error: &gateway_store::Error) -> ApiError {
    tracing::warn!("the use of {organization} cannot be read from the ledger: {error}");
    ApiError::store_unavailable()
}
