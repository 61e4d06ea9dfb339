//! Model providers of the configuration as the model crate takes them.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use model::catalog::ModelInfo;
use model::{KeySource, Provider, Secret, Transport};

use crate::error::Error;

/// The provider that `configured` describes, called with `user_agent` unless the
/// configuration sets that header.
pub(crate) fn provider(configured: &config::Provider, user_agent: Option<&str>) -> Arc<Provider> {
    let http = match configured {
        config::Provider::Offline => return Arc::new(Provider::offline()),
        config::Provider::Http(http) => http,
    };
    let api_key = match (&http.credential, configured.ready()) {
        (Some(secret), _) => KeySource::Value(Secret::new(secret.expose())),
        (None, Err(why)) => KeySource::Missing { instructions: why.to_string() },
        (None, Ok(())) => KeySource::NotNeeded,
    };
    let mut http_headers: BTreeMap<String, String> = http
        .http_headers
        .iter()
        .map(|(name, value)| (name.clone(), value.expose().to_owned()))
        .collect();
    let is_set = http_headers.keys().any(|name| name.eq_ignore_ascii_case("user-agent"));
    if let Some(user_agent) = user_agent.filter(|_| !is_set) {
        http_headers.insert("user-agent".to_owned(), user_agent.to_owned());
    }
    Arc::new(Provider {
        id: http.id.clone(),
        name: http.name.clone(),
        transport: Transport::Http,
        base_url: http.base_url.clone(),
        api_key,
        http_headers,
        query_params: http.query_params.clone(),
        stream_idle_timeout: http.stream_idle_timeout,
        compress_requests: http.compress_requests,
    })
}

/// The models that are known: those built in, or those of `model_catalog_json`.
#[derive(Default)]
pub(crate) struct Models {
    /// Catalog files, read once in the life of the server.
    files: Mutex<HashMap<PathBuf, Arc<Vec<ModelInfo>>>>,
}

/// Catalog files that are kept.
const MAX_CATALOGS: usize = 64;

impl Models {
    /// Reads the catalog that the configuration names, unless it was read already.
    ///
    /// # Errors
    /// The catalog cannot be read; names the file and the position.
    pub(crate) fn load(&self, config: &config::Config) -> Result<(), Error> {
        let Some(path) = &config.model_catalog_json else { return Ok(()) };
        let files = || self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if files().contains_key(path) {
            return Ok(());
        }
        // Read without the lock: a file system that does not answer delays no other thread.
        let models = model::catalog::read(path)
            .map_err(|error| Error::failed(format!("`model_catalog_json`: {error}")))?;
        let mut files = files();
        if files.len() >= MAX_CATALOGS {
            files.clear();
        }
        files.insert(path.clone(), Arc::new(models));
        Ok(())
    }

    /// What is known of a model of that provider.
    pub(crate) fn info(&self, config: &config::Config, provider: &str, model: &str) -> ModelInfo {
        let mut info = model::catalog::find(&self.list(config, provider), model);
        if let Some(supported) = config.model_supports_reasoning_summaries {
            info.supports_reasoning = supported;
        }
        info
    }

    /// The model of a provider that is used when none is named.
    pub(crate) fn default_model(&self, config: &config::Config, provider: &str) -> String {
        let models = self.list(config, provider);
        let default = models.iter().find(|model| model.is_default).or(models.first());
        default.map(|model| model.id.to_string()).unwrap_or_default()
    }

    /// The models of a provider, in the picker's order.
    pub(crate) fn list(&self, config: &config::Config, provider: &str) -> Vec<ModelInfo> {
        if matches!(config.providers.get(provider), Some(config::Provider::Offline)) {
            return model::catalog::offline();
        }
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let named = config.model_catalog_json.as_ref().and_then(|path| files.get(path));
        named.map_or_else(model::catalog::hosted, |models| models.to_vec())
    }
}
