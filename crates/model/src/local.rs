//! Refusals of model servers on the user's machine: whether the model is missing.

use crate::catalog::ListedModel;
use crate::{Failure, FailureKind, Provider, Retry};

/// Most models that a message names.
const MAX_NAMED: usize = 10;

/// Returns whether the refusal may mean that a local server lacks the model: then its list says
/// more.
pub(crate) fn may_lack_model(provider: &Provider, failure: &Failure) -> bool {
    provider.local.is_some() && matches!(failure.http_status, Some(400 | 404))
}

/// Says in a refusal of a local server whether the model is missing, as far as its list says so.
pub(crate) fn explain(
    provider: &Provider,
    model: &str,
    failure: &mut Failure,
    models: &[ListedModel],
) {
    let Some(server) = provider.local else { return };
    let (name, host) = (&provider.name, &provider.base_url);
    if !models.iter().any(|listed| server.is_same(&listed.id, model)) {
        let others: Vec<&str> = models.iter().map(|model| &*model.id).take(MAX_NAMED).collect();
        let others = match others.is_empty() {
            true => "it has no models yet".to_owned(),
            false => format!("it has {}", others.join(", ")),
        };
        let get = server.get(model);
        let message =
            format!("{name} at {host} has no model `{model}`; get it with {get} ({others})");
        *failure = Failure {
            http_status: failure.http_status,
            ..Failure::new(FailureKind::BadRequest, message)
        };
    } else if failure.http_status == Some(404) {
        let note = format!("; this version of {name} has no Responses API: update it");
        failure.message.push_str(&note);
        failure.retry = Retry::Never;
    }
}

#[cfg(test)]
mod tests {
    use crate::LocalServer;
    use crate::catalog::parse_listing;
    use serde_json::{Value, json};

    #[test]
    fn the_lists_of_local_servers_are_read() {
        let check = |server: LocalServer, answer: Value, expect: &[&str]| {
            let listed = parse_listing(server.listing(answer).to_string().as_bytes()).unwrap();
            let ids: Vec<&str> = listed.models.iter().map(|model| &*model.id).collect();
            assert_eq!(ids, expect);
        };
        let tags = json!({"models": [
            {"name": "a:latest", "model": "a:latest", "size": 1}, {"name": "b:20b"}, {"size": 2}]});
        check(LocalServer::Ollama, tags, &["a:latest", "b:20b"]);
        check(LocalServer::Ollama, json!({"models": []}), &[]);
        let models = json!({"object": "list", "data": [
            {"id": "x/y", "type": "llm", "state": "not-loaded", "max_context_length": 4096},
            {"id": "e", "type": "embeddings"}]});
        check(LocalServer::LmStudio, models, &["x/y"]);
        for wrong in [json!(null), json!({"models": 1}), json!("x"), json!({"error": "no"})] {
            let read = |server: LocalServer| {
                parse_listing(server.listing(wrong.clone()).to_string().as_bytes())
            };
            assert!(read(LocalServer::Ollama).is_err() && read(LocalServer::LmStudio).is_err());
        }
    }

    #[test]
    fn a_name_without_a_tag_is_that_of_the_latest() {
        assert!(LocalServer::Ollama.is_same("a:latest", "a"));
        assert!(!LocalServer::Ollama.is_same("a:20b", "a"));
        assert!(!LocalServer::LmStudio.is_same("a:latest", "a"));
    }
}
