//! A backend that is killed under load: requests of which no byte was sent to the client cost it no error, and the time
//! that a kill adds is below a second.
//!
//! `AGENTD_FAILOVERS` sets the number of kills.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::common::gateway::{SECOND, Tenant, TestGateway, chat_with};
use crate::common::upstream::{Received, Script, Step, Upstream, chat, event, usage};
use crate::contract::backends::several;

/// Kills of a usual run.
const USUAL: u64 = 2;
/// Clients, of which each second one streams.
const CLIENTS: usize = 16;
/// Answers that must come between two events.
const BETWEEN: usize = 200;

fn kills() -> u64 {
    let given = std::env::var("AGENTD_FAILOVERS").ok();
    given.map_or(USUAL, |text| text.parse().expect("AGENTD_FAILOVERS is a number"))
}

/// The answers of all clients.
#[derive(Debug, Default)]
struct Seen {
    /// Times of whole answers, in microseconds, with the moment of their end.
    times: std::sync::Mutex<Vec<(Instant, u64)>>,
    /// Errors in place of an answer.
    errors: AtomicU64,
    /// Streams that ended after their beginning.
    cut: AtomicU64,
    ended: AtomicBool,
}

impl Seen {
    fn count(&self) -> usize {
        self.times.lock().expect("no panic").len()
    }

    /// The time that 99 of 100 answers between two moments did not exceed.
    fn p99(&self, from: Instant, to: Instant) -> Duration {
        let times = self.times.lock().expect("no panic");
        let within = times.iter().filter(|(at, _)| (from..to).contains(at));
        let mut within: Vec<u64> = within.map(|(_, time)| *time).collect();
        within.sort_unstable();
        let at = (within.len() * 99).div_ceil(100).saturating_sub(1);
        Duration::from_micros(within.get(at).copied().unwrap_or(0))
    }
}

async fn client(gateway: Arc<TestGateway>, tenant: Tenant, number: usize, seen: Arc<Seen>) {
    let body = chat_with(json!({ "stream": number.is_multiple_of(2), "max_tokens": 5 }));
    while !seen.ended.load(Ordering::Relaxed) {
        let began = Instant::now();
        let mut answer = gateway.stream(&tenant, &body).await;
        let (text, is_whole) = answer.rest().await;
        match (answer.status.as_u16(), is_whole) {
            (200, true) => {
                let took = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
                seen.times.lock().expect("no panic").push((Instant::now(), took));
            }
            // Part of the answer had been sent.
            (200, false) if text.contains("data:") => {
                seen.cut.fetch_add(1, Ordering::Relaxed);
            }
            (status, _) => {
                println!("{status} {text}");
                seen.errors.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// Answers a chat, or a stream in several pieces.
async fn backend() -> Upstream {
    Upstream::answering(|received: &Received| {
        if received.json()["stream"] != json!(true) {
            return Script::json(&chat(&usage(3, 2)));
        }
        let piece = |finish| {
            let delta = json!({ "delta": { "content": "abcd" }, "finish_reason": finish });
            Step::Bytes(event(&json!({ "choices": [delta] })).into())
        };
        let end =
            format!("{}data: [DONE]\n\n", event(&json!({ "choices": [], "usage": usage(3, 2) })));
        Script::stream(vec![piece(json!(null)), piece(json!("stop")), Step::Bytes(end.into())])
    })
    .await
}

async fn reach(seen: &Seen, count: usize) {
    while seen.count() < count {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backend_killed_under_load_costs_no_error_and_no_second() {
    let backends = [backend().await, backend().await];
    let listed = [("a", &backends[0], ""), ("b", &backends[1], "")];
    let gateway = Arc::new(TestGateway::start(&several("", &listed, "")).await);
    let tenant = gateway.tenant("free").await;
    let seen = Arc::<Seen>::default();
    let clients = (0..CLIENTS).map(|number| {
        tokio::spawn(client(Arc::clone(&gateway), tenant.clone(), number, Arc::clone(&seen)))
    });
    let clients: Vec<_> = clients.collect();
    reach(&seen, BETWEEN).await;
    let (mut worst, mut added) = (Duration::ZERO, Duration::ZERO);
    for number in 0..kills() {
        let killed = &backends[usize::try_from(number % 2).expect("0 or 1")];
        let (before, count) = (Instant::now(), seen.count());
        reach(&seen, count + BETWEEN).await;
        let at = Instant::now();
        killed.kill();
        reach(&seen, count + 2 * BETWEEN).await;
        let after = Instant::now();
        let (usual, with_kill) = (seen.p99(before, at), seen.p99(at, after));
        worst = worst.max(with_kill);
        added = added.max(with_kill.saturating_sub(usual));
        killed.restart().await;
        // Its time aside is over, and one request finds that it is there again.
        gateway.clock.advance(120 * SECOND);
        let back = killed.count();
        while killed.count() < back + 10 {
            tokio::task::yield_now().await;
        }
    }
    seen.ended.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.expect("no panic");
    }
    let (errors, cut) = (seen.errors.load(Ordering::Relaxed), seen.cut.load(Ordering::Relaxed));
    println!(
        "{} kills, {} answers: {errors} errors, {cut} streams cut; p99 at worst {worst:?}, {added:?} more than before",
        kills(),
        seen.count()
    );
    assert_eq!(errors, 0);
    // Only streams that had begun at the killed backend.
    let most = kills() * CLIENTS as u64 / 2;
    assert!(cut <= most, "{cut}");
    assert!(added < Duration::from_secs(1), "{added:?}");
}
