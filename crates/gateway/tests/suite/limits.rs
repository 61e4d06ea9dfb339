//! Many concurrent clients: nothing is admitted beyond a bound and nothing is spent beyond a limit,
//! on one gateway, on two over real servers, and while a server or a gateway dies; also shutdown
//! and reload under load.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::gateway::{Tenant, TestGateway, chat_request, chat_with, config};
use crate::common::servers::{Postgres, Redis};
use crate::common::upstream;
use crate::common::upstream::{Gate, Script, Step, Upstream, chat, event, usage};
use gateway::Ending;
use serde_json::{Value, json};

const CLIENTS: usize = 64;
pub(crate) const CHAT: &str = "/v1/chat/completions";
pub(crate) const BIG: &str =
    "[models.big]\nshared_limit = \"family\"\nprice = { input = 1.0, output = 10.0 }\n";

/// The responses to all clients.
#[derive(Debug, Default)]
struct Tally {
    admitted: AtomicU64,
    refused: AtomicU64,
    unavailable: AtomicU64,
    lost: AtomicU64,
}

impl Tally {
    fn admitted(&self) -> u64 {
        self.admitted.load(Ordering::SeqCst)
    }

    fn add(&self, status: Option<u16>) {
        let counter = match status {
            Some(200) => &self.admitted,
            Some(429) => &self.refused,
            Some(503) => &self.unavailable,
            None => &self.lost,
            Some(other) => panic!("{other} is no answer here"),
        };
        counter.fetch_add(1, Ordering::SeqCst);
    }
}

/// Each client sends `times` requests, alternating between the gateways.
async fn hammer(
    gateways: &[Arc<TestGateway>],
    tenant: &Tenant,
    body: &Value,
    times: usize,
) -> Arc<Tally> {
    let tally = Arc::new(Tally::default());
    let mut clients = tokio::task::JoinSet::new();
    for client in 0..CLIENTS {
        let (gateways, tally) = (gateways.to_vec(), Arc::clone(&tally));
        let (tenant, body) = (tenant.clone(), body.to_string());
        clients.spawn(async move {
            for time in 0..times {
                let gateway = &gateways[(client + time) % gateways.len()];
                tally.add(ask(gateway, &tenant, &body).await);
            }
        });
    }
    while let Some(client) = clients.join_next().await {
        client.unwrap();
    }
    tally
}

/// The status; `None` when the gateway has ended.
async fn ask(gateway: &TestGateway, tenant: &Tenant, body: &str) -> Option<u16> {
    let authorization = format!("Bearer {}", tenant.key);
    let headers = [("authorization", &*authorization), ("content-type", "application/json")];
    let begun = gateway.begin(hyper::Method::POST, CHAT, &headers, body.to_owned()).await;
    let mut begun = begun.ok()?;
    let (_, ended) = begun.rest().await;
    ended.then_some(begun.status.as_u16())
}

/// The upstream's usage: as much as requested, less, or more.
fn taking() -> impl Fn(&upstream::Received) -> Script + Send + Sync {
    let count = AtomicU64::new(0);
    move |_| {
        let output = [7, 0, 10, 3][(count.fetch_add(1, Ordering::SeqCst) % 4) as usize];
        Script::json(&chat(&usage(1, output)))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_gateway_admits_exactly_its_limits() {
    for (limits, bound) in [
        (
            "big = { rpm = 100, rpd = 1000, tpm = 1000000, tpd = 9000000 }\nfamily = { rpm = 500 }",
            100,
        ),
        ("big = { rpm = 5000, rpd = 120, tpm = 1000000 }", 120),
        ("big = { rpm = 5000, tpm = 1000000 }\nfamily = { rpm = 90, rpd = 4000 }", 90),
    ] {
        let upstream = Upstream::start().await;
        let text = config(&upstream, &format!("{BIG}[tiers.free.limits]\n{limits}\n"));
        let gateway = Arc::new(TestGateway::start(&text).await);
        let tenant = gateway.tenant("free").await;
        let body = chat_with(json!({ "max_tokens": 5 }));
        let tally = hammer(&[Arc::clone(&gateway)], &tenant, &body, 10).await;
        // The clock stands still: not one more, and not one less.
        assert_eq!(tally.admitted(), bound, "{limits}: {tally:?}");
        assert_eq!(upstream.count() as u64, bound);
        gateway.is_idle().await;
        assert_eq!(
            gateway.usage(&tenant.organization, "completions").await,
            [bound, 3 * bound, 2 * bound]
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn token_and_spend_limits_hold_and_the_ledger_equals_the_meters() {
    let upstream = Upstream::answering(taking()).await;
    let limits = "[tiers.free.limits]\nbig = { rpm = 5000, tpm = 3000, tpd = 100000 }\nfamily = { tpm = 2000 }\n";
    let gateway = Arc::new(TestGateway::start(&config(&upstream, &format!("{BIG}{limits}"))).await);
    let tenant = gateway.tenant("free").await;
    // 10,000 micro-dollars; each request may cost 101 and costs 1 to 101.
    gateway.hard_limit(&tenant, false, 1).await;
    gateway.hard_limit(&tenant, true, 1).await;
    let body = chat_with(json!({ "max_tokens": 10 }));
    let tally = hammer(&[Arc::clone(&gateway)], &tenant, &body, 20).await;
    gateway.is_idle().await;
    let [requests, input, output] = gateway.usage(&tenant.organization, "completions").await;
    assert_eq!((requests, input), (tally.admitted(), tally.admitted()));
    let cost = gateway.cost(&tenant.organization).await;
    assert_eq!(cost, input + 10 * output);
    assert!(cost <= 10_000, "{cost}");
    // The remaining spend or tokens are less than one request.
    let used = {
        let answer = gateway.post(&tenant, CHAT, &chat_with(json!({ "max_tokens": 0 }))).await;
        let [limit, left, _] =
            answer.limits("tokens").map(|value| value.parse::<u64>().unwrap_or(0));
        limit - left
    };
    assert_eq!(used, input + output);
    assert!(used <= 2000 && (cost > 10_000 - 101 || used > 2000 - 10), "{cost} {used}");
    assert_eq!(gateway.metric("gateway_spend_microdollars_total").await, cost);
    assert_eq!(gateway.gateway.limits().open_requests(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn disconnected_clients_leave_no_reservation_open() {
    let upstream = Upstream::answering(|_| {
        let text = event(&json!({ "choices": [{ "delta": { "content": "abcd" } }] }));
        Script::stream(vec![Step::Bytes(text.into()), Step::Hang])
    })
    .await;
    let limits = "[tiers.free.limits]\nbig = { tpm = 100000 }\n";
    let gateway = Arc::new(TestGateway::start(&config(&upstream, &format!("{BIG}{limits}"))).await);
    let tenant = gateway.tenant("free").await;
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..CLIENTS {
        let (gateway, tenant) = (Arc::clone(&gateway), tenant.clone());
        clients.spawn(async move {
            let body = chat_with(json!({ "stream": true, "max_tokens": 100 }));
            let mut begun = gateway.stream(&tenant, &body).await;
            assert!(begun.next().await.unwrap().is_ok());
        });
    }
    while let Some(client) = clients.join_next().await {
        client.unwrap();
    }
    gateway.is_idle().await;
    let clients = CLIENTS as u64;
    assert_eq!(
        gateway.usage(&tenant.organization, "completions").await,
        [clients, clients, clients]
    );
    let answer = gateway.post(&tenant, CHAT, &chat_with(json!({ "max_tokens": 0 }))).await;
    assert_eq!(answer.limits("tokens")[1], (100_000 - 2 * clients).to_string());
}

/// Two gateways over the same servers.
pub(crate) async fn two(
    redis: &Redis,
    postgres: &Postgres,
    upstream: &Upstream,
    rest: &str,
) -> [Arc<TestGateway>; 2] {
    let text = shared(redis, postgres, upstream, rest);
    [one(&text, 1).await, one(&text, 2).await]
}

pub(crate) fn shared(
    redis: &Redis,
    postgres: &Postgres,
    upstream: &Upstream,
    rest: &str,
) -> String {
    let (store, limits) = (postgres.url(), redis.url());
    let stores = format!("[store]\nurl = \"{store}\"\n[limits]\nurl = \"{limits}\"\n");
    config(upstream, &format!("{rest}{stores}"))
}

pub(crate) async fn one(text: &str, seed: u64) -> Arc<TestGateway> {
    let folder = Arc::new(tempfile::tempdir().unwrap());
    Arc::new(TestGateway::start_in(folder, text, seed).await)
}

/// Most requests that a bucket of `limit` per minute admits since `began`.
fn at_most(limit: u64, began: std::time::Instant) -> u64 {
    let passed = u64::try_from(began.elapsed().as_micros()).unwrap();
    limit + limit * passed / 60_000_000
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_gateways_share_one_limit() {
    let (redis, postgres) = (Redis::start(), Postgres::start());
    let upstream = Upstream::answering(taking()).await;
    let limits = "[tiers.free.limits]\nbig = { rpm = 200, tpm = 100000 }\n";
    let gateways = two(&redis, &postgres, &upstream, &format!("{BIG}{limits}")).await;
    let tenant = gateways[0].tenant("free").await;
    let began = std::time::Instant::now();
    let tally = hammer(&gateways, &tenant, &chat_with(json!({ "max_tokens": 10 })), 8).await;
    let admitted = tally.admitted();
    assert!(admitted <= at_most(200, began), "{tally:?}");
    assert!(admitted >= 150, "{tally:?}");
    // Both gateways return one organization's usage.
    for gateway in &gateways {
        gateway.is_idle().await;
        gateway.flush().await;
    }
    for gateway in &gateways {
        assert_eq!(gateway.usage(&tenant.organization, "completions").await[0], admitted);
    }
    // A key that is revoked on one gateway is refused by the other.
    let path = format!("/v1/organization/projects/{}/api_keys/{}", tenant.project, tenant.key_id);
    gateways[0].admin_of(&tenant.organization, hyper::Method::DELETE, &path, Value::Null).await;
    let revoked = std::time::Instant::now();
    while gateways[1].chat(&tenant).await.status != 401 {
        assert!(revoked.elapsed().as_millis() < 1000, "the key is still good after a second");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await; // tidy: sleep the other polls
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_gateways_share_one_spend_limit() {
    let (redis, postgres) = (Redis::start(), Postgres::start());
    let upstream = Upstream::answering(taking()).await;
    let gateways = two(&redis, &postgres, &upstream, BIG).await;
    let tenant = gateways[0].tenant("free").await;
    gateways[0].hard_limit(&tenant, false, 1).await;
    let tally = hammer(&gateways, &tenant, &chat_with(json!({ "max_tokens": 10 })), 10).await;
    for gateway in &gateways {
        gateway.is_idle().await;
        gateway.flush().await;
    }
    let [requests, input, output] = gateways[0].usage(&tenant.organization, "completions").await;
    assert_eq!(requests, tally.admitted());
    let cost = gateways[1].cost(&tenant.organization).await;
    assert_eq!(cost, input + 10 * output);
    assert!(cost <= 10_000, "{cost}");
    assert!(cost > 5_000, "{cost}: {tally:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_admitted_twice_while_redis_dies() {
    let (mut redis, postgres) = (Redis::start(), Postgres::start());
    let upstream = Upstream::answering(taking()).await;
    let limits = "[tiers.free.limits]\nbig = { rpm = 300 }\n";
    let gateways = two(&redis, &postgres, &upstream, &format!("{BIG}{limits}")).await;
    let tenant = gateways[0].tenant("free").await;
    gateways[0].hard_limit(&tenant, false, 2).await;
    let began = std::time::Instant::now();
    let body = chat_with(json!({ "max_tokens": 10 }));
    let (tally, ()) = tokio::join!(hammer(&gateways, &tenant, &body, 10), async {
        upstream.has_received(60).await;
        tokio::task::block_in_place(|| redis.kill());
        tokio::task::block_in_place(|| redis.restart());
    });
    assert!(tally.admitted() <= at_most(300, began), "{tally:?}");
    assert_eq!(tally.lost.load(Ordering::SeqCst), 0);
    // The gateway recovers by itself.
    while ask(&gateways[1], &tenant, &body.to_string()).await == Some(503) {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await; // tidy: sleep a foreign process
    }
    for gateway in &gateways {
        gateway.is_idle().await;
        gateway.flush().await;
    }
    let cost = gateways[0].cost(&tenant.organization).await;
    assert!(cost <= 20_000, "{cost}: {tally:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_redis_requests_are_refused_and_the_gateway_is_not_ready() {
    let (mut redis, postgres) = (Redis::start(), Postgres::start());
    let upstream = Upstream::start().await;
    let [gateway, _other] =
        two(&redis, &postgres, &upstream, &format!("{BIG}[tiers.free.limits.big]\nrpm = 5\n"))
            .await;
    let tenant = gateway.tenant("free").await;
    assert_eq!(gateway.chat(&tenant).await.status, 200);
    tokio::task::block_in_place(|| redis.kill());
    let answer = gateway.chat(&tenant).await;
    assert_eq!(answer.error(), (503, "limits_unavailable".into(), String::new()));
    assert_eq!(answer.json()["error"]["type"], "server_error");
    assert_eq!(answer.header("retry-after"), "1");
    let ready = gateway.send(hyper::Method::GET, "/readyz", &[], "").await;
    assert_eq!(ready.status, 503);
    let alive = gateway.send(hyper::Method::GET, "/healthz", &[], "").await;
    assert_eq!(alive.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_admitted_twice_while_a_gateway_dies() {
    let (redis, postgres) = (Redis::start(), Postgres::start());
    let upstream = Upstream::answering(taking()).await;
    let limits = "[tiers.free.limits]\nbig = { rpm = 300 }\n";
    let text = shared(&redis, &postgres, &upstream, &format!("{BIG}{limits}"));
    // The gateway that dies has a runtime of its own: dropping the runtime stops all its tasks
    // halfway.
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
    let mortal = tokio::task::block_in_place(|| runtime.block_on(one(&text, 2)));
    let gateways = [one(&text, 1).await, mortal];
    let tenant = gateways[0].tenant("free").await;
    gateways[0].hard_limit(&tenant, false, 2).await;
    let began = std::time::Instant::now();
    let body = chat_with(json!({ "max_tokens": 10 }));
    let (tally, ()) = tokio::join!(hammer(&gateways, &tenant, &body, 10), async {
        upstream.has_received(60).await;
        runtime.shutdown_background();
    });
    assert!(tally.admitted() <= at_most(300, began), "{tally:?}");
    assert!(upstream.count() as u64 <= at_most(300, began));
    assert!(tally.admitted() > 60);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_database_known_keys_are_served_and_nothing_is_lost() {
    let mut postgres = Postgres::start();
    let upstream = Upstream::start().await;
    let store = format!("[store]\nurl = \"{}\"\n", postgres.url());
    let gateway = one(&config(&upstream, &format!("{BIG}{store}")), 1).await;
    let (known, unknown) = (gateway.tenant("free").await, gateway.tenant("free").await);
    assert_eq!(gateway.chat(&known).await.status, 200);
    tokio::task::block_in_place(|| postgres.kill());
    for _ in 0..10 {
        assert_eq!(gateway.chat(&known).await.status, 200);
    }
    let answer = gateway.chat(&unknown).await;
    assert_eq!(answer.error(), (503, "store_unavailable".into(), String::new()));
    let answer = gateway.get(&known, "/v1/files/file-1").await;
    assert_eq!(answer.error(), (503, "store_unavailable".into(), String::new()));
    let ready = gateway.send(hyper::Method::GET, "/readyz", &[], "").await;
    assert_eq!(ready.status, 503);
    tokio::task::block_in_place(|| postgres.restart());
    assert_eq!(gateway.usage(&known.organization, "completions").await, [11, 33, 22]);
    assert_eq!(gateway.chat(&unknown).await.status, 200);
}

#[tokio::test]
async fn a_gateway_that_shuts_down_finishes_its_streams() {
    let upstream = Upstream::start().await;
    let more = format!("{BIG}[server]\ndrain_idle_seconds = 0\n");
    let mut gateway = TestGateway::start(&config(&upstream, &more)).await;
    let tenant = gateway.tenant("free").await;
    let (gate, address) = (Gate::closed(), gateway.address);
    let text = |text: &str| {
        Step::Bytes(event(&json!({ "choices": [{ "delta": { "content": text } }] })).into())
    };
    let done = Step::Bytes("data: [DONE]\n\n".into());
    upstream.script([Script::stream(vec![
        text("one"),
        Step::Wait(gate.clone()),
        text("two"),
        done,
    ])]);
    let mut begun = gateway.stream(&tenant, &chat_with(json!({ "stream": true }))).await;
    assert!(begun.next().await.unwrap().is_ok());
    let waiting = tokio::net::TcpStream::connect(address).await.unwrap();
    gateway.stop();
    let (ending, ()) = tokio::join!(gateway.end(), async {
        // New connections are refused, and idle ones are closed.
        while tokio::net::TcpStream::connect(address).await.is_ok() {
            tokio::task::yield_now().await;
        }
        let mut end = [0];
        let read = tokio::io::AsyncReadExt::read(&mut { waiting }, &mut end).await;
        assert!(matches!(read, Ok(0) | Err(_)));
        gate.open(1);
        let (rest, ended) = begun.rest().await;
        assert!(ended && rest.contains("two") && rest.ends_with("[DONE]\n\n"), "{rest}");
    });
    assert_eq!(ending, Ending::Drained);
}

/// A client or a proxy that keeps its connections for less than `drain_idle_seconds` loses no request.
#[tokio::test]
async fn a_request_on_an_open_connection_is_served_during_a_shutdown() {
    let upstream = Upstream::start().await;
    let more = format!("{BIG}[server]\ndrain_idle_seconds = 75\n");
    let mut gateway = TestGateway::start(&config(&upstream, &more)).await;
    let (tenant, address) = (gateway.tenant("free").await, gateway.address);
    let mut open = gateway.connect().await;
    assert_eq!(open.chat(&tenant).await.header("connection"), "");
    gateway.stop();
    let (ending, ()) = tokio::join!(gateway.end(), async {
        while tokio::net::TcpStream::connect(address).await.is_ok() {
            tokio::task::yield_now().await;
        }
        let answer = open.chat(&tenant).await;
        assert_eq!((answer.status.as_u16(), answer.header("connection")), (200, "close"));
    });
    assert_eq!(ending, Ending::Drained);
}

/// Load balancers that ask `/readyz` learn of the shutdown before connections are refused.
#[tokio::test]
async fn a_shutdown_is_announced_before_it_begins() {
    let upstream = Upstream::start().await;
    let more = format!("{BIG}[server]\ndrain_delay_seconds = 3600\n");
    let mut gateway = TestGateway::start(&config(&upstream, &more)).await;
    let tenant = gateway.tenant("free").await;
    gateway.stop();
    let ready = async || gateway.send(hyper::Method::GET, "/readyz", &[], "").await;
    let stopping = loop {
        let answer = ready().await;
        if answer.status == 503 {
            break answer;
        }
    };
    assert_eq!(stopping.text(), "this node is stopping\n");
    let answer = gateway.chat(&tenant).await;
    assert_eq!((answer.status.as_u16(), answer.header("connection")), (200, "close"));
}

#[tokio::test]
async fn the_shutdown_of_a_gateway_is_bounded() {
    let upstream = Upstream::start().await;
    let mut gateway =
        TestGateway::start(&config(&upstream, &format!("{BIG}[server]\ndrain_seconds = 0\n")))
            .await;
    let tenant = gateway.tenant("free").await;
    upstream.script([Script::stream(vec![Step::Bytes(": x\n\n".into()), Step::Hang])]);
    let mut begun = gateway.stream(&tenant, &chat_with(json!({ "stream": true }))).await;
    assert!(begun.next().await.unwrap().is_ok());
    assert_eq!(gateway.end().await, Ending::Cut);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reload_drops_no_request() {
    let upstream = Upstream::start().await;
    let text = |rpm: u64| {
        config(&upstream, &format!("{BIG}[tiers.free.limits]\nbig = {{ rpm = {rpm} }}\n"))
    };
    let gateway = Arc::new(TestGateway::start(&text(100_000)).await);
    let tenant = gateway.tenant("free").await;
    let all = (CLIENTS * 20) as u64;
    let gateways = [Arc::clone(&gateway)];
    let body = chat_request();
    let (tally, ()) = tokio::join!(hammer(&gateways, &tenant, &body, 20), async {
        for count in 1..=20 {
            upstream.has_received(count * 50).await;
            gateway.reload(&text(100_000 + count as u64));
        }
    });
    assert_eq!(tally.admitted(), all, "{tally:?}");
    gateway.is_idle().await;
    let answer = gateway.chat(&tenant).await;
    assert_eq!(answer.limits("requests"), ["100020", &(100_020 - all - 1).to_string(), "769ms"]);
}
