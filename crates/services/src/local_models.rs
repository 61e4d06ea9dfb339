//! The models of the servers on the user's machine, for `--oss`.

use config::Config;
use model::{Client, LocalServer, ModelsAnswer, Network};

use crate::options::Options;
use crate::provider::local_provider;

/// The models that the local provider `id` has, at least one.
///
/// # Errors
/// A sentence: it is not running, has no model, or answers with something else.
pub async fn local_models(
    options: &Options,
    config: &Config,
    id: &str,
) -> Result<Vec<String>, String> {
    let provider = config.providers.get(id).and_then(local_provider);
    let provider = provider.ok_or_else(|| format!("`{id}` is not a local provider"))?;
    let network = Network::from_variables(|name| options.variable(name));
    let client = Client::with_options(model::Options { network, offline: None });
    let answer = client.models(&provider, None).await.map_err(|failure| failure.message)?;
    let ModelsAnswer::Listed { models, .. } = answer else {
        return Err(format!("{} sent no list of models", provider.name));
    };
    if models.is_empty() {
        let (name, host) = (&provider.name, &provider.base_url);
        let get = provider.local.map_or_else(String::new, LocalServer::get_any);
        return Err(format!("{name} at {host} has no models yet{get}"));
    }
    Ok(models.iter().map(|model| model.id.to_string()).collect())
}
