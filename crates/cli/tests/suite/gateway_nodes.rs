//! Rolling restarts under load, with the files of `packaging/gateway`: nginx in front of nodes of `agentd gateway` on
//! PostgreSQL and Redis. No request fails, and each is charged once.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::common::cluster::{Cluster, Node, ledger};
use crate::common::gateway::Gateway;
use crate::common::https::Client;
use crate::common::models::COST;
use crate::common::nginx::Nginx;

/// Clients that ask plainly, and clients that stream.
const CLIENTS: usize = 6;
/// Requests of a day in the configuration.
const DAY: usize = 100_000;
/// A client opens another connection after this many requests.
const REQUESTS: usize = 25;

/// The rounds of restarts; `cargo xtask soak` sets more of them.
fn rounds() -> usize {
    std::env::var("AGENTD_GATEWAY_RESTARTS").map_or(1, |rounds| rounds.parse().unwrap())
}

/// What the clients saw.
#[derive(Default)]
struct Seen {
    /// Ids of requests that were answered.
    answered: Mutex<Vec<String>>,
    failed: Mutex<Vec<String>>,
    longest: Mutex<Duration>,
    streams: AtomicUsize,
}

impl Seen {
    /// Asks until `is_over`.
    fn ask(&self, mut client: Client, key: &str, stream: bool, is_over: &AtomicBool) {
        static QUESTIONS: AtomicUsize = AtomicUsize::new(0);
        let headers = format!("authorization: Bearer {key}\r\ncontent-type: application/json\r\n");
        for count in 1.. {
            if is_over.load(Ordering::Relaxed) {
                return;
            }
            let question = format!("question {}", QUESTIONS.fetch_add(1, Ordering::Relaxed));
            let body = json!({"model": "big", "stream": stream, "max_tokens": 100,
                "messages": [{"role": "user", "content": question}]});
            let began = Instant::now();
            match client.ask("POST /v1/chat/completions", &headers, &body.to_string()) {
                Ok(answer)
                    if answer.status == 200 && (!stream || answer.body.contains("[DONE]")) =>
                {
                    let id = answer.header("x-request-id").to_owned();
                    self.answered.lock().unwrap().push(id);
                    self.streams.fetch_add(usize::from(stream), Ordering::Relaxed);
                }
                Ok(answer) => {
                    let failed = format!("{question}: {}: {}", answer.status, answer.body);
                    self.failed.lock().unwrap().push(failed);
                }
                Err(error) => self.failed.lock().unwrap().push(format!("{question}: {error}")),
            }
            let mut longest = self.longest.lock().unwrap();
            *longest = longest.max(began.elapsed());
            drop(longest);
            if count % REQUESTS == 0 {
                client.close();
            }
        }
    }
}

/// Runs `restarts` under load; then compares what clients saw with the ledger and with what model servers were asked.
fn under_load<'a>(
    cluster: &'a Cluster,
    nginx: &Nginx,
    first: &Node<'_>,
    restarts: impl FnOnce() -> Vec<Gateway> + 'a,
) {
    let key = first.create_key("load");
    let (seen, is_over) = (Seen::default(), AtomicBool::new(false));
    let began = Instant::now();
    let nodes = std::thread::scope(|scope| {
        for number in 0..2 * CLIENTS {
            let client = Client::new(nginx.port, &cluster.tls.chain);
            let (seen, key, is_over) = (&seen, &key, &is_over);
            scope.spawn(move || seen.ask(client, key, number % 2 == 0, is_over));
        }
        // The load ends even if a restart panics.
        let end = EndAtDrop(&is_over);
        let nodes = restarts();
        drop(end);
        nodes
    });
    let took = began.elapsed();
    let failed = seen.failed.into_inner().unwrap();
    let answered = seen.answered.into_inner().unwrap();
    println!(
        "{} requests in {took:.1?}, {} of them streams; {} failed; the longest took {:.2?}",
        answered.len() + failed.len(),
        seen.streams.into_inner(),
        failed.len(),
        seen.longest.into_inner().unwrap(),
    );
    assert_eq!(failed, [""; 0]);
    assert!(cluster.models.asked().values().all(|asked| *asked == 1), "each is asked once");
    let rows = ledger(&nodes[0]);
    let charged: HashSet<&str> = rows.iter().filter_map(|row| row["request_id"].as_str()).collect();
    let answered: HashSet<&str> = answered.iter().map(String::as_str).collect();
    assert_eq!((charged.len(), rows.len()), (answered.len(), answered.len()));
    assert!(charged == answered, "the ledger has the requests that were answered");
    let cost = format!("0.{COST:06}");
    assert!(rows.iter().all(|row| row["cost_usd"] == cost.as_str() && row["status"] == 200));
    // The limit by the day counts them once, too: some of it has come back since, and at most a part of a lease is away.
    let ask = json!({"model": "big", "messages": [{"role": "user", "content": "last"}]});
    let (head, body) = nodes[0].ask("POST /v1/chat/completions", &key, &ask.to_string());
    assert!(head.starts_with("HTTP/1.1 200"), "{head} {body}");
    let left = head.lines().find_map(|line| line.strip_prefix("x-ratelimit-remaining-requests: "));
    let used = DAY - left.unwrap().parse::<usize>().unwrap();
    let returned = DAY * (began.elapsed().as_secs() as usize + 1) / 86_400;
    println!("the limit by the day has counted {used}");
    assert!((rows.len() + 1).saturating_sub(returned) <= used, "{used} of {}", rows.len());
    nodes.into_iter().for_each(Gateway::end);
}

struct EndAtDrop<'a>(&'a AtomicBool);

impl Drop for EndAtDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn two_nodes_behind_nginx_are_restarted_without_a_failed_request() {
    let cluster = Cluster::new();
    let nodes = [cluster.node("one"), cluster.node("two")];
    let addresses = nodes.each_ref().map(|node| node.address.clone());
    let mut running = nodes.each_ref().map(Node::start);
    let nginx = Nginx::start(&cluster.env.work().join("nginx"), &addresses, &cluster.tls);
    under_load(&cluster, &nginx, &nodes[0], || {
        nodes.iter().for_each(Node::has_served);
        for _ in 0..rounds() {
            for (node, gateway) in nodes.iter().zip(&mut running) {
                gateway.restart(|| node.start());
                // nginx uses it again, so that the other one may stop.
                node.has_served();
            }
        }
        running.into()
    });
}

#[test]
fn a_node_on_a_socket_of_systemd_is_restarted_without_a_failed_request() {
    let cluster = Cluster::new();
    let node = cluster.node_on_socket("one");
    let mut running = node.start();
    let addresses = [node.address.clone()];
    let nginx = Nginx::start(&cluster.env.work().join("nginx"), &addresses, &cluster.tls);
    under_load(&cluster, &nginx, &node, || {
        for _ in 0..rounds() {
            node.has_served();
            running.restart(|| node.start());
        }
        node.has_served();
        vec![running]
    });
}
