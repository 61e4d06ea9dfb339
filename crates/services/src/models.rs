//! The models that are known for a provider: the catalog of `model_catalog_json`, or the built-in facts
//! with what the provider reports of its models and the user's own facts.

mod listings;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use config::HttpProvider;
use model::catalog::{Catalog, CatalogFile, ListedModel, ModelInfo, Overrides};
use model::{Provider, host_of};

use crate::error::Error;
pub(crate) use listings::DueListing;
pub use listings::Listings;
use listings::Occasion;

/// The models that are known for a provider.
pub struct Models {
    /// Catalog files, read once in the life of the server.
    files: Mutex<HashMap<PathBuf, File>>,
    /// Catalogs of providers with the facts of a file, and the catalogs that they were made of.
    overlaid: Mutex<HashMap<(PathBuf, String), Overlaid>>,
    listings: Listings,
}

/// A provider's catalog with the facts of a file.
struct Overlaid {
    /// The catalog that it was made of.
    base: Arc<Catalog>,
    made: Arc<Catalog>,
}

/// The contents of a catalog file.
#[derive(Clone)]
enum File {
    /// All models.
    Whole(Arc<Catalog>),
    Overrides(Overrides),
}

/// Longest wait for the first report of a provider's models, without which none can be named.
const FIRST_ANSWER: Duration = Duration::from_secs(3);

/// Catalog files that are kept. Beyond it all are read again when they are next needed.
const MAX_CATALOGS: usize = 64;

impl Models {
    pub fn new(listings: Listings) -> Self {
        Self { files: Mutex::default(), overlaid: Mutex::default(), listings }
    }

    /// Reads the catalog that the configuration names, unless it was read already.
    ///
    /// # Errors
    /// The catalog cannot be read; names the file and the position.
    pub fn load(&self, config: &config::Config) -> Result<(), Error> {
        let Some(path) = &config.model_catalog_json else { return Ok(()) };
        let files = || self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if files().contains_key(path) {
            return Ok(());
        }
        // Read without the lock: a file system that does not answer delays no other thread.
        let catalog = model::catalog::read(path)
            .map_err(|error| Error::failed(format!("`model_catalog_json`: {error}")))?;
        let mut files = files();
        if files.len() >= MAX_CATALOGS {
            files.clear();
        }
        let file = match catalog {
            CatalogFile::Whole(catalog) => File::Whole(Arc::new(catalog)),
            CatalogFile::Overrides(overrides) => File::Overrides(overrides),
        };
        files.insert(path.clone(), file);
        Ok(())
    }

    /// Returns the known facts about a model of that provider.
    pub fn info(&self, config: &config::Config, provider: &str, model: &str) -> ModelInfo {
        let mut info = self.catalog(config, provider).find(model);
        if let Some(supported) = config.model_supports_reasoning_summaries {
            info.supports_reasoning = supported;
        }
        info
    }

    /// The model of a provider that is used when none is named.
    pub(crate) fn default_model(&self, config: &config::Config, provider: &str) -> String {
        let catalog = self.catalog(config, provider);
        catalog.default_model().map(|model| model.id.to_string()).unwrap_or_default()
    }

    /// The models of a provider.
    pub fn catalog(&self, config: &config::Config, provider: &str) -> Arc<Catalog> {
        let Some(config::Provider::Http(http)) = config.providers.get(provider) else {
            return Catalog::offline();
        };
        let file = self.file(config);
        if let Some((_, File::Whole(named))) = file {
            return named;
        }
        let listed = self.listings.catalog(&http.id, &http.base_url);
        let known = listed.unwrap_or_else(|| built_in(http));
        match file {
            Some((path, File::Overrides(own))) => self.overlay((path, &http.id), &known, &own),
            _ => known,
        }
    }

    /// The catalog file of a configuration, once it is read.
    fn file(&self, config: &config::Config) -> Option<(PathBuf, File)> {
        let path = config.model_catalog_json.as_ref()?;
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        Some((path.clone(), files.get(path)?.clone()))
    }

    /// A provider's catalog with the facts of a file.
    fn overlay(
        &self,
        (path, provider): (PathBuf, &str),
        known: &Arc<Catalog>,
        own: &Overrides,
    ) -> Arc<Catalog> {
        let mut overlaid = self.overlaid.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (path, provider.to_owned());
        if let Some(old) = overlaid.get(&key)
            && Arc::ptr_eq(&old.base, known)
        {
            return old.made.clone();
        }
        if overlaid.len() >= MAX_CATALOGS {
            overlaid.clear();
        }
        let made = Arc::new(known.with_overrides(own, provider));
        overlaid.insert(key, Overlaid { base: known.clone(), made: made.clone() });
        made
    }

    /// Returns whether the user's catalog lists all models, so that no provider is asked.
    pub(crate) fn is_complete(&self, config: &config::Config) -> bool {
        let is_named = config.model_catalog_json.is_some();
        is_named && !matches!(self.file(config), Some((_, File::Overrides(_))))
    }

    /// The models of a provider for a picker: of one that has not reported any, the one that is configured.
    pub fn listed(&self, config: &config::Config, provider: &str) -> Arc<Catalog> {
        let catalog = self.catalog(config, provider);
        match &config.model {
            Some(model) if catalog.models().is_empty() && config.provider.id() == provider => {
                Arc::new(catalog.with_listing(&[ListedModel::named(model)]))
            }
            _ => catalog,
        }
    }

    /// Asks a provider of which no model is known yet, and waits for its answer, for a time.
    pub async fn learn(&self, config: &config::Config, provider: &str) {
        let Some(due) = self.due_listing(config, provider) else { return };
        let is_unknown = self.catalog(config, provider).models().is_empty();
        // It goes on after that time: the next question has its answer.
        let asking = tokio::spawn(due.refresh());
        if is_unknown && tokio::time::timeout(FIRST_ANSWER, asking).await.is_err() {
            tracing::warn!(
                target: "server::models",
                "the provider `{provider}` has not reported its models within {} s",
                FIRST_ANSWER.as_secs()
            );
        }
    }

    /// A provider that is to be asked for its models now. The caller carries it out in the background.
    pub fn due_listing(&self, config: &config::Config, provider: &str) -> Option<DueListing> {
        if self.is_complete(config) {
            return None;
        }
        self.listings.due(config, config.providers.get(provider)?, Occasion::Use)
    }

    /// Has a provider report its models, unless it did a short time ago, and waits for its answer.
    ///
    /// # Errors
    /// No model of it is known, with the reason.
    pub async fn report(&self, config: &config::Config, provider: &str) -> Result<(), String> {
        let Some(configured) = config.providers.get(provider) else { return Ok(()) };
        if !self.is_complete(config)
            && let Some(due) = self.listings.due(config, configured, Occasion::Question)
        {
            // It goes on when the client goes away: the next question has its answer.
            if let Err(error) = tokio::spawn(due.refresh()).await {
                return Err(format!("the question for its models failed: {error}"));
            }
        }
        self.listings.settled(provider).await;
        if !self.catalog(config, provider).models().is_empty() {
            return Ok(());
        }
        let why = configured.ready().err().map(|missing| missing.to_string());
        let why = why.or_else(|| self.listings.problem(provider));
        Err(why.unwrap_or_else(|| "the provider lists no models".to_owned()))
    }
}

/// The built-in catalog of a provider. Its models are those of the default provider: of another one's, facts are
/// known, and none is listed until it reports them. Prices are those of the maker's own address.
fn built_in(http: &HttpProvider) -> Arc<Catalog> {
    static UNPRICED: LazyLock<Arc<Catalog>> =
        LazyLock::new(|| Arc::new(Catalog::hosted().without_prices()));
    match http.id == "default" && http.base_url == Provider::DEFAULT_BASE_URL {
        true => Catalog::hosted(),
        false if http.serves_default_models() => UNPRICED.clone(),
        false => Catalog::of_host(&host_of(&http.base_url)),
    }
}
