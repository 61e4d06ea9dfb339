//! Browser logins and device codes: what the user, the browser and the service can do.

use std::sync::atomic::{AtomicUsize, Ordering};

use account::{BrowserLogin, Error, LoginMethod, Settings, Status};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::login_service::{LoginService, Reply, metadata, tokens};
use crate::{Home, settings};

/// A value of the authorization request.
fn asked(url: &str, name: &str) -> String {
    let query = url.split_once('?').unwrap().1;
    let find = |pair: &str| pair.strip_prefix(&format!("{name}=")).map(str::to_owned);
    let value = query.split('&').find_map(find).unwrap();
    value.replace("%3A", ":").replace("%2F", "/")
}

/// What the browser sees at the redirect with this query; `STATE` stands for the right state.
async fn visit(login_url: &str, query: &str) -> String {
    let redirect = asked(login_url, "redirect_uri");
    let query = query.replace("STATE", &asked(login_url, "state"));
    raw(&redirect, &format!("GET /auth/callback?{query} HTTP/1.1")).await
}

/// The answer to a request line, with the right host.
async fn raw(redirect: &str, line: &str) -> String {
    let host = redirect.strip_prefix("http://").unwrap().split('/').next().unwrap();
    send(host, &format!("{line}\r\nhost: {host}\r\n\r\n")).await
}

async fn send(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    // A refused connection may be reset after its answer.
    let _ = stream.read_to_string(&mut answer).await;
    answer
}

/// A service that answers with the nonce of the login that is in progress.
async fn service_with_nonce(
    more: Value,
) -> (LoginService, std::sync::Arc<std::sync::Mutex<String>>) {
    let nonce = std::sync::Arc::new(std::sync::Mutex::new(String::new()));
    let current = nonce.clone();
    let service = LoginService::start(move |address, request| {
        let mut claims = json!({ "nonce": *current.lock().unwrap() });
        claims.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        (request.path == "/token")
            .then(|| Reply::Json(200, tokens(address, "access-1", "refresh-1", claims)))
    })
    .await;
    (service, nonce)
}

async fn begin(home: &Home, settings: &Settings) -> (BrowserLogin, String) {
    let login = home.accounts().begin_browser_login(settings, false).await.unwrap();
    let url = login.url().to_owned();
    (login, url)
}

#[tokio::test]
async fn a_browser_login_uses_pkce_and_takes_one_right_answer() {
    let (service, nonce) = service_with_nonce(json!({})).await;
    let (home, settings) = (Home::new(), settings(&service.url));
    let (login, url) = begin(&home, &settings).await;
    *nonce.lock().unwrap() = asked(&url, "nonce");
    assert!(url.starts_with(&format!("{}/authorize?", service.url)), "{url}");
    assert_eq!(asked(&url, "code_challenge_method"), "S256");
    let task = tokio::spawn(login.finish());
    // None of these ends the login.
    for (query, status) in [
        ("code=evil&state=wrong", "400"),
        ("code=evil", "400"),
        ("error=access_denied&state=", "400"),
        ("code=evil&state=STATE&state=STATE", "400"),
    ] {
        let answer = visit(&url, query).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{query}: {answer}");
    }
    let redirect = asked(&url, "redirect_uri");
    for (line, status) in [
        ("GET / HTTP/1.1", "404"),
        ("GET /favicon.ico HTTP/1.1", "404"),
        ("POST /auth/callback HTTP/1.1", "405"),
        ("nonsense", "400"),
    ] {
        let answer = raw(&redirect, line).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{line}: {answer}");
    }
    // A page of another name that leads to this address.
    let host = redirect.strip_prefix("http://").unwrap().split('/').next().unwrap();
    let line = format!("GET /auth/callback?code=x&state={} HTTP/1.1", asked(&url, "state"));
    let answer = send(host, &format!("{line}\r\nhost: evil.test\r\n\r\n")).await;
    assert!(answer.starts_with("HTTP/1.1 421"), "{answer}");
    assert!(!task.is_finished());
    let page = visit(&url, "code=good&state=STATE").await;
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("You are logged in"), "{page}");
    assert!(page.contains("no-store") && page.contains("no-referrer"), "{page}");
    task.await.unwrap().unwrap();
    let body = &service.requests("/token")[0].body;
    assert!(body.contains("code=good") && body.contains("code_verifier="), "{body}");
    assert_eq!(service.requests("/token").len(), 1);
    let Status::Hosted(profile) = home.accounts().status(&settings).await.unwrap() else {
        panic!()
    };
    assert_eq!(profile.account_id.as_deref(), Some("workspace-1"));
    // The port is closed.
    assert!(TcpStream::connect(host).await.is_err());
}

#[tokio::test]
async fn failures_reach_the_browser_and_the_caller() {
    let check = async |query: &str, problem: &str, more: Value| {
        let (service, nonce) = service_with_nonce(more).await;
        let (home, settings) = (Home::new(), settings(&service.url));
        let (login, url) = begin(&home, &settings).await;
        *nonce.lock().unwrap() = asked(&url, "nonce");
        let task = tokio::spawn(login.finish());
        let page = visit(&url, query).await;
        let error = task.await.unwrap().unwrap_err().to_string();
        assert!(error.contains(problem), "{error}");
        assert!(page.starts_with("HTTP/1.1 400") && !page.contains("<script"), "{page}");
        assert!(!home.file().exists());
    };
    let no = || json!({});
    check("error=access_denied&state=STATE", "access_denied", no()).await;
    let markup = "error=x&error_description=%3Cscript%3E&state=STATE";
    check(markup, "<script>", no()).await;
    check("state=STATE", "no code", no()).await;
    check("code=a&code=b&state=STATE", "no code", no()).await;
    check("code=a&iss=https%3A%2F%2Fevil&state=STATE", "another login service", no()).await;
    check("code=a&state=STATE", "another login", json!({ "nonce": "of another" })).await;
    check("code=a&state=STATE", "another client", json!({ "aud": "other" })).await;
    check("code=a&state=STATE", "another issuer", json!({ "iss": "https://evil" })).await;
}

#[tokio::test]
async fn a_dropped_login_closes_its_port() {
    let (service, _) = service_with_nonce(json!({})).await;
    let (home, settings) = (Home::new(), settings(&service.url));
    let (login, url) = begin(&home, &settings).await;
    let redirect = asked(&url, "redirect_uri");
    let host = redirect.strip_prefix("http://").unwrap().split('/').next().unwrap().to_owned();
    let task = tokio::spawn(login.finish());
    assert!(raw(&redirect, "GET / HTTP/1.1").await.starts_with("HTTP/1.1 404"));
    task.abort();
    assert!(task.await.is_err());
    assert!(TcpStream::connect(&host).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_browser_login_ends_after_ten_minutes() {
    let (service, _) = service_with_nonce(json!({})).await;
    let (home, settings) = (Home::new(), settings(&service.url));
    let (login, _) = begin(&home, &settings).await;
    let error = login.finish().await.unwrap_err();
    assert!(error.to_string().contains("within 10 minutes"), "{error}");
}

#[tokio::test]
async fn the_settings_decide_who_may_log_in() {
    let (service, nonce) = service_with_nonce(json!({})).await;
    let home = Home::new();
    let api = Settings { forced_method: Some(LoginMethod::Api), ..settings(&service.url) };
    let error = home.accounts().begin_browser_login(&api, false).await.unwrap_err();
    assert!(error.to_string().contains("forced_login_method"), "{error}");
    let error = home.accounts().begin_device_login(&api).await.unwrap_err();
    assert!(error.to_string().contains("forced_login_method"), "{error}");
    assert!(service.requests("/.well-known/openid-configuration").is_empty());
    let none = Settings { login_service: None, ..settings("") };
    let error = home.accounts().begin_browser_login(&none, false).await.unwrap_err();
    assert!(error.to_string().contains("hosted_base_url"), "{error}");
    let forced = Settings { forced_workspace: Some("other".into()), ..settings(&service.url) };
    let (login, url) = begin(&home, &forced).await;
    *nonce.lock().unwrap() = asked(&url, "nonce");
    let task = tokio::spawn(login.finish());
    let page = visit(&url, "code=a&state=STATE").await;
    assert!(page.contains("forced_hosted_workspace_id"), "{page}");
    let error = task.await.unwrap().unwrap_err();
    assert!(matches!(error, Error::NotPermitted(_)), "{error}");
    assert!(!home.file().exists());
}

#[tokio::test]
async fn services_that_are_none_are_refused() {
    let check = async |problem: &str, reply: fn(&str) -> Option<Reply>| {
        let service = LoginService::start(move |address, _| reply(address)).await;
        let accounts = Home::new().accounts();
        let error = accounts.begin_browser_login(&settings(&service.url), false).await.unwrap_err();
        assert!(error.to_string().contains(problem), "{error}");
    };
    check("not a login service", |_| Some(Reply::Json(404, json!({})))).await;
    check("web page", |_| {
        Some(Reply::Raw("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n<p>".into()))
    })
    .await;
    check("another service", |_| Some(Reply::Json(200, metadata("http://evil.test")))).await;
    check("answered 500", |_| Some(Reply::Json(500, json!({})))).await;
    check("https://", |address| {
        let mut document = metadata(address);
        document["token_endpoint"] = json!("http://evil.test/token");
        Some(Reply::Json(200, document))
    })
    .await;
    check("no login in a browser", |address| {
        let mut document = metadata(address);
        document["authorization_endpoint"] = Value::Null;
        Some(Reply::Json(200, document))
    })
    .await;
    let accounts = Home::new().accounts();
    let plain = settings("http://login.test");
    let error = accounts.begin_browser_login(&plain, false).await.unwrap_err();
    assert!(error.to_string().contains("https://"), "{error}");
}

#[tokio::test]
async fn a_device_login_waits_as_it_is_told() {
    let asked = AtomicUsize::new(0);
    let service = LoginService::start(move |_, request| {
        if request.path != "/token" {
            return None;
        }
        assert!(request.body.contains("device_code=device-secret"));
        let error = match asked.fetch_add(1, Ordering::Relaxed) {
            0 => "authorization_pending",
            1 => return Some(Reply::Nothing),
            _ => return None,
        };
        Some(Reply::Json(400, json!({ "error": error })))
    })
    .await;
    let (home, settings) = (Home::new(), settings(&service.url));
    let login = home.accounts().begin_device_login(&settings).await.unwrap();
    assert_eq!(login.user_code(), "ABCD-EFGH");
    assert!(login.verification_url().ends_with("/activate"));
    login.finish().await.unwrap();
    assert_eq!(service.requests("/token").len(), 3);
    assert!(matches!(home.accounts().status(&settings).await.unwrap(), Status::Hosted(_)));
}

#[tokio::test]
async fn a_device_login_that_the_user_refuses_or_forgets_fails() {
    for (code, problem) in [
        ("access_denied", "denied"),
        ("expired_token", "within 10 minutes"),
        ("invalid_grant", "invalid_grant"),
    ] {
        let service = LoginService::start(move |_, request| {
            let text = "about device-secret";
            let refusal = json!({ "error": code, "error_description": text });
            (request.path == "/token").then_some(Reply::Json(400, refusal))
        })
        .await;
        let accounts = Home::new().accounts();
        let login = accounts.begin_device_login(&settings(&service.url)).await.unwrap();
        assert!(!format!("{login:?}").contains("device-secret"));
        let error = login.finish().await.unwrap_err().to_string();
        assert!(error.contains(problem) && !error.contains("device-secret"), "{error}");
    }
}

#[tokio::test]
async fn a_logout_revokes_the_refresh_token_and_works_without_the_service() {
    let (service, _) = service_with_nonce(json!({})).await;
    let (home, settings) = (Home::new(), settings(&service.url));
    home.accounts().begin_device_login(&settings).await.unwrap().finish().await.unwrap();
    assert!(home.accounts().logout(&settings).await.unwrap());
    // The service has no such page, which only the log learns.
    let revoked = service.requests("/revoke");
    assert!(revoked.len() == 1 && revoked[0].body.contains("token=refresh-1"), "{revoked:?}");
    assert!(!home.file().exists());
}
