//! The backends of all upstreams while the gateway runs: which one serves a request, and what is known of their
//! health. It outlives a reload for backends that stay. It sends nothing but probes.

mod clients;
mod keys;
mod lease;
mod live;
mod probe;

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use gateway_policy::backends::{Choice, Order, Requester, choose};
use gateway_policy::environment::{Clock, Random};
use gateway_policy::settings::{Backend, Settings, Upstream};
use http_client::NetworkError;
use tokio::sync::Notify;

use clients::Clients;
pub(crate) use keys::PickedKey;
pub(crate) use lease::Lease;
pub(crate) use live::LiveBackend;
use live::Shared;
pub(crate) use probe::watch;

use crate::upstream;

/// Longest wait of a request while all backends are full.
const PATIENCE: Duration = Duration::from_secs(1);
/// Most requests that wait so. Further ones are refused at once.
const MAX_WAITING: usize = 1024;

/// The backends of all upstreams.
pub(crate) struct Backends {
    known: ArcSwap<Known>,
    /// Clients by the fingerprint of their network.
    clients: Mutex<HashMap<u64, Clients>>,
    shared: Arc<Shared>,
    waiting: AtomicUsize,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
}

#[derive(Default)]
struct Known {
    /// Those of the current configuration.
    current: Vec<Arc<LiveBackend>>,
    /// These, and those of the one before, which requests that began with it may use.
    by_id: HashMap<u64, Arc<LiveBackend>>,
}

/// A request that looks for a backend.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Query<'a> {
    /// The upstream.
    pub(crate) upstream: &'a Upstream,
    /// The region in which it is processed.
    pub(crate) region: Option<&'a str>,
    /// The name of the model at the upstream.
    pub(crate) model: &'a str,
    /// The organization and the project that ask.
    pub(crate) requester: Requester<'a>,
    /// The only backend that can serve it.
    pub(crate) pinned: Option<&'a str>,
    /// The preference among the others.
    pub(crate) preference: Preference,
}

/// The preference of a request among backends of the same priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Preference {
    /// By weight and load.
    Balanced,
    /// The same for all requests with this key.
    Sticky(u64),
    /// The first one of the file, which has the objects that requests without a model create and list.
    First,
}

/// No backend takes the request: all are full, or were tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoBackend;

impl Backends {
    /// The backends of a configuration. Blocks while it reads certificates.
    ///
    /// # Errors
    /// A certificate or a proxy cannot be used.
    pub(crate) fn open(
        settings: &Settings,
        clock: &Arc<dyn Clock>,
        random: &Arc<dyn Random>,
    ) -> Result<Self, NetworkError> {
        let backends = Self {
            known: ArcSwap::default(),
            clients: Mutex::default(),
            shared: Arc::default(),
            waiting: AtomicUsize::new(0),
            clock: Arc::clone(clock),
            random: Arc::clone(random),
        };
        backends.reload(settings)?;
        Ok(backends)
    }

    /// Takes over another configuration. Health and connections stay where name and address stay.
    ///
    /// # Errors
    /// As for [`Backends::open`]; then nothing has changed.
    pub(crate) fn reload(&self, settings: &Settings) -> Result<(), NetworkError> {
        let old = self.known.load();
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let mut in_use = HashMap::new();
        let mut current = Vec::new();
        for backend in settings.upstreams.iter().flat_map(|upstream| &upstream.backends) {
            let network = &backend.network;
            let known = in_use.get(&network.fingerprint).or(clients.get(&network.fingerprint));
            let http = match known {
                Some(http) => Clients::clone(http),
                None => Clients::new(
                    network
                        .network
                        .client(&network.files, &upstream::pool(network.connect_timeout))?,
                ),
            };
            in_use.insert(network.fingerprint, http.clone());
            let before = old.by_id.get(&backend.id).map(|live| &**live);
            let live = LiveBackend::new(backend, http, before, &self.clock, &self.shared);
            current.push(Arc::new(live));
        }
        *clients = in_use;
        let before = old.current.iter().map(|live| (live.id(), Arc::clone(live)));
        let mut by_id: HashMap<_, _> = before.collect();
        by_id.extend(current.iter().map(|live| (live.id(), Arc::clone(live))));
        self.known.store(Arc::new(Known { current, by_id }));
        self.shared.changed.notify_one();
        Ok(())
    }

    /// The signal that there may be other backends, or none.
    pub(crate) fn changed(&self) -> Arc<Notify> {
        Arc::clone(&self.shared.changed)
    }

    /// The backends of the current configuration.
    pub(crate) fn all(&self) -> Vec<Arc<LiveBackend>> {
        self.known.load().current.clone()
    }

    /// A backend of the current configuration, or of the one before.
    fn live(&self, backend: &Backend) -> Option<Arc<LiveBackend>> {
        self.known.load().by_id.get(&backend.id).cloned()
    }

    /// All keys in use, for what must not be shown.
    pub(crate) fn secrets(&self) -> Vec<Arc<str>> {
        self.known.load().by_id.values().flat_map(|live| live.secrets()).collect()
    }

    /// Waits for a place at a backend that `query` may use and that is not in `tried`. The first attempt of a request
    /// goes to a backend that is not available rather than to none, and waits up to a second while all are full.
    ///
    /// # Errors
    /// There is none.
    pub(crate) async fn lease(&self, query: Query<'_>, tried: &[u64]) -> Result<Lease, NoBackend> {
        if let Found::Leased(lease) = self.try_lease(query, tried) {
            return Ok(lease);
        }
        if !tried.is_empty() {
            return Err(NoBackend);
        }
        let _place = Waiting::enter(&self.waiting).ok_or(NoBackend)?;
        let found = async {
            loop {
                let freed = self.shared.freed.notified();
                tokio::pin!(freed);
                // From here on no place that becomes free is missed.
                freed.as_mut().enable();
                match self.try_lease(query, tried) {
                    Found::Leased(lease) => return Ok(lease),
                    Found::Full => freed.await,
                    Found::Nothing => return Err(NoBackend),
                }
            }
        };
        tokio::time::timeout(PATIENCE, found).await.unwrap_or(Err(NoBackend))
    }

    /// Returns whether another backend than those in `tried` would take the request now.
    pub(crate) fn has_other(&self, query: Query<'_>, tried: &[u64]) -> bool {
        let backends = self.candidates(query, tried);
        let now = self.clock.steady();
        let candidates: Vec<_> =
            backends.iter().map(|live| live.candidate(query.model, query.requester, now)).collect();
        matches!(choose(&candidates, Order::First), Choice::Use(_))
    }

    /// The backends that may serve the request, without those in `tried`.
    fn candidates(&self, query: Query<'_>, tried: &[u64]) -> Vec<Arc<LiveBackend>> {
        let is_candidate = |live: &Arc<LiveBackend>| {
            live.backend().base_in(query.region).is_some() && !tried.contains(&live.id())
        };
        let mut backends: Vec<Arc<LiveBackend>> = match query.pinned {
            Some(name) => self.live(query.upstream.backend(name)).into_iter().collect(),
            None => {
                let all = query.upstream.backends.iter();
                all.filter_map(|backend| self.live(backend)).collect()
            }
        };
        backends.retain(is_candidate);
        backends
    }

    fn try_lease(&self, query: Query<'_>, tried: &[u64]) -> Found {
        let backends = self.candidates(query, tried);
        let now = self.clock.steady();
        backends.iter().for_each(|live| live.is_asked(query.requester, now));
        // Another request may take the place in between; each round that fails has seen another's success.
        for _ in 0..=MAX_WAITING {
            let candidates: Vec<_> = backends
                .iter()
                .map(|live| live.candidate(query.model, query.requester, now))
                .collect();
            let (at, is_forced) = match choose(&candidates, self.order(query, candidates.len())) {
                Choice::Use(at) => (at, false),
                Choice::Away(at) if tried.is_empty() => (at, true),
                Choice::Full => return Found::Full,
                Choice::Away(_) => return Found::Nothing,
                Choice::Nothing if candidates.is_empty() => return Found::Nothing,
                Choice::Nothing => return Found::Full,
            };
            if let Some(lease) =
                Lease::begin(&backends[at], query.model, query.requester, is_forced, now)
            {
                return Found::Leased(lease);
            }
        }
        Found::Full
    }

    fn order(&self, query: Query<'_>, candidates: usize) -> Order {
        match query.preference {
            Preference::First => Order::First,
            Preference::Sticky(key) => Order::Sticky(key),
            Preference::Balanced if candidates < 2 => Order::First,
            Preference::Balanced => {
                let mut bytes = [0; 8];
                self.random.fill(&mut bytes);
                Order::Balanced(u64::from_le_bytes(bytes))
            }
        }
    }
}

impl Drop for Backends {
    fn drop(&mut self) {
        self.shared.changed.notify_one();
    }
}

enum Found {
    Leased(Lease),
    Full,
    Nothing,
}

/// The place of a request that waits.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn enter(count: &'a AtomicUsize) -> Option<Self> {
        let place = Self(count);
        (count.fetch_add(1, Ordering::Relaxed) < MAX_WAITING).then_some(place)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
#[path = "backends/backends_tests.rs"]
mod tests;
