//! The providers that a user can choose: those of the configuration, and those that a key of the environment could be
//! used with. Nothing is sent, and no key of the environment is used by itself.

use account::Status;
use config::{Config, HttpProvider};
use model::catalog::{MakerApi, makers};
use model::{Wire, host_of};

use crate::accounts::{AccountConfig, Accounts, Identity};
use crate::error::Error;
use crate::options::Options;
use crate::provider::wire;

/// A provider of the configuration.
#[derive(Debug)]
pub struct ListedProvider {
    pub id: String,
    pub name: String,
    /// Address and wire; `None` for the offline model.
    pub api: Option<(String, Wire)>,
    /// True for a server that is looked for on this machine.
    pub is_local: bool,
    /// Why it cannot be used yet.
    pub problem: Option<String>,
}

/// A provider that is not configured, and whose key is in the environment.
#[derive(Debug, PartialEq, Eq)]
pub struct AvailableProvider {
    /// No configured provider has it.
    pub id: String,
    pub name: String,
    pub base_url: String,
    pub wire: Wire,
    /// The variable that holds the key.
    pub env_key: String,
}

/// The providers of a configuration: its own first, the others by id.
///
/// # Errors
/// The credentials of the account cannot be read.
pub async fn providers(config: &Config, accounts: &Accounts) -> Result<Vec<ListedProvider>, Error> {
    let own = config.provider.id();
    let mut found = Vec::with_capacity(config.providers.len());
    for provider in config.providers.values() {
        let listed = match provider {
            config::Provider::Offline => ListedProvider {
                id: provider.id().to_owned(),
                name: "Offline (scripted)".to_owned(),
                api: None,
                is_local: false,
                problem: None,
            },
            config::Provider::Http(http) => ListedProvider {
                id: http.id.clone(),
                name: http.name.clone(),
                api: Some((http.base_url.clone(), wire(http))),
                is_local: http.local.is_some(),
                problem: problem(config, http, provider, accounts).await?,
            },
        };
        found.push(listed);
    }
    found.sort_by_key(|provider| provider.id != own);
    Ok(found)
}

async fn problem(
    config: &Config,
    http: &HttpProvider,
    provider: &config::Provider,
    accounts: &Accounts,
) -> Result<Option<String>, Error> {
    let Err(missing) = provider.ready() else { return Ok(None) };
    if http.uses_default_credential {
        let identity = accounts.identity(&AccountConfig::new(config), false).await?;
        if !matches!(identity, Identity::Account(Status::LoggedOut { .. })) {
            return Ok(None);
        }
    }
    Ok(Some(missing.to_string()))
}

/// The makers of models whose key is in the environment, and that no configured provider is for.
pub fn available(options: &Options, config: &Config) -> Vec<AvailableProvider> {
    let is_set = |name: &str| options.variable(name).is_some_and(|value| !value.is_empty());
    let offer = |name: &str, api: &MakerApi| {
        let env_key = api.env_keys.iter().find(|name| is_set(name))?;
        if is_configured(config, api) {
            return None;
        }
        let taken = |id: &str| config.providers.contains_key(id);
        let numbered = (2..).map(|number| format!("{}-{number}", api.provider));
        let id = std::iter::once(api.provider.to_string()).chain(numbered).find(|id| !taken(id))?;
        Some(AvailableProvider {
            id,
            name: name.to_owned(),
            base_url: api.base_url.to_string(),
            wire: api.wire_api,
            env_key: env_key.to_string(),
        })
    };
    makers().iter().filter_map(|maker| offer(&maker.name, maker.api.as_ref()?)).collect()
}

/// Returns whether a provider of the configuration is at a host of this API.
fn is_configured(config: &Config, api: &MakerApi) -> bool {
    config.providers.values().any(|provider| match provider {
        config::Provider::Offline => false,
        config::Provider::Http(http) => {
            let host = host_of(&http.base_url);
            api.hosts.iter().any(|known| **known == host)
        }
    })
}
