//! Logging in and out.

use std::sync::{Arc, Mutex};

use serde_json::json;
use testkit::TestEnvironment;

use crate::harness::{Bench, says};
use crate::login_service::{LoginService, Reply, tokens};

/// A server whose provider needs a login.
async fn bench(service: &LoginService) -> Bench {
    let env = TestEnvironment::with_responses(json!([says("Hello.")])).await;
    env.write_config(&format!("model = \"m\"\nhosted_base_url = {:?}\n", service.url));
    Bench::of(env)
}

#[tokio::test]
async fn a_session_needs_a_login_where_the_provider_does() {
    let service = LoginService::start(|_, _| None).await;
    let bench = bench(&service).await;
    let mut editor = bench.editor().await;
    let place = json!({ "cwd": bench.work(), "mcpServers": [] });
    let error = editor.refused("session/new", place).await;
    assert_eq!(error.code, -32000, "{error:?}");
    let place = json!({ "sessionId": "s", "cwd": bench.work(), "mcpServers": [] });
    assert_eq!(editor.refused("session/load", place).await.code, -32002, "there is none");
    editor.call("logout", json!({})).await;
    let error = editor.refused("authenticate", json!({ "methodId": "terminal" })).await;
    assert!(error.code == -32602 && error.message.contains("there is `hosted`"), "{error:?}");
}

#[tokio::test]
async fn the_provider_that_was_named_decides_about_a_login() {
    let service = LoginService::start(|_, _| None).await;
    let env = TestEnvironment::with_responses(json!([says("Hello.")])).await;
    env.write_config(&format!(
        "model = \"m\"\nhosted_base_url = {:?}\n[model_providers.borrowing]\n\
         base_url = \"http://127.0.0.1:1/v1\"\nrequires_default_auth = true\n",
        service.url
    ));
    let bench = Bench::of(env);
    for (provider, needs_login) in [("offline", false), ("borrowing", true), ("default", true)] {
        let mut editor = bench.connect_with(Some(provider), false);
        let hello = json!({ "protocolVersion": 1, "clientCapabilities": {} });
        editor.call("initialize", hello).await;
        let place = json!({ "cwd": bench.work(), "mcpServers": [] });
        if needs_login {
            assert_eq!(editor.refused("session/new", place).await.code, -32000, "{provider}");
        } else {
            editor.new_session(&bench.work()).await;
        }
    }
}

/// The provider of a stored session counts, not the configured one.
#[tokio::test]
async fn a_session_of_a_provider_without_a_login_can_be_loaded_without_one() {
    let service = LoginService::start(|_, _| None).await;
    let bench = bench(&service).await;
    let mut editor = bench.connect_with(Some("offline"), false);
    let hello = json!({ "protocolVersion": 1, "clientCapabilities": {} });
    editor.call("initialize", hello).await;
    let session = editor.new_session(&bench.work()).await;
    let prompt = editor.prompt(&session, "Hello.").await;
    // The model of that name does not exist there; the session does.
    editor.answer_to(prompt).await.unwrap_err();
    editor.leave().await;
    editor.ended().await.unwrap();
    let mut editor = bench.editor().await;
    let place = json!({ "sessionId": session, "cwd": bench.work(), "mcpServers": [] });
    editor.call("session/load", place).await;
}

#[tokio::test]
async fn a_login_is_shown_by_a_browser_or_the_client_and_can_be_cancelled() {
    let service = LoginService::start(|_, _| None).await;
    let bench = bench(&service).await;
    let mut editor = bench.editor().await;
    let hosted = json!({ "methodId": "hosted" });
    let login = editor.send("authenticate", hosted.clone()).await;
    let address = editor.browsed.recv().await.unwrap();
    assert!(address.starts_with(&service.url), "{address}");
    let again = editor.refused("authenticate", hosted.clone()).await;
    assert!(again.message.contains("a login is in progress"), "{again:?}");
    editor.notify("$/cancel_request", json!({ "requestId": login })).await;
    assert_eq!(editor.answer_to(login).await.unwrap_err().code, -32800);

    let mut editor = bench.editor_with(json!({ "elicitation": { "url": {} } })).await;
    let login = editor.send("authenticate", hosted).await;
    let asked = editor.asked("elicitation/create").await;
    assert_eq!((&asked.params["mode"], &asked.params["requestId"]), (&json!("url"), &json!(login)));
    editor.answer(&asked, "elicitation/create", json!({ "action": "decline" })).await;
    assert_eq!(editor.answer_to(login).await.unwrap_err().code, -32800);
}

#[tokio::test]
async fn a_login_that_the_server_completes_is_answered() {
    let nonce = Arc::new(Mutex::new(String::new()));
    let current = nonce.clone();
    let service = LoginService::start(move |address, request| {
        let claims = json!({ "nonce": *current.lock().unwrap() });
        let granted = || Reply::Json(200, tokens(address, "access", "refresh", claims));
        (request.path == "/token").then(granted)
    })
    .await;
    let bench = bench(&service).await;
    let mut editor = bench.editor_with(json!({ "elicitation": { "url": {} } })).await;
    let login = editor.send("authenticate", json!({ "methodId": "hosted" })).await;
    let asked = editor.asked("elicitation/create").await;
    editor.answer(&asked, "elicitation/create", json!({ "action": "accept" })).await;
    let address = asked.params["url"].as_str().unwrap();
    let parameter = |name: &str| {
        let query = address.split_once('?').unwrap().1;
        let value = query.split('&').find_map(|pair| pair.strip_prefix(&format!("{name}=")));
        value.unwrap().replace("%3A", ":").replace("%2F", "/")
    };
    *nonce.lock().unwrap() = parameter("nonce");
    // What the service does at the end of a login: the user's browser goes back with a code.
    let back = parameter("redirect_uri");
    let (host, path) = back.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let get = format!(
        "GET /{path}?code=c&state={} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n",
        parameter("state")
    );
    let host = host.replace("localhost", "127.0.0.1");
    let mut browser = tokio::net::TcpStream::connect(host).await.unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut browser, get.as_bytes()).await.unwrap();
    editor.answer_to(login).await.unwrap();
    let completed = editor.notified("elicitation/complete").await;
    assert_eq!(completed["elicitationId"], asked.params["elicitationId"]);
    // The session that needs it can be opened now.
    editor.new_session(&bench.work()).await;
}
