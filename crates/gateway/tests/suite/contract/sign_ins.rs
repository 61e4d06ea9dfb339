//! Failed sign-ins: logged, counted, and those to the dashboard in the audit log.

use hyper::Method;
use serde_json::{Value, json};

use crate::common::gateway::{ADMIN, TestGateway, config};
use crate::common::html_form::HtmlForm;
use crate::common::upstream::Upstream;

const LOGS: &str = "/v1/organization/audit_logs?event_types[]=login.failed\
                    &event_types[]=login.succeeded&event_types[]=logout.succeeded";

async fn sign_in(gateway: &TestGateway, secret: &str) -> (u16, String) {
    let headers = [
        ("content-type", "application/x-www-form-urlencoded"),
        ("user-agent", "browser/1 sk-admin-of-another"),
    ];
    let form = format!("secret={secret}");
    let answer = gateway.send(Method::POST, "/dashboard/sign-in", &headers, form).await;
    (answer.status.as_u16(), answer.header("set-cookie").to_owned())
}

fn count(surface: &str, reason: &str) -> String {
    format!("gateway_failed_sign_ins_total{{surface=\"{surface}\",reason=\"{reason}\"}}")
}

#[tokio::test]
async fn each_failed_sign_in_is_logged_and_counted() {
    let upstream = Upstream::start().await;
    let gateway = TestGateway::start(&config(&upstream, "")).await;
    let secret = "not-the-admin-token-but-secret";
    let bearer = format!("Bearer {secret}");
    let with: [(&str, &str); 1] = [("authorization", &bearer)];
    let two = [("authorization", &*bearer), ("x-api-key", "another")];
    for (path, headers, surface, reason) in [
        ("/v1/models", &with[..], "api", "invalid_api_key"),
        ("/v1/models", &[], "api", "missing_api_key"),
        ("/v1/models", &two, "api", "several_api_keys"),
        ("/v1/organization/projects", &with, "administration", "invalid_api_key"),
        ("/v1/organization/projects", &[], "administration", "missing_api_key"),
    ] {
        let before = gateway.metric(&count(surface, reason)).await;
        assert_eq!(gateway.send(Method::GET, path, headers, "").await.status, 401, "{path}");
        assert_eq!(gateway.metric(&count(surface, reason)).await, before + 1, "{path}");
    }
    assert_eq!(sign_in(&gateway, secret).await.0, 403);
    assert_eq!(gateway.metric(&count("dashboard", "invalid_credentials")).await, 1);
    let log = gateway.log();
    assert_eq!(log.matches("a sign-in failed").count(), 6, "{log}");
    assert_eq!(log.matches("address=\"127.0.0.1\"").count(), 6, "{log}");
    assert!(!log.contains(secret), "{log}");
    // A key that is valid elsewhere, and requests of known keys, are no failures.
    let tenant = gateway.tenant("1").await;
    assert_eq!(gateway.get(&tenant, "/v1/models").await.status, 200);
    assert_eq!(gateway.metric(&count("api", "invalid_api_key")).await, 1);
}

#[tokio::test]
async fn sign_ins_to_the_dashboard_are_in_the_audit_log() {
    let upstream = Upstream::start().await;
    let gateway = TestGateway::start(&config(&upstream, "")).await;
    assert_eq!(sign_in(&gateway, "wrong").await.0, 403);
    let (status, cookie) = sign_in(&gateway, ADMIN).await;
    assert_eq!(status, 303);
    let cookie = cookie.split(';').next().unwrap();
    let page = gateway.send(Method::GET, "/dashboard", &[("cookie", cookie)], "").await.text();
    let form = HtmlForm::find(&page, "/dashboard/sign-out").unwrap().body();
    let headers = [("cookie", cookie), ("content-type", "application/x-www-form-urlencoded")];
    let out = gateway.send(Method::POST, "/dashboard/sign-out", &headers, form).await;
    assert_eq!(out.status, 303);
    let logs = gateway.admin(Method::GET, LOGS, Value::Null).await;
    let rows = logs["data"].as_array().unwrap();
    let kinds: Vec<_> = rows.iter().map(|row| row["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["logout.succeeded", "login.succeeded", "login.failed"]);
    let failed = &rows[2];
    assert_eq!(failed["login.failed"]["error_code"], "invalid_credentials");
    let session = json!({ "user": null, "ip_address": "127.0.0.1", "user_agent": "browser/1 ***" });
    assert_eq!(failed["actor"], json!({ "type": "session", "session": session }));
    let id = "admin_token";
    let account = json!({ "id": id });
    let key =
        json!({ "id": id, "type": "service_account", "service_account": account, "user": null });
    let actor = json!({ "type": "session", "session": session, "api_key": key });
    assert_eq!(rows[1]["actor"], actor);
    // What concerns the gateway as a whole is not in the log of an organization.
    let tenant = gateway.tenant("1").await;
    let other = gateway.admin_of(&tenant.organization, Method::GET, LOGS, Value::Null).await;
    assert_eq!(other["data"], json!([]));
    let name = json!({ "name": "mine" });
    let key = gateway.admin(Method::POST, "/v1/organization/admin_api_keys", name).await;
    let bearer = format!("Bearer {}", key["value"].as_str().unwrap());
    let own = gateway.send(Method::GET, LOGS, &[("authorization", &bearer)], "").await;
    assert_eq!(own.json()["data"], json!([]), "not even with an admin key of the default one");
}

#[tokio::test]
async fn a_flood_of_failed_sign_ins_is_counted_and_bounded() {
    let upstream = Upstream::start().await;
    let gateway = TestGateway::start(&config(&upstream, "")).await;
    for _ in 0..70 {
        gateway.send(Method::GET, "/v1/models", &[], "").await;
    }
    for _ in 0..25 {
        sign_in(&gateway, "wrong").await;
    }
    assert_eq!(gateway.metric(&count("api", "missing_api_key")).await, 70);
    assert_eq!(gateway.metric(&count("dashboard", "invalid_credentials")).await, 20);
    assert_eq!(gateway.metric(&count("dashboard", "too_many_attempts")).await, 5);
    assert_eq!(gateway.log().matches("a sign-in failed").count(), 60);
    let logs = gateway.admin(Method::GET, LOGS, Value::Null).await;
    assert_eq!(logs["data"].as_array().unwrap().len(), 10);
    gateway.clock.advance(60_000_000);
    gateway.send(Method::GET, "/v1/models", &[], "").await;
    assert!(gateway.log().contains("left_out=35"), "{}", gateway.log());
}
