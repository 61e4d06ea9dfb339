//! Providers that a key of the server's environment could be used with. They are offered, and used only when the user
//! chooses one: the configuration gets the name of the variable, and a cheap model of the provider's own list.

use protocol::{AvailableModelProvider, Empty, Model, ModelListParams, ModelListResponse};
use serde_json::{Value, json};

use crate::app::configuration::quoted;
use crate::app::other_server::Around;
use crate::app::program::App;
use crate::ask::Offer;

/// The prefix of the replies that choose a provider.
const AVAILABLE: &str = "available ";

/// Finds out which keys the server's environment has, and goes on.
pub(super) fn find_keys(app: &mut App, then: fn(&mut App)) {
    app.call::<protocol::ModelProviderList>(&Empty {}, move |app, result| {
        match result {
            Ok(list) => app.login.set_available(list.available),
            // The other ways are offered.
            Err(error) => {
                tracing::warn!(target: "tui", "the providers cannot be listed: {}", error.message);
            }
        }
        then(app);
    });
}

pub(super) fn offer(provider: &AvailableModelProvider) -> Offer {
    let AvailableModelProvider { id, display_name, env_key, .. } = provider;
    let label = format!("Use {display_name} with the key in {env_key}");
    Offer::new(format!("{AVAILABLE}{id}"), ' ', label)
        .with_effect("config.toml gets only the name of the variable")
}

pub(super) fn is_offer(reply: &str) -> bool {
    reply.starts_with(AVAILABLE)
}

/// Writes the provider into the configuration, and asks it for its models.
pub(super) fn choose(app: &mut App, around: Around, reply: &str) {
    let id = reply.strip_prefix(AVAILABLE).unwrap_or_default();
    let mut available = app.login.available().iter();
    let Some(provider) = available.find(|provider| provider.id == id).cloned() else { return };
    let AvailableModelProvider { id, display_name, base_url, wire_api, env_key } = provider;
    let key = |name: &str| format!("model_providers.{}.{name}", quoted(&id));
    let values = vec![
        (key("name"), json!(display_name)),
        (key("base_url"), json!(base_url)),
        (key("env_key"), json!(env_key)),
        (key("wire_api"), json!(wire_api)),
    ];
    app.notice(format!("Asking {display_name} for its models …"));
    app.store_settings(values, move |app, stored| match stored {
        Ok(_) => find_model(app, around, id),
        Err(why) => (around.fail)(app, format!("It was not stored: {why}")),
    });
}

fn find_model(app: &mut App, around: Around, id: String) {
    let params = ModelListParams { model_provider: Some(id.clone()), ..ModelListParams::default() };
    app.call::<protocol::ModelList>(&params, move |app, result| {
        app.output.clear_notice();
        let why = match result.map(first_model) {
            Ok(Some(model)) => return (around.store)(app, Vec::new(), &id, &model),
            Ok(None) => "the provider lists no models".to_owned(),
            Err(error) => error.message,
        };
        give_up(app, around, &id, why);
    });
}

/// The suggested model, else the first that is shown.
fn first_model(list: ModelListResponse) -> Option<String> {
    let mut models = list.data.into_iter().filter(|model| !model.hidden).collect::<Vec<Model>>();
    let at = models.iter().position(|model| model.is_default).unwrap_or(0);
    (at < models.len()).then(|| models.swap_remove(at).model)
}

/// Takes the provider out of the configuration, and offers the choice again.
fn give_up(app: &mut App, around: Around, id: &str, why: String) {
    let values = vec![(format!("model_providers.{}", quoted(id)), Value::Null)];
    app.store_settings(values, move |app, stored| {
        let why = match stored {
            Ok(_) => why,
            Err(error) => format!("{why} The provider stays in config.toml: {error}"),
        };
        (around.fail)(app, why);
    });
}
