//! A clock that is set while the gateway runs, by a year in either direction and back: dates follow it, intervals do
//! not, and nothing is lost.

use gateway_store::database::Statement;
use gateway_store::records::{batches, later_answers, outbox};
use hyper::Method;
use serde_json::{Value, json};

use super::later::{self, until};
use super::{BIG, ends, start};
use crate::common::gateway::{ADMIN, SECOND, Tenant, TestGateway, chat_with};
use crate::common::html_form::HtmlForm;
use crate::common::upstream::Script;

const CHAT: &str = "/v1/chat/completions";
const YEAR: i64 = 365 * 86_400 * 1_000_000;

/// Up to `output` tokens at 10 micro-dollars each, and one input token at 1.
fn ask(output: u64) -> Value {
    chat_with(json!({ "max_tokens": output }))
}

async fn status(gateway: &TestGateway, tenant: &Tenant, output: u64) -> u16 {
    let answer = gateway.post(tenant, CHAT, &ask(output)).await;
    gateway.is_idle().await;
    answer.status.as_u16()
}

/// The budget of a month is what the ledger has of that month, whichever way the clock went in between.
#[tokio::test]
async fn the_budget_of_a_month_survives_a_year_forward_and_back() {
    for step in [YEAR, -YEAR] {
        let (gateway, upstream) = start(BIG).await;
        let tenant = gateway.tenant("free").await;
        // A cent is 10,000 micro-dollars, of which each request uses 6,001.
        gateway.hard_limit(&tenant, true, 1).await;
        let usage = json!({ "prompt_tokens": 1, "completion_tokens": 600, "total_tokens": 601 });
        let answer = crate::common::upstream::chat(&usage);
        upstream.script((0..8).map(|_| Script::json(&answer)));
        assert_eq!(status(&gateway, &tenant, 600).await, 200);
        assert_eq!(status(&gateway, &tenant, 600).await, 429, "6,001 are spent");
        gateway.clock.step(step);
        assert_eq!(status(&gateway, &tenant, 600).await, 200, "another month has its own budget");
        assert_eq!(status(&gateway, &tenant, 600).await, 429);
        gateway.clock.step(-step);
        assert_eq!(status(&gateway, &tenant, 600).await, 429, "the first one is spent as before");
        assert_eq!(status(&gateway, &tenant, 300).await, 200, "what it has left is there");
        assert_eq!(later::spent(&gateway, &tenant).await, [6_001 + 6_001; 2]);
        gateway.clock.step(step);
        assert_eq!(status(&gateway, &tenant, 600).await, 429, "and so is the other");
    }
}

#[tokio::test]
async fn limits_of_a_minute_and_of_a_day_do_not_follow_the_clock() {
    for step in [YEAR, -YEAR] {
        let limits = "[tiers.free.limits.big]\nrpm = 3\nrpd = 4\n";
        let (gateway, _upstream) = start(&format!("{BIG}{limits}")).await;
        let tenant = gateway.tenant("free").await;
        for _ in 0..3 {
            assert_eq!(status(&gateway, &tenant, 1).await, 200);
        }
        gateway.clock.step(step);
        let refused = gateway.post(&tenant, CHAT, &ask(1)).await;
        assert_eq!((refused.status.as_u16(), refused.header("retry-after")), (429, "20"));
        gateway.clock.advance(60 * SECOND);
        assert_eq!(status(&gateway, &tenant, 1).await, 200);
        assert_eq!(status(&gateway, &tenant, 1).await, 429, "the day is used up");
        gateway.clock.step(-step);
        assert_eq!(status(&gateway, &tenant, 1).await, 429);
    }
}

#[tokio::test]
async fn the_ledger_has_each_row_once_with_the_date_of_the_clock() {
    let (gateway, _upstream) = start(BIG).await;
    let tenant = gateway.tenant("free").await;
    for step in [YEAR, -2 * YEAR, YEAR] {
        assert_eq!(status(&gateway, &tenant, 1).await, 200);
        gateway.clock.step(step);
    }
    assert_eq!(status(&gateway, &tenant, 1).await, 200);
    let path = "/v1/organization/usage/export?format=jsonl&start_time=0&end_time=4000000000";
    gateway.flush().await;
    let export = gateway.try_admin(&tenant.organization, Method::GET, path, Value::Null).await;
    let rows: Vec<Value> =
        export.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let times: Vec<_> = rows.iter().map(|row| row["time"].as_str().unwrap()).collect();
    let dates: Vec<_> = times.iter().map(|time| &time[..10]).collect();
    assert_eq!(dates, ["2025-11-10", "2026-11-10", "2026-11-10", "2027-11-10"], "in order");
    let mut ids: Vec<_> = rows.iter().map(|row| row["request_id"].to_string()).collect();
    ids.dedup();
    assert_eq!(ids.len(), 4);
    assert!(ends::rows(&gateway, &tenant).await.iter().all(|row| row["status"] == json!(200)));
}

/// Durations are measured, whatever the clock does while a request runs.
#[tokio::test]
async fn a_step_during_a_request_is_no_duration() {
    let (gateway, upstream) = start(BIG).await;
    let tenant = gateway.tenant("free").await;
    let gate = crate::common::upstream::Gate::closed();
    let answer = crate::common::upstream::chat(&json!({}));
    let held = crate::common::upstream::Step::Wait(gate.clone());
    upstream.script([Script::json(&answer).before(held)]);
    let chat = ask(1);
    let asked = gateway.post(&tenant, CHAT, &chat);
    let set = async {
        upstream.has_received(1).await;
        gateway.clock.step(YEAR);
        gateway.clock.advance(2 * SECOND);
        gate.open(1);
    };
    let (answer, ()) = tokio::join!(asked, set);
    assert_eq!(answer.header("openai-processing-ms"), "2000");
}

#[tokio::test]
async fn keys_expire_by_the_clock_and_are_accepted_again() {
    let (gateway, _upstream) = start(BIG).await;
    let tenant = gateway.tenant("free").await;
    let path = format!("/v1/organization/projects/{}/api_keys", tenant.project);
    let body = json!({ "name": "short", "expires_in_seconds": 30 * 86_400 });
    let made = gateway.admin_of(&tenant.organization, Method::POST, &path, body).await;
    let short = Tenant { key: made["value"].as_str().unwrap().to_owned(), ..tenant.clone() };
    let models = async || gateway.get(&short, "/v1/models").await.status.as_u16();
    assert_eq!(models().await, 200);
    gateway.clock.step(YEAR);
    assert_eq!(models().await, 401);
    gateway.clock.step(-YEAR);
    assert_eq!(models().await, 200);
    // The last use follows the clock back.
    gateway.gateway.directory().write_last_used().await.unwrap();
    let path = format!("{path}/{}", made["id"].as_str().unwrap());
    let shown = gateway.admin_of(&tenant.organization, Method::GET, &path, Value::Null).await;
    assert_eq!(shown["last_used_at"], crate::common::gateway::START / SECOND);
}

/// A key that was used while the clock was ahead shows its next use all the same.
#[tokio::test]
async fn the_last_use_of_a_key_comes_back_from_the_future() {
    let (gateway, _upstream) = start(BIG).await;
    let tenant = gateway.tenant("free").await;
    let path = format!("/v1/organization/projects/{}/api_keys/{}", tenant.project, tenant.key_id);
    let last_used = async || {
        gateway.gateway.directory().write_last_used().await.unwrap();
        let shown = gateway.admin_of(&tenant.organization, Method::GET, &path, Value::Null).await;
        shown["last_used_at"].as_i64().unwrap()
    };
    let now = (crate::common::gateway::START / SECOND).cast_signed();
    gateway.clock.step(YEAR);
    gateway.get(&tenant, "/v1/models").await;
    assert_eq!(last_used().await, now + YEAR / 1_000_000);
    gateway.clock.step(-YEAR);
    gateway.get(&tenant, "/v1/models").await;
    assert_eq!(last_used().await, now);
}

#[tokio::test]
async fn sessions_of_a_clock_that_was_ahead_do_not_last_for_a_year() {
    let (gateway, _upstream) = start(BIG).await;
    let sign_in = async || {
        let headers = [("content-type", "application/x-www-form-urlencoded")];
        let form = format!("secret={ADMIN}");
        let answer = gateway.send(Method::POST, "/dashboard/sign-in", &headers, form).await;
        answer.header("set-cookie").split(';').next().unwrap().to_owned()
    };
    let opens = async |cookie: &str| {
        gateway.send(Method::GET, "/dashboard", &[("cookie", cookie)], "").await.status == 200
    };
    let before = sign_in().await;
    gateway.clock.step(YEAR);
    assert!(!opens(&before).await, "it has expired by this clock");
    let ahead = sign_in().await;
    assert!(opens(&ahead).await);
    gateway.clock.step(-YEAR);
    assert!(!opens(&ahead).await, "no session lasts longer than eight hours");
    assert!(opens(&before).await);
    // One that was signed out stays so.
    let sign_out = async |cookie: &str| {
        let page = gateway.send(Method::GET, "/dashboard", &[("cookie", cookie)], "").await;
        let form = HtmlForm::find(&page.text(), "/dashboard/sign-out").unwrap().body();
        let headers = [("cookie", cookie), ("content-type", "application/x-www-form-urlencoded")];
        let answer = gateway.send(Method::POST, "/dashboard/sign-out", &headers, form).await;
        assert_eq!(answer.status, 303);
    };
    gateway.clock.step(YEAR);
    gateway.clock.step(-YEAR);
    sign_out(&before).await;
    gateway.clock.step(YEAR);
    sign_out(&sign_in().await).await;
    gateway.clock.step(-YEAR);
    assert!(!opens(&before).await, "the sign-out is not forgotten");
}

/// Answers in the background are neither given up while the clock is ahead nor forgotten when it is right again.
#[tokio::test]
async fn an_answer_in_the_background_outlives_a_step() {
    let (gateway, background, tenant) = later::start().await;
    later::open(&gateway, &tenant).await;
    gateway.clock.step(YEAR);
    gateway.gateway.wake_poller();
    until("it is asked for", async || (background.looks("resp_1") > 0).then_some(())).await;
    until("it waits again", async || {
        let answer = later_answers::find(gateway.gateway.database(), "resp_1").await.unwrap()?;
        (answer.poll_at > gateway.gateway.clock().now() && answer.polls > 0).then_some(())
    })
    .await;
    assert!(later::settled(&gateway, &tenant).await.is_empty(), "it runs");
    gateway.clock.step(-YEAR);
    let looks = background.looks("resp_1");
    gateway.gateway.wake_poller();
    until("it is asked for again", async || (background.looks("resp_1") > looks).then_some(()))
        .await;
    background.set(
        "resp_1",
        &json!({ "status": "completed", "output": crate::common::background::text() }),
    );
    gateway.get(&tenant, "/v1/responses/resp_1").await;
    later::row(&gateway, &tenant).await;
}

/// What waits for a date of the wrong clock is due when the clock is right again.
#[tokio::test]
async fn nothing_waits_for_a_date_of_a_wrong_clock() {
    let (gateway, _upstream) = start(BIG).await;
    let database = gateway.gateway.database();
    let now = gateway.gateway.clock().now();
    let ahead = now.saturating_add_signed(YEAR);
    let sql =
        "INSERT INTO outbox (id, body, created_at, due_at, attempts) VALUES ($1, '{}', $2, $2, 0)";
    database.transact(vec![Statement::new(sql, ["msg_1".into(), ahead.into()])]).await.unwrap();
    assert_eq!(outbox::due(database, now, 9).await.unwrap().len(), 1);
    let waits = [now + 6 * 3600 * SECOND, now + 60 * SECOND];
    for wait in waits {
        let sql = "UPDATE outbox SET due_at = $1";
        database.transact(vec![Statement::new(sql, [wait.into()])]).await.unwrap();
        assert!(outbox::due(database, now, 9).await.unwrap().is_empty(), "a usual wait");
    }
    let sql = "INSERT INTO batches (id, organization, project, api_key, endpoint, model, input_file, \
               status, queued_tokens, total, completed, failed, created_at, expires_at, lease_owner, \
               lease_until) VALUES ('batch_1', 'org', 'proj', 'key', '/v1/responses', 'big', 'file', \
               'in_progress', 0, 1, 0, 0, 0, 9000000000, 'other', $1)";
    database.transact(vec![Statement::new(sql, [ahead.into()])]).await.unwrap();
    assert!(batches::waits(database, now).await.unwrap());
    let renewed = batches::renew(database, "batch_1", "other", now + 30 * SECOND).await.unwrap();
    assert!(renewed.is_some() && !batches::waits(database, now).await.unwrap(), "a usual lease");
    batches::renew(database, "batch_1", "other", ahead).await.unwrap();
    let claimed = batches::claim(database, "me", now + 30 * SECOND, now).await.unwrap();
    assert_eq!(claimed.map(|batch| batch.id).as_deref(), Some("batch_1"));
}
