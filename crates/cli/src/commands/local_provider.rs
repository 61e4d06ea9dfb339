//! `--oss`: the model server on this machine that threads use. It starts no server.

use anyhow::bail;

use crate::environment::Environment;

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
        None => vec!["ollama", "lmstudio"],
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
