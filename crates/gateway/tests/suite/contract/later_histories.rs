//! Any history of responses in the background: each is settled once, and the limits, the ledger and the costs agree.

use std::sync::Arc;

use hyper::Method;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::later::{MOST, ask, configured, pass, settled, spent, until};
use crate::common::background::{Background, text};
use crate::common::gateway::{SECOND, Tenant, TestGateway};

/// An event of a history. Responses are numbered in the order of their creation.
#[derive(Clone, Debug)]
enum Event {
    Create,
    /// A stream whose client leaves after the first text.
    Stream,
    /// The upstream goes on with a response, or ends it.
    State(usize, usize),
    Forget(usize),
    Fetch(usize),
    Cancel(usize),
    Delete(usize),
    /// Seconds pass, and the gateway asks for what is due.
    Pass(u64),
    Restart,
    /// The gateway ends as by `kill -9`.
    Kill,
}

fn event() -> impl Strategy<Value = Event> {
    let one = || 1..6_usize;
    prop_oneof![
        4 => Just(Event::Create),
        2 => Just(Event::Stream),
        6 => (one(), 0..states().len()).prop_map(|(one, state)| Event::State(one, state)),
        1 => one().prop_map(Event::Forget),
        4 => one().prop_map(Event::Fetch),
        2 => one().prop_map(Event::Cancel),
        2 => one().prop_map(Event::Delete),
        4 => (1..90_u64).prop_map(Event::Pass),
        1 => Just(Event::Restart),
        1 => Just(Event::Kill),
    ]
}

fn states() -> [Value; 8] {
    let reports = |output: Value| json!({ "input_tokens": 20, "output_tokens": output });
    let error = json!({ "message": "It failed" });
    [
        json!({ "status": "in_progress" }),
        json!({ "status": "in_progress", "output": text() }),
        json!({ "status": "completed", "output": text(), "usage": reports(json!(7)) }),
        json!({ "status": "completed", "output": text(), "usage": reports(json!(-7)) }),
        json!({ "status": "incomplete", "usage": reports(json!(9000)) }),
        json!({ "status": "failed", "error": error }),
        json!({ "status": "failed", "error": error, "usage": reports(json!("x")) }),
        json!({ "status": "expired", "output": text() }),
    ]
}

struct World {
    background: Background,
    gateway: TestGateway,
    tenant: Tenant,
    created: usize,
    /// True if a gateway was killed.
    was_killed: bool,
    seed: u64,
}

impl World {
    async fn start() -> Self {
        let background = Background::start().await;
        let gateway = TestGateway::start(&configured(&background)).await;
        let tenant = gateway.tenant("free").await;
        Self { background, gateway, tenant, created: 0, was_killed: false, seed: 1 }
    }

    async fn apply(&mut self, event: &Event) {
        let path = |one: &usize| format!("/v1/responses/resp_{one}");
        let (gateway, tenant) = (&self.gateway, &self.tenant);
        match event {
            Event::Create => {
                let answer = gateway.post(tenant, "/v1/responses", &ask()).await;
                self.created += usize::from(answer.status == 200);
            }
            Event::Stream => {
                let mut body = ask();
                body["stream"] = json!(true);
                let mut answer = gateway.stream_from(tenant, "/v1/responses", &body).await;
                if answer.status == 200 {
                    self.created += 1;
                    answer.next().await.expect("a piece").expect("a piece");
                }
            }
            Event::State(one, state) => {
                self.background.set(&format!("resp_{one}"), &states()[*state]);
            }
            Event::Forget(one) => self.background.forget(&format!("resp_{one}")),
            Event::Fetch(one) => drop(gateway.get(tenant, &path(one)).await),
            Event::Cancel(one) => {
                gateway.post(tenant, &format!("{}/cancel", path(one)), &json!({})).await;
            }
            Event::Delete(one) => {
                gateway.with(tenant, Method::DELETE, &path(one), &[], "").await;
            }
            Event::Pass(seconds) => pass(gateway, seconds * SECOND),
            Event::Restart => {
                self.gateway.end().await;
                self.again().await;
            }
            Event::Kill => {
                self.was_killed = true;
                self.again().await;
            }
        }
        // What clients that left had open is kept by now.
        self.gateway.is_idle().await;
    }

    /// Starts another gateway in the place of this one, at the same time.
    async fn again(&mut self) {
        self.gateway.gateway.crash_poller();
        self.gateway.gateway.crash_batches();
        let (folder, now) = (Arc::clone(&self.gateway.folder), self.gateway.gateway.clock().now());
        let old = Arc::downgrade(&self.gateway.gateway);
        self.seed += 1;
        let elsewhere = Arc::new(tempfile::tempdir().expect("a folder"));
        let text = configured(&self.background);
        // In its own folder, so that the old one can be dropped first.
        drop(std::mem::replace(
            &mut self.gateway,
            TestGateway::start_in(elsewhere, &text, self.seed).await,
        ));
        until("the end of the old one", async || old.upgrade().is_none().then_some(())).await;
        self.gateway = TestGateway::start_in(folder, &text, self.seed).await;
        self.gateway.clock.set(now);
    }

    /// Waits until all responses are settled, at the latest when they expire.
    async fn finish(&self) {
        let database = self.gateway.gateway.database();
        pass(&self.gateway, 86_400 * SECOND);
        until("the settlement of all", async || {
            let now = self.gateway.gateway.clock().now() + 86_400 * SECOND;
            let open = gateway_store::records::later_answers::due(database, now, 100).await;
            // A claim of a node that was killed lapses.
            pass(&self.gateway, SECOND);
            open.expect("a store").is_empty().then_some(())
        })
        .await;
    }
}

async fn agrees(history: &[Event]) {
    let mut world = World::start().await;
    for event in history {
        world.apply(event).await;
    }
    world.finish().await;
    let World { gateway, tenant, created, was_killed, .. } = &world;
    let rows = settled(gateway, tenant).await;
    assert_eq!(rows.len(), *created, "{rows:#?}");
    let requests: std::collections::HashSet<&str> =
        rows.iter().map(|row| row["request_id"].as_str().expect("an id")).collect();
    assert_eq!(requests.len(), *created);
    let mut sum = 0;
    for row in &rows {
        let count = |name: &str| row[name].as_u64().expect("a count");
        let cost = count("input_tokens") + 10 * count("output_tokens");
        assert_eq!(row["cost_usd"], json!(format!("0.{cost:06}")), "{row}");
        let reported = count("input_tokens") == 20;
        assert!(reported || cost <= MOST, "{row}");
        assert!(cost > 0 || row["ended"] == "error_reported", "{row}");
        sum += cost;
    }
    // A gateway that is killed between the ledger and the meters leaves what was reserved on them, never less.
    let most = if *was_killed { sum + MOST * u64::try_from(*created).expect("few") } else { sum };
    let agree = async || spent(gateway, tenant).await.iter().all(|it| (sum..=most).contains(it));
    until("the meters", async || agree().await.then_some(())).await;
    assert_eq!(gateway.cost(&tenant.organization).await, sum);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn each_response_is_settled_once_and_all_sums_agree(
        history in proptest::collection::vec(event(), 1..24),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(agrees(&history));
    }
}
