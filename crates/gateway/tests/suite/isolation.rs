//! Two teams: the quiet one sends two requests a second, of which none is refused, while the loud one is refused all
//! the time, for each reason that there is: every meter of every scope, money, and requests that are wrong.
//!
//! The limits that both teams share have room for what the quiet team sends and for what the loud one is granted,
//! and for little more, so that a refusal that is charged to the wrong scope shows.
//!
//! `AGENTD_TWO_TEAMS_SECONDS` sets the time: that of the test's clock, or of the machine's where Redis decides.

mod cases;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::common::gateway::{Answer, SECOND, Tenant, TestGateway, config};
use crate::common::servers::{Postgres, Redis};
use crate::common::upstream::{Received, Script, Step, Upstream, chat, usage};
use crate::limits::{one, shared};
use cases::{Case, Money, Quiet, Reason};
use serde_json::{Value, json};

/// Seconds of a usual run.
const USUAL: u64 = 6;
/// Steps of a second, in each of which the quiet team sends one request.
const STEPS: u64 = 2;
/// Requests of the loud team in each step.
const LOUD: usize = 20;

fn seconds() -> u64 {
    let given = std::env::var("AGENTD_TWO_TEAMS_SECONDS").ok();
    given.map_or(USUAL, |text| text.parse().expect("AGENTD_TWO_TEAMS_SECONDS is a number"))
}

/// Two teams on nodes with one configuration.
struct Teams {
    case: &'static Case,
    nodes: Vec<Arc<TestGateway>>,
    loud: Team,
    quiet: Team,
    /// Refused requests of the loud team.
    refused: usize,
    /// Requests of the quiet team.
    sent: usize,
    /// Of these, those that Redis did not decide in time, because the machine is busy.
    unavailable: usize,
}

/// A key, and the vector store of its project.
#[derive(Clone)]
struct Team {
    tenant: Tenant,
    store: String,
}

impl Team {
    async fn of(gateway: &TestGateway, tenant: Tenant) -> Self {
        let made = gateway.post(&tenant, "/v1/vector_stores", &json!({})).await;
        let store = made.json()["id"].as_str().unwrap_or_default().to_owned();
        Self { tenant, store }
    }
}

/// An upstream that answers everything, except what asks it to hang.
async fn upstream() -> Upstream {
    let stores = AtomicU64::new(0);
    Upstream::answering(move |received: &Received| {
        let is = |part: &str| received.path.contains(part);
        match () {
            () if received.body.windows(5).any(|part| part == b"hang!") => {
                Script::json(&json!({})).before(Step::Hang)
            }
            () if is("/images/") => Script::json(&json!({ "data": [{ "url": "x" }] })),
            () if is("/audio/") => Script::json(&json!({ "text": "Hello." })),
            () if received.path == "/v1/vector_stores" => {
                let number = stores.fetch_add(1, Ordering::Relaxed);
                Script::json(&json!({ "id": format!("vs_{number}") }))
            }
            () if is("/vector_stores/") => Script::json(&json!({ "id": "file-1" })),
            () => Script::json(&chat(&usage(3, 2))),
        }
    })
    .await
}

impl Teams {
    async fn start(case: &'static Case, nodes: Vec<Arc<TestGateway>>) -> Self {
        let first = &nodes[0];
        let loud = first.tenant("free").await;
        let quiet = match case.quiet {
            Quiet::Project | Quiet::Model => first.project(&loud.organization, Value::Null).await,
            Quiet::Organization => first.tenant("1").await,
        };
        if let Some(limits) = case.of_project {
            let limits = serde_json::from_str(limits).expect("JSON");
            first.project_limits(&loud, "big", limits).await;
        }
        match case.money {
            None | Some(Money::Tier) => {}
            Some(Money::Project | Money::Reserved) => first.hard_limit(&loud, true, 1).await,
            Some(Money::Organization) => first.hard_limit(&loud, false, 1).await,
        }
        if case.reason == Reason::Permission {
            let path = format!("/v1/organization/projects/{}/model_permissions", loud.project);
            let body = json!({ "mode": "allow_list", "model_ids": ["calm"] });
            first.admin_of(&loud.organization, hyper::Method::POST, &path, body).await;
        }
        let (loud, quiet) = (Team::of(first, loud).await, Team::of(first, quiet).await);
        Self { case, nodes, loud, quiet, refused: 0, sent: 0, unavailable: 0 }
    }

    /// One step: all requests at the same time.
    async fn step(&mut self, loud: usize) {
        let mut clients = tokio::task::JoinSet::new();
        for number in 0..loud {
            let node = Arc::clone(&self.nodes[number % self.nodes.len()]);
            let (team, request) = (self.loud.clone(), self.case.loud);
            clients.spawn(async move { request.send(&node, &team.tenant, &team.store).await });
        }
        let node = Arc::clone(&self.nodes[self.sent % self.nodes.len()]);
        self.sent += 1;
        let team = &self.quiet;
        let quiet = self.case.calm().send(&node, &team.tenant, &team.store).await;
        let name = self.case.name;
        match is_unavailable(&quiet) {
            true => self.unavailable += 1,
            false => assert!(quiet.status.is_success(), "{name}: {}: {}", self.sent, quiet.text()),
        }
        for answer in clients.join_all().await {
            self.refused += usize::from(self.is_refused(&answer));
        }
    }

    fn is_refused(&self, answer: &Answer) -> bool {
        if answer.status.is_success() || is_unavailable(answer) {
            return false;
        }
        let (name, code) = (self.case.name, answer.error().1);
        assert!(self.case.codes().contains(&&*code), "{name}: {} {}", answer.status, answer.text());
        true
    }

    /// The loud team was refused, for the reason of the case.
    async fn end(&self, least: usize) {
        let name = self.case.name;
        assert!(self.refused >= least, "{name}: {} were refused", self.refused);
        assert!(self.unavailable * 100 <= self.sent, "{name}: {} without Redis", self.unavailable);
        if let Reason::Limit(dimension, scope) = self.case.reason {
            let line =
                format!("gateway_rejected_total{{dimension=\"{dimension}\",scope=\"{scope}\"}}");
            let mut counted = 0;
            for node in &self.nodes {
                counted += node.metric(&line).await;
            }
            assert!(counted > 0, "{name}: {line}");
        }
        println!("{name}: {} requests passed while {} were refused", self.sent, self.refused);
    }
}

/// Redis did not decide in time: no refusal for any team's sake.
fn is_unavailable(answer: &Answer) -> bool {
    answer.status == 503 && answer.error().1 == "limits_unavailable"
}

/// Holds the money of the loud team's project until the test ends.
fn hold(teams: &Teams) -> tokio::task::JoinHandle<Answer> {
    let (node, team) = (Arc::clone(&teams.nodes[0]), teams.loud.clone());
    tokio::spawn(async move { cases::HANGING.send(&node, &team.tenant, "").await })
}

async fn run(cases: &'static [Case]) {
    for case in cases {
        let upstream = upstream().await;
        let gateway = TestGateway::start(&config(&upstream, &case.configuration())).await;
        let gateway = Arc::new(gateway);
        let mut teams = Teams::start(case, vec![Arc::clone(&gateway)]).await;
        let held = (case.money == Some(Money::Reserved)).then(|| hold(&teams));
        if held.is_some() {
            // After the vector stores of both.
            upstream.has_received(3).await;
        }
        let steps = seconds() * STEPS;
        // Three hundred a minute are a limit that no configuration lowers.
        let loud = if matches!(case.loud, cases::Request::Ingestion) { 4 * LOUD } else { LOUD };
        for _ in 0..steps {
            teams.step(loud).await;
            gateway.clock.advance(SECOND / STEPS);
        }
        let offered = usize::try_from(steps).expect("a number of steps") * loud;
        teams.end(offered / 4).await;
        held.into_iter().for_each(|held| held.abort());
    }
}

#[tokio::test]
async fn limits_of_a_project_are_its_own() {
    run(cases::PROJECT).await;
}

#[tokio::test]
async fn limits_of_a_model_leave_other_models_alone() {
    run(cases::MODEL).await;
}

#[tokio::test]
async fn limits_of_a_group_leave_other_models_alone() {
    run(cases::GROUP).await;
}

#[tokio::test]
async fn money_and_wrong_requests_of_one_team_cost_no_other() {
    run(cases::OTHER).await;
}

/// The same where Redis decides for two nodes: in the time of the machine, all reasons at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_on_redis_keep_teams_apart() {
    let (redis, postgres) = (Redis::start(), Postgres::start());
    let upstream = upstream().await;
    let mut running = Vec::new();
    for (seed, case) in (1..).step_by(2).zip(cases::ON_REDIS) {
        let text = shared(&redis, &postgres, &upstream, &case.configuration());
        let nodes = vec![one(&text, seed).await, one(&text, seed + 1).await];
        running.push(Teams::start(case, nodes).await);
    }
    let steps = seconds() * STEPS;
    let mut pace = tokio::time::interval(Duration::from_millis(1000 / STEPS));
    for _ in 0..steps {
        pace.tick().await;
        // Four a second are enough to be refused, and leave the machine time for all reasons.
        let steps = running.iter_mut().map(|teams| teams.step(LOUD / 4));
        futures_util::future::join_all(steps).await;
    }
    for teams in &running {
        teams.end(usize::try_from(steps).expect("a number of steps") / 2).await;
    }
}
