//! Spend alerts to a webhook: signed, once in a month, and not lost by failures and restarts.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use gateway_store::database::Statement;
use hmac::{Hmac, Mac};
use hyper::Method;
use serde_json::{Value, json};
use sha2::Sha256;
use tempfile::TempDir;

use super::later::until;
use crate::common::gateway::{Tenant, TestGateway, config};
use crate::common::upstream::{Received, Script, Step, Upstream};

const MODEL: &str =
    "[models.\"big-1\"]\naliases = [\"big\"]\nprice = { input = 1.0, output = 1.0 }\n";
const HOUR: u64 = 3_600_000_000;
const KEY: [u8; 32] = [7; 32];

/// A gateway with a webhook, and what both stand on.
struct Setting {
    upstream: Upstream,
    webhook: Upstream,
    folder: Arc<TempDir>,
}

impl Setting {
    async fn new() -> Self {
        let folder = Arc::new(tempfile::tempdir().unwrap());
        let secret = folder.path().join("webhook");
        fs::write(&secret, format!("whsec_{}\n", STANDARD.encode(KEY))).unwrap();
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
        let webhook = Upstream::answering(|_| Script::new(204, "text/plain", "")).await;
        Self { upstream: Upstream::start().await, webhook, folder }
    }

    fn config(&self) -> String {
        let url = format!("http://{}/hook?token=hidden", self.webhook.address);
        let alerts = format!("[alerts]\nwebhook_url = \"{url}\"\nsecret_file = \"webhook\"\n");
        config(&self.upstream, &format!("{alerts}{MODEL}"))
    }

    async fn gateway(&self, seed: u64) -> TestGateway {
        TestGateway::start_in(Arc::clone(&self.folder), &self.config(), seed).await
    }
}

/// Adds an alert at this many cents to the tenant's organization or project.
async fn alert_at(gateway: &TestGateway, tenant: &Tenant, of_project: bool, cents: u64) -> Value {
    let path = match of_project {
        true => format!("/v1/organization/projects/{}/spend_alerts", tenant.project),
        false => "/v1/organization/spend_alerts".to_owned(),
    };
    let body = json!({ "currency": "USD", "interval": "month", "threshold_amount": cents });
    gateway.admin_of(&tenant.organization, Method::POST, &path, body).await
}

async fn outbox(gateway: &TestGateway) -> usize {
    let sql = "SELECT id FROM outbox";
    gateway.gateway.database().query(Statement::new(sql, [])).await.unwrap().len()
}

async fn is_sent(gateway: &TestGateway) {
    until("the outbox is empty", async || (outbox(gateway).await == 0).then_some(())).await;
}

fn header<'a>(received: &'a Received, name: &str) -> &'a str {
    received.headers[name].to_str().unwrap()
}

/// Checks a message as its receiver does.
fn verify(received: &Received) -> Value {
    let (id, at) = (header(received, "webhook-id"), header(received, "webhook-timestamp"));
    let body = std::str::from_utf8(&received.body).unwrap();
    let mac = Hmac::<Sha256>::new_from_slice(&KEY).unwrap();
    let signed = mac.chain_update(format!("{id}.{at}.{body}")).finalize().into_bytes();
    let expected = format!("v1,{}", STANDARD.encode(signed));
    assert_eq!(header(received, "webhook-signature"), expected);
    assert_eq!(header(received, "content-type"), "application/json");
    assert_eq!((&received.method, &*received.path), (&Method::POST, "/hook?token=hidden"));
    received.json()
}

fn count(outcome: &str) -> String {
    format!("gateway_webhook_messages_total{{outcome=\"{outcome}\"}}")
}

#[tokio::test]
async fn an_alert_is_delivered_signed_and_once_in_a_month() {
    let setting = Setting::new().await;
    let mut gateway = setting.gateway(1).await;
    let tenant = gateway.tenant("1").await;
    let of_organization = alert_at(&gateway, &tenant, false, 0).await;
    assert_eq!(gateway.chat(&tenant).await.status, 200);
    setting.webhook.has_received(1).await;
    let message = verify(&setting.webhook.last());
    assert_eq!(message["type"], "spend_alert.raised");
    let expected = json!({
        "alert_id": of_organization["id"], "organization_id": tenant.organization,
        "project_id": null, "month": message["data"]["month"], "currency": "USD",
        "interval": "month", "threshold_amount": 0, "spent_amount": 0,
    });
    assert_eq!(message["data"], expected);
    assert!(
        message["timestamp"]
            .as_str()
            .unwrap()
            .starts_with(message["data"]["month"].as_str().unwrap())
    );
    let of_project = alert_at(&gateway, &tenant, true, 0).await;
    assert_eq!(gateway.chat(&tenant).await.status, 200);
    setting.webhook.has_received(2).await;
    let message = verify(&setting.webhook.last());
    assert_eq!(message["data"]["alert_id"], of_project["id"]);
    assert_eq!(message["data"]["project_id"], tenant.project);
    is_sent(&gateway).await;
    assert_eq!(gateway.metric("gateway_spend_alerts_total").await, 2);
    assert_eq!(gateway.metric(&count("delivered")).await, 2);
    // A restart within the month raises none of them again; a new threshold is a new alert.
    gateway.end().await;
    drop(gateway);
    let again = setting.gateway(2).await;
    let path = format!("/v1/organization/spend_alerts/{}", of_organization["id"].as_str().unwrap());
    for _ in 0..2 {
        assert_eq!(again.chat(&tenant).await.status, 200);
        again.is_idle().await;
    }
    alert_at(&again, &tenant, true, 0).await;
    assert_eq!(again.chat(&tenant).await.status, 200);
    setting.webhook.has_received(3).await;
    is_sent(&again).await;
    assert_eq!(again.metric("gateway_spend_alerts_total").await, 1);
    assert!(!again.log().contains("hidden"), "the path of the URL may be a secret");
    let shown = again.admin_of(&tenant.organization, Method::GET, &path, Value::Null).await;
    assert_eq!(shown["notification_channel"], Value::Null);
}

#[tokio::test]
async fn a_webhook_that_fails_is_asked_again_after_growing_waits() {
    let setting = Setting::new().await;
    let elsewhere = format!("http://{}/elsewhere", setting.webhook.address);
    setting.webhook.script([
        Script::error(500, &json!({})),
        // Not followed: the message is for this URL.
        Script::new(302, "text/plain", "").header("location", &elsewhere),
        Script::new(410, "text/html", "gone"),
        // The status decides, however long the rest is.
        Script::new(200, "text/plain", vec![b'x'; 1 << 20]),
    ]);
    let gateway = setting.gateway(1).await;
    let tenant = gateway.tenant("1").await;
    alert_at(&gateway, &tenant, false, 0).await;
    assert_eq!(gateway.chat(&tenant).await.status, 200);
    for (attempt, wait) in [(1, 5), (2, 15), (3, 45)] {
        setting.webhook.has_received(attempt).await;
        until("the failure is stored", async || {
            (gateway.metric(&count("failed")).await == attempt as u64).then_some(())
        })
        .await;
        until("it waits", async || {
            let sql = "SELECT due_at FROM outbox";
            let rows = gateway.gateway.database().query(Statement::new(sql, [])).await.unwrap();
            let due = rows[0].count(0).unwrap() - gateway.gateway.clock().now();
            (due == wait * 1_000_000).then_some(())
        })
        .await;
        // Not a moment earlier.
        gateway.clock.advance(wait * 1_000_000 - 1);
        gateway.gateway.wake_alerts();
        assert_eq!(outbox(&gateway).await, 1);
        assert_eq!(setting.webhook.count(), attempt);
        gateway.clock.advance(1);
        gateway.gateway.wake_alerts();
    }
    setting.webhook.has_received(4).await;
    is_sent(&gateway).await;
    let received = setting.webhook.received();
    assert_eq!(received.len(), 4);
    for one in &received {
        verify(one);
        assert_eq!(header(one, "webhook-id"), header(&received[0], "webhook-id"));
    }
    assert_ne!(
        header(&received[0], "webhook-timestamp"),
        header(&received[3], "webhook-timestamp")
    );
    assert_eq!(gateway.metric(&count("delivered")).await, 1);
    let log = gateway.log();
    assert_eq!(log.matches("did not take an alert").count(), 3, "{log}");
    assert!(!log.contains("hidden"), "{log}");
}

#[tokio::test]
async fn a_webhook_that_never_answers_holds_up_nothing_and_loses_nothing() {
    let setting = Setting::new().await;
    setting.webhook.script([Script::chunked("text/plain").before(Step::Hang)]);
    let mut gateway = setting.gateway(1).await;
    let tenant = gateway.tenant("1").await;
    alert_at(&gateway, &tenant, false, 0).await;
    for _ in 0..5 {
        assert_eq!(gateway.chat(&tenant).await.status, 200);
    }
    setting.webhook.has_received(1).await;
    let id = header(&setting.webhook.last(), "webhook-id").to_owned();
    // The node ends while it waits for the answer.
    gateway.end().await;
    assert_eq!(outbox(&gateway).await, 1);
    drop(gateway);
    let again = setting.gateway(2).await;
    again.gateway.wake_alerts();
    assert_eq!(setting.webhook.count(), 1, "it is claimed until the claim lapses");
    again.clock.advance(61_000_000);
    again.gateway.wake_alerts();
    setting.webhook.has_received(2).await;
    assert_eq!(header(&setting.webhook.last(), "webhook-id"), id);
    verify(&setting.webhook.last());
    is_sent(&again).await;
}

#[tokio::test]
async fn an_alert_that_is_too_old_is_given_up_with_a_line() {
    let setting = Setting::new().await;
    let refusing = (0..40).map(|_| Script::error(503, &json!({})));
    setting.webhook.script(refusing);
    let gateway = setting.gateway(1).await;
    let tenant = gateway.tenant("1").await;
    let alert = alert_at(&gateway, &tenant, false, 0).await;
    assert_eq!(gateway.chat(&tenant).await.status, 200);
    setting.webhook.has_received(1).await;
    until("the failure is stored", async || {
        (gateway.metric(&count("failed")).await == 1).then_some(())
    })
    .await;
    gateway.clock.advance(72 * HOUR);
    gateway.gateway.wake_alerts();
    is_sent(&gateway).await;
    assert_eq!(gateway.metric(&count("expired")).await, 1);
    assert_eq!(setting.webhook.count(), 1);
    let log = gateway.log();
    assert!(log.contains("was not delivered within three days"), "{log}");
    assert!(log.contains(alert["id"].as_str().unwrap()), "the line has the alert: {log}");
}

#[tokio::test]
async fn without_a_webhook_alerts_are_logged_and_recipients_refused() {
    let upstream = Upstream::start().await;
    let gateway = TestGateway::start(&config(&upstream, MODEL)).await;
    let tenant = gateway.tenant("1").await;
    alert_at(&gateway, &tenant, false, 0).await;
    assert_eq!(gateway.chat(&tenant).await.status, 200);
    until("the alert", async || {
        (gateway.metric("gateway_spend_alerts_total").await == 1).then_some(())
    })
    .await;
    assert_eq!(outbox(&gateway).await, 0);
    let path = "/v1/organization/spend_alerts";
    for (channel, code) in [
        (json!({ "type": "email", "recipients": ["a@b.example"] }), "email_not_supported"),
        (
            json!({ "type": "email", "recipients": [], "subject_prefix": "x" }),
            "email_not_supported",
        ),
        (json!({ "type": "email" }), "invalid_value"),
        (json!({ "type": "sms", "recipients": [] }), "invalid_value"),
        (json!({ "type": "email", "recipients": "a@b.example" }), "invalid_value"),
        (json!("a@b.example"), "invalid_value"),
    ] {
        let body = json!({ "currency": "USD", "interval": "month", "threshold_amount": 1,
            "notification_channel": channel });
        let answer = gateway.try_admin(&tenant.organization, Method::POST, path, body).await;
        let error = &answer.json()["error"];
        assert_eq!((answer.status.as_u16(), &error["code"]), (400, &json!(code)), "{channel}");
        assert_eq!(error["param"], "notification_channel");
        let named = answer.text().contains("webhook_url");
        assert_eq!(named, code == "email_not_supported", "{}", answer.text());
    }
}
