//! Accounts over the protocol: logins, their notifications, and the credentials that requests carry.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use testkit::Peer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::hosted::{end, environment, header, message, stream};
use crate::login_service::{LoginService, Reply, Request, tokens};

fn hello() -> Reply {
    stream(&[message("Hello."), end()])
}

fn unauthorized() -> Reply {
    let error = json!({ "error": { "code": "invalid_api_key", "message": "no, access-1" } });
    Reply::Json(401, error)
}

/// Accepts these tokens at the model, and issues `access-N` for the Nth grant.
async fn service(accepts: impl Fn(&str) -> bool + Send + Sync + 'static) -> LoginService {
    let grants = AtomicUsize::new(0);
    LoginService::start(move |address, request| match request.path.as_str() {
        "/v1/responses" => {
            let token = header(request, "authorization").unwrap_or_default();
            let token = token.strip_prefix("Bearer ").unwrap_or_default();
            Some(if accepts(token) { hello() } else { unauthorized() })
        }
        "/token" => {
            let n = grants.fetch_add(1, Ordering::Relaxed) + 1;
            let (access, refresh) = (format!("access-{n}"), format!("refresh-{n}"));
            Some(Reply::Json(200, tokens(address, &access, &refresh, json!({}))))
        }
        _ => None,
    })
    .await
}

async fn read(peer: &mut Peer) -> Value {
    peer.call("account/read", json!({})).await["account"].take()
}

async fn log_in_with_device(peer: &mut Peer) {
    let started = peer.call("account/login/start", json!({ "type": "hostedDeviceCode" })).await;
    assert_eq!(started["userCode"], "ABCD-EFGH");
    let done = peer.expect("account/login/completed").await;
    assert_eq!((&done["loginId"], &done["success"]), (&started["loginId"], &json!(true)), "{done}");
    let updated = peer.expect("account/updated").await;
    assert_eq!((&updated["authMode"], &updated["planType"]), (&json!("hosted"), &json!("pro")));
}

fn bearers(service: &LoginService) -> Vec<String> {
    let requests = service.requests("/v1/responses");
    let token = |request: &Request| header(request, "authorization").unwrap_or("none").to_owned();
    requests.iter().map(token).collect()
}

#[tokio::test]
async fn an_api_key_logs_in_and_out() {
    let service = service(|token| token == "sk-mine").await;
    let env = environment(&service, "").await;
    let server = env.start();
    let (mut peer, mut other) = (server.connect().await, server.connect().await);
    let before = peer.call("account/read", json!({})).await;
    assert_eq!(before, json!({ "account": null, "requiresDefaultAuth": true }));
    let thread = peer.start_thread(json!({})).await;
    let turn = peer.run_turn(&thread, "Hi.").await;
    assert_eq!(turn["error"]["agentErrorInfo"], "Unauthorized", "{turn}");
    let message = turn["error"]["message"].as_str().unwrap();
    assert!(message.contains("AGENT_API_KEY") && message.contains("agentd login"), "{message}");
    peer.forget();
    let login = json!({ "type": "apiKey", "apiKey": "sk-mine" });
    assert_eq!(peer.call("account/login/start", login).await, json!({ "type": "apiKey" }));
    for client in [&mut peer, &mut other] {
        let done = client.expect("account/login/completed").await;
        assert_eq!(done, json!({ "loginId": null, "success": true, "error": null }));
        let updated = client.expect("account/updated").await;
        assert_eq!(updated, json!({ "authMode": "apikey", "planType": null }));
    }
    assert_eq!(read(&mut other).await, json!({ "type": "apiKey" }));
    assert_eq!(peer.run_turn(&thread, "Hi.").await["status"], "completed");
    assert_eq!(bearers(&service), ["Bearer sk-mine"]);
    assert_eq!(peer.call("account/logout", Value::Null).await, json!({}));
    for client in [&mut peer, &mut other] {
        let updated = client.expect("account/updated").await;
        assert_eq!(updated, json!({ "authMode": null, "planType": null }));
        assert_eq!(read(client).await, Value::Null);
        let more = client.settled().await;
        assert!(!more.iter().any(|method| method.starts_with("account/")), "{more:?}");
    }
    for login in
        [json!({ "type": "apiKey", "apiKey": "" }), json!({ "type": "apiKey", "apiKey": "a b" })]
    {
        let fault = peer.refused("account/login/start", login).await;
        assert_eq!(fault.code, -32602, "{fault:?}");
    }
}

/// Clients that look at the account while others change it are notified once of each change, after the
/// end of the login.
#[tokio::test]
async fn each_change_of_the_account_is_announced_once() {
    let service = service(|_| true).await;
    let env = environment(&service, "").await;
    let server = env.start();
    let (mut peer, mut other) = (server.connect().await, server.connect().await);
    read(&mut other).await;
    for round in 0..20 {
        let login = json!({ "type": "apiKey", "apiKey": format!("sk-{round}") });
        let (_, _) = tokio::join!(peer.call("account/login/start", login), async {
            for _ in 0..3 {
                read(&mut other).await;
            }
        });
        peer.expect("account/updated").await;
        let (_, _) = tokio::join!(peer.call("account/logout", Value::Null), read(&mut other));
        peer.expect("account/updated").await;
    }
    let methods = other.settled().await;
    let of_account = methods.iter().filter(|method| method.starts_with("account/"));
    let of_account: Vec<&str> = of_account.map(String::as_str).collect();
    let round = ["account/login/completed", "account/updated", "account/updated"];
    assert_eq!(of_account, round.repeat(20));
}

#[tokio::test]
async fn a_logout_without_a_login_is_no_change() {
    let service = service(|_| true).await;
    let env = environment(&service, "").await;
    let server = env.start();
    let mut peer = server.connect().await;
    let updates =
        |methods: Vec<String>| methods.iter().filter(|method| *method == "account/updated").count();
    for _ in 0..2 {
        assert_eq!(peer.call("account/logout", Value::Null).await, json!({}));
    }
    assert_eq!(updates(peer.settled().await), 0);
    let login = json!({ "type": "apiKey", "apiKey": "sk-mine" });
    peer.call("account/login/start", login).await;
    peer.expect("account/updated").await;
    peer.call("account/logout", Value::Null).await;
    peer.expect("account/updated").await;
    peer.forget();
    peer.call("account/logout", Value::Null).await;
    assert_eq!(updates(peer.settled().await), 0);
}

/// The clients of a server that has not used the account are notified of what another server of the
/// home does, each time once.
#[tokio::test]
async fn logins_of_another_process_are_announced() {
    let service = service(|_| true).await;
    // The server looks at the account before it warns of the key.
    let env = environment(&service, "no_such_key = true").await;
    let (server, other) = (env.start(), env.start());
    let (mut peer, mut acting) = (server.connect().await, other.connect().await);
    peer.expect("configWarning").await;
    for round in 0..3 {
        let login = json!({ "type": "apiKey", "apiKey": format!("sk-{round}") });
        acting.call("account/login/start", login).await;
        let updated = peer.expect("account/updated").await;
        assert_eq!(updated, json!({ "authMode": "apikey", "planType": null }), "{round}");
        acting.call("account/logout", Value::Null).await;
        let updated = peer.expect("account/updated").await;
        assert_eq!(updated, json!({ "authMode": null, "planType": null }), "{round}");
    }
    assert_eq!(read(&mut peer).await, Value::Null);
    let lines = peer.raw_lines();
    let updates = lines.iter().filter(|line| line.contains("account/updated")).count();
    assert_eq!(updates, 6);
}

// Effect of `hosted_base_url`.
// Effect of `hosted_client_id`.
#[tokio::test]
async fn a_browser_login_ends_with_its_notifications() {
    let nonce = Arc::new(std::sync::Mutex::new(String::new()));
    let current = nonce.clone();
    let service = LoginService::start(move |address, request| match request.path.as_str() {
        "/token" => {
            let more = json!({ "nonce": *current.lock().unwrap(), "aud": "my-client" });
            Some(Reply::Json(200, tokens(address, "access-1", "refresh-1", more)))
        }
        "/v1/responses" => Some(hello()),
        _ => None,
    })
    .await;
    let env = environment(&service, "hosted_client_id = \"my-client\"").await;
    let server = env.start();
    let mut peer = server.connect().await;
    let params = json!({ "type": "hosted", "agentStreamlinedLogin": true });
    let started = peer.call("account/login/start", params).await;
    let url = started["authUrl"].as_str().unwrap();
    assert!(url.starts_with(&service.url) && url.contains("client_id=my-client"), "{url}");
    let asked = |name: &str| {
        let value = url.split(['?', '&']).find_map(|pair| pair.strip_prefix(name)).unwrap();
        value.strip_prefix('=').unwrap().replace("%3A", ":").replace("%2F", "/")
    };
    *nonce.lock().unwrap() = asked("nonce");
    let redirect = asked("redirect_uri");
    let host = redirect.strip_prefix("http://").unwrap().split('/').next().unwrap();
    let mut stream = TcpStream::connect(host).await.unwrap();
    let state = asked("state");
    let request =
        format!("GET /auth/callback?code=c&state={state} HTTP/1.1\r\nhost: {host}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).await.unwrap();
    // `agentStreamlinedLogin`: the page closes itself.
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("window.close()"), "{page}");
    let done = peer.expect("account/login/completed").await;
    assert_eq!((&done["loginId"], &done["success"]), (&started["loginId"], &json!(true)));
    let account = read(&mut peer).await;
    let expected = json!({ "type": "hosted", "email": "a@example.com", "planType": "pro" });
    assert_eq!(account, expected);
    let cancel = json!({ "loginId": started["loginId"] });
    let late = peer.call("account/login/cancel", cancel).await;
    assert_eq!(late, json!({ "status": "notFound" }));
}

#[tokio::test]
async fn a_login_can_be_canceled_and_their_number_is_bounded() {
    let service = service(|_| true).await;
    let env = environment(&service, "").await;
    let server = env.start();
    let mut peer = server.connect().await;
    let mut ids = Vec::new();
    for _ in 0..8 {
        let started = peer.call("account/login/start", json!({ "type": "hosted" })).await;
        ids.push(started["loginId"].clone());
    }
    let fault = peer.refused("account/login/start", json!({ "type": "hosted" })).await;
    assert!(fault.message.contains("account/login/cancel"), "{fault:?}");
    for id in ids {
        let canceled = peer.call("account/login/cancel", json!({ "loginId": id })).await;
        assert_eq!(canceled, json!({ "status": "canceled" }));
        let done = peer.expect("account/login/completed").await;
        assert_eq!((&done["loginId"], &done["success"]), (&id, &json!(false)));
        assert!(done["error"].as_str().unwrap().contains("canceled"), "{done}");
    }
    peer.call("account/login/start", json!({ "type": "hosted" })).await;
}

#[tokio::test]
async fn hosted_tokens_are_refreshed_before_they_expire_and_once_after_a_refusal() {
    let service = service(|token| token != "access-2").await;
    let env = environment(&service, "").await;
    let server = env.start();
    let mut peer = server.connect().await;
    log_in_with_device(&mut peer).await;
    let thread = peer.start_thread(json!({})).await;
    assert_eq!(peer.run_turn(&thread, "Hi.").await["status"], "completed");
    let request = &service.requests("/v1/responses")[0];
    assert_eq!(header(request, "hosted-account-id"), Some("workspace-1"));
    // The second token has expired for the provider already.
    env.clock.advance(3_600_000);
    assert_eq!(peer.run_turn(&thread, "Hi.").await["status"], "completed");
    assert_eq!(bearers(&service), ["Bearer access-1", "Bearer access-2", "Bearer access-3"]);
    // `refreshToken` refreshes tokens that are fresh.
    peer.call("account/read", json!({ "refreshToken": true })).await;
    assert_eq!(service.requests("/token").len(), 4);
    peer.call("account/read", json!({ "refreshToken": null })).await;
    assert_eq!(service.requests("/token").len(), 4);
}

#[tokio::test]
async fn a_provider_that_always_refuses_ends_the_turn_without_the_token() {
    let service = service(|_| false).await;
    let env = environment(&service, "").await;
    let server = env.start();
    let mut peer = server.connect().await;
    log_in_with_device(&mut peer).await;
    let thread = peer.start_thread(json!({})).await;
    let turn = peer.run_turn(&thread, "Hi.").await;
    assert_eq!(turn["error"]["agentErrorInfo"], "Unauthorized", "{turn}");
    let message = turn["error"]["message"].as_str().unwrap();
    assert!(message.contains("log in again"), "{message}");
    assert_eq!(bearers(&service), ["Bearer access-1", "Bearer access-2"]);
    let lines = peer.raw_lines().join("");
    assert!(!lines.contains("access-2") && !lines.contains("refresh-"), "{lines}");
}

#[tokio::test]
async fn a_redirect_of_the_provider_does_not_take_the_token_along() {
    let other = LoginService::start(|_, _| Some(hello())).await;
    let elsewhere = other.url.clone();
    let service = LoginService::start(move |_, request| {
        (request.path == "/v1/responses").then(|| {
            Reply::Raw(format!(
                "HTTP/1.1 307 X\r\nlocation: {elsewhere}/v1/responses\r\ncontent-length: 0\r\n\
                 connection: close\r\n\r\n"
            ))
        })
    })
    .await;
    let env = environment(&service, "").await;
    let server = env.start();
    let mut peer = server.connect().await;
    log_in_with_device(&mut peer).await;
    let thread = peer.start_thread(json!({})).await;
    let turn = peer.run_turn(&thread, "Hi.").await;
    assert_eq!(turn["status"], "failed");
    assert!(other.requests("/v1/responses").is_empty());
}

fn external(token: &str, account: &str) -> Value {
    json!({ "type": "hostedAuthTokens", "accessToken": token, "hostedAccountId": account,
        "hostedPlanType": "team" })
}

#[tokio::test]
async fn a_client_refreshes_the_tokens_that_it_provided() {
    let service = service(|token| token == "fresh").await;
    let env = environment(&service, "").await;
    let server = env.start();
    let (mut peer, mut other) = (server.connect().await, server.connect().await);
    let started = peer.call("account/login/start", external("stale", "w1")).await;
    assert_eq!(started, json!({ "type": "hostedAuthTokens" }));
    peer.expect("account/login/completed").await;
    let updated = peer.expect("account/updated").await;
    assert_eq!(updated, json!({ "authMode": "hostedAuthTokens", "planType": "team" }));
    let account = read(&mut peer).await;
    assert_eq!(account, json!({ "type": "hosted", "email": "", "planType": "team" }));
    let thread = peer.start_thread(json!({})).await;
    let turn = peer.start_turn(&thread, "Hi.").await;
    let asked = peer.asked("account/hostedAuthTokens/refresh").await;
    let expected = json!({ "reason": "unauthorized", "previousAccountId": "w1" });
    assert_eq!(asked.params, expected);
    peer.answer(&asked, json!({ "accessToken": "fresh", "hostedAccountId": "w2" })).await;
    assert_eq!(peer.turn_end(&turn).await["status"], "completed");
    assert_eq!(bearers(&service), ["Bearer stale", "Bearer fresh"]);
    let accounts: Vec<_> = service.requests("/v1/responses");
    assert_eq!(header(&accounts[1], "hosted-account-id"), Some("w2"));
    assert!(!env.home().join("credentials.json").exists());
    // Only the client that provided the tokens was asked.
    assert!(!other.settled().await.contains(&"account/hostedAuthTokens/refresh".to_owned()));
    peer.call("account/logout", Value::Null).await;
    assert_eq!(read(&mut other).await, Value::Null);
}

#[tokio::test]
async fn unusable_answers_of_that_client_fail_the_turn_at_once() {
    let service = service(|token| token == "fresh").await;
    let env = environment(
        &service,
        "forced_hosted_workspace_id = \"01234567-89ab-cdef-0123-456789abcdef\"",
    )
    .await;
    let workspace = "01234567-89AB-cdef-0123-456789abcdef";
    let server = env.start();
    let mut peer = server.connect().await;
    let fault = peer.refused("account/login/start", external("stale", "other")).await;
    assert!(fault.message.contains("forced_hosted_workspace_id"), "{fault:?}");
    for (answer, problem) in [
        (json!({ "accessToken": "fresh" }), "answer is not"),
        (json!(null), "answer is not"),
        (json!({ "accessToken": "stale", "hostedAccountId": workspace }), "same access token"),
        (
            json!({ "accessToken": "fresh", "hostedAccountId": "other" }),
            "forced_hosted_workspace_id",
        ),
        (json!({ "accessToken": "a\nb", "hostedAccountId": workspace }), "accessToken"),
    ] {
        peer.call("account/login/start", external("stale", workspace)).await;
        let thread = peer.start_thread(json!({})).await;
        let turn = peer.start_turn(&thread, "Hi.").await;
        let asked = peer.asked("account/hostedAuthTokens/refresh").await;
        peer.answer(&asked, answer).await;
        let ended = peer.turn_end(&turn).await;
        assert_eq!(ended["error"]["agentErrorInfo"], "Unauthorized", "{ended}");
        let message = ended["error"]["message"].as_str().unwrap();
        assert!(message.contains(problem), "{message}");
    }
    // An error, and an answer that is no JSON-RPC.
    for line in [
        json!({ "id": 0, "error": { "code": -32601, "message": "secret" } }),
        json!({ "id": 0, "result": 5, "error": 5 }),
    ] {
        let thread = peer.start_thread(json!({})).await;
        let turn = peer.start_turn(&thread, "Hi.").await;
        let asked = peer.asked("account/hostedAuthTokens/refresh").await;
        let mut line = line;
        line["id"] = asked.id;
        peer.send_line(line.to_string().as_bytes()).await;
        let ended = peer.turn_end(&turn).await;
        let message = ended["error"]["message"].as_str().unwrap();
        assert!(message.contains("no longer accepted") && !message.contains("secret"), "{message}");
    }
}

#[tokio::test]
async fn when_the_client_is_gone_the_others_are_asked() {
    let service = service(|token| token == "fresh").await;
    let env = environment(&service, "").await;
    let server = env.start();
    let mut peer = server.connect().await;
    let mut owner = server.connect().await;
    owner.call("account/login/start", external("stale", "w1")).await;
    peer.expect("account/updated").await;
    let thread = peer.start_thread(json!({})).await;
    let turn = peer.start_turn(&thread, "Hi.").await;
    owner.asked("account/hostedAuthTokens/refresh").await;
    // It disconnects while it is asked.
    drop(owner);
    let ended = peer.turn_end(&turn).await;
    let message = ended["error"]["message"].as_str().unwrap();
    assert!(message.contains("disconnected"), "{message}");
    let turn = peer.start_turn(&thread, "Hi.").await;
    let asked = peer.asked("account/hostedAuthTokens/refresh").await;
    peer.answer(&asked, json!({ "accessToken": "fresh", "hostedAccountId": "w1" })).await;
    assert_eq!(peer.turn_end(&turn).await["status"], "completed");
}

// Effect of `forced_login_method`.
#[tokio::test]
async fn the_forced_method_decides_about_keys_and_logins() {
    let service = service(|_| true).await;
    let mut env = environment(&service, "forced_login_method = \"hosted\"").await;
    env.variables.push(("AGENT_API_KEY".into(), "sk-environment".into()));
    let server = env.start();
    let mut peer = server.connect().await;
    assert_eq!(read(&mut peer).await, Value::Null);
    let fault =
        peer.refused("account/login/start", json!({ "type": "apiKey", "apiKey": "sk" })).await;
    assert_eq!(fault.code, -32600);
    assert!(fault.message.contains("forced_login_method"), "{fault:?}");
    let thread = peer.start_thread(json!({})).await;
    let turn = peer.run_turn(&thread, "Hi.").await;
    let message = turn["error"]["message"].as_str().unwrap();
    assert!(message.contains("forced_login_method"), "{message}");
    assert!(bearers(&service).is_empty());
    log_in_with_device(&mut peer).await;
    assert_eq!(peer.run_turn(&thread, "Hi.").await["status"], "completed");
    assert_eq!(bearers(&service), ["Bearer access-1"]);
    server.stop().await;
    // The login no longer fits.
    let config = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
    env.write_config(&config.replace("\"hosted\"", "\"api\""));
    env.variables.pop();
    let server = env.start();
    let mut peer = server.connect().await;
    assert_eq!(read(&mut peer).await, Value::Null);
    let thread = peer.start_thread(json!({})).await;
    let turn = peer.run_turn(&thread, "Hi.").await;
    let message = turn["error"]["message"].as_str().unwrap();
    assert!(
        message.contains("forced_login_method = \\\"api\\\"") || message.contains("\"api\""),
        "{message}"
    );
    let fault = peer.refused("account/login/start", json!({ "type": "hosted" })).await;
    assert!(fault.message.contains("forced_login_method"), "{fault:?}");
    assert!(
        !std::fs::read_to_string(env.home().join("credentials.json")).unwrap().contains("access-1")
    );
}

// Effect of `forced_hosted_workspace_id`.
#[tokio::test]
async fn a_login_of_another_workspace_fails() {
    let service = service(|_| true).await;
    let forced = "forced_hosted_workspace_id = \"01234567-89ab-cdef-0123-456789abcdef\"";
    let env = environment(&service, forced).await;
    let server = env.start();
    let mut peer = server.connect().await;
    peer.call("account/login/start", json!({ "type": "hostedDeviceCode" })).await;
    let done = peer.expect("account/login/completed").await;
    assert_eq!(done["success"], false);
    let error = done["error"].as_str().unwrap();
    assert!(
        error.contains("forced_hosted_workspace_id") && error.contains("workspace-1"),
        "{error}"
    );
    assert!(!env.home().join("credentials.json").exists());
}

#[tokio::test]
async fn the_key_of_the_environment_comes_first_and_logins_say_so() {
    let service = service(|_| true).await;
    let mut env = environment(&service, "").await;
    env.variables.push(("OPENAI_API_KEY".into(), "sk-environment".into()));
    let server = env.start();
    let mut peer = server.connect().await;
    assert_eq!(read(&mut peer).await, json!({ "type": "apiKey" }));
    log_in_with_key(&mut peer).await;
    let warning = peer.expect("warning").await;
    assert!(warning["message"].as_str().unwrap().contains("OPENAI_API_KEY"), "{warning}");
    let thread = peer.start_thread(json!({})).await;
    assert_eq!(peer.run_turn(&thread, "Hi.").await["status"], "completed");
    assert_eq!(bearers(&service), ["Bearer sk-environment"]);
}

async fn log_in_with_key(peer: &mut Peer) {
    peer.call("account/login/start", json!({ "type": "apiKey", "apiKey": "sk-stored" })).await;
}

/// It is neither used nor deleted, and the user is not reported as logged out.
#[tokio::test]
async fn a_folder_in_the_place_of_the_credentials_is_reported() {
    let service = service(|_| true).await;
    let env = environment(&service, "").await;
    let file = env.home().join("credentials.json");
    std::fs::create_dir_all(file.join("kept")).unwrap();
    let server = env.start();
    let mut peer = server.connect().await;
    for method in ["account/read", "account/rateLimits/read", "account/logout"] {
        let fault = peer.refused(method, json!({})).await;
        assert_eq!(fault.code, -32603, "{method}: {fault:?}");
        assert!(fault.message.contains(&file.display().to_string()), "{method}: {fault:?}");
    }
    assert!(file.join("kept").is_dir());
}

// Effect of `cli_auth_credentials_store`.
#[tokio::test]
async fn without_a_keyring_a_login_for_the_keyring_is_refused() {
    let service = service(|_| true).await;
    let env = environment(&service, "cli_auth_credentials_store = \"keyring\"").await;
    let server = env.start();
    let mut peer = server.connect().await;
    let fault =
        peer.refused("account/login/start", json!({ "type": "apiKey", "apiKey": "sk-1" })).await;
    assert!(fault.message.contains("keyring"), "{fault:?}");
    assert!(!env.home().join("credentials.json").exists());
}

#[tokio::test]
async fn a_provider_that_needs_no_account_says_so_and_gets_no_token() {
    let service = service(|_| true).await;
    let url = &service.url;
    let own = format!(
        "model_provider = \"own\"\n[model_providers.own]\nbase_url = \"{url}/v1\"\n\
         [model_providers.borrowing]\nbase_url = \"{url}/v1\"\nrequires_default_auth = true\n"
    );
    let env = environment(&service, &own).await;
    let server = env.start();
    let mut peer = server.connect().await;
    log_in_with_key(&mut peer).await;
    let read = peer.call("account/read", json!({})).await;
    assert_eq!(read["requiresDefaultAuth"], false);
    let thread = peer.start_thread(json!({})).await;
    assert_eq!(peer.run_turn(&thread, "Hi.").await["status"], "completed");
    let thread = peer.start_thread(json!({ "modelProvider": "borrowing" })).await;
    assert_eq!(peer.run_turn(&thread, "Hi.").await["status"], "completed");
    assert_eq!(bearers(&service), ["none", "Bearer sk-stored"]);
}

#[tokio::test]
async fn a_login_in_another_process_is_noticed() {
    let service = service(|_| true).await;
    let env = environment(&service, "").await;
    let (server, another) = (env.start(), env.start());
    let (mut peer, mut elsewhere) = (server.connect().await, another.connect().await);
    assert_eq!(read(&mut peer).await, Value::Null);
    log_in_with_device(&mut elsewhere).await;
    assert_eq!(read(&mut peer).await["type"], "hosted");
    let updated = peer.expect("account/updated").await;
    assert_eq!(updated, json!({ "authMode": "hosted", "planType": "pro" }));
    elsewhere.call("account/logout", Value::Null).await;
    let thread = peer.start_thread(json!({})).await;
    assert_eq!(peer.run_turn(&thread, "Hi.").await["status"], "failed");
    let updated = peer.expect("account/updated").await;
    assert_eq!(updated, json!({ "authMode": null, "planType": null }));
}

#[tokio::test]
async fn a_login_service_that_fails_for_a_while_is_retried() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let service = LoginService::start(move |address, request| match request.path.as_str() {
        "/v1/responses" => Some(hello()),
        "/token" if request.body.contains("refresh_token") => {
            Some(match count.fetch_add(1, Ordering::Relaxed) {
                0 => Reply::Json(503, json!({})),
                _ => Reply::Json(200, tokens(address, "access-2", "refresh-2", json!({}))),
            })
        }
        _ => None,
    })
    .await;
    let env = environment(&service, "").await;
    let server = env.start();
    let mut peer = server.connect().await;
    log_in_with_device(&mut peer).await;
    env.clock.advance(2 * 3_600_000);
    let thread = peer.start_thread(json!({})).await;
    let turn = peer.run_turn(&thread, "Hi.").await;
    assert_eq!(turn["status"], "completed", "{turn}");
    assert_eq!(asked.load(Ordering::Relaxed), 2);
    assert_eq!(bearers(&service), ["Bearer access-2"]);
}
