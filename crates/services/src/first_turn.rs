//! The checks of what a first turn needs: the provider with its key and models, and the settings that a new
//! thread would have. They start no server and open no store; only the provider is asked, for its models.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use config::{Config, HttpProvider};
use files::Pool;
use model::catalog::{Catalog, ListedModel};
use model::{Client, KeySource, Network, Provider, Transport};
use protocol::{AskForApproval, SandboxPolicy};

use crate::accounts::Accounts;
use crate::command_environment::command_tmpdir;
use crate::connections::Connections;
use crate::convert::policies::{approval_policy, configured_sandbox};
use crate::convert::settings::{wire_approval, wire_sandbox};
use crate::direct_requests::DirectRequests;
use crate::models::{Listings, Models};
use crate::options::Options;
use crate::project_doc;
use crate::provider::provider;
use crate::server_models::{ListedModels, PATIENCE, listed_models};

/// The provider of a new thread, as it was found.
#[derive(Debug)]
pub struct ProviderCheck {
    pub id: String,
    /// `None` for the offline model, which has none.
    pub address: Option<String>,
    /// The source of its key in words, or what to do to have one.
    pub key: Result<String, String>,
    pub listed: ListedModels,
    /// The model of a new thread; empty if there is none.
    pub model: String,
}

/// The settings of a new thread in the working folder.
#[derive(Debug)]
pub struct FirstTurn {
    pub sandbox: SandboxPolicy,
    pub approval: AskForApproval,
    /// The documents that the model gets.
    pub instructions: Vec<PathBuf>,
    /// Why documents that exist are not read, or not as a whole.
    pub problems: Vec<String>,
}

/// Asks the provider of a configuration for its models.
///
/// # Errors
/// The catalog that the configuration names cannot be read.
pub async fn check_provider(
    options: &Arc<Options>,
    config: &Config,
) -> Result<ProviderCheck, String> {
    let network = Network::from_variables(|name| options.variable(name));
    let client = Client::with_options(model::Options { network, offline: None });
    let (connections, requests) = (Arc::<Connections>::default(), Arc::<DirectRequests>::default());
    let accounts = Arc::new(Accounts::new(options.clone(), connections, requests));
    let of_client = (client.clone(), accounts.clone());
    let known = Models::new(Listings::new(of_client, options.clone(), Pool::default()));
    known.load(config).map_err(|error| error.to_string())?;
    let provider = provider(config, &config.provider, None, &accounts);
    let authorized = authorized(&provider).await;
    let is_http = provider.transport == Transport::Http;
    let listed = match &authorized {
        Ok(authorized) if is_http => listed_models(&client, authorized).await,
        _ => ListedModels::NotAsked,
    };
    let catalog = known.catalog(config, &provider.id);
    Ok(ProviderCheck {
        id: provider.id.clone(),
        address: is_http.then(|| provider.base_url.clone()),
        key: authorized.map(|_| key_source(options, config, &provider)),
        model: model_of(config, &catalog, known.is_complete(config), &listed),
        listed,
    })
}

/// The settings of a new thread in the working folder. Waits for the file system.
pub fn first_turn(options: &Options, config: &Config) -> FirstTurn {
    let cwd = &options.cwd;
    let sandbox = configured_sandbox(config, cwd, command_tmpdir(options, config));
    let document = project_doc::read(config, &options.home, cwd, |path: &Path| {
        path.canonicalize().map_err(|error| format!("{}: {error}", path.display()))
    });
    FirstTurn {
        sandbox: wire_sandbox(&sandbox),
        approval: wire_approval(approval_policy(config.approval_policy)),
        instructions: document.sources,
        problems: document.problems,
    }
}

/// The provider with its key, or what to do to have one.
async fn authorized(provider: &Arc<Provider>) -> Result<Arc<Provider>, String> {
    if let KeySource::Missing { instructions } = &provider.api_key {
        return Err(instructions.clone());
    }
    match tokio::time::timeout(PATIENCE, provider.authorized()).await {
        Ok(authorized) => authorized.map_err(|failure| failure.message),
        Err(_) => Err(format!(
            "the login service does not answer within {} s: check the network, or log in again (`agentd \
             login`)",
            PATIENCE.as_secs()
        )),
    }
}

/// Where the key of a provider comes from.
fn key_source(options: &Options, config: &Config, provider: &Provider) -> String {
    match (&provider.api_key, &config.provider) {
        (KeySource::Account(_), _) => {
            "from the login (`agentd login status` says whose)".to_owned()
        }
        (key, _) if key.is_cloud() => "from an account of the cloud (`auth`)".to_owned(),
        (KeySource::Value(_), config::Provider::Http(http)) => value_source(options, http),
        _ if has_authorization(provider) => "in the headers of the configuration".to_owned(),
        _ => "none is needed".to_owned(),
    }
}

fn value_source(options: &Options, http: &HttpProvider) -> String {
    let is_set = |name: &&String| options.variable(name).is_some_and(|value| !value.is_empty());
    match http.env_key.as_ref().filter(is_set) {
        Some(variable) => format!("from the variable {variable}"),
        None if http.uses_default_credential => "from the variable OPENAI_API_KEY".to_owned(),
        None => "from `experimental_bearer_token` of the configuration".to_owned(),
    }
}

fn has_authorization(provider: &Provider) -> bool {
    provider.http_headers.keys().any(|name| name.eq_ignore_ascii_case("authorization"))
}

/// The model of a new thread: that of the configuration, else the default one.
fn model_of(
    config: &Config,
    catalog: &Catalog,
    is_complete: bool,
    listed: &ListedModels,
) -> String {
    if let Some(model) = &config.model {
        return model.clone();
    }
    let default = |catalog: &Catalog| catalog.default_model().map(|model| model.id.to_string());
    let model = match listed {
        // A catalog of the user's is complete.
        ListedModels::Listed(ids) if !is_complete => {
            let listed: Vec<ListedModel> = ids.iter().map(|id| ListedModel::named(id)).collect();
            default(&catalog.with_listing(&listed))
        }
        _ => default(catalog),
    };
    model.unwrap_or_default()
}
