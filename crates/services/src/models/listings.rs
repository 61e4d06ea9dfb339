//! Providers' reports of their models. They are asked in the background, at most every
//! [`INTERVAL_MS`], and no turn waits for an answer. A failure is logged and changes nothing.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use files::Pool;
use model::catalog::{CachedListing, Catalog};
use model::{Client, KeySource, ModelsAnswer, Platform, Provider};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::sync::Notify;

use super::built_in;
use crate::accounts::Accounts;
use crate::options::Options;
use crate::provider::provider;

/// Shortest time between two questions to a provider, and the age from which a kept answer is old.
const INTERVAL_MS: i64 = 15 * 60 * 1000;
/// Providers whose answers are kept in memory. Beyond it all are read again from their files.
const MAX_PROVIDERS: usize = 64;
/// Longest name of a file; a provider with a longer id is asked again by each server.
const MAX_FILE_NAME: usize = 200;
/// Characters that a file name keeps.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_');

/// The providers' reports of their models. Cheap to clone.
#[derive(Clone)]
pub struct Listings {
    client: Client,
    accounts: Arc<Accounts>,
    options: Arc<Options>,
    files: Pool,
    /// By provider id.
    known: Arc<Mutex<HashMap<String, Known>>>,
    /// A question has its answer, or failed.
    answered: Arc<Notify>,
}

struct Known {
    base_url: String,
    /// Before this time the provider is not asked again, whatever came of the last question.
    not_before_ms: i64,
    /// The built-in catalog with what the provider reports.
    catalog: Option<Arc<Catalog>>,
    /// True while it is asked.
    is_asked: bool,
    /// Why the last question has no answer.
    problem: Option<String>,
}

/// Why a provider is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Occasion {
    /// A thread uses it.
    Use,
    /// A user wants to choose one of its models: one that failed is asked again, and one without a key at a public
    /// address, too.
    Question,
}

/// A question to a provider, which [`DueListing::refresh`] asks.
pub struct DueListing {
    listings: Listings,
    provider: Arc<Provider>,
    /// The catalog of the provider as long as it reports nothing.
    built_in: Arc<Catalog>,
    now: i64,
}

impl Listings {
    pub fn new(
        (client, accounts): (Client, Arc<Accounts>),
        options: Arc<Options>,
        files: Pool,
    ) -> Self {
        let (known, answered) = (Arc::default(), Arc::default());
        Self { client, accounts, options, files, known, answered }
    }

    /// The catalog of a provider that has reported its models.
    pub(super) fn catalog(&self, id: &str, base_url: &str) -> Option<Arc<Catalog>> {
        let known = self.known();
        let known = known.get(id).filter(|known| known.base_url == base_url)?;
        known.catalog.clone()
    }

    /// The question to a provider, if it has a key and was not asked a short time ago.
    pub(super) fn due(
        &self,
        config: &config::Config,
        configured: &config::Provider,
        occasion: Occasion,
    ) -> Option<DueListing> {
        let config::Provider::Http(http) = configured else { return None };
        let provider = provider(config, configured, None, &self.accounts);
        let is_question = occasion == Occasion::Question;
        let is_direct = provider.platform == Platform::Direct;
        let is_open = is_question && is_direct && matches!(provider.api_key, KeySource::NotNeeded);
        if !provider.lists_models() && !is_open {
            return None;
        }
        let now = self.options.clock.now_ms();
        let mut known = self.known();
        let old = known.get(&provider.id).filter(|known| known.base_url == provider.base_url);
        let is_early = |old: &Known| {
            now < old.not_before_ms && !(is_question && old.problem.is_some() && !old.is_asked)
        };
        if old.is_some_and(is_early) {
            return None;
        }
        let catalog = old.and_then(|old| old.catalog.clone());
        if known.len() >= MAX_PROVIDERS {
            known.clear();
        }
        let base_url = provider.base_url.clone();
        let not_before_ms = now.saturating_add(INTERVAL_MS);
        let new = Known { base_url, not_before_ms, catalog, is_asked: true, problem: None };
        known.insert(provider.id.clone(), new);
        drop(known);
        Some(DueListing { listings: self.clone(), provider, built_in: built_in(http), now })
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Known>> {
        // A panic leaves whole values.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no question to a provider is open. Each is bounded in time.
    pub(super) async fn settled(&self, id: &str) {
        loop {
            let mut answered = std::pin::pin!(self.answered.notified());
            answered.as_mut().enable();
            if !self.known().get(id).is_some_and(|known| known.is_asked) {
                return;
            }
            answered.await;
        }
    }

    /// Why the last question to a provider has no answer.
    pub(super) fn problem(&self, id: &str) -> Option<String> {
        self.known().get(id)?.problem.clone()
    }

    fn failed(&self, provider: &Provider, problem: String) {
        if let Some(known) = self.known().get_mut(&provider.id) {
            known.problem = Some(problem);
        }
    }

    fn take(&self, (provider, built_in): (&Provider, &Catalog), listing: &CachedListing) {
        let catalog = built_in.with_listing(&listing.models);
        let mut known = self.known();
        if let Some(known) = known.get_mut(&provider.id)
            && known.base_url == provider.base_url
        {
            known.catalog = Some(Arc::new(catalog));
        }
    }

    fn path(&self, provider: &Provider) -> Option<PathBuf> {
        let name = format!("{}.json", utf8_percent_encode(&provider.id, ESCAPED));
        let fits = name.len() <= MAX_FILE_NAME;
        fits.then(|| self.options.home.join("models").join(name))
    }
}

impl DueListing {
    /// Asks, unless another server of this home did a short time ago. Returns whether it asked.
    pub async fn refresh(self) -> bool {
        let Self { listings, provider, built_in, now } = &self;
        let now = *now;
        let cached = self.cached().await;
        if let Some(cached) = &cached {
            listings.take((provider, built_in), cached);
            // A time in the future is of a clock that was wrong.
            if (0..INTERVAL_MS).contains(&now.saturating_sub(cached.checked_at_ms)) {
                return false;
            }
        }
        // Without a login there is no one to ask as; a turn reports that.
        let authorized = match provider.authorized().await {
            Ok(authorized) => authorized,
            Err(failure) => {
                listings.failed(provider, failure.message);
                return false;
            }
        };
        let etag = cached.as_ref().and_then(|cached| cached.etag.clone());
        let listing = match listings.client.models(&authorized, etag.as_deref()).await {
            Ok(ModelsAnswer::Listed { models, etag }) => {
                CachedListing::new(&provider.base_url, now, etag, models)
            }
            Ok(ModelsAnswer::Unchanged) => {
                let Some(mut cached) = cached else { return true };
                cached.checked_at_ms = now;
                cached
            }
            Err(failure) => {
                listings.failed(provider, failure.message.clone());
                tracing::warn!(
                    target: "server::models",
                    "the models of the provider `{}` are not known: {failure}; those that were \
                     known before stay",
                    provider.id
                );
                return true;
            }
        };
        listings.take((provider, built_in), &listing);
        self.keep(listing).await;
        true
    }

    /// The answer that is kept in the home.
    async fn cached(&self) -> Option<CachedListing> {
        let path = self.listings.path(&self.provider)?;
        let (place, base_url) = (path.clone(), self.provider.base_url.clone());
        let read = move || CachedListing::read(&path, &base_url);
        match self.listings.files.run(&place, read).await {
            Ok(Ok(cached)) => cached,
            Ok(Err(error)) => {
                tracing::warn!(target: "server::models", "a list of models is not used: {error}");
                None
            }
            Err(error) => {
                tracing::warn!(target: "server::models", "a list of models is not used: {error}");
                None
            }
        }
    }

    async fn keep(&self, listing: CachedListing) {
        let Some(path) = self.listings.path(&self.provider) else { return };
        let place = path.clone();
        let written = self.listings.files.run(&place, move || listing.write(&path)).await;
        let error = match written {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        };
        let place = place.display();
        tracing::warn!(target: "server::models", "{place} cannot be written: {error}");
    }
}

impl Drop for DueListing {
    /// The question is over, whatever came of it.
    fn drop(&mut self) {
        if let Some(known) = self.listings.known().get_mut(&self.provider.id) {
            known.is_asked = false;
        }
        self.listings.answered.notify_waiters();
    }
}
