//! The model servers that the terminal offers: those on this machine, of which `--oss` selects one, and one at
//! an address that the user writes. It starts no server.

use std::time::Duration;

use anyhow::bail;
use tui::here::{AddressFault, AskedServer, LocalServer, ServerKey, ServerModels};

use crate::commands::checked;
use crate::environment::Environment;

/// The providers that can be on this machine.
const IDS: [&str; 2] = ["ollama", "lmstudio"];
/// Longest wait for one of them: a variable may name a host that does not answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The overrides that select the local provider and, unless a model is named, its first model. Without
/// `oss_provider` it is the one that is running.
///
/// # Errors
/// No local model server that runs, or two without a choice between them.
pub(crate) async fn overrides(
    environment: &Environment,
    config: &config::Config,
    names_model: bool,
) -> anyhow::Result<Vec<String>> {
    let options = environment.clone().options("cli");
    let asked: Vec<&str> = match config.oss_provider {
        Some(provider) => vec![provider.as_str()],
        None => IDS.to_vec(),
    };
    let (mut running, mut problems) = (Vec::new(), Vec::new());
    for id in asked {
        match server::local_models(&options, config, id).await {
            Ok(models) => running.push((id, models)),
            Err(problem) => problems.push(problem),
        }
    }
    let address = |id: &str| match config.providers.get(id) {
        Some(config::Provider::Http(http)) => http.base_url.as_str(),
        _ => "",
    };
    // Two names for one address, which a variable gives, are one server.
    running.dedup_by(|(second, _), (first, _)| address(second) == address(first));
    let [(id, models)] = &running[..] else {
        if running.is_empty() {
            bail!("--oss: {}", problems.join("; or: "));
        }
        bail!(
            "--oss: two local model servers are running; choose one in config.toml: \
             `oss_provider = \"ollama\"` or `oss_provider = \"lmstudio\"`"
        );
    };
    let mut overrides = vec![format!("model_provider=\"{id}\"")];
    if !names_model && let Some(model) = models.first() {
        overrides.push(format!("model={}", serde_json::Value::from(model.as_str())));
    }
    Ok(overrides)
}

/// Returns the models of each server, or the reason why it has none.
pub(crate) async fn servers(environment: Environment) -> Vec<LocalServer> {
    let config = match checked(&environment, false) {
        Ok(config) => config,
        Err(error) => {
            let failed = |id: &str| LocalServer {
                id: id.to_owned(),
                name: id.to_owned(),
                address: "an unknown address".to_owned(),
                models: Err(format!("the configuration cannot be read: {error}")),
            };
            return IDS.map(failed).into();
        }
    };
    let options = environment.options("cli");
    let look = |id: &'static str| {
        let (options, config) = (&options, &config);
        async move {
            let found = tokio::time::timeout(PATIENCE, server::local_models(options, config, id));
            let too_late = || Err(format!("no answer within {} seconds", PATIENCE.as_secs()));
            let (name, address) = match config.providers.get(id) {
                Some(config::Provider::Http(http)) => (http.name.clone(), http.base_url.clone()),
                _ => (id.to_owned(), "an unknown address".to_owned()),
            };
            let models = found.await.unwrap_or_else(|_| too_late());
            LocalServer { id: id.to_owned(), name, address, models }
        }
    };
    let (first, second) = tokio::join!(look(IDS[0]), look(IDS[1]));
    let mut servers = vec![first, second];
    // Two names for one address, which a variable gives, are one server.
    servers.dedup_by(|second, first| second.models.is_ok() && second.address == first.address);
    servers
}

/// The models of a server at an address.
///
/// # Errors
/// In words for the person who wrote the address and the key.
pub(crate) async fn models_at(
    environment: Environment,
    server: AskedServer,
) -> Result<ServerModels, AddressFault> {
    let key = match server.key {
        ServerKey::None => None,
        ServerKey::Typed(key) => Some(key),
        ServerKey::Variable(name) => {
            let set = environment.variable(&name).filter(|value| !value.is_empty());
            let missing = || AddressFault::Key(format!("the variable {name} is not set"));
            Some(set.ok_or_else(missing)?)
        }
    };
    let options = environment.options("cli");
    let found = server::models_at(&options, &server.address, key.as_deref()).await;
    match found {
        Ok(server::ServerModels { base_url, models, wire, default }) => {
            Ok(ServerModels { base_url, models, wire_api: wire.to_string(), default })
        }
        Err(server::AddressFault::Malformed(why) | server::AddressFault::Address(why)) => {
            Err(AddressFault::Address(why))
        }
        Err(server::AddressFault::Key(why)) => Err(AddressFault::Key(why)),
    }
}
