//! Model providers of the configuration as the model crate takes them.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::catalog::ModelInfo;
use model::{KeySource, Provider, Secret, Transport};

/// The provider that `configured` describes, called in the name of `user_agent` unless the
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
        request_max_retries: http.request_max_retries,
        stream_max_retries: http.stream_max_retries,
        stream_idle_timeout: http.stream_idle_timeout,
    })
}

/// What is known of a model of that provider.
pub(crate) fn model_info(config: &config::Config, provider: &str, model: &str) -> ModelInfo {
    model::catalog::find(&models(config, provider), model)
}

/// The model of a provider when nobody names one.
pub(crate) fn default_model(config: &config::Config, provider: &str) -> String {
    let models = models(config, provider);
    let default = models.iter().find(|model| model.is_default).or(models.first());
    default.map(|model| model.id.to_string()).unwrap_or_default()
}

fn models(config: &config::Config, provider: &str) -> Vec<ModelInfo> {
    match config.providers.get(provider) {
        Some(config::Provider::Offline) => model::catalog::offline(),
        _ => model::catalog::hosted(),
    }
}
