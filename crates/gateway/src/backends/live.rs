//! A backend while the gateway runs: its settings, its client, its keys and its health.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use files::Pool;
use gateway_policy::backends::{
    Breaker, Candidate, Health, Pass, Pauses, Places, Requester, Shares,
};
use gateway_policy::environment::Clock;
use gateway_policy::settings::Backend;
use http_client::HttpClient;
use ratelimit::{Micros, SteadyTime};
use tokio::sync::Notify;

use super::clients::Clients;
use super::keys::KeyRing;
use crate::upstream::{Failure, SecretMask};

/// Time for which a backend that refused the member `prompt_cache_retention` does not get it.
const RETENTION_PAUSE: Micros = 600_000_000;

/// Number of keys of an account that the mask knows.
const MASKED_KEYS: usize = 2;

/// A backend while the gateway runs.
pub(crate) struct LiveBackend {
    backend: Arc<Backend>,
    http: Clients,
    keys: KeyRing,
    /// The credentials of accounts of clouds; `None` for a backend with keys of its own.
    credentials: Option<Arc<cloud::Credentials>>,
    /// The last keys of its account, the newest first: of one that was renewed, answers may still come.
    last_keys: Mutex<Vec<cloud::Key>>,
    state: Arc<Mutex<State>>,
    clock: Arc<dyn Clock>,
    shared: Arc<Shared>,
}

/// The parts that all backends share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// Signals that a request has ended.
    pub(super) freed: Notify,
    /// Signals that there may be other backends.
    pub(super) changed: Arc<Notify>,
    /// Reads files of keys.
    files: Pool,
}

/// The health and the load of a backend.
#[derive(Debug, Default)]
struct State {
    breaker: Breaker,
    pauses: Pauses,
    in_flight: u32,
    /// Who holds the places, where their number is bounded.
    shares: Shares,
    /// Until then it does not get `prompt_cache_retention`.
    no_retention_until: SteadyTime,
}

impl LiveBackend {
    /// `before` is the same backend in the configuration before.
    pub(super) fn new(
        backend: &Arc<Backend>,
        http: Clients,
        before: Option<&Self>,
        clock: &Arc<dyn Clock>,
        shared: &Arc<Shared>,
    ) -> Self {
        Self {
            backend: Arc::clone(backend),
            http,
            keys: KeyRing::new(&backend.keys),
            credentials: backend.account.is_some().then(|| {
                let network = || backend.network.network.clone();
                // A changed proxy is one of the services that give tokens, too.
                let fingerprint = backend.network.fingerprint;
                let before = before.filter(|it| it.backend.network.fingerprint == fingerprint);
                let before = before.and_then(|before| before.credentials.clone());
                before.unwrap_or_else(|| Arc::new(cloud::Credentials::new(network())))
            }),
            last_keys: Mutex::new(before.map(LiveBackend::last_keys).unwrap_or_default()),
            state: before.map_or_else(Arc::default, |before| Arc::clone(&before.state)),
            clock: Arc::clone(clock),
            shared: Arc::clone(shared),
        }
    }

    /// Its settings.
    pub(crate) fn backend(&self) -> &Arc<Backend> {
        &self.backend
    }

    /// The number of its name and address.
    pub(crate) fn id(&self) -> u64 {
        self.backend.id
    }

    /// `upstream/backend`, or the name of both.
    pub(crate) fn label(&self) -> &str {
        &self.backend.label
    }

    /// Its client on the calling thread.
    pub(crate) fn http(&self) -> &HttpClient {
        self.http.here()
    }

    /// Its keys.
    pub(crate) fn keys(&self) -> &KeyRing {
        &self.keys
    }

    /// Reads the files of its keys again.
    pub(crate) async fn read_keys_again(&self) {
        if self.keys.has_files() {
            self.keys.read_again(&self.shared.files, self.label()).await;
        }
    }

    /// The key of its cloud's account; `None` if it has keys of its own.
    ///
    /// # Errors
    /// The account gives no credentials.
    pub(crate) async fn cloud_key(&self) -> Result<Option<cloud::Key>, Failure> {
        let Some((account, credentials)) = self.account() else { return Ok(None) };
        let key = credentials.key(account, &self.named()).await;
        let key = key.map_err(|error| Failure::NoCredentials(error.message))?;
        self.keep_for_mask(&key);
        Ok(Some(key))
    }

    /// Another key after `refused`; `None` if there is no other.
    ///
    /// # Errors
    /// As for [`LiveBackend::cloud_key`].
    pub(crate) async fn renewed_cloud_key(
        &self,
        refused: &cloud::Key,
    ) -> Result<Option<cloud::Key>, Failure> {
        let Some((account, credentials)) = self.account() else { return Ok(None) };
        let key = credentials.renewed(account, refused, &self.named()).await;
        let key = key.map_err(|error| Failure::NoCredentials(error.message))?;
        key.iter().for_each(|key| self.keep_for_mask(key));
        Ok(key)
    }

    fn account(&self) -> Option<(&cloud::Account, &cloud::Credentials)> {
        let credentials = self.credentials.as_deref()?;
        Some((self.backend.account.as_ref()?, credentials))
    }

    fn named(&self) -> String {
        format!("backend {}", self.label())
    }

    /// Keeps a key for the mask.
    pub(super) fn keep_for_mask(&self, key: &cloud::Key) {
        let mut last = self.last_keys.lock().unwrap_or_else(PoisonError::into_inner);
        if !last.contains(key) {
            last.insert(0, key.clone());
            last.truncate(MASKED_KEYS);
        }
    }

    #[cfg(test)]
    pub(super) fn credentials(&self) -> Option<Arc<cloud::Credentials>> {
        self.credentials.clone()
    }

    fn last_keys(&self) -> Vec<cloud::Key> {
        self.last_keys.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// All keys in use.
    pub(super) fn secrets(&self) -> Vec<Arc<str>> {
        let mut all = self.keys.secrets();
        for key in self.last_keys() {
            match key {
                cloud::Key::Bearer(token) => all.push(token.expose().into()),
                cloud::Key::Signed(signer) => {
                    let keys = &signer.keys;
                    let texts = [Some(&keys.secret), keys.session_token.as_ref()];
                    all.extend(texts.into_iter().flatten().map(|text| text.expose().into()));
                }
            }
        }
        all
    }

    /// The mask of its keys and hosts.
    pub(crate) fn mask(&self) -> SecretMask {
        SecretMask::new(self.secrets(), &self.backend)
    }

    /// Returns whether it takes requests, also a first one that tries it.
    pub(crate) fn is_available(&self) -> bool {
        let now = self.clock.steady();
        !matches!(self.state().breaker.health(now), Health::Away(_))
            && self.keys.rest(now).is_none()
    }

    /// Returns whether requests to it get `prompt_cache_retention`.
    pub(crate) fn takes_retention(&self) -> bool {
        let now = self.clock.steady();
        self.backend.prompt_cache_retention && self.state().no_retention_until <= now
    }

    /// Notes that it refuses `prompt_cache_retention`.
    pub(crate) fn refuses_retention(&self) {
        let until = self.clock.steady().after(RETENTION_PAUSE);
        self.state().no_retention_until = until;
        tracing::warn!(
            "backend {} refuses the member prompt_cache_retention: it does not get it for {} s; \
             `prompt_cache_retention = false` in its settings turns it off",
            self.label(),
            RETENTION_PAUSE / 1_000_000
        );
    }

    /// Keeps requests for a model away for as long as the backend asks.
    pub(crate) fn pause(&self, model: &str, asked: Option<Duration>) {
        let time = self.state().pauses.begin(model, asked, self.clock.steady());
        tracing::info!(
            "backend {} gets no requests for {model} for {:.1} s",
            self.label(),
            time.as_secs_f64()
        );
    }

    /// The result of a probe.
    pub(super) fn probed(&self, problem: Option<&str>, interval: Duration) {
        let now = self.clock.steady();
        let opened = self.state().breaker.probed(problem.is_none(), interval, now);
        if opened && let Some(problem) = problem {
            tracing::warn!(
                "backend {} is put aside: its health check failed: {problem}",
                self.label()
            );
        }
    }

    /// It as a candidate for a request to a model.
    pub(super) fn candidate(
        &self,
        model: &str,
        requester: Requester<'_>,
        now: SteadyTime,
    ) -> Candidate<'_> {
        let Backend { name, weight, priority, .. } = &*self.backend;
        let state = self.state();
        let pause = state.pauses.of(model, now);
        let away = pause.max(self.keys.rest(now));
        let health = match (state.breaker.health(now), away) {
            (Health::Away(until), away) => Health::Away(until.max(away.unwrap_or_default())),
            (_, Some(until)) => Health::Away(until),
            (health, None) => health,
        };
        Candidate {
            name,
            weight: *weight,
            priority: *priority,
            in_flight: state.in_flight,
            has_room: self.has_room(&state, requester, now),
            health,
        }
    }

    /// Notes that `requester` looks for a place: others leave one to it.
    pub(super) fn is_asked(&self, requester: Requester<'_>, now: SteadyTime) {
        if self.has_bound() {
            self.state().shares.ask(requester, now);
        }
    }

    /// Takes a place. `None` if other requests have taken those that are left to `requester`, or the trial, unless
    /// `is_forced`.
    pub(super) fn begin(
        &self,
        requester: Requester<'_>,
        is_forced: bool,
        now: SteadyTime,
    ) -> Option<Pass> {
        let mut state = self.state();
        let is_away = matches!(state.breaker.health(now), Health::Away(_));
        if !self.has_room(&state, requester, now) || (is_away && !is_forced) {
            return None;
        }
        state.in_flight += 1;
        if self.has_bound() {
            state.shares.take(requester);
        }
        Some(state.breaker.begin(now))
    }

    /// Gives a place back; `holder` is set where the number of places is bounded.
    pub(super) fn end(&self, holder: Option<Requester<'_>>) {
        let mut state = self.state();
        state.in_flight = state.in_flight.saturating_sub(1);
        if let Some(holder) = holder {
            state.shares.give_back(holder);
            drop(state);
            self.shared.freed.notify_waiters();
        }
    }

    /// Returns whether the number of its requests is bounded.
    pub(super) fn has_bound(&self) -> bool {
        self.backend.max_concurrency.is_some()
    }

    fn has_room(&self, state: &State, requester: Requester<'_>, now: SteadyTime) -> bool {
        self.backend.max_concurrency.is_none_or(|all| {
            let places = Places { all, held: state.in_flight };
            state.shares.allow(requester, places, now)
        })
    }

    pub(super) fn succeeded(&self, pass: Pass, model: &str) {
        let mut state = self.state();
        state.pauses.end(model);
        let closed = state.breaker.succeed(pass);
        drop(state);
        if closed {
            tracing::info!("backend {} takes requests again", self.label());
        }
    }

    pub(super) fn failed(&self, pass: Pass, cause: &str) {
        let now = self.clock.steady();
        let opened = self.state().breaker.fail(pass, now);
        if let Some(time) = opened {
            let seconds = time.as_secs();
            tracing::warn!("backend {} is put aside for {seconds} s: {cause}", self.label());
        }
    }

    pub(super) fn abandoned(&self, pass: Pass) {
        let now = self.clock.steady();
        self.state().breaker.abandon(pass, now);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
