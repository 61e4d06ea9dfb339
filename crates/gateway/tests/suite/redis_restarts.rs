//! Redis restarts under load, with its data and without: limits of a day are decided again within a minute, and what is
//! admitted beyond them is below the bound of `docs/gateway-limits.md`.
//!
//! `AGENTD_REDIS_RESTARTS` sets the number of restarts of each kind.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::common::gateway::{Tenant, TestGateway, chat_with};
use crate::common::servers::{Postgres, Redis};
use crate::common::upstream::{Received, Script, Upstream, chat, usage};
use crate::limits::{BIG, CHAT, two};

/// Restarts of a usual run.
const USUAL: u64 = 1;
/// Requests a day of each organization.
const DAILY: u64 = 160;
/// Organizations that use up their day.
const ORGANIZATIONS: usize = 3;
/// Clients of each.
const CLIENTS: usize = 3;

fn restarts() -> u64 {
    let given = std::env::var("AGENTD_REDIS_RESTARTS").ok();
    given.map_or(USUAL, |text| text.parse().expect("AGENTD_REDIS_RESTARTS is a number"))
}

/// The requests of one organization.
#[derive(Debug, Default)]
struct Tally {
    admitted: AtomicU64,
    /// Sent and not answered.
    open: AtomicU64,
    refused: AtomicU64,
}

/// What all clients have in common.
struct Load {
    nodes: [Arc<TestGateway>; 2],
    tenants: Vec<Tenant>,
    tallies: Vec<Tally>,
    ended: AtomicBool,
}

impl Load {
    async fn send(&self, of: usize, node: usize) -> u16 {
        let tally = &self.tallies[of];
        tally.open.fetch_add(1, Ordering::SeqCst);
        let body = chat_with(json!({ "max_tokens": 1 }));
        let answer = self.nodes[node].post(&self.tenants[of], CHAT, &body).await;
        let status = answer.status.as_u16();
        match status {
            200 => tally.admitted.fetch_add(1, Ordering::SeqCst),
            429 => tally.refused.fetch_add(1, Ordering::SeqCst),
            503 => 0,
            other => panic!("{other}: {}", answer.text()),
        };
        tally.open.fetch_sub(1, Ordering::SeqCst);
        status
    }
}

/// Requests of each organization that have a row.
async fn written(postgres: &Postgres, tenants: &[Tenant]) -> Vec<u64> {
    let (client, connection) =
        tokio_postgres::connect(&postgres.url(), tokio_postgres::NoTls).await.expect("the store");
    let connection = tokio::spawn(connection);
    let mut rows = Vec::new();
    for tenant in tenants {
        let sum = "SELECT COALESCE(SUM(requests), 0)::BIGINT FROM ledger WHERE organization = $1";
        let row = client.query_one(sum, &[&tenant.organization]).await.expect("a sum");
        rows.push(u64::try_from(row.get::<_, i64>(0)).expect("a count"));
    }
    drop(client);
    connection.abort();
    rows
}

/// Sends until the day is used up, and then now and then.
async fn client(load: Arc<Load>, of: usize, number: usize) {
    let mut count = number;
    while !load.ended.load(Ordering::Relaxed) {
        count += 1;
        if load.send(of, count % 2).await != 200 {
            tokio::time::sleep(Duration::from_millis(20)).await; // tidy: sleep a foreign process
        }
    }
}

/// One restart in the middle of the day's use. Returns the time until a limit of the day decided again, and the most
/// that an organization was granted beyond its limit, with the bound of it.
async fn restart(keeps: bool) -> (Duration, u64, u64) {
    let postgres = Postgres::start();
    let mut redis = if keeps { Redis::start() } else { Redis::start_forgetful() };
    let upstream = Upstream::answering(|_: &Received| Script::json(&chat(&usage(1, 1)))).await;
    let limits = format!("{BIG}[tiers.free.limits]\nbig = {{ rpd = {DAILY} }}\n");
    let nodes = two(&redis, &postgres, &upstream, &limits).await;
    let mut tenants = Vec::new();
    for _ in 0..ORGANIZATIONS {
        tenants.push(nodes[0].tenant("free").await);
    }
    let tallies = (0..ORGANIZATIONS).map(|_| Tally::default()).collect();
    let load = Arc::new(Load { nodes, tenants, tallies, ended: AtomicBool::new(false) });
    let clients = (0..ORGANIZATIONS * CLIENTS)
        .map(|at| tokio::spawn(client(Arc::clone(&load), at % ORGANIZATIONS, at)));
    let clients: Vec<_> = clients.collect();
    while load.tallies.iter().any(|tally| tally.admitted.load(Ordering::SeqCst) < DAILY / 2) {
        tokio::task::yield_now().await;
    }
    // Rows from before the loss count less than there are then.
    let written = written(&postgres, &load.tenants).await;
    tokio::task::block_in_place(|| redis.kill());
    // O and P of the page: what is open at the loss, and what had ended without a row.
    let at_loss = load.tallies.iter().zip(written).map(|(tally, written)| {
        let open = tally.open.load(Ordering::SeqCst);
        open + tally.admitted.load(Ordering::SeqCst).saturating_sub(written)
    });
    let lost: Vec<u64> = at_loss.collect();
    tokio::task::block_in_place(|| redis.restart());
    let began = Instant::now();
    let at: Vec<u64> =
        load.tallies.iter().map(|tally| tally.admitted.load(Ordering::SeqCst)).collect();
    // It decides again when each organization was granted something, or refused what it has used up.
    while load.tallies.iter().zip(&at).any(|(tally, before)| {
        tally.admitted.load(Ordering::SeqCst) == *before
            && tally.refused.load(Ordering::SeqCst) == 0
    }) {
        assert!(began.elapsed() < Duration::from_secs(60), "{keeps}: no decision in a minute");
        tokio::time::sleep(Duration::from_millis(5)).await; // tidy: sleep a foreign process
    }
    let recovered = began.elapsed();
    // The day is used up in the end, and its end is exact but for the bound.
    while load.tallies.iter().any(|tally| tally.refused.load(Ordering::SeqCst) < 20) {
        assert!(began.elapsed() < Duration::from_secs(120), "{keeps}: a day is not used up");
        tokio::time::sleep(Duration::from_millis(5)).await; // tidy: sleep a foreign process
    }
    load.ended.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.expect("no panic");
    }
    // What a day refills while the test runs.
    let refilled = DAILY * (began.elapsed().as_secs() + 60) / 86_400;
    let of = |(tally, lost): (&Tally, &u64)| {
        let over = tally.admitted.load(Ordering::SeqCst).saturating_sub(DAILY + refilled);
        let bound = if keeps { 0 } else { lost + DAILY / 8 };
        assert!(over <= bound, "{keeps}: {over} > {bound}");
        (over, bound)
    };
    let (over, bound) = load.tallies.iter().zip(&lost).map(of).max().unwrap_or_default();
    (recovered, over, bound)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_of_a_day_decide_again_within_a_minute_and_stay_within_their_bound() {
    for number in 0..restarts() {
        for keeps in [true, false] {
            let (recovered, over, bound) = restart(keeps).await;
            let data = if keeps { "with" } else { "without" };
            println!(
                "restart {number} {data} its data: decided again after {recovered:?}; \
                 {over} of {DAILY} beyond the limit, bound {bound}"
            );
            assert!(recovered < Duration::from_secs(60));
        }
    }
}
