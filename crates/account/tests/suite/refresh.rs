//! The refresh of tokens: once, by one process, whatever the service answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use account::{Accounts, Error, Settings, Status};
use serde_json::json;

use crate::login_service::{LoginService, Reply, tokens};
use crate::{Home, settings};

/// Issues `access-N` and `refresh-N` for each grant N; a refresh token that was used before is refused.
async fn rotating() -> LoginService {
    let issued = AtomicUsize::new(0);
    LoginService::start(move |address, request| {
        if request.path != "/token" {
            return None;
        }
        let n = issued.fetch_add(1, Ordering::Relaxed);
        if n > 0 && !request.body.contains(&format!("refresh_token=refresh-{n}&")) {
            return Some(Reply::Json(400, json!({ "error": "invalid_grant" })));
        }
        let (access, refresh) = (format!("access-{}", n + 1), format!("refresh-{}", n + 1));
        Some(Reply::Json(200, tokens(address, &access, &refresh, json!({}))))
    })
    .await
}

/// Logs in with a device code, for which the service asks nothing.
async fn log_in(accounts: &Accounts, settings: &Settings) {
    let login = accounts.begin_device_login(settings).await.unwrap();
    login.finish().await.unwrap();
}

async fn token(accounts: &Accounts, settings: &Settings) -> Result<String, Error> {
    accounts.bearer(settings, None).await.map(|bearer| bearer.token.expose().to_owned())
}

#[tokio::test]
async fn tokens_are_refreshed_before_they_expire() {
    let (home, service) = (Home::new(), rotating().await);
    let (accounts, settings) = (home.accounts(), settings(&service.url));
    log_in(&accounts, &settings).await;
    assert_eq!(token(&accounts, &settings).await.unwrap(), "access-1");
    home.advance(3600 - 61);
    assert_eq!(token(&accounts, &settings).await.unwrap(), "access-1");
    home.advance(2);
    assert_eq!(token(&accounts, &settings).await.unwrap(), "access-2");
    // As after a restart.
    assert_eq!(token(&home.accounts(), &settings).await.unwrap(), "access-2");
    assert_eq!(service.requests("/token").len(), 2);
    assert_eq!(token(&accounts, &settings).await.unwrap(), "access-2");
    // Without an ID token the profile would stay as it was.
    let Status::Hosted(profile) = accounts.status(&settings).await.unwrap() else { panic!() };
    assert_eq!(profile.email.as_deref(), Some("a@example.com"));
}

#[tokio::test]
async fn a_clock_that_is_set_by_an_hour_costs_one_refresh_at_most() {
    for hours in [-1, 1] {
        let (home, service) = (Home::new(), rotating().await);
        let settings = settings(&service.url);
        log_in(&home.accounts(), &settings).await;
        home.advance(hours * 3600);
        for _ in 0..3 {
            assert_eq!(token(&home.accounts(), &settings).await.unwrap(), "access-2");
        }
    }
}

#[tokio::test]
async fn fifty_tasks_and_accounts_refresh_once() {
    let (home, service) = (Home::new(), rotating().await);
    let settings = settings(&service.url);
    let shared = home.accounts();
    log_in(&shared, &settings).await;
    home.advance(7200);
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..50 {
        let accounts = if n % 2 == 0 { shared.clone() } else { home.accounts() };
        let settings = settings.clone();
        tasks.spawn(async move { token(&accounts, &settings).await.unwrap() });
    }
    while let Some(token) = tasks.join_next().await {
        assert_eq!(token.unwrap(), "access-2");
    }
    assert_eq!(service.requests("/token").len(), 2);
}

#[tokio::test]
async fn a_rejected_token_is_refreshed_once_for_all_who_had_it() {
    let (home, service) = (Home::new(), rotating().await);
    let (accounts, settings) = (home.accounts(), settings(&service.url));
    log_in(&accounts, &settings).await;
    let rejected = accounts.bearer(&settings, None).await.unwrap().token;
    for _ in 0..3 {
        let bearer = home.accounts().bearer(&settings, Some(&rejected)).await.unwrap();
        assert_eq!(bearer.token.expose(), "access-2");
    }
    assert_eq!(service.requests("/token").len(), 2);
    assert_eq!(accounts.renew(&settings).await.unwrap().token.expose(), "access-3");
}

#[tokio::test]
async fn a_caller_that_stops_waiting_loses_no_tokens() {
    let (home, service) = (Home::new(), rotating().await);
    let (accounts, settings) = (home.accounts(), settings(&service.url));
    log_in(&accounts, &settings).await;
    home.advance(7200);
    {
        let mut refreshing = Box::pin(accounts.bearer(&settings, None));
        // Polled until the refresh has begun, and dropped.
        while service.requests("/token").len() < 2 {
            tokio::select! {
                biased;
                _ = &mut refreshing => break,
                () = tokio::task::yield_now() => {}
            }
        }
    }
    accounts.settled().await;
    assert_eq!(token(&home.accounts(), &settings).await.unwrap(), "access-2");
    assert_eq!(service.requests("/token").len(), 2);
}

#[tokio::test]
async fn a_refused_refresh_ends_the_login_for_all() {
    let service = LoginService::start(|_, request| {
        let is_refresh = request.body.contains("grant_type=refresh_token");
        is_refresh.then(|| {
            let text = "revoked: refresh-1\n<b>";
            Reply::Json(400, json!({ "error": "invalid_grant", "error_description": text }))
        })
    })
    .await;
    let (home, settings) = (Home::new(), settings(&service.url));
    log_in(&home.accounts(), &settings).await;
    home.advance(7200);
    for _ in 0..3 {
        let error = token(&home.accounts(), &settings).await.unwrap_err();
        let message = error.to_string();
        assert!(message.contains("invalid_grant") && message.contains("agentd login"), "{message}");
        assert!(!message.contains("refresh-1") && !message.contains('\n'), "{message}");
    }
    assert_eq!(service.requests("/token").len(), 2);
    let status = home.accounts().status(&settings).await.unwrap();
    assert!(matches!(status, Status::LoggedOut { reason: Some(_) }), "{status:?}");
    assert!(!std::fs::read_to_string(home.file()).unwrap().contains("access-1"));
    log_in(&home.accounts(), &settings).await;
    assert_eq!(token(&home.accounts(), &settings).await.unwrap(), "access-1");
}

/// Makes an answer that a login service should not give.
type BadReply = Box<dyn Fn() -> Reply + Send + Sync>;

#[tokio::test]
async fn bad_answers_end_no_login_and_leak_nothing() {
    let other = LoginService::start(|_, _| Some(Reply::Json(200, json!({})))).await;
    let elsewhere = other.url.clone();
    let replies: Vec<(&str, BadReply)> = vec![
        (
            "web page",
            Box::new(|| {
                Reply::Raw("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n<html>refresh-1".into())
            }),
        ),
        ("JSON of another form", Box::new(|| Reply::Json(200, json!({ "access_token": 5 })))),
        ("empty", Box::new(|| Reply::Json(200, json!({ "access_token": "" })))),
        (
            "bearer",
            Box::new(|| Reply::Json(200, json!({ "access_token": "a", "token_type": "DPoP" }))),
        ),
        ("256 KiB", Box::new(|| Reply::Endless)),
        ("503", Box::new(|| Reply::Json(503, json!({})))),
        ("/token", Box::new(|| Reply::Nothing)),
        (
            "redirects to",
            Box::new(move || {
                Reply::Raw(format!(
                    "HTTP/1.1 307 X\r\nlocation: {elsewhere}/token?x=refresh-1\r\ncontent-length: 0\r\n\
                 connection: close\r\n\r\n"
                ))
            }),
        ),
    ];
    let replies = Arc::new(replies);
    for index in 0..replies.len() {
        let (all, problem) = (replies.clone(), replies[index].0);
        let service = LoginService::start(move |_, request| {
            request.body.contains("grant_type=refresh_token").then(|| all[index].1())
        })
        .await;
        let (home, settings) = (Home::new(), settings(&service.url));
        log_in(&home.accounts(), &settings).await;
        // Tokens that have not expired serve until the service recovers.
        home.advance(3600 - 30);
        assert_eq!(token(&home.accounts(), &settings).await.unwrap(), "access-1", "{problem}");
        home.advance(60);
        let error = token(&home.accounts(), &settings).await.unwrap_err();
        let text = format!("{error} {error:?}");
        assert!(text.contains(problem), "{problem}: {text}");
        assert!(!text.contains("refresh-1") && !text.contains("access-1"), "{text}");
        let status = home.accounts().status(&settings).await.unwrap();
        assert!(matches!(status, Status::Hosted(_)), "{problem}: {status:?}");
    }
    assert!(other.requests("/token").is_empty(), "a redirect was followed");
}

#[tokio::test]
async fn tokens_of_another_user_or_workspace_are_not_used() {
    for (claims, forced) in
        [(json!({ "sub": "user-2" }), None), (json!({ "account_id": "w2" }), Some("workspace-1"))]
    {
        let service = LoginService::start(move |address, request| {
            let is_refresh = request.body.contains("grant_type=refresh_token");
            is_refresh
                .then(|| Reply::Json(200, tokens(address, "foreign", "foreign", claims.clone())))
        })
        .await;
        let (home, mut settings) = (Home::new(), settings(&service.url));
        settings.forced_workspace = forced.map(str::to_owned);
        log_in(&home.accounts(), &settings).await;
        home.advance(7200);
        let error = token(&home.accounts(), &settings).await.unwrap_err();
        assert!(matches!(error, Error::Ended { .. }), "{error}");
        assert!(!std::fs::read_to_string(home.file()).unwrap().contains("foreign"));
    }
}

/// A crash between the answer of the service and the write: the old refresh token is used up, and the
/// service refuses it. The login ends with the reason; nothing hangs or loops.
#[tokio::test]
async fn a_crash_after_the_refresh_ends_the_login() {
    let (home, service) = (Home::new(), rotating().await);
    let settings = settings(&service.url);
    log_in(&home.accounts(), &settings).await;
    let before = std::fs::read(home.file()).unwrap();
    home.advance(7200);
    assert_eq!(token(&home.accounts(), &settings).await.unwrap(), "access-2");
    std::fs::write(home.file(), before).unwrap();
    std::fs::write(home.folder.path().join(".credentials.json.tmp"), "half").unwrap();
    let error = token(&home.accounts(), &settings).await.unwrap_err();
    assert!(error.to_string().contains("invalid_grant"), "{error}");
    assert!(!home.folder.path().join(".credentials.json.tmp").exists());
}

#[cfg(unix)]
#[tokio::test]
async fn no_refresh_token_is_used_when_the_new_one_cannot_be_stored() {
    let (home, service) = (Home::new(), rotating().await);
    let settings = settings(&service.url);
    log_in(&home.accounts(), &settings).await;
    home.advance(7200);
    // The place of the draft is taken by a folder, which no one can replace by a file.
    let draft = home.folder.path().join(".credentials.json.tmp");
    std::fs::create_dir(&draft).unwrap();
    let error = token(&home.accounts(), &settings).await.unwrap_err();
    assert!(matches!(error, Error::Storage { .. }), "{error}");
    assert_eq!(service.requests("/token").len(), 1);
    std::fs::remove_dir(&draft).unwrap();
    assert_eq!(token(&home.accounts(), &settings).await.unwrap(), "access-2");
}
