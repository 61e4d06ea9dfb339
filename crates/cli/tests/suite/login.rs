//! `agentd login` and `agentd logout` as a user, a script and 200 processes run them.

#[path = "../../../account/tests/suite/login_service.rs"]
mod login_service;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::common::{TestEnvironment, stderr, stdout};
use login_service::{LoginService, Reply, tokens};
use serde_json::json;

fn configured(service: &LoginService) -> TestEnvironment {
    let env = TestEnvironment::new();
    let config = format!("hosted_base_url = \"{}\"\n", service.url);
    std::fs::write(env.home().join("config.toml"), config).unwrap();
    env
}

#[test]
fn a_key_from_standard_input_is_stored_and_deleted() {
    let env = TestEnvironment::new();
    std::fs::remove_dir(env.home()).unwrap();
    let status = env.run(&["login", "status"]);
    assert_eq!((status.status.code(), stdout(&status).as_str()), (Some(1), "Not logged in\n"));
    let login = env.pipe(&["login", "--with-api-key"], "sk-secret-1\n");
    assert_eq!(stdout(&login), "Logged in with an API key\n", "{}", stderr(&login));
    let stored = std::fs::read_to_string(env.home().join("credentials.json")).unwrap();
    assert!(stored.contains("sk-secret-1"));
    assert!(env.run(&["login", "status"]).status.success());
    let logout = env.run(&["logout"]);
    assert_eq!((logout.status.code(), stdout(&logout).as_str()), (Some(0), "Logged out\n"));
    assert_eq!(stdout(&env.run(&["logout"])), "Not logged in\n");
    assert!(!env.home().join("credentials.json").exists());
}

#[test]
fn mistakes_are_explained_and_store_nothing() {
    let env = TestEnvironment::new();
    let check = |output: std::process::Output, code: i32, part: &str| {
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{text}");
        assert!(text.contains(part) && !text.contains("sk-1"), "{text}");
        assert!(!env.home().join("credentials.json").exists());
    };
    check(env.pipe(&["login", "--with-api-key"], ""), 1, "the API key is empty");
    check(env.pipe(&["login", "--with-api-key"], "sk-1 sk-1"), 1, "no header can carry");
    // Never from the command line, which other users can read.
    check(env.pipe(&["login", "--with-api-key", "key"], ""), 2, "cannot be used with");
    check(env.run(&["login"]), 1, "hosted_base_url");
    check(env.run(&["login", "--device", "--with-api-key"]), 2, "cannot be used with");
    check(env.run(&["-c", "hosted_base_url=5", "login"]), 2, "hosted_base_url");
    let plain = ["-c", "hosted_base_url=\"http://login.test\"", "login"];
    check(env.run(&plain), 1, "https://");
    let forced = ["-c", "forced_login_method=\"hosted\"", "login", "--with-api-key"];
    check(env.pipe(&forced, "sk-1"), 1, "forced_login_method");
}

#[test]
fn the_key_of_the_environment_is_mentioned() {
    let env = TestEnvironment::new();
    let mut status = env.agentd(&["login", "status"]);
    let status = status.env("AGENT_API_KEY", "sk-environment").output().unwrap();
    assert!(status.status.success());
    assert!(stdout(&status).contains("AGENT_API_KEY"), "{}", stdout(&status));
    let mut logout = env.agentd(&["logout"]);
    let logout = logout.env("AGENT_API_KEY", "sk-environment").output().unwrap();
    assert!(stderr(&logout).contains("still in use"), "{}", stderr(&logout));
}

/// A login that has printed its address.
fn begin(env: &TestEnvironment, arguments: &[&str]) -> (Child, BufReader<impl Read>, String) {
    let mut command = env.agentd(arguments);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut url = String::new();
    lines.read_line(&mut url).unwrap();
    (child, lines, url.trim().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_with_a_device_code_prints_what_the_user_needs() {
    let service = LoginService::start(|_, _| None).await;
    let env = configured(&service);
    let (mut child, mut lines, url) = begin(&env, &["login", "--device"]);
    assert_eq!(url, format!("{}/activate", service.url));
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    let expected = "ABCD-EFGH\nLogged in as a@example.com, plan pro, workspace workspace-1\n";
    assert_eq!(rest, expected);
    assert!(child.wait().unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_in_a_browser_ends_when_the_browser_comes_back_or_the_user_gives_up() {
    let nonce = Arc::new(std::sync::Mutex::new(String::new()));
    let current = nonce.clone();
    let service = LoginService::start(move |address, request| {
        let more = json!({ "nonce": *current.lock().unwrap() });
        (request.path == "/token")
            .then(|| Reply::Json(200, tokens(address, "access", "refresh", more)))
    })
    .await;
    let env = configured(&service);
    let (mut child, mut lines, url) = begin(&env, &["login"]);
    let asked = |name: &str| {
        let value = url.split(['?', '&']).find_map(|pair| pair.strip_prefix(name)).unwrap();
        value.strip_prefix('=').unwrap().replace("%3A", ":").replace("%2F", "/")
    };
    *nonce.lock().unwrap() = asked("nonce");
    let redirect = asked("redirect_uri");
    let host = redirect.strip_prefix("http://").unwrap().split('/').next().unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    let state = asked("state");
    write!(stream, "GET /auth/callback?code=c&state={state} HTTP/1.1\r\nhost: {host}\r\n\r\n")
        .unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    assert!(page.contains("You are logged in"), "{page}");
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    assert!(rest.starts_with("Logged in as a@example.com"), "{rest}");
    assert!(child.wait().unwrap().success());
    // Ctrl-C.
    let (mut child, ..) = begin(&env, &["login"]);
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(env.run(&["login", "status"]).status.success());
}

/// 200 processes find one expired login at the same moment.
#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_processes_refresh_one_login_once() {
    const PROCESSES: usize = 200;
    let grants = Arc::new(AtomicUsize::new(0));
    let count = grants.clone();
    let service = LoginService::start(move |address, request| {
        (request.path == "/token").then(|| {
            let is_first = count.fetch_add(1, Ordering::Relaxed) == 0;
            let is_known = request.body.contains("refresh_token=refresh-0&");
            match is_first && is_known {
                true => Reply::Json(200, tokens(address, "access-1", "refresh-1", json!({}))),
                // As services do that detect a reused token.
                false => Reply::Json(400, json!({ "error": "invalid_grant" })),
            }
        })
    })
    .await;
    let env = configured(&service);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
    let credentials = json!({ "version": 1, "type": "hosted", "issuer": service.url,
        "clientId": "agentd", "accessToken": "access-0", "refreshToken": "refresh-0",
        "obtainedAtMs": now - 7_200_000, "lifetimeMs": 3_600_000, "profile": {} });
    std::fs::write(env.home().join("credentials.json"), credentials.to_string()).unwrap();
    let start = || {
        let mut command = env.agentd(&["login", "status", "--refresh"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let children: Vec<Child> = (0..PROCESSES).map(|_| start()).collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
        assert!(stdout(&output).starts_with("Logged in as a@example.com"), "{}", stdout(&output));
    }
    assert_eq!(grants.load(Ordering::Relaxed), 1);
    let stored = std::fs::read_to_string(env.home().join("credentials.json")).unwrap();
    assert!(stored.contains("access-1") && stored.contains("refresh-1"), "{stored}");
}
