//! Limits that many nodes share, kept in Redis or Valkey. A decision is one call of one function
//! there, over all draws of a request; or no call, while all of them fit into capacity that this
//! node has leased.
//!
//! Guarantees, on any number of nodes, whichever of them or the store fails:
//! - A bucket of limit L and window W admits at most L + L·T/W units in any interval T. Leased
//!   capacity counts as used, and does not refill, until the node has reported it (its refill
//!   starts then), has released it, or has let it lapse (as used, after [`RedisOptions::lease`]).
//!   The node stops using it earlier, by its own clock, counted from before the call. The store's
//!   clock is authoritative; it may jump, and never grants more than one burst.
//! - A lease takes at most a sixteenth of the free capacity, and all leases of one meter at most an
//!   eighth of its limit: this much may be refused to one node because others hold it. Small
//!   limits, and those that are nearly reached, are not leased, nor those of organizations with few
//!   requests. Idle nodes release their leases within a fraction of a second. Spend is leased like
//!   rates: the lease of a dead node counts as spent. Held amounts are not leased.
//! - A call without a reply for half a second is treated as if it had taken effect. If it has, its
//!   reservation stays charged; repeated with the same id within [`REQUEST_MEMORY`], it is charged
//!   once. Reports (refunds, debts) are sent until they are known to have been received, and count
//!   once.
//! - A store that was restarted, or was replaced by a replica, may have lost data that it had
//!   acknowledged: its rates start as used up, and refill. Its spend, and rates over at least
//!   [`crate::LONG_WINDOW`], must be seeded from the ledger again ([`crate::ErrorKind::Unseeded`]), several
//!   times within the first hours. They admit beyond their bound at most what the ledger does not know at a
//!   seed: the requests that are open, those not written yet, and what nodes have leased, an eighth of the
//!   limit. [`RedisOptions::durable`] avoids all this, as does [`RedisOptions::first_start`] for a new
//!   store. The owners of lost held amounts hold them again.
//! - A durable store that has nevertheless lost its last time D may admit again what it had admitted in it:
//!   at most L + L·D/W of a rate.
//! - Spend that is reserved is known by node, for five minutes after its last report: what a node that has
//!   died had reserved counts as settled from then on.
//!
//! The store needs a database (number) of its own, and `maxmemory-policy noeviction`: data that
//! another program deletes is lost. A store that is not as it must be is refused at the start, and
//! reported when it changes later.
//!
//! All keys of an organization have one hash tag. The connection goes to one server, which must own
//! them: a cluster's redirections are not followed.

mod fault;
mod link;
mod local;
mod options;
mod table;
mod wire;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{Notify, oneshot};
use tokio::task::{AbortHandle, JoinSet};

use crate::{Bound, Decision, Draw, Error, ErrorKind, Micros, RequestId, State};
use link::{CallError, Link};
use local::ReplyTime;
pub use options::RedisOptions;
use table::{Batch, PendingCall, Start, Table};

/// Time that the store remembers the id of an admitted request.
pub const REQUEST_MEMORY: Duration = Duration::from_secs(60);
/// The same for a request that holds an amount: its owner may ask again after a restart.
const HELD_REQUEST_MEMORY: Duration = Duration::from_hours(40 * 24);
/// Interval of reports to the store.
const REPORT_INTERVAL: Duration = Duration::from_millis(20);
/// Longest interval of sweeps, each of one shard.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
/// Concurrent batches of reports.
const AT_ONCE: usize = 64;

/// Limits over a shared store.
#[derive(Debug)]
pub struct Redis {
    shared: Arc<Shared>,
    tasks: [AbortHandle; 2],
}

#[derive(Debug)]
struct Shared {
    options: RedisOptions,
    link: Arc<Link>,
    table: Table,
    /// Notified when there is something to report.
    pending: Notify,
    began: Instant,
}

impl Redis {
    /// Starts to use the store, in the background of the current tokio runtime. The store may be
    /// unreachable: then connecting is retried forever, and [`Redis::problem`] says why. Errors: an
    /// invalid URL, or a store that is not configured as the limits need it.
    pub async fn connect(options: RedisOptions) -> Result<Self, Error> {
        let link = Arc::new(Link::new(&options)?);
        // The node's clock may be slower than the store's, and is read a little earlier.
        let span = options.lease - options.lease / 8;
        let span = Micros::try_from(span.as_micros()).unwrap_or(Micros::MAX / 2);
        let table = Table::new(options.node, span);
        let pending = Notify::new();
        let shared = Shared { options, link: link.clone(), table, pending, began: Instant::now() };
        let shared = Arc::new(shared);
        // If the store starts later than this node, the connection task finds it.
        if let Err(error) = link.connect().await
            && error.kind() == ErrorKind::Misconfigured
        {
            return Err(error);
        }
        let connecting = tokio::spawn(link.stay_connected()).abort_handle();
        let telling = tokio::spawn(shared.clone().report_forever()).abort_handle();
        Ok(Self { shared, tasks: [connecting, telling] })
    }

    /// See [`crate::Limits::reserve`]. Takes nothing if it is cancelled.
    pub async fn reserve(
        &self,
        organization: &str,
        request: RequestId,
        draws: &[Draw<'_>],
    ) -> Result<Decision, Error> {
        self.reserve_for(organization, (request, request as u64), draws).await
    }

    /// As [`Redis::reserve`], where each request is of a client of its own, for a client.
    pub async fn reserve_for(
        &self,
        organization: &str,
        (request, client): (RequestId, u64),
        draws: &[Draw<'_>],
    ) -> Result<Decision, Error> {
        for draw in draws {
            wire::check(draw.bound)?;
        }
        let shared = &self.shared;
        let asked = match shared.table.start(organization, request, draws, shared.now()) {
            Start::Admitted(states) => {
                shared.pending.notify_one();
                return Ok(Decision::Admitted(states));
            }
            Start::Full => {
                return Err(Error::full("too many requests are open"));
            }
            Start::Ask(asked) => asked,
        };
        let bounds: Vec<_> = draws.iter().map(|draw| (draw.bound, draw.amount)).collect();
        let (answer, decision) = oneshot::channel();
        let (shared, organization) = (shared.clone(), organization.to_owned());
        // Process the reply even if the caller is cancelled.
        tokio::spawn(async move {
            let decision = shared.ask(&organization, (request, client), &asked, &bounds).await;
            if let Err(Ok(Decision::Admitted(_))) = answer.send(decision) {
                let nothing = vec![Some(0); bounds.len()];
                shared.table.settle(&organization, request, &nothing, shared.now());
                shared.pending.notify_one();
            }
        });
        let gone = |_| Error::unreachable("this node is stopping");
        decision.await.map_err(gone)?
    }

    /// See [`crate::Limits::settle`].
    pub fn settle(&self, organization: &str, request: RequestId, actual: &[Option<u64>]) -> bool {
        let shared = &self.shared;
        let is_open = shared.table.settle(organization, request, actual, shared.now());
        shared.pending.notify_one();
        is_open
    }

    /// See [`crate::Limits::shrink`].
    pub fn shrink(&self, organization: &str, request: RequestId, to: &[Option<u64>]) -> bool {
        let shared = &self.shared;
        let is_open = shared.table.shrink(organization, request, to, shared.now());
        shared.pending.notify_one();
        is_open
    }

    /// See [`crate::Limits::correct`].
    pub fn correct(&self, organization: &str, draw: &Draw<'_>, actual: u64) -> Result<(), Error> {
        wire::check(draw.bound)?;
        let shared = &self.shared;
        shared.table.correct(organization, draw, actual, shared.now());
        shared.pending.notify_one();
        Ok(())
    }

    /// See [`crate::Limits::look`].
    pub async fn look(&self, organization: &str, draws: &[Draw<'_>]) -> Result<Vec<State>, Error> {
        let shared = &self.shared;
        let mut args = vec![shared.durable()];
        for draw in draws {
            wire::check(draw.bound)?;
            wire::push_draw(&mut args, shared.options.node, draw, wire::Terms::default());
        }
        let keys = shared.keys(organization);
        let reply = shared.link.call("look", &keys, &args).await.map_err(away)?;
        let replies = wire::read_replies(reply.get(2..).unwrap_or(&[]));
        Ok(replies.iter().map(|reply| reply.state).collect())
    }

    /// See [`crate::Limits::seed`].
    pub async fn seed(
        &self,
        organization: &str,
        meter: &str,
        bound: Bound,
        at_least: u64,
    ) -> Result<(), Error> {
        if matches!(bound, Bound::Held { .. }) {
            return Ok(());
        }
        wire::check(bound)?;
        let shared = &self.shared;
        let mut args = vec![shared.durable()];
        wire::push_bound(&mut args, meter, bound);
        wire::push(&mut args, at_least.min(wire::LARGEST));
        let keys = shared.keys(organization);
        shared.link.call("seed", &keys, &args).await.map(|_| ()).map_err(away)
    }

    /// See [`crate::Limits::is_available`].
    #[must_use]
    pub fn is_available(&self) -> bool {
        self.shared.link.is_usable()
    }

    /// See [`crate::Limits::problem`].
    #[must_use]
    pub fn problem(&self) -> Option<Error> {
        self.shared.link.fault()
    }

    /// Reservations that are not settled.
    #[must_use]
    pub fn open_requests(&self) -> usize {
        self.shared.table.open_requests()
    }

    /// Sends pending reports and releases all leases, within a second. What could not be reported
    /// stays charged.
    pub async fn close(&self) {
        let shared = &self.shared;
        let telling = async {
            while !shared.table.is_quiet() && shared.link.is_up() {
                shared.clone().report(true).await;
                tokio::time::sleep(REPORT_INTERVAL / 10).await;
            }
        };
        let _ = tokio::time::timeout(2 * link::PATIENCE, telling).await;
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

fn away(error: CallError) -> Error {
    Error::unreachable(error.into_reason())
}

impl Shared {
    fn now(&self) -> Micros {
        Micros::try_from(self.began.elapsed().as_micros()).unwrap_or(Micros::MAX / 2)
    }

    fn durable(&self) -> Vec<u8> {
        u8::from(self.options.durable).to_string().into_bytes()
    }

    fn keys(&self, organization: &str) -> Vec<String> {
        vec![wire::key(organization, "rates"), wire::key(organization, "money")]
    }

    fn lease_ms(&self) -> Vec<u8> {
        self.options.lease.as_millis().to_string().into_bytes()
    }

    async fn ask(
        &self,
        organization: &str,
        (request, client): (RequestId, u64),
        asked: &PendingCall,
        bounds: &[(Bound, u64)],
    ) -> Result<Decision, Error> {
        let holds = bounds.iter().any(|(bound, _)| matches!(bound, Bound::Held { .. }));
        let known = if holds { HELD_REQUEST_MEMORY } else { REQUEST_MEMORY };
        let mut keys = self.keys(organization);
        keys.push(wire::key(organization, &format!("request:{request:x}")));
        let mut args = vec![self.lease_ms(), self.durable()];
        wire::push(&mut args, known.as_millis() as u64);
        wire::push(&mut args, client % wire::LARGEST);
        args.extend_from_slice(&asked.args);
        let reply = match self.link.call("reserve", &keys, &args).await {
            Ok(reply) => reply,
            Err(error) => {
                self.table.unanswered(organization, asked, bounds);
                return Err(away(error));
            }
        };
        let (Some([verdict, store]), replies) =
            (reply.first_chunk(), reply.get(2..).unwrap_or(&[]))
        else {
            self.table.unanswered(organization, asked, bounds);
            return Err(Error::unreachable("the store sent an unexpected answer"));
        };
        let (replies, store) = (wire::read_replies(replies), Micros::try_from(*store).unwrap_or(0));
        let since = match verdict {
            1 => Some(store),
            // It was charged at the first attempt.
            2 => Some(store.saturating_sub(known.as_micros() as u64)),
            _ => None,
        };
        let reply_time = ReplyTime { now: self.now(), store, until: 0, renewed: *verdict == 1 };
        let asked = (asked, bounds);
        self.table.answered(organization, request, asked, &replies, (since, reply_time));
        self.pending.notify_one();
        match verdict {
            0 => Ok(wire::refused(&replies)),
            3 => Err(Error::unseeded()),
            _ => Ok(Decision::Admitted(replies.iter().map(|reply| reply.state).collect())),
        }
    }

    /// Reports changes to the store whenever there are any. Never returns.
    async fn report_forever(self: Arc<Self>) {
        let mut rounds = 0;
        loop {
            if self.table.is_quiet() {
                // The sweep goes on: it renews what is reserved for long.
                let _ = tokio::time::timeout(SWEEP_INTERVAL, self.pending.notified()).await;
            }
            tokio::time::sleep(REPORT_INTERVAL).await;
            if self.link.is_up() {
                self.clone().report(false).await;
            }
            rounds += 1;
            self.table.sweep(rounds, self.now());
        }
    }

    async fn report(self: Arc<Self>, all: bool) {
        let mut running = JoinSet::new();
        for batch in self.table.batches(self.now(), all) {
            if running.len() >= AT_ONCE {
                running.join_next().await;
            }
            running.spawn(self.clone().report_one(batch));
        }
        running.join_all().await;
    }

    async fn report_one(self: Arc<Self>, batch: Batch) {
        let mut keys = self.keys(&batch.organization);
        let node = format!("node:{:x}", self.options.node);
        keys.push(wire::key(&batch.organization, &node));
        let mut args = vec![self.lease_ms(), self.durable()];
        wire::push(&mut args, batch.number);
        args.extend_from_slice(&batch.args);
        let sent = self.now();
        let Ok(reply) = self.link.call("adjust", &keys, &args).await else {
            return self.table.failed(batch);
        };
        let store = reply.get(1).and_then(|store| Micros::try_from(*store).ok()).unwrap_or(0);
        let replies = (reply.first() == Some(&1)).then(|| wire::read_changed(&reply[2..]));
        let reply_time = ReplyTime { now: self.now(), store, until: 0, renewed: true };
        self.table.done(&batch, replies.as_deref(), sent, reply_time);
    }
}

#[cfg(test)]
#[path = "redis/lua_tests.rs"]
mod tests;
