//! Another address in the choice of a provider: its URL, its key, and a model that the server lists. What was
//! wrong is said where it can be corrected; Esc goes back a step.

use serde_json::{Value, json};

use crate::app::configuration::quoted;
use crate::app::events::Effect;
use crate::app::filling::What;
use crate::app::lists;
use crate::app::program::App;
use crate::ask::{Ask, Offer};
use crate::here::{AddressFault, AskedServer, ServerKey, ServerModels};
use crate::palette::Palette;
use crate::picker::{Picker, Row};
use crate::text::Line;

/// Ids of providers that are built in.
const BUILT_IN: [&str; 4] = ["default", "offline", "ollama", "lmstudio"];
/// The prefix of the replies that choose a variable.
const VARIABLE: &str = "variable ";

/// The choice of a provider around it.
#[derive(Clone, Copy)]
pub(super) struct Around {
    /// Opens the choice again.
    pub(super) back: fn(&mut App),
    /// Opens the choice again, with what went wrong.
    pub(super) fail: fn(&mut App, String),
    /// Stores the values of a provider, and goes on with it: its id, and its model.
    pub(super) store: fn(&mut App, Vec<(String, Value)>, &str, &str),
}

/// Asks for the address, with what was written before and why it does not do.
pub(super) fn enter_address(app: &mut App, around: Around, written: &str, problem: Option<String>) {
    let mut facts = vec![
        Line::plain("The address of the server's API, as in https://models.example.com/v1."),
        Line::new(
            "The next step finds out how it is asked (Responses, Messages, Chat Completions or Gemini), and \
             lists its models.",
            Palette::QUIET,
        ),
    ];
    facts.extend(problem.map(|text| Line::new(text, Palette::ERROR)));
    let ask = Ask::entry("Another address", facts, "address", false).with_text(written);
    app.open_dialog(ask, move |app, reply| match reply.as_str().map(str::trim) {
        None => (around.back)(app),
        Some("") => enter_address(app, around, "", Some("The address is missing.".to_owned())),
        Some(address) => {
            look(app, around, asked(address.to_owned(), ServerKey::None));
        }
    });
}

/// A server that has not answered yet.
fn asked(address: String, key: ServerKey) -> AskedServer {
    AskedServer { address, key, wire_api: None }
}

/// Asks the server for its models.
fn look(app: &mut App, around: Around, server: AskedServer) {
    let facts = vec![Line::plain(format!("Asking {} for its models …", server.address))];
    let back = vec![Offer::new("back", 'b', "Go back").on_escape()];
    let address = server.address.clone();
    let dialog = app.open_dialog(Ask::offer("Another address", facts, back), move |app, _| {
        app.login.stop_asking();
        enter_address(app, around, &address, None);
    });
    app.login.ask_server(server.clone(), dialog);
    app.output.emit(Effect::FindModels(server));
}

/// Takes the answer of a server, unless the user has gone back meanwhile.
pub(super) fn models_found(
    app: &mut App,
    around: Around,
    server: &AskedServer,
    found: Result<ServerModels, AddressFault>,
) -> bool {
    let Some(dialog) = app.login.answered(server) else { return false };
    app.asks.dialogs_mut().close(dialog);
    match found {
        Ok(found) if server.key == ServerKey::None && !is_loopback(&found.base_url) => {
            choose_key(app, around, found.base_url.clone(), Some(found), None);
        }
        Ok(found) => choose_model(app, around, server.key.clone(), found),
        Err(AddressFault::Key(why)) => {
            choose_key(app, around, server.address.clone(), None, Some(why));
        }
        Err(AddressFault::Address(why)) => enter_address(app, around, &server.address, Some(why)),
    }
    true
}

/// Asks for the key. `open` are the models of a server that lists them without one.
fn choose_key(
    app: &mut App,
    around: Around,
    address: String,
    open: Option<ServerModels>,
    problem: Option<String>,
) {
    let mut facts = vec![Line::plain(format!("The key of {address}"))];
    facts.extend(problem.map(|text| Line::new(text, Palette::ERROR)));
    let mut offers = Vec::new();
    if open.is_some() {
        offers.push(
            Offer::new("none", 'n', "No key")
                .with_effect("the server lists its models without one"),
        );
    }
    offers.extend(app.environment.key_variables.iter().map(|name| {
        Offer::new(format!("{VARIABLE}{name}"), ' ', format!("The key in the variable {name}"))
            .with_effect("config.toml gets only the name")
    }));
    offers.push(
        Offer::new("type", 'k', "Enter a key")
            .with_effect("shown as dots; stored in config.toml, in plain text"),
    );
    offers.push(Offer::new("back", 'b', "Go back").on_escape());
    app.open_dialog(Ask::offer("Key", facts, offers), move |app, reply| {
        match (reply.as_str(), open) {
            (Some("none"), Some(found)) => choose_model(app, around, ServerKey::None, found),
            (Some("type"), open) => enter_key(app, around, address, open),
            (Some(reply), _) if reply.starts_with(VARIABLE) => {
                let name = reply[VARIABLE.len()..].to_owned();
                look(app, around, asked(address, ServerKey::Variable(name)));
            }
            _ => enter_address(app, around, &address, None),
        }
    });
}

fn enter_key(app: &mut App, around: Around, address: String, open: Option<ServerModels>) {
    let facts = vec![
        Line::plain(format!(
            "Paste or type the key of {address}. It is shown as dots, and kept out of"
        )),
        Line::plain("the history, the drafts and the log. It will be stored in config.toml."),
    ];
    app.open_dialog(Ask::entry("Key", facts, "key", true), move |app, reply| {
        match reply.as_str().map(str::trim) {
            Some(key) => {
                look(app, around, asked(address, ServerKey::Typed(key.to_owned())));
            }
            None => choose_key(app, around, address, open, None),
        }
    });
}

/// Lets the user choose one of the models, if there are several.
fn choose_model(app: &mut App, around: Around, key: ServerKey, found: ServerModels) {
    let ServerModels { base_url, mut models, wire_api, default } = found;
    let server = AskedServer { address: base_url, key, wire_api: Some(wire_api) };
    if models.len() == 1 {
        return keep(app, around, &server, &models.remove(0));
    }
    let row = |model: String| Row {
        id: model.clone(),
        title: model,
        detail: String::new(),
        has_hit: false,
        columns: Vec::new(),
    };
    let title = format!("Choose a model of {}", server.address);
    let mut picker = Picker::fixed(title, models.into_iter().map(row).collect());
    picker.select(&default);
    lists::choose(app, picker, What::ServerModels(server));
}

/// Stores the server as a provider with this model, and opens a thread with it.
pub(super) fn keep(app: &mut App, around: Around, server: &AskedServer, model: &str) {
    let known = &app.login.configured().addresses;
    let id = provider_id(&server.address, |id| known.get(id).map(String::as_str));
    let key = |name: &str| format!("model_providers.{}.{name}", quoted(&id));
    let mut values = vec![(key("base_url"), json!(server.address))];
    let (variable, token) = match &server.key {
        ServerKey::None => (Value::Null, Value::Null),
        ServerKey::Variable(name) => (json!(name), Value::Null),
        ServerKey::Typed(key) => (Value::Null, json!(key)),
    };
    // A provider that is there already loses the key and the protocol that it had.
    let is_known = known.contains_key(&id);
    let wire_api = server.wire_api.as_deref().filter(|wire| is_known || *wire != "responses");
    values.extend(wire_api.map(|wire| (key("wire_api"), json!(wire))));
    let of_key = [("env_key", variable), ("experimental_bearer_token", token)];
    let of_key = of_key.into_iter().filter(|(_, value)| is_known || !value.is_null());
    values.extend(of_key.map(|(name, value)| (key(name), value)));
    (around.store)(app, values, &id, model);
}

/// The id of a provider at this address: the one that has it, else one that is free, made of the host.
fn provider_id<'k>(base_url: &str, address_of: impl Fn(&str) -> Option<&'k str>) -> String {
    let (_, rest) = base_url.split_once("://").unwrap_or(("", base_url));
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let word: String =
        host.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let word = word.trim_matches('-').to_ascii_lowercase();
    let is_free = |id: &str| match address_of(id) {
        None => !id.is_empty() && !BUILT_IN.contains(&id),
        Some(known) => !BUILT_IN.contains(&id) && known.trim_end_matches('/') == base_url,
    };
    let numbered = (2..).map(|number| format!("{word}-{number}"));
    // Some number is free.
    std::iter::once(word.clone()).chain(numbered).find(|id| is_free(id)).unwrap_or_default()
}

/// True for a server on this machine, which hardly ever has a key.
fn is_loopback(base_url: &str) -> bool {
    let (_, rest) = base_url.split_once("://").unwrap_or(("", base_url));
    ["127.", "localhost", "[::1]"].iter().any(|host| rest.starts_with(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_made_of_hosts_and_are_free() {
        let known =
            [("models-example-com", "https://models.example.com/v1"), ("taken", "http://x")];
        let address_of =
            |id: &str| known.iter().find(|(known, _)| *known == id).map(|(_, address)| *address);
        for (address, expected) in [
            ("https://models.example.com/v1", "models-example-com"),
            ("https://models.example.com/v2", "models-example-com-2"),
            ("http://127.0.0.1:8000/v1", "127-0-0-1-8000"),
            ("http://[::1]:8000/v1", "1--8000"),
            ("https://u:p@Host/v1", "host"),
            ("http://ollama/v1", "ollama-2"),
            ("http://taken", "taken-2"),
        ] {
            assert_eq!(provider_id(address, address_of), expected, "{address}");
        }
    }
}
