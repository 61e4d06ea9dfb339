//! Gateways on a real Redis: money that another node has reserved, limits after Redis has lost its data, and its faults.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::Method;
use serde_json::{Value, json};

use crate::common::gateway::{Answer, Tenant, TestGateway, chat_with, config};
use crate::common::servers::{Postgres, Redis};
use crate::common::upstream::{Gate, Script, Step, Upstream, chat, usage};
use crate::limits::{BIG, CHAT, one, two};

/// A request that costs up to one and ten times its maximum of output tokens, in micro-dollars.
fn ask(output: u64) -> Value {
    chat_with(json!({ "max_tokens": output }))
}

/// The first answer that is not as before, or as expected: reports to Redis take a moment.
async fn comes_to(
    gateway: &TestGateway,
    tenant: &Tenant,
    body: &Value,
    status: u16,
    code: &str,
) -> Answer {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let answer = gateway.post(tenant, CHAT, body).await;
        if answer.status == status && (status == 200 || answer.error().1 == code) {
            return answer;
        }
        assert!(Instant::now() < deadline, "{} {}", answer.status, answer.text());
        tokio::time::sleep(Duration::from_millis(5)).await; // tidy: sleep a foreign process
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn money_that_another_node_has_reserved_is_waited_for() {
    let (redis, postgres) = (Redis::start(), Postgres::start());
    let upstream = Upstream::start().await;
    let gateways = two(&redis, &postgres, &upstream, BIG).await;
    let tenant = gateways[0].tenant("free").await;
    gateways[0].hard_limit(&tenant, false, 1).await;
    let gate = Gate::closed();
    upstream.script([Script::json(&chat(&usage(1, 100))).before(Step::Wait(gate.clone()))]);
    let (first, second) = (ask(600), ask(600));
    let first = gateways[0].post(&tenant, CHAT, &first);
    let meanwhile = async {
        upstream.has_received(1).await;
        // The other node has the limit of the organization as soon as it has read it.
        let answer = comes_to(&gateways[1], &tenant, &second, 429, "spend_reserved").await;
        assert_eq!((answer.header("retry-after"), answer.header("retry-after-ms")), ("5", "5000"));
        assert_eq!(answer.header("x-should-retry"), "");
        let code = "organization_spend_limit_exceeded";
        let gone = gateways[1].post(&tenant, CHAT, &ask(1000)).await;
        assert_eq!(gone.error().1, code, "{}", gone.text());
        gate.open(1);
    };
    let (first, ()) = tokio::join!(first, meanwhile);
    assert_eq!(first.status, 200);
    // 1001 are settled: the request that was refused fits as soon as the other node has reported it.
    comes_to(&gateways[1], &tenant, &second, 200, "").await;
    let code = "organization_spend_limit_exceeded";
    let gone = comes_to(&gateways[1], &tenant, &ask(980), 429, code).await;
    assert_eq!(gone.header("x-should-retry"), "false");
}

const DAILY: &str = "[models.other]\nfree = true\nshared_limit = \"family\"\n[tiers.free.limits]\n\
                     big = { rpd = 200, tpd = 100000 }\nfamily = { rpd = 150 }\n";

/// A gateway on a Redis that forgets everything when it ends.
async fn forgetful(rest: &str) -> (Redis, Upstream, Arc<TestGateway>) {
    let (redis, upstream) = (Redis::start_forgetful(), Upstream::start().await);
    let limits = format!("[limits]\nurl = \"{}\"\n", redis.url());
    let gateway = one(&config(&upstream, &format!("{BIG}{rest}{limits}")), 1).await;
    (redis, upstream, gateway)
}

fn left(answer: &Answer) -> String {
    answer.limits("requests")[1].to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_limits_of_a_day_come_back_from_the_ledger() {
    let (mut redis, _upstream, gateway) = forgetful(DAILY).await;
    let (tenant, unlimited) = (gateway.tenant("free").await, gateway.tenant("free").await);
    let path = format!("/v1/organization/projects/{}/rate_limits/rl-big", tenant.project);
    let body = json!({ "max_requests_per_1_day": 4 });
    gateway.admin_of(&tenant.organization, Method::POST, &path, body).await;
    gateway.hard_limit(&tenant, false, 1).await;
    let other = chat_with(json!({ "model": "other" }));
    for (body, expected) in [(&ask(10), "149"), (&ask(10), "148"), (&other, "147")] {
        let answer = gateway.post(&tenant, CHAT, body).await;
        assert_eq!((answer.status.as_u16(), &*left(&answer)), (200, expected), "{}", answer.text());
        gateway.is_idle().await;
    }
    assert_eq!(left(&gateway.post(&unlimited, CHAT, &ask(10)).await), "149");
    tokio::task::block_in_place(|| redis.restart());
    let began = Instant::now();
    // What was used is known again: three of the shared limit, two of the project's, and the money.
    let answer = comes_to(&gateway, &tenant, &ask(10), 200, "").await;
    assert_eq!(left(&answer), "146");
    assert!(began.elapsed() < Duration::from_secs(60));
    assert_eq!(gateway.post(&tenant, CHAT, &ask(10)).await.status, 200);
    gateway.is_idle().await;
    let refused = gateway.post(&tenant, CHAT, &ask(10)).await;
    assert!(
        refused.text().contains("requests per day (RPD): Limit 4, Used 4"),
        "{}",
        refused.text()
    );
    let answer = comes_to(&gateway, &tenant, &other, 200, "").await;
    assert_eq!(left(&answer), "144");
    // An organization without use has all of it.
    let new = gateway.tenant("free").await;
    assert_eq!(left(&comes_to(&gateway, &new, &ask(10), 200, "").await), "149");
    assert_eq!(left(&comes_to(&gateway, &unlimited, &ask(10), 200, "").await), "148");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_used_up_day_stays_used_up_and_many_clients_restore_it_once() {
    let rest = "[tiers.free.limits]\nbig = { rpd = 5, tpd = 100000 }\n";
    let (mut redis, upstream, gateway) = forgetful(rest).await;
    let tenant = gateway.tenant("free").await;
    for _ in 0..3 {
        assert_eq!(gateway.post(&tenant, CHAT, &ask(10)).await.status, 200);
    }
    gateway.is_idle().await;
    let other = gateway.tenant("free").await;
    tokio::task::block_in_place(|| redis.restart());
    // It decides again once another organization is served.
    comes_to(&gateway, &other, &ask(10), 200, "").await;
    let served = upstream.count() - 3;
    let before = upstream.count();
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let (gateway, tenant) = (Arc::clone(&gateway), tenant.clone());
        clients.spawn(async move { gateway.post(&tenant, CHAT, &ask(10)).await.status.as_u16() });
    }
    let statuses = clients.join_all().await;
    let admitted = statuses.iter().filter(|status| **status == 200).count();
    assert!(statuses.iter().all(|status| [200, 429].contains(status)), "{statuses:?}");
    assert_eq!(before - served + admitted, 5, "{statuses:?}");
    assert_eq!(upstream.count(), 5 + served);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fault_of_redis_is_reported_once_and_by_readyz() {
    let (mut redis, _upstream, gateway) = forgetful("").await;
    let ready = gateway.send(Method::GET, "/readyz", &[], "").await;
    assert_eq!((ready.status.as_u16(), &*ready.text()), (200, "ready\n"));
    let mut connection = redis::Client::open(redis.url()).unwrap().get_connection().unwrap();
    let mut set = |value: &str| {
        redis::cmd("CONFIG")
            .arg("SET")
            .arg("maxmemory-policy")
            .arg(value)
            .exec(&mut connection)
            .unwrap();
        let mut kill = redis::cmd("CLIENT");
        kill.arg("KILL")
            .arg("TYPE")
            .arg("normal")
            .arg("SKIPME")
            .arg("yes")
            .exec(&mut connection)
            .unwrap();
    };
    let tenant = gateway.tenant("free").await;
    let comes = async |status: u16, text: &str| {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            // Only a call finds that a connection is lost.
            let _ = gateway.post(&tenant, CHAT, &ask(1)).await;
            let ready = gateway.send(Method::GET, "/readyz", &[], "").await;
            if ready.status == status && ready.text().contains(text) {
                return;
            }
            assert!(Instant::now() < deadline, "{text}: {} {}", ready.status, ready.text());
            tokio::time::sleep(Duration::from_millis(5)).await; // tidy: sleep a foreign process
        }
    };
    set("allkeys-lru");
    comes(200, "ready, but the store of the limits has the eviction policy allkeys-lru").await;
    set("noeviction");
    comes(200, "ready\n").await;
    tokio::task::block_in_place(|| redis.kill());
    comes(503, "the store of the limits").await;
    assert!(!gateway.send(Method::GET, "/readyz", &[], "").await.text().contains("127.0.0.1"));
}

#[tokio::test]
async fn a_misconfigured_redis_is_an_error_of_the_configuration() {
    let redis = Redis::start_forgetful();
    let upstream = Upstream::start().await;
    let limits = format!("[limits]\nurl = \"redis://127.0.0.1:{}/99\"\n", redis.port());
    let error = TestGateway::try_open(&config(&upstream, &format!("{BIG}{limits}"))).await;
    let error = error.err().expect("a database that does not exist");
    assert!(error.is_configuration(), "{error}");
    let text = error.to_string();
    assert!(text.contains("does not have the database") && !text.contains('\n'), "{text}");
    // A start that failed does not make the next one take a new store for one that has lost its data.
    let folder = Arc::new(tempfile::tempdir().expect("a folder"));
    let limits = format!("{BIG}[limits]\nurl = \"{}\"\n", redis.url());
    let text = config(&upstream, &limits);
    let mut connection = redis::Client::open(redis.url()).unwrap().get_connection().unwrap();
    let set = |connection: &mut redis::Connection, value: &str| {
        let mut set = redis::cmd("CONFIG");
        set.arg("SET").arg("maxmemory-policy").arg(value).exec(connection).unwrap();
    };
    set(&mut connection, "allkeys-lru");
    let error = TestGateway::try_open_in(&folder, &text).await.err().expect("a policy that evicts");
    assert!(error.is_configuration(), "{error}");
    set(&mut connection, "noeviction");
    let gateway = TestGateway::start_in(folder, &text, 1).await;
    let tenant = gateway.tenant("free").await;
    assert_eq!(gateway.post(&tenant, CHAT, &ask(10)).await.status, 200);
    // Where nothing listens yet, the gateway opens and tries again.
    let limits = "[limits]\nurl = \"redis://127.0.0.1:1\"\n";
    let gateway = TestGateway::start(&config(&upstream, &format!("{BIG}{limits}"))).await;
    while !gateway.log().contains("the store of the limits does not answer") {
        tokio::task::yield_now().await;
    }
    let ready = gateway.send(Method::GET, "/readyz", &[], "").await;
    assert_eq!(ready.status, 503);
}
