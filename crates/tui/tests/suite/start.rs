//! The first start: the way to a model, and trust in the folder.

use serde_json::{Value, json};
use tui::app::{Effect, Environment, Event, Start};
use tui::here::{Found, LocalServer};
use tui::terminal::input::{Code, Input, Key};

use crate::harness::{Bench, initialized, metadata, opened};

pub(crate) fn opened_with(provider: &str) -> Value {
    let mut it = opened(&json!([]));
    it["modelProvider"] = json!(provider);
    it
}

pub(crate) fn stored(bench: &mut Bench) -> Value {
    let written = json!({ "status": "ok", "version": "2", "filePath": "/home/u/.agent/config.toml", "overriddenMetadata": null });
    bench.answer("config/batchWrite", written)["edits"].clone()
}

/// A program whose provider needs an account, and has none.
fn without_account(columns: usize, rows: usize, config: Value, start: Start) -> Bench {
    let environment = Environment { server_is_here: true, ..Environment::default() };
    begun_without_account(Bench::start_in(columns, rows, start, environment), config)
}

/// As [`without_account`], in this environment.
pub(crate) fn without_account_in(environment: Environment, config: Value) -> Bench {
    begun_without_account(Bench::start_in(80, 24, Start::default(), environment), config)
}

fn begun_without_account(bench: Bench, config: Value) -> Bench {
    begun_with_keys(bench, config, json!([]))
}

fn begun_with_keys(mut bench: Bench, config: Value, available: Value) -> Bench {
    bench.answer("config/read", json!({ "config": config, "origins": {} }));
    bench.answer("thread/start", opened_with("default"));
    bench.answer("skills/list", json!({ "data": [] }));
    let account = json!({ "account": null, "requiresDefaultAuth": true });
    bench.answer("account/read", account);
    bench.answer("modelProvider/list", json!({ "data": [], "available": available }));
    bench.now += 1_000;
    bench
}

pub(crate) fn chooser(columns: usize, rows: usize) -> Bench {
    without_account(columns, rows, json!({}), Start::default())
}

/// The same with a service to log in at.
pub(crate) fn hosted_chooser(columns: usize, rows: usize) -> Bench {
    let config = json!({ "hosted_base_url": "https://login.example" });
    without_account(columns, rows, config, Start::default())
}

fn press(bench: &mut Bench, c: char) {
    bench.press(c);
}

fn account() -> Value {
    json!({ "account": { "type": "apiKey" }, "requiresDefaultAuth": true })
}

#[test]
fn the_chooser_in_all_sizes() {
    let wide = "\
Choose a model provider
The provider `default` has no account and no API key.
Which provider runs the model?
› 1. Enter an API key (k)
     stored, and not shown again
  2. Use a model on this machine (m)
     looks for Ollama and LM Studio; needs no key
  3. Use another address (u)
     a model server or a gateway: its URL, a key, and one of its models
  4. Use the offline model (o)
     a script answers, to try the program: no key, no network
  5. Not now (n, Esc)
     /login opens this again
  gpt-x high · asks before edits · /work · main";
    for (columns, rows) in [(120, 40), (80, 24)] {
        let bench = chooser(columns, rows);
        assert!(bench.shown().ends_with(wide), "{}", bench.shown());
    }
    let narrow = "\
Choose a model provider
The provider `default` has no account
  and no API key.
Which provider runs the model?
› 1. Enter an API key (k)
     stored, and not shown again
  2. Use a model on this machine (m)
     looks for Ollama and LM Studio;
     needs no key
  3. Use another address (u)
Esc: Not now … 7 more rows
  gpt-x high · asks before edits · /wor…";
    assert_eq!(chooser(40, 12).shown(), narrow);
}

#[test]
fn an_account_or_a_provider_that_needs_none_is_not_asked_about() {
    let mut bench = Bench::start(80, 24);
    bench.answer("config/read", json!({ "config": {}, "origins": {} }));
    bench.answer("thread/start", opened_with("default"));
    bench.answer("skills/list", json!({ "data": [] }));
    bench.send("hello");
    assert!(bench.shown().contains("↳ hello"), "{}", bench.shown());
    bench.answer("account/read", account());
    bench.calls.retain(|call| call.1 != "model/list");
    assert_eq!(bench.call("turn/start").1["input"][0]["text"], "hello");
    let mut bench = Bench::open(80, 24);
    bench.send("hello");
    bench.call("turn/start");
}

/// A first start with keys of two makers in the environment of the server.
pub(crate) fn with_keys(columns: usize, rows: usize) -> Bench {
    let environment = Environment { server_is_here: true, ..Environment::default() };
    let bench = Bench::start_in(columns, rows, Start::default(), environment);
    let available = json!([
        { "id": "anthropic", "displayName": "Claude", "baseUrl": "https://api.anthropic.com",
          "wireApi": "messages", "envKey": "ANTHROPIC_API_KEY" },
        { "id": "google", "displayName": "Gemini", "baseUrl": "https://generativelanguage.googleapis.com",
          "wireApi": "gemini", "envKey": "GEMINI_API_KEY" },
    ]);
    begun_with_keys(bench, json!({}), available)
}

fn edits_of(edits: &Value) -> Vec<(String, Value)> {
    let edits = edits.as_array().unwrap().iter();
    edits
        .map(|edit| (edit["keyPath"].as_str().unwrap().to_owned(), edit["value"].clone()))
        .collect()
}

#[test]
fn a_key_of_the_environment_is_offered_and_becomes_a_provider_with_a_cheap_model() {
    let mut bench = with_keys(80, 24);
    let offers = "\
› 1. Use Claude with the key in ANTHROPIC_API_KEY
     config.toml gets only the name of the variable
  2. Use Gemini with the key in GEMINI_API_KEY";
    assert!(bench.shown().contains(offers), "{}", bench.shown());
    assert!(bench.calls.is_empty(), "nothing is used by itself: {:?}", bench.calls);
    press(&mut bench, '1');
    let of = |name: &str| format!("model_providers.\"anthropic\".{name}");
    let expected = [
        (of("name"), json!("Claude")),
        (of("base_url"), json!("https://api.anthropic.com")),
        (of("env_key"), json!("ANTHROPIC_API_KEY")),
        (of("wire_api"), json!("messages")),
    ];
    assert_eq!(edits_of(&stored(&mut bench)), expected);
    assert!(bench.shown().contains("Asking Claude for its models"), "{}", bench.shown());
    let model = |id: &str, is_default: bool| {
        json!({ "id": id, "model": id, "displayName": id, "description": "", "hidden": false,
            "supportedReasoningEfforts": [], "defaultReasoningEffort": "medium", "isDefault": is_default })
    };
    let models = json!([model("claude-opus", false), model("claude-haiku", true)]);
    let asked = bench.answer("model/list", json!({ "data": models, "nextCursor": null }));
    assert_eq!(asked["modelProvider"], "anthropic");
    let expected = [
        ("model_provider".to_owned(), json!("anthropic")),
        ("model".to_owned(), json!("claude-haiku")),
    ];
    assert_eq!(edits_of(&stored(&mut bench)), expected);
    bench.answer("config/read", json!({ "config": {}, "origins": {} }));
    let params = bench.answer("thread/start", opened_with("anthropic"));
    assert_eq!(
        (&params["modelProvider"], &params["model"]),
        (&json!("anthropic"), &json!("claude-haiku"))
    );
}

#[test]
fn a_key_of_the_environment_that_is_refused_leaves_no_provider() {
    let mut bench = with_keys(80, 24);
    press(&mut bench, '2');
    stored(&mut bench);
    bench.refuse(
        "model/list",
        "the models of the provider `google` are not known: 400 API key not valid",
    );
    let expected = [("model_providers.\"google\"".to_owned(), Value::Null)];
    assert_eq!(edits_of(&stored(&mut bench)), expected);
    let shown = bench.shown();
    assert!(shown.contains("API key not valid") && shown.contains("Use Claude with"), "{shown}");
}

#[test]
fn an_api_key_is_hidden_and_sends_what_waited() {
    let start = Start { prompt: Some("do it".to_owned()), ..Start::default() };
    let mut bench = without_account(80, 24, json!({}), start);
    assert!(bench.calls.is_empty(), "{:?}", bench.calls);
    press(&mut bench, 'k');
    assert!(bench.shown().contains("key: (hidden as you type)"), "{}", bench.shown());
    bench.key(Key::plain(Code::Enter));
    assert!(bench.shown().contains("Nothing is written yet"), "{}", bench.shown());
    bench.event(Event::Input(Input::Paste("sk-secret\n".to_owned())));
    assert!(bench.shown().contains("key: •••••••••\n"), "{}", bench.shown());
    bench.key(Key::plain(Code::Enter));
    bench.refuse("account/login/start", "the key has a line break");
    assert!(bench.shown().contains("the key has a line break"), "{}", bench.shown());
    bench.event(Event::Input(Input::Paste("sk-secret".to_owned())));
    bench.key(Key::plain(Code::Enter));
    let params = bench.answer("account/login/start", json!({ "type": "apiKey" }));
    assert_eq!(params, json!({ "type": "apiKey", "apiKey": "sk-secret" }));
    bench.answer("account/read", account());
    assert!(bench.printed.contains("· an API key; stored in /home/u/.agent/credentials.json."));
    bench.calls.retain(|call| call.1 != "model/list");
    assert_eq!(bench.call("turn/start").1["input"][0]["text"], "do it");
    let everything = format!("{}{:?}{:?}", bench.printed, bench.app.unsent(), bench.app);
    assert!(!everything.contains("sk-secret"));
}

#[test]
fn a_login_in_the_browser_is_waited_for_and_can_be_canceled() {
    let config = json!({ "hosted_base_url": "https://login.example" });
    let mut bench = without_account(80, 24, config, Start::default());
    let begun =
        |id: &str| json!({ "type": "hosted", "loginId": id, "authUrl": "https://login.example/a" });
    press(&mut bench, 'a');
    bench.answer("account/login/start", begun("l1"));
    let waits = "\
Log in
Log in on the page that opens in the browser:
https://login.example/a
Waiting for the login …
› 1. Open the page in the browser of this machine (o)
  2. Cancel the login (c, Esc)";
    assert!(bench.shown().contains(waits), "{}", bench.shown());
    assert!(
        matches!(bench.others.pop(), Some(Effect::Browse(url)) if url == "https://login.example/a")
    );
    bench.key(Key::plain(Code::Esc));
    let params = bench.answer("account/login/cancel", json!({ "status": "canceled" }));
    assert_eq!(params["loginId"], "l1");
    // One that is refused says why.
    press(&mut bench, 'a');
    bench.answer("account/login/start", begun("l2"));
    let ended = |id: &str, error: Value| json!({ "loginId": id, "success": error.is_null(), "error": error });
    bench.notify("account/login/completed", ended("l1", Value::Null));
    bench.notify("account/login/completed", ended("l2", json!("access was denied")));
    assert!(
        bench.shown().contains("access was denied\n› 1. Log in with an account"),
        "{}",
        bench.shown()
    );
    press(&mut bench, 'a');
    bench.answer("account/login/start", begun("l3"));
    bench.notify("account/login/completed", ended("l3", Value::Null));
    let account = json!({ "type": "hosted", "email": "me@example.org", "planType": "plus" });
    bench.answer("account/read", json!({ "account": account, "requiresDefaultAuth": true }));
    assert!(bench.printed.contains("· me@example.org, plan plus; stored in"), "{}", bench.printed);
    bench.calls.clear();
    bench.send("hello");
    bench.call("turn/start");
}

#[test]
fn a_code_is_shown_with_its_page() {
    let config = json!({ "hosted_base_url": "https://login.example" });
    let mut bench = without_account(40, 12, config, Start::default());
    press(&mut bench, 'c');
    let begun = json!({ "type": "hostedDeviceCode", "loginId": "l1", "userCode": "ABCD-EFGH", "verificationUrl": "https://login.example/device" });
    bench.answer("account/login/start", begun);
    assert!(bench.shown().contains("and enter the code ABCD-EFGH"), "{}", bench.shown());
    assert!(bench.shown().contains("https://login.example/device"), "{}", bench.shown());
    let is_browse = |effect: &Effect| matches!(effect, Effect::Browse(_));
    assert!(!bench.others.iter().any(is_browse));
}

#[test]
fn a_lost_connection_ends_a_login_in_progress() {
    let config = json!({ "hosted_base_url": "https://login.example" });
    let mut bench = without_account(80, 24, config, Start::default());
    press(&mut bench, 'a');
    bench.event(Event::Lost { why: "the server is gone".to_owned(), can_return: true });
    bench.calls.clear();
    bench.event(Event::Connected(Box::new(initialized())));
    bench.answer("config/read", json!({ "config": {}, "origins": {} }));
    bench.answer("thread/resume", opened_with("default"));
    bench.calls.retain(|call| call.1 == "account/read");
    bench.answer("account/read", json!({ "account": null, "requiresDefaultAuth": true }));
    bench.refuse("modelProvider/list", "unknown method");
    assert!(bench.shown().contains("Choose a model provider"), "{}", bench.shown());
}

#[test]
fn a_model_of_this_machine_is_found_and_stored() {
    let mut bench = chooser(80, 24);
    press(&mut bench, 'm');
    assert!(bench.shown().contains("Looking for Ollama and LM Studio"), "{}", bench.shown());
    assert!(matches!(bench.others.pop(), Some(Effect::FindServers)));
    let server = |id: &str, models| LocalServer {
        id: id.to_owned(),
        name: id.to_uppercase(),
        address: format!("http://127.0.0.1/{id}"),
        models,
    };
    let no = || Err("it is not running; start it with `ollama serve`".to_owned());
    bench.event(Event::Found(Found::Servers(vec![
        server("ollama", no()),
        server("lmstudio", no()),
    ])));
    let none = "\
A model on this machine
Looked for OLLAMA at http://127.0.0.1/ollama: it is not running; start it with
  `ollama serve`
Looked for LMSTUDIO at http://127.0.0.1/lmstudio: it is not running; start it
  with `ollama serve`
No model was found. Start one of these programs, or download a model.
› 1. Look again (l)
  2. Go back (b, Esc)";
    assert!(bench.shown().contains(none), "{}", bench.shown());
    press(&mut bench, 'l');
    let models = Ok(vec!["small".to_owned(), "large:70b".to_owned()]);
    bench.event(Event::Found(Found::Servers(vec![
        server("ollama", models),
        server("lmstudio", no()),
    ])));
    press(&mut bench, '2');
    let edits = stored(&mut bench);
    assert_eq!((&edits[0]["value"], &edits[1]["value"]), (&json!("ollama"), &json!("large:70b")));
    let config = json!({ "model_provider": "ollama", "model": "large:70b" });
    bench.answer("config/read", json!({ "config": config, "origins": {} }));
    let params = bench.answer("thread/start", opened_with("ollama"));
    assert_eq!(
        (&params["modelProvider"], &params["model"]),
        (&json!("ollama"), &json!("large:70b"))
    );
    let said = "From now on the provider is `ollama` with large:70b: `model_provider` and\n  `model` in /home/u/.agent/config.toml.";
    assert!(bench.printed.contains(said), "{}", bench.printed);
    bench.calls.clear();
    bench.send("hello");
    bench.call("turn/start");
    // What is found later is of no use to anybody.
    bench.event(Event::Found(Found::Servers(Vec::new())));
    assert!(!bench.shown().contains("No model was found"), "{}", bench.shown());
}

#[test]
fn the_offline_model_is_chosen_and_a_start_without_a_model_is_possible() {
    let mut bench = chooser(80, 24);
    press(&mut bench, 'o');
    let edits = stored(&mut bench);
    assert_eq!((&edits[0]["value"], &edits[1]["value"]), (&json!("offline"), &Value::Null));
    let start = Start { prompt: Some("do it".to_owned()), ..Start::default() };
    let mut bench = without_account(80, 24, json!({}), start);
    bench.key(Key::plain(Code::Esc));
    assert!(bench.printed.contains("No model provider is set up."), "{}", bench.printed);
    assert!(bench.shown().contains("› do it"), "{}", bench.shown());
    assert!(bench.calls.is_empty());
}

#[test]
fn a_choice_that_is_not_stored_says_why() {
    let mut bench = chooser(80, 24);
    press(&mut bench, 'o');
    bench.refuse("config/batchWrite", "the disk is full");
    assert!(bench.shown().contains("It was not stored: the disk is full"), "{}", bench.shown());
}

#[test]
fn logins_that_an_administrator_forbids_are_not_offered() {
    for (method, offered, missing) in
        [("hosted", "an account", "API key (k)"), ("api", "API key (k)", "an account")]
    {
        let config =
            json!({ "forced_login_method": method, "hosted_base_url": "https://l.example" });
        let bench = without_account(80, 24, config, Start::default());
        let shown = bench.shown();
        assert!(shown.contains(offered) && !shown.contains(missing), "{shown}");
    }
}

#[test]
fn logging_out_asks_and_says_what_happened() {
    for (after, expected) in
        [(Value::Null, "Logged out"), (json!({ "type": "apiKey" }), "API key in the environment")]
    {
        let mut bench = Bench::open(80, 24);
        bench.send("/logout");
        bench.answer("account/read", account());
        assert!(bench.shown().contains("Log out?\nAccount: an API key."), "{}", bench.shown());
        press(&mut bench, 'y');
        bench.answer("account/logout", json!({}));
        bench.answer("account/read", json!({ "account": after, "requiresDefaultAuth": true }));
        assert!(bench.printed.contains(expected), "{}", bench.printed);
    }
    let mut bench = Bench::open(80, 24);
    bench.send("/logout");
    bench.answer("account/read", json!({ "account": null, "requiresDefaultAuth": false }));
    assert!(bench.printed.contains("No account is logged in."), "{}", bench.printed);
}

fn untrusted(entry: Value) -> Value {
    let layer = json!({
        "name": { "type": "project", "dotAgentFolder": "/work/.agent" }, "version": "1", "config": {},
        "disabledReason": "/work is not trusted",
    });
    json!({ "config": { "projects": entry }, "origins": {}, "layers": [layer] })
}

pub(crate) fn asks_for_trust(columns: usize, rows: usize) -> Bench {
    let mut bench = Bench::start(columns, rows);
    let warning = json!({ "summary": "/work is not trusted", "path": "/work", "details": null, "range": null });
    bench.notify("configWarning", warning);
    bench.answer("config/read", untrusted(json!({})));
    for is_there in [true, false, true, false, false, false] {
        match is_there {
            true => bench.answer("fs/getMetadata", metadata()),
            false => {
                bench.refuse("fs/getMetadata", "no such file");
                Value::Null
            }
        };
    }
    bench.now += 1_000;
    bench
}

#[test]
fn trust_is_asked_for_in_words_before_the_thread_is_opened() {
    let wide = "\
Do you trust this folder?
/work has:
  .agent/config.toml  settings: the model, the sandbox, what runs without
  asking, and MCP servers, which are programs that run with your rights
  .agent/hooks.json  programs that run during turns, each only after you trust
  it separately
If you trust the folder, all of this applies to threads that work here, even if
  the files change later. Subfolders are trusted separately.
If not, none of it is read or run. Otherwise nothing changes: the agent reads
  and writes files here as the sandbox and your approvals allow.
› 1. Trust it (t)
  2. Do not trust it, and do not ask again (n)
  3. Do not trust it now (l, Esc)
     asked again at the next start";
    let bench = asks_for_trust(80, 24);
    assert!(bench.shown().contains(wide), "{}", bench.shown());
    assert!(
        !bench.printed.contains("not trusted"),
        "the question takes its place: {}",
        bench.printed
    );
    assert!(asks_for_trust(120, 40).shown().contains("3. Do not trust it now (l, Esc)"));
    // What is not on the screen is not granted with one key.
    let mut bench = asks_for_trust(40, 12);
    press(&mut bench, 't');
    assert!(bench.calls.is_empty());
    assert!(bench.shown().contains("were not on the screen"), "{}", bench.shown());
    let mut bench = asks_for_trust(120, 40);
    press(&mut bench, 't');
    let edits = stored(&mut bench);
    assert_eq!(
        edits,
        json!([{ "keyPath": "projects.\"/work\".trust_level", "value": "trusted", "mergeStrategy": "replace" }])
    );
    bench.answer("config/read", json!({ "config": {}, "origins": {} }));
    assert!(
        bench
            .printed
            .contains("Trusted from now on: /work (`projects` in /home/u/.agent/config.toml).")
    );
    bench.answer("thread/start", opened(&json!([])));
    bench.call("skills/list");
    assert!(bench.calls.is_empty(), "{:?}", bench.calls);
}

#[test]
fn trust_that_is_refused_is_stored_or_asked_again() {
    let mut bench = asks_for_trust(120, 40);
    press(&mut bench, 'n');
    assert_eq!(stored(&mut bench)[0]["value"], "untrusted");
    bench.answer("thread/start", opened(&json!([])));
    let mut bench = asks_for_trust(120, 40);
    bench.key(Key::plain(Code::Esc));
    assert!(bench.printed.contains("Not trusted for now: /work."), "{}", bench.printed);
    bench.answer("thread/start", opened(&json!([])));
    // Where it cannot be stored, nothing is granted, and the work begins nevertheless.
    let mut bench = asks_for_trust(120, 40);
    press(&mut bench, 't');
    bench.refuse("config/batchWrite", "the file is read-only");
    assert!(
        bench.printed.contains("nothing is trusted: the file is read-only"),
        "{}",
        bench.printed
    );
    bench.answer("thread/start", opened(&json!([])));
}

#[test]
fn a_folder_with_an_entry_or_without_anything_is_not_asked_about() {
    let entry = json!({ "/work": { "trust_level": "untrusted" } });
    for config in [untrusted(entry), json!({ "config": {}, "origins": {}, "layers": [] })] {
        let mut bench = Bench::start(80, 24);
        bench.answer("config/read", config);
        bench.answer("thread/start", opened(&json!([])));
    }
}

#[test]
fn a_thread_of_another_folder_is_asked_about_too() {
    let mut bench = Bench::open(120, 40);
    bench.send("/resume 0199aaaa-0000-7000-8000-000000000002");
    let mut other = opened(&json!([]));
    (other["thread"]["id"], other["cwd"]) =
        (json!("0199aaaa-0000-7000-8000-000000000002"), json!("/other"));
    bench.answer("thread/resume", other);
    bench.calls.retain(|call| call.1 == "config/read");
    let mut config = untrusted(json!({}));
    config["layers"][0]["name"]["dotAgentFolder"] = json!("/other/.agent");
    assert_eq!(bench.answer("config/read", config)["cwd"], "/other");
    for _ in 0..6 {
        bench.answer("fs/getMetadata", metadata());
    }
    bench.now += 1_000;
    press(&mut bench, 't');
    assert_eq!(stored(&mut bench)[0]["keyPath"], "projects.\"/other\".trust_level");
}

#[test]
fn an_unreadable_configuration_is_said_once() {
    let mut bench = Bench::start(80, 24);
    bench.refuse("config/read", "config.toml:1: not TOML");
    bench.refuse("thread/start", "config.toml:1: not TOML");
    assert_eq!(bench.printed, "");
    let ended = bench.others.iter().find_map(|effect| match effect {
        Effect::Quit(ended) => Some(ended.message.clone().unwrap()),
        _ => None,
    });
    assert_eq!(ended.unwrap(), "The thread cannot be opened: config.toml:1: not TOML");
    // A server elsewhere may open the thread nevertheless.
    let mut bench = Bench::start(80, 24);
    bench.refuse("config/read", "config.toml:1: not TOML");
    bench.answer("thread/start", opened(&json!([])));
    assert!(bench.printed.contains("✗ The configuration cannot be read: config.toml:1: not TOML"));
}
