//! Random histories of answers of all kinds that end in all ways, on two nodes that are killed and stopped while Redis and
//! PostgreSQL restart: each request has one row, which counts at least what its client has received, and the sum of the
//! ledger is what the limits count as spent.
//!
//! `AGENTD_ENDINGS` sets the number of answers (10,000 take some minutes), `AGENTD_SEED` the first history.

mod cases;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use gateway_policy::dates;
use gateway_policy::plan::{ORGANIZATION_SPEND, spend_meter};
use gateway_policy::settings::StoreUrl;
use gateway_store::database::Database;
use gateway_store::ledger::{Cursor, Ended, Entry, export};
use gateway_store::records::later_answers;
use hyper::Method;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use ratelimit::{Bound, Draw};
use tokio::task::JoinHandle;

use crate::common::gateway::{SECOND, START, StreamingResponse, Tenant, TestGateway, config};
use crate::common::mortal::Mortal;
use crate::common::servers::{Postgres, Redis};
use cases::{Case, Cases, End, Kind, MOST_OUTPUT};

/// Answers of a history.
const HISTORY: usize = 25;
/// Answers of a usual run.
const USUAL: usize = 150;
/// More than any of these requests reserves or costs.
const MOST: u64 = 10 * MOST_OUTPUT + 1000;

/// A request that was sent.
#[derive(Debug)]
struct Sent {
    case: Case,
    tenant: usize,
    /// `x-request-id`, once the head was received.
    id: Option<String>,
    status: u16,
    text: String,
    /// True if the whole answer was received.
    is_whole: bool,
}

/// The client's end of a request that goes on.
enum Open {
    Head(JoinHandle<Begun>),
    Body(Box<StreamingResponse>),
}

type Begun = Result<StreamingResponse, Box<dyn std::error::Error + Send + Sync>>;

struct World {
    random: StdRng,
    postgres: Postgres,
    postgres_is_down: bool,
    /// `None`: each node has limits of its own.
    redis: Option<Redis>,
    cases: Cases,
    text: String,
    nodes: Vec<Option<Mortal>>,
    starts: u64,
    now: u64,
    tenants: Vec<Tenant>,
    sent: Vec<Sent>,
    /// Open ends: number of the request, and node.
    open: Vec<(usize, usize, Open)>,
    numbers: usize,
    /// Nodes killed, and restarts of Redis, in this history.
    disturbed: u64,
    ends: HashMap<Ended, usize>,
    /// What it does now.
    step: String,
}

impl World {
    async fn start(is_shared: bool) -> Self {
        let (postgres, redis) = (Postgres::start(), is_shared.then(Redis::start));
        let cases = Cases::start().await;
        let (store, upstream) = (postgres.url(), cases.upstream.url());
        let limits = redis
            .as_ref()
            .map(|redis| format!("[limits]\nurl = \"{}\"\ndurable = true\n", redis.url()));
        let rest = format!(
            "idle_timeout_ms = 60000\n[upstreams.short]\nbase_url = \"{upstream}\"\nenv_key = \"UPSTREAM_KEY\"\n\
             idle_timeout_ms = 100\n\
             [models.big]\nupstream = \"main\"\nprice = {{ input = 1.0, output = 10.0 }}\n\
             max_output_tokens = {MOST_OUTPUT}\n\
             [models.quick]\nupstream = \"short\"\nprice = {{ input = 1.0, output = 10.0 }}\n\
             max_output_tokens = {MOST_OUTPUT}\n\
             [server]\ndrain_seconds = 0\npass_through = [\"/v1/rerank\"]\n\
             [store]\nurl = \"{store}\"\n{}",
            limits.unwrap_or_default()
        );
        let mut world = Self {
            random: StdRng::seed_from_u64(0),
            postgres,
            postgres_is_down: false,
            redis,
            text: config(&cases.upstream, &rest),
            cases,
            nodes: vec![None, None],
            starts: 0,
            now: START,
            tenants: Vec::new(),
            sent: Vec::new(),
            open: Vec::new(),
            numbers: 0,
            disturbed: 0,
            ends: HashMap::new(),
            step: String::new(),
        };
        for node in 0..2 {
            world.start_node(node, Arc::new(tempfile::tempdir().unwrap()));
        }
        world
    }

    fn start_node(&mut self, node: usize, folder: Arc<tempfile::TempDir>) {
        self.starts += 1;
        let started = Mortal::start(folder, self.text.clone(), self.starts, self.now);
        if self.redis.is_none() && node == 1 {
            // It would settle on meters of its own what the other one has reserved.
            started.gateway.gateway.crash_poller();
        }
        self.nodes[node] = Some(started);
    }

    fn node(&self, node: usize) -> &TestGateway {
        &self.nodes[node].as_ref().expect("it runs").gateway
    }

    async fn history(&mut self, number: u64) {
        self.random = StdRng::seed_from_u64(number);
        self.tenants = vec![self.node(0).tenant("free").await, self.node(1).tenant("free").await];
        (self.disturbed, self.numbers) = (0, self.numbers.max(1));
        self.sent.clear();
        // Both nodes know the keys before the store may fail.
        for tenant in self.tenants.clone() {
            for node in 0..2 {
                let known = self.node(node).get(&tenant, "/v1/models").await;
                assert_eq!(known.status, 200);
            }
        }
        while self.sent.len() < HISTORY {
            match self.random.random_range(0..100) {
                0..6 => self.kill().await,
                6..8 => self.stop().await,
                8..10 => self.restart_redis(),
                10..12 => self.fail_store(),
                12..14 => self.repair_store(),
                14..24 => self.leave(),
                _ => self.ask().await,
            }
        }
        self.finish().await;
        self.check(number).await;
    }

    async fn ask(&mut self) {
        self.numbers += 1;
        let case = Case::any(&mut self.random, self.numbers);
        // The answer to one in the background waits some seconds for the store.
        if self.postgres_is_down && case.kind == Kind::Background {
            return;
        }
        let mut tenant = self.random.random_range(0..2);
        let mut node = self.random.random_range(0..2);
        if self.redis.is_none() {
            tenant = if case.kind == Kind::Background { 0 } else { tenant };
            node = tenant;
        }
        self.step = format!("{case:?} of {tenant} on {node}");
        self.cases.add(&case);
        let (path, content_type, body) = case.request();
        let gateway = self.node(node).handle();
        let key = format!("Bearer {}", self.tenants[tenant].key);
        let begin = async move {
            let headers = [("authorization", &*key), ("content-type", content_type)];
            gateway.begin(Method::POST, path, &headers, body).await
        };
        let (number, at) = (case.number, self.sent.len());
        let mut sent = Sent {
            case: case.clone(),
            tenant,
            id: None,
            status: 0,
            text: String::new(),
            is_whole: false,
        };
        if case.end == End::NoHead {
            let mut task = tokio::spawn(begin);
            tokio::select! {
                () = self.cases.has(number) => self.open.push((at, node, Open::Head(task))),
                refused = &mut task => {
                    sent.status = refused.unwrap().expect("a node that runs answers").status.as_u16();
                    assert_eq!(sent.status, 503);
                }
            }
            self.sent.push(sent);
            return;
        }
        let mut begun = begin.await.expect("a node that runs answers");
        let id = begun.headers.get("x-request-id").expect("an id");
        sent.id = Some(id.to_str().unwrap().to_owned());
        sent.status = begun.status.as_u16();
        if case.ends() || sent.status != 200 {
            let (text, is_whole) = begun.rest().await;
            (sent.text, sent.is_whole) = (text, is_whole);
            self.sent.push(sent);
            return;
        }
        let wanted = self.random.random_range(0..=case.texts());
        if case.streams() {
            let mut text = Vec::new();
            while String::from_utf8_lossy(&text).matches("data:").count() < wanted {
                text.extend(begun.next().await.expect("it goes on").expect("a piece"));
            }
            sent.text = String::from_utf8_lossy(&text).into_owned();
        }
        self.sent.push(sent);
        self.open.push((at, node, Open::Body(Box::new(begun))));
    }

    /// A client leaves.
    fn leave(&mut self) {
        if !self.open.is_empty() {
            let at = self.random.random_range(0..self.open.len());
            let (_, _, open) = self.open.swap_remove(at);
            if let Open::Head(task) = open {
                task.abort();
            }
        }
    }

    /// What the clients of a node that has ended still get.
    async fn read_on(&mut self, node: usize) {
        let (of_node, others): (Vec<_>, Vec<_>) =
            self.open.drain(..).partition(|(_, at, _)| *at == node);
        self.open = others;
        for (at, _, open) in of_node {
            if let Open::Body(mut body) = open {
                let (rest, is_whole) = body.rest().await;
                assert!(!is_whole || !self.sent[at].case.streams());
                self.sent[at].text.push_str(&rest);
            }
        }
    }

    async fn kill(&mut self) {
        self.step = "kill".to_owned();
        let node = self.random.random_range(0..2);
        let left = self.nodes[node].take().expect("it runs").kill();
        self.disturbed += 1;
        self.read_on(node).await;
        self.repair_store();
        self.start_node(node, left);
    }

    async fn stop(&mut self) {
        self.step = "stop".to_owned();
        let node = self.random.random_range(0..2);
        self.repair_store();
        let folder = self.nodes[node].take().expect("it runs").end();
        self.read_on(node).await;
        self.start_node(node, folder);
    }

    fn restart_redis(&mut self) {
        if let Some(redis) = &mut self.redis {
            redis.restart();
            self.disturbed += 1;
        }
    }

    fn fail_store(&mut self) {
        if !std::mem::replace(&mut self.postgres_is_down, true) {
            self.postgres.kill();
        }
    }

    fn repair_store(&mut self) {
        if std::mem::take(&mut self.postgres_is_down) {
            self.postgres.restart();
        }
    }

    /// Open requests and reservations of each node.
    fn open_requests(&self) -> Vec<(i64, usize)> {
        let nodes = self.nodes.iter().flatten().map(|node| &node.gateway.gateway);
        nodes.map(|node| (node.open_requests(), node.limits().open_requests())).collect()
    }

    /// Ends all that is open, and waits until all is settled.
    async fn finish(&mut self) {
        self.step = "finish".to_owned();
        while !self.open.is_empty() {
            self.leave();
        }
        self.repair_store();
        let url = StoreUrl::Postgres(self.postgres.url());
        let database = Database::open(&url).await.expect("it runs again");
        for node in 0..2 {
            self.node(node).is_idle().await;
        }
        self.step = "the end of what comes later".to_owned();
        until("the end of what comes later", async || {
            self.now += 5 * SECOND;
            for node in 0..2 {
                self.node(node).clock.set(self.now);
                self.node(node).gateway.wake_poller();
            }
            let open = later_answers::due(&database, u64::MAX / 4, 1).await;
            open.is_ok_and(|open| open.is_empty())
        })
        .await;
        self.step = "the ledger".to_owned();
        for node in 0..2 {
            self.node(node).is_idle().await;
            self.node(node).flush().await;
        }
    }

    async fn check(&mut self, number: u64) {
        let url = StoreUrl::Postgres(self.postgres.url());
        let database = Database::open(&url).await.expect("it runs");
        for (tenant, owner) in self.tenants.iter().enumerate() {
            let rows = rows(&database, &owner.organization).await;
            let mut by_request: HashMap<&str, &Entry> = HashMap::new();
            let mut sum = 0;
            for row in &rows {
                let context = format!("history {number}: {row:?}");
                assert!(by_request.insert(&row.request, row).is_none(), "twice: {context}");
                let priced = row.input_tokens + 10 * row.output_tokens;
                let expected = if &*row.model == "*" { 0 } else { priced };
                assert_eq!(row.cost, expected, "{context}");
                sum += row.cost;
                *self.ends.entry(row.ended).or_default() += 1;
            }
            let sent: Vec<&Sent> = self.sent.iter().filter(|sent| sent.tenant == tenant).collect();
            // What the gateway refuses itself has no row.
            let served = sent.iter().filter(|sent| !matches!(sent.status, 429 | 503)).count();
            assert_eq!(rows.len(), served, "history {number}: {rows:#?}");
            for sent in &sent {
                check_row(sent, &by_request, number);
            }
            let nodes = if self.redis.is_some() { 0..2 } else { tenant..tenant + 1 };
            for node in nodes {
                self.check_meters(node, owner, sum, number).await;
            }
        }
    }

    /// The meters come to what the ledger has. Where nodes share them, what a killed node had reserved or settled and not
    /// reported yet may stay on them, and so may calls that Redis has not answered.
    async fn check_meters(&self, node: usize, owner: &Tenant, sum: u64, number: u64) {
        let unreported =
            if self.redis.is_some() { self.disturbed * MOST * HISTORY as u64 } else { 0 };
        let gateway = self.node(node);
        let bound = Bound::Spend { most: None, month: dates::month(self.now) };
        let project = spend_meter(&owner.project);
        let draws =
            [ORGANIZATION_SPEND, &project].map(|meter| Draw { meter, bound, amount: 0, set: 0 });
        let mut last = Vec::new();
        let agrees = async || {
            let limits = gateway.gateway.limits();
            let states =
                limits.look(&owner.organization, &draws, gateway.gateway.clock().steady()).await;
            last = states.map_or(Vec::new(), |all| all.iter().map(|one| one.used).collect());
            last.len() == 2 && last.iter().all(|used| (sum..=sum + unreported).contains(used))
        };
        let patience = Duration::from_secs(10);
        let waited = tokio::time::timeout(patience, until("the meters", agrees)).await;
        assert!(
            waited.is_ok(),
            "history {number}, node {node}, disturbed {} times: {last:?} of {sum}",
            self.disturbed
        );
    }
}

/// The row of a request counts what its client has received.
fn check_row(sent: &Sent, rows: &HashMap<&str, &Entry>, number: u64) {
    let Some(id) = sent.id.as_deref().filter(|_| !matches!(sent.status, 429 | 503)) else { return };
    let row = rows.get(id).unwrap_or_else(|| panic!("history {number}: no row of {:?}", sent.case));
    let context = format!("history {number}: {:?} {row:?}", sent.case);
    let received = sent.case.received(&sent.text);
    assert!(row.output_tokens * 8 * 100 >= received * 99, "{received} eighths: {context}");
    let reports = !matches!(sent.case.kind, Kind::Conversation | Kind::Speech);
    if sent.is_whole && sent.status == 200 && sent.case.end == End::Reported && reports {
        // A node that is killed as soon as its client has the answer may not have seen its end.
        let is_exact = [row.input_tokens, row.output_tokens] == sent.case.usage();
        assert!(is_exact || row.ended == Ended::Killed, "{context}");
    }
}

async fn rows(database: &Database, organization: &str) -> Vec<Entry> {
    let (mut all, mut cursor) = (Vec::new(), Cursor::new(0, u64::MAX / 4_000_000));
    loop {
        let (rows, next) = export(database, organization, cursor).await.expect("the ledger");
        if rows.is_empty() {
            return all;
        }
        all.extend(rows.into_iter().map(|row| row.entry));
        cursor = next;
    }
}

async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let began = std::time::Instant::now();
    while !is_so().await {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}: it did not happen");
        tokio::time::sleep(Duration::from_millis(3)).await; // tidy: sleep another task works
    }
}

fn number(name: &str, usual: usize) -> usize {
    std::env::var(name).map_or(usual, |given| given.parse().expect("a number"))
}

async fn run(is_shared: bool) {
    let (answers, first) = (number("AGENTD_ENDINGS", USUAL), number("AGENTD_SEED", 1));
    let histories = answers.div_ceil(HISTORY);
    let mut world = World::start(is_shared).await;
    for history in first..first + histories {
        let done = tokio::time::timeout(Duration::from_secs(90), world.history(history as u64));
        assert!(
            done.await.is_ok(),
            "history {history} does not end: {}, open {:?}",
            world.step,
            world.open_requests()
        );
    }
    println!("{histories} histories, {} starts of nodes: {:?}", world.starts, world.ends);
    let happens = |ended| world.ends.contains_key(&ended);
    assert!(
        answers < USUAL || [Ended::Killed, Ended::Cut, Ended::ClientGone].map(happens) == [true; 3]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_ending_is_settled_as_received_with_limits_of_each_node() {
    run(false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_ending_is_settled_as_received_with_shared_limits() {
    run(true).await;
}
