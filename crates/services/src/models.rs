//! The models that are known for a provider: the catalog of `model_catalog_json`, or the built-in one
//! with what the provider reports of its models.

mod listings;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use config::HttpProvider;
use model::Provider;
use model::catalog::{Catalog, ListedModel, ModelInfo};

use crate::error::Error;
pub(crate) use listings::DueListing;
pub use listings::Listings;

/// The models that are known for a provider.
pub struct Models {
    /// Catalog files, read once in the life of the server.
    files: Mutex<HashMap<PathBuf, Arc<Catalog>>>,
    listings: Listings,
}

/// Longest wait for the first report of a provider's models, without which none can be named.
const FIRST_ANSWER: Duration = Duration::from_secs(3);

/// Catalog files that are kept. Beyond it all are read again when they are next needed.
const MAX_CATALOGS: usize = 64;

impl Models {
    pub fn new(listings: Listings) -> Self {
        Self { files: Mutex::default(), listings }
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
        files.insert(path.clone(), Arc::new(catalog));
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
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(named) = config.model_catalog_json.as_ref().and_then(|path| files.get(path)) {
            return named.clone();
        }
        drop(files);
        let listed = self.listings.catalog(&http.id, &http.base_url);
        listed.unwrap_or_else(|| built_in(http))
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
        // A catalog of the user's is complete.
        if config.model_catalog_json.is_some() {
            return None;
        }
        self.listings.due(config, config.providers.get(provider)?)
    }
}

/// The built-in catalog. Its prices are those of the default provider, and so are its models: of another one's
/// only what their families say is known, until it reports them.
fn built_in(http: &HttpProvider) -> Arc<Catalog> {
    static UNPRICED: LazyLock<Arc<Catalog>> =
        LazyLock::new(|| Arc::new(Catalog::hosted().without_prices()));
    static UNLISTED: LazyLock<Arc<Catalog>> =
        LazyLock::new(|| Arc::new(UNPRICED.without_listing()));
    match http.id == "default" && http.base_url == Provider::DEFAULT_BASE_URL {
        true => Catalog::hosted(),
        false if http.serves_default_models() => UNPRICED.clone(),
        false => UNLISTED.clone(),
    }
}
