//! Another address in the first start: its URL, its key, and one of its models.

use serde_json::{Value, json};
use tui::app::{Effect, Environment, Event};
use tui::here::{AddressFault, AskedServer, Found, ServerKey, ServerModels};
use tui::terminal::input::{Code, Input, Key};

use crate::harness::Bench;
use crate::start::{chooser, opened_with, stored, without_account_in};

const URL: &str = "https://models.example.com/v1";

/// Writes an address. Returns what is asked.
fn write_address(bench: &mut Bench, address: &str) -> AskedServer {
    bench.event(Event::Input(Input::Paste(address.to_owned())));
    bench.key(Key::plain(Code::Enter));
    asked(bench)
}

fn asked(bench: &mut Bench) -> AskedServer {
    match bench.others.pop() {
        Some(Effect::FindModels(server)) => server,
        other => panic!("{other:?}"),
    }
}

fn answer(bench: &mut Bench, server: AskedServer, found: Result<&[&str], AddressFault>) {
    let models = found.map(|models| ServerModels {
        base_url: URL.to_owned(),
        models: models.iter().map(|model| (*model).to_owned()).collect(),
        wire_api: "chat".to_owned(),
        default: models.last().unwrap().to_string(),
    });
    bench.event(Event::Found(Found::Models(server, models)));
}

fn values(edits: &Value) -> Vec<(String, Value)> {
    let edits = edits.as_array().unwrap().iter();
    edits
        .map(|edit| (edit["keyPath"].as_str().unwrap().to_owned(), edit["value"].clone()))
        .collect()
}

pub(crate) fn wrong_address(columns: usize, rows: usize) -> Bench {
    let mut bench = chooser(columns, rows);
    bench.press('u');
    let server = write_address(&mut bench, "https://models.example.com/v");
    let why = "GET https://models.example.com/v/models answered 404 Not Found: no such page";
    answer(&mut bench, server, Err(AddressFault::Address(why.to_owned())));
    bench
}

pub(crate) fn wanted_key(columns: usize, rows: usize) -> Bench {
    let mut bench = chooser(columns, rows);
    bench.press('u');
    let server = write_address(&mut bench, URL);
    let wants = AddressFault::Key("the server wants a key: 401 Unauthorized".to_owned());
    answer(&mut bench, server, Err(wants));
    bench
}

#[test]
fn an_address_and_a_key_become_a_provider() {
    let mut bench = chooser(80, 24);
    bench.press('u');
    assert!(bench.shown().contains("address:"), "{}", bench.shown());
    let server = write_address(&mut bench, URL);
    let expected = AskedServer { address: URL.to_owned(), key: ServerKey::None, wire_api: None };
    assert_eq!(server, expected);
    assert!(bench.shown().contains(&format!("Asking {URL} for its models")), "{}", bench.shown());
    let wants = AddressFault::Key("the server wants a key: 401".to_owned());
    answer(&mut bench, server, Err(wants));
    let shown = bench.shown();
    assert!(shown.contains("the server wants a key: 401"), "{shown}");
    assert!(!shown.contains("No key"), "{shown}");
    bench.press('k');
    bench.event(Event::Input(Input::Paste("sk-wrong".to_owned())));
    assert!(bench.shown().contains("key: ••••••••"), "{}", bench.shown());
    bench.key(Key::plain(Code::Enter));
    let server = asked(&mut bench);
    assert_eq!(server.key, ServerKey::Typed("sk-wrong".to_owned()));
    let refused = AddressFault::Key("the server does not accept this key: 401".to_owned());
    answer(&mut bench, server, Err(refused));
    assert!(bench.shown().contains("does not accept this key"), "{}", bench.shown());
    bench.press('k');
    bench.event(Event::Input(Input::Paste("sk-secret".to_owned())));
    bench.key(Key::plain(Code::Enter));
    let server = asked(&mut bench);
    answer(&mut bench, server, Ok(&["small", "large"]));
    let shown = bench.shown();
    assert!(shown.contains("Choose a model of") && shown.contains("large"), "{shown}");
    // The suggested one is selected.
    bench.key(Key::plain(Code::Enter));
    let edits = stored(&mut bench);
    let of = |name: &str| format!("model_providers.\"models-example-com\".{name}");
    let expected = [
        (of("base_url"), json!(URL)),
        (of("wire_api"), json!("chat")),
        (of("experimental_bearer_token"), json!("sk-secret")),
        ("model_provider".to_owned(), json!("models-example-com")),
        ("model".to_owned(), json!("large")),
    ];
    assert_eq!(values(&edits), expected);
    bench.answer("config/read", json!({ "config": {}, "origins": {} }));
    let params = bench.answer("thread/start", opened_with("models-example-com"));
    assert_eq!(params["modelProvider"], "models-example-com");
    assert_eq!(params["model"], "large");
    let said = "From now on the provider is `models-example-com` with large";
    assert!(bench.printed.contains(said), "{}", bench.printed);
    let everything = format!("{}{:?}{:?}", bench.printed, bench.app.unsent(), bench.app);
    assert!(!everything.contains("sk-secret"));
}

#[test]
fn a_wrong_address_is_corrected_where_it_was_written_and_esc_goes_back() {
    let mut bench = chooser(80, 24);
    bench.press('u');
    bench.key(Key::plain(Code::Enter));
    assert!(bench.shown().contains("The address is missing."), "{}", bench.shown());
    let server = write_address(&mut bench, "https://models.example.com/v");
    let fault = AddressFault::Address("cannot reach models.example.com".to_owned());
    answer(&mut bench, server, Err(fault));
    let shown = bench.shown();
    assert!(shown.contains("cannot reach models.example.com"), "{shown}");
    assert!(shown.contains("address: https://models.example.com/v"), "{shown}");
    let server = write_address(&mut bench, "1");
    assert_eq!(server.address, URL);
    // An answer that comes after Esc changes nothing.
    bench.key(Key::plain(Code::Esc));
    assert!(bench.shown().contains(&format!("address: {URL}")), "{}", bench.shown());
    answer(&mut bench, server, Ok(&["only"]));
    assert!(bench.shown().contains(&format!("address: {URL}")), "{}", bench.shown());
    bench.key(Key::plain(Code::Enter));
    let server = asked(&mut bench);
    answer(&mut bench, server, Ok(&["only"]));
    // It lists its models without a key, which says nothing about its answers.
    assert!(bench.shown().contains("No key"), "{}", bench.shown());
    bench.key(Key::plain(Code::Esc));
    assert!(bench.shown().contains(&format!("address: {URL}")), "{}", bench.shown());
    bench.key(Key::plain(Code::Esc));
    assert!(bench.shown().contains("Use another address"), "{}", bench.shown());
    assert!(bench.calls.is_empty());
}

#[test]
fn a_variable_is_stored_by_its_name_and_no_key_not_at_all() {
    let environment = Environment {
        server_is_here: true,
        key_variables: vec!["COMPANY_API_KEY".to_owned()],
        ..Environment::default()
    };
    let config = json!({ "model_providers": {
        "models-example-com": { "base_url": URL, "experimental_bearer_token": "***" },
    } });
    let mut bench = without_account_in(environment, config);
    bench.press('u');
    let server = write_address(&mut bench, URL);
    answer(&mut bench, server, Ok(&["only"]));
    let offers = "\
› 1. No key (n)
     the server lists its models without one
  2. The key in the variable COMPANY_API_KEY
     config.toml gets only the name";
    assert!(bench.shown().contains(offers), "{}", bench.shown());
    bench.press('2');
    let server = asked(&mut bench);
    assert_eq!(server.key, ServerKey::Variable("COMPANY_API_KEY".to_owned()));
    answer(&mut bench, server, Ok(&["only"]));
    // A provider at this address is there: it loses its other key.
    let of = |name: &str| format!("model_providers.\"models-example-com\".{name}");
    let edits = stored(&mut bench);
    let expected = [
        (of("base_url"), json!(URL)),
        (of("wire_api"), json!("chat")),
        (of("env_key"), json!("COMPANY_API_KEY")),
        (of("experimental_bearer_token"), Value::Null),
        ("model_provider".to_owned(), json!("models-example-com")),
        ("model".to_owned(), json!("only")),
    ];
    assert_eq!(values(&edits), expected);
    // A server of this machine has no key unless it wants one.
    let mut bench = chooser(80, 24);
    bench.press('u');
    let server = write_address(&mut bench, "http://127.0.0.1:8000");
    let models = vec!["only".to_owned()];
    let found = ServerModels {
        base_url: "http://127.0.0.1:8000/v1".to_owned(),
        models,
        wire_api: "responses".to_owned(),
        default: "only".to_owned(),
    };
    bench.event(Event::Found(Found::Models(server, Ok(found))));
    let edits = values(&stored(&mut bench));
    assert_eq!(edits[0].1, json!("http://127.0.0.1:8000/v1"));
    assert_eq!(edits.len(), 3, "{edits:?}");
}

#[test]
fn what_only_a_program_on_the_same_machine_can_do_is_not_offered_elsewhere() {
    let bench = without_account_in(Environment::default(), json!({}));
    let shown = bench.shown();
    assert!(shown.contains("Enter an API key"), "{shown}");
    assert!(!shown.contains("on this machine") && !shown.contains("another address"), "{shown}");
}
