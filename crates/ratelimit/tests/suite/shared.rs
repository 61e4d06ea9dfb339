//! Limits that nodes share over a real store.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use crate::store::Store;
use ratelimit::{Bound, Decision, Draw, ErrorKind, Limit, MINUTE, Redis, RedisOptions, Remedy};

pub(crate) const SECOND: u64 = 1_000_000;

pub(crate) fn rate(meter: &str, amount: u64, limit: u64, window: u64) -> Draw<'_> {
    let limit = Limit { amount: limit, window };
    Draw { meter, bound: Bound::Rate { limit, counts_refusals: false }, amount, set: 0 }
}

fn requests(meter: &str, limit: u64) -> Draw<'_> {
    let limit = Limit { amount: limit, window: MINUTE };
    Draw { meter, bound: Bound::Rate { limit, counts_refusals: true }, amount: 1, set: 0 }
}

pub(crate) fn spend(amount: u64, most: u64, month: u32) -> Draw<'static> {
    Draw { meter: "usd", bound: Bound::Spend { most: Some(most), month }, amount, set: 0 }
}

pub(crate) async fn node(store: &Store, node: u64) -> Redis {
    node_at(store.url(), node).await
}

pub(crate) async fn node_at(url: String, node: u64) -> Redis {
    let lease = Duration::from_secs(1);
    let options = RedisOptions { url, lease, node, first_start: true, durable: false };
    Redis::connect(options).await.unwrap()
}

pub(crate) async fn used(redis: &Redis, draws: &[Draw<'_>]) -> Vec<u64> {
    redis.look("org", draws).await.unwrap().iter().map(|state| state.used).collect()
}

/// Waits until the store has received the settlements.
pub(crate) async fn until(redis: &Redis, draws: &[Draw<'_>], expected: &[u64]) {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let used = used(redis, draws).await;
        if used == expected {
            return;
        }
        assert!(Instant::now() < deadline, "{used:?} is not {expected:?}");
        tokio::time::sleep(Duration::from_millis(5)).await; // tidy: sleep until another process has reported
    }
}

pub(crate) fn admitted(decision: &Decision) -> bool {
    matches!(decision, Decision::Admitted(_))
}

/// The draws of a request on the limits of its organization and its project, of which `exceeded` is refused; and
/// the units that both count of a refusal.
const REFUSALS: [(&str, [u64; 2]); 6] = [
    ("org rpm", [1, 0]),
    ("org tpm", [1, 0]),
    ("project rpm", [0, 1]),
    ("project tpm", [0, 1]),
    ("spend", [0, 0]),
    ("spend and project tpm", [0, 0]),
];

fn of_both(exceeded: &str) -> [Draw<'static>; 5] {
    let limit = |meter: &str| if exceeded.contains(meter) { 1 } else { 1000 };
    let in_set = |set, draw: Draw<'static>| Draw { set, ..draw };
    // Two units exceed a limit of one, and a refusal still has room in it.
    let twice = |draw: Draw<'static>| Draw { amount: 2, ..draw };
    [
        twice(in_set(0, requests("org rpm", limit("org rpm")))),
        in_set(0, rate("org tpm", 50, limit("org tpm") * 10, MINUTE)),
        twice(in_set(2, requests("project rpm", limit("project rpm")))),
        in_set(2, rate("project tpm", 50, limit("project tpm") * 10, MINUTE)),
        spend(50, limit("spend") * 10, 1),
    ]
}

#[tokio::test]
async fn a_refusal_counts_only_where_a_limit_of_the_same_owner_refused() {
    let store = Store::start();
    let redis = node(&store, 1).await;
    for (number, (exceeded, expected)) in (1..).zip(REFUSALS) {
        let (draws, organization) = (of_both(exceeded), format!("org {number}"));
        let refused = redis.reserve(&organization, number, &draws).await.unwrap();
        assert!(!admitted(&refused), "{exceeded}: {refused:?}");
        let states = redis.look(&organization, &draws).await.unwrap();
        let used: Vec<u64> = states.iter().map(|state| state.used).collect();
        assert_eq!([used[0], used[2]], expected, "{exceeded}");
        assert_eq!([used[1], used[3], used[4]], [0, 0, 0], "{exceeded}");
    }
}

#[tokio::test]
async fn a_new_version_of_the_library_goes_on_with_the_data_of_the_earlier_one() {
    for earlier in ["limits_1", "limits_2", "limits_3"] {
        let store = Store::start();
        // As an earlier version left it: loaded into a new store, in this run.
        let mut connection = redis::Client::open(store.url()).unwrap().get_connection().unwrap();
        let info: String = redis::cmd("INFO").arg("server").query(&mut connection).unwrap();
        let run = info.lines().find_map(|line| line.strip_prefix("run_id:")).unwrap().trim();
        let text = include_str!("../../src/redis/limits.lua").replace("@NAME@", earlier);
        let text = text.replace("@RUN@", run).replace("@BORN@", "0");
        redis::cmd("FUNCTION").arg("LOAD").arg(text).exec(&mut connection).unwrap();
        redis::cmd("SET").arg("other").arg("data").exec(&mut connection).unwrap();
        let redis = node(&store, 1).await;
        let draws = [rate("tpd", 60, 100, ratelimit::DAY), rate("tpm", 60, 100, MINUTE)];
        let decision = redis.reserve("org", 1, &draws).await.unwrap();
        assert!(admitted(&decision), "{earlier}: the limit is used up");
    }
}

#[tokio::test]
async fn reservations_are_atomic_and_refusals_count() {
    let store = Store::start();
    let redis = node(&store, 1).await;
    let draws = [requests("rpm", 10), rate("tpm", 60, 100, MINUTE), rate("tpd", 60, 1000, MINUTE)];
    assert!(admitted(&redis.reserve("org", 1, &draws).await.unwrap()));
    let refused = redis.reserve("org", 2, &draws).await.unwrap();
    let Decision::Refused { which, remedy: Remedy::Wait(wait), states } = refused else {
        panic!("{refused:?}")
    };
    assert!(which == 1 && wait > 11 * SECOND && wait <= 12 * SECOND + 2, "{which} {wait}");
    let shown: Vec<u64> = states.iter().map(|state| state.used).collect();
    assert_eq!(shown, [2, 60, 60], "only the requests count what was refused");
    assert!(admitted(&redis.reserve("other", 3, &draws).await.unwrap()));
    let large = [rate("tpm", 101, 100, MINUTE)];
    let refused = redis.reserve("org", 4, &large).await.unwrap();
    assert!(matches!(refused, Decision::Refused { remedy: Remedy::AskForLess, .. }));
    let twice = [rate("group", 60, 100, MINUTE), rate("group", 60, 100, MINUTE)];
    assert!(!admitted(&redis.reserve("org", 5, &twice).await.unwrap()));
    let fits = [rate("group", 60, 100, MINUTE), rate("group", 40, 100, MINUTE)];
    assert!(admitted(&redis.reserve("org", 6, &fits).await.unwrap()));
    assert_eq!(used(&redis, &fits[..1]).await, [100]);
}

#[tokio::test]
async fn a_request_is_settled_once_on_any_node() {
    let store = Store::start();
    let (redis, other) = (node(&store, 1).await, node(&store, 2).await);
    let draws = [rate("rpm", 1, 10, MINUTE), rate("tpm", 80, 100, MINUTE), spend(500, 1000, 1)];
    for _ in 0..2 {
        assert!(admitted(&redis.reserve("org", 1, &draws).await.unwrap()));
    }
    // A node that does not know the open request asks with the same id: it is charged once.
    assert!(admitted(&other.reserve("org", 1, &draws).await.unwrap()));
    assert_eq!(used(&other, &draws).await, [1, 80, 500]);
    assert!(redis.settle("org", 1, &[None, Some(30), Some(200)]));
    for _ in 0..3 {
        assert!(!redis.settle("org", 1, &[None, Some(0), Some(0)]));
    }
    until(&other, &draws, &[1, 30, 200]).await;
    assert_eq!(redis.open_requests(), 0);
    assert!(admitted(&redis.reserve("org", 2, &[rate("tpm", 60, 100, MINUTE)]).await.unwrap()));
    redis.settle("org", 2, &[Some(90)]);
    until(&other, &draws[1..2], &[120]).await;
}

#[tokio::test]
async fn what_was_left_as_reserved_is_corrected_by_another_node() {
    let store = Store::start();
    let (redis, other) = (node(&store, 1).await, node(&store, 2).await);
    let draws = [rate("tpm", 600, 1000, 1 << 36), spend(5000, 100_000, 7)];
    assert!(admitted(&redis.reserve("org", 1, &draws).await.unwrap()));
    assert!(redis.settle("org", 1, &[None, None]));
    until(&other, &draws, &[600, 5000]).await;
    other.correct("org", &draws[0], 900).unwrap();
    other.correct("org", &draws[1], 300).unwrap();
    until(&redis, &draws, &[900, 300]).await;
    other.correct("org", &draws[0], 100).unwrap();
    other.correct("org", &spend(100, 100_000, 7), 250).unwrap();
    until(&redis, &draws, &[900, 450]).await;
    other.correct("org", &spend(100, 100_000, 6), 0).unwrap();
    other.correct("org", &spend(400, 100_000, 7), 0).unwrap();
    until(&redis, &draws, &[900, 50]).await;
}

#[tokio::test]
async fn spend_and_held_slots_are_shared() {
    let store = Store::start();
    let redis = node(&store, 1).await;
    let reserve = async |request, draw| redis.reserve("org", request, &[draw]).await.unwrap();
    assert!(admitted(&reserve(1, spend(600, 1000, 1)).await));
    assert!(admitted(&reserve(2, spend(400, 1000, 1)).await));
    let refused = reserve(3, spend(1, 1000, 1)).await;
    assert!(matches!(refused, Decision::Refused { remedy: Remedy::Reserved, .. }));
    assert!(admitted(&reserve(4, spend(1000, 1000, 2)).await), "another month");
    redis.settle("org", 2, &[Some(0)]);
    redis.close().await;
    assert!(!admitted(&reserve(5, spend(1, 1000, 2)).await), "it belonged to the old month");
    let bound = Bound::Spend { most: Some(1000), month: 3 };
    redis.seed("org", "usd", bound, 990).await.unwrap();
    redis.seed("org", "usd", bound, 10).await.unwrap();
    assert_eq!(used(&redis, &[spend(0, 1000, 3)]).await, [990]);
    let queue = |amount| Draw { meter: "queue", bound: Bound::Held { most: 100 }, amount, set: 0 };
    assert!(admitted(&reserve(10, queue(70)).await));
    let refused = reserve(11, queue(31)).await;
    assert!(matches!(refused, Decision::Refused { remedy: Remedy::GiveBack, .. }));
    // The owner restarts on another node, holds the amount again, and releases it.
    let other = node(&store, 2).await;
    assert!(admitted(&other.reserve("org", 10, &[queue(70)]).await.unwrap()));
    assert!(other.settle("org", 10, &[Some(0)]));
    until(&redis, &[queue(0)], &[0]).await;
}

/// A clock that is the same in all processes.
fn clock() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap()
}

const CHILD: &str = "LIMITS_TEST_STORE";

/// Admissions: the earliest and the latest possible moment, and the amount that counts.
type Log = Arc<Mutex<Vec<(Duration, Duration, u64)>>>;

struct LoadGenerator {
    limit: u64,
    window: Duration,
    began: Instant,
    log: Log,
    /// Whether admissions are printed, for another process.
    prints: bool,
    stop: AtomicBool,
    requests: AtomicU64,
    away: AtomicU64,
}

impl LoadGenerator {
    fn new(limit: u64, window: Duration) -> Arc<Self> {
        Arc::new(Self {
            limit,
            window,
            began: Instant::now(),
            log: Log::default(),
            prints: std::env::var_os(CHILD).is_some(),
            stop: AtomicBool::new(false),
            requests: AtomicU64::new(1),
            away: AtomicU64::new(0),
        })
    }

    /// Clients that send requests continuously, and settle them with their actual usage.
    fn clients(
        self: &Arc<Self>,
        redis: &Arc<Redis>,
        count: u64,
    ) -> Vec<tokio::task::JoinHandle<()>> {
        (0..count).map(|seed| tokio::spawn(self.clone().client(redis.clone(), seed))).collect()
    }

    async fn client(self: Arc<Self>, redis: Arc<Redis>, seed: u64) {
        let mut number = seed;
        while !self.stop.load(Ordering::Relaxed) {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(seed | 1);
            let (amount, part) = (1 + (number >> 60), 1 + (number >> 40) % 16);
            let draws = [rate("tpm", amount, self.limit, self.window.as_micros() as u64)];
            let request = u128::from(self.requests.fetch_add(1, Ordering::Relaxed));
            let before = clock();
            match redis.reserve("org", request, &draws).await {
                Ok(Decision::Admitted(_)) => {
                    let actual = part.min(amount);
                    let after = clock();
                    self.log.lock().unwrap().push((before, after, actual));
                    if self.prints {
                        println!("took {} {} {actual}", before.as_micros(), after.as_micros());
                    }
                    redis.settle("org", request, &[Some(actual)]);
                }
                Ok(_) => {}
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
                    self.away.fetch_add(1, Ordering::Relaxed);
                }
            }
            tokio::time::sleep(Duration::from_millis(1 + number % 3)).await; // tidy: sleep the pace of the clients
        }
    }

    async fn run(self: &Arc<Self>, time: Duration) {
        tokio::time::sleep(time).await; // tidy: sleep how long they hammer
    }

    /// Checks that no interval admits more than the bound. Returns the total admitted.
    fn check(&self) -> u64 {
        let mut log = self.log.lock().unwrap().clone();
        log.sort_unstable_by_key(|(_, after, _)| *after);
        let mut starts: Vec<Duration> = log.iter().map(|(before, ..)| *before).collect();
        starts.sort_unstable();
        for from in starts.iter().step_by(starts.len() / 1000 + 1) {
            let mut sum = 0;
            for (_, after, amount) in log.iter().filter(|(before, ..)| before >= from) {
                sum += amount;
                let span = (*after - *from).as_micros();
                let most = u128::from(self.limit) * span / self.window.as_micros();
                let most = u128::from(self.limit) + most;
                assert!(u128::from(sum) <= most, "{sum} in {span} µs, {most} may be");
            }
        }
        log.iter().map(|(.., amount)| amount).sum()
    }
}

fn at_least(load: &LoadGenerator, admitted: u64, part: f64) {
    let time = load.began.elapsed().as_secs_f64() / load.window.as_secs_f64();
    let most = load.limit as f64 * (1.0 + time);
    println!("{admitted} of {most:.0} admitted, {:?} times away", load.away);
    assert!(admitted as f64 >= most * part, "{admitted} of {most}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_clients_never_exceed_the_limit_on_one_or_two_nodes() {
    let store = Store::start();
    for nodes in 1..=2 {
        let load = LoadGenerator::new(5000, Duration::from_secs(2));
        let mut clients = Vec::new();
        for number in 0..nodes {
            let redis = Arc::new(node(&store, 10 * nodes + number).await);
            clients.extend(load.clients(&redis, 64 / nodes));
        }
        load.run(Duration::from_secs(3)).await;
        load.stop.store(true, Ordering::Relaxed);
        for client in clients {
            client.await.unwrap();
        }
        at_least(&load, load.check(), 0.8);
        let mut connection = redis::Client::open(store.url()).unwrap().get_connection().unwrap();
        redis::cmd("FLUSHALL").exec(&mut connection).unwrap();
    }
}

/// The leases of a dead node lapse and count as used.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_dies_admits_nothing_twice() {
    let store = Store::start();
    let load = LoadGenerator::new(5000, Duration::from_secs(2));
    let stays = Arc::new(node(&store, 1).await);
    let mut clients = load.clients(&stays, 32);
    for number in 2..6 {
        let dies = Arc::new(node(&store, number).await);
        let its = load.clients(&dies, 32);
        load.run(Duration::from_millis(500)).await;
        its.iter().for_each(tokio::task::JoinHandle::abort);
        drop(dies);
    }
    load.stop.store(true, Ordering::Relaxed);
    for client in clients.drain(..) {
        client.await.unwrap();
    }
    at_least(&load, load.check(), 0.3);
}

/// The store is killed repeatedly, and restarts with or without its data.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_dies_admits_nothing_twice() {
    for keeps in [&[][..], &["--appendonly", "yes", "--appendfsync", "no"]] {
        let mut store = Store::start();
        let load = LoadGenerator::new(3000, Duration::from_secs(1));
        let mut clients = Vec::new();
        let nodes = [Arc::new(node(&store, 1).await), Arc::new(node(&store, 2).await)];
        for redis in &nodes {
            clients.extend(load.clients(redis, 32));
        }
        for _ in 0..4 {
            load.run(Duration::from_millis(300)).await;
            store.kill();
            load.run(Duration::from_millis(50)).await;
            store.run(keeps);
        }
        load.run(Duration::from_millis(1000)).await;
        assert!(nodes.iter().all(|redis| redis.is_available()));
        load.stop.store(true, Ordering::Relaxed);
        for client in clients {
            client.await.unwrap();
        }
        at_least(&load, load.check(), 0.1);
        assert!(load.away.load(Ordering::Relaxed) > 0);
    }
}

#[tokio::test]
async fn an_unavailable_store_refuses_quickly_and_spend_is_seeded_again() {
    let mut store = Store::start();
    let redis = node(&store, 1).await;
    assert!(admitted(&redis.reserve("org", 1, &[spend(10, 1000, 1)]).await.unwrap()));
    store.kill();
    let began = Instant::now();
    for request in 2..50 {
        let error = redis.reserve("org", request, &[spend(10, 1000, 1)]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
    }
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    assert!(!redis.is_available());
    store.run(&[]);
    while !redis.is_available() {
        tokio::time::sleep(Duration::from_millis(5)).await; // tidy: sleep another process starts
    }
    let draw = [spend(10, 1000, 1)];
    let unseeded = redis.reserve("org", 60, &draw).await.unwrap_err();
    assert_eq!(unseeded.kind(), ErrorKind::Unseeded);
    redis.seed("org", "usd", draw[0].bound, 985).await.unwrap();
    assert!(admitted(&redis.reserve("org", 61, &draw).await.unwrap()));
    assert!(!admitted(&redis.reserve("org", 62, &draw).await.unwrap()));
    // Rates start as used up.
    let refused = redis.reserve("org", 63, &[rate("tpm", 500, 600, MINUTE)]).await.unwrap();
    assert!(!admitted(&refused));
}

/// Not a test of its own: the node that the next test starts and kills.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the child of `two_processes_share_a_limit`"]
async fn child() {
    let Ok(given) = std::env::var(CHILD) else { return };
    let (number, url) = given.split_once(' ').unwrap();
    let redis = Arc::new(node_at(url.to_owned(), number.parse().unwrap()).await);
    let load = LoadGenerator::new(5000, Duration::from_secs(2));
    load.requests.store(1 << (32 + number.parse::<u32>().unwrap()), Ordering::Relaxed);
    for client in load.clients(&redis, 32) {
        client.await.unwrap();
    }
}

#[tokio::test]
async fn two_processes_share_a_limit_and_are_killed() {
    let store = Store::start();
    let load = LoadGenerator::new(5000, Duration::from_secs(2));
    let mut children: Vec<_> = (1..=2)
        .map(|number| {
            std::process::Command::new(std::env::current_exe().unwrap())
                .args(["shared::child", "--exact", "--ignored", "--nocapture"])
                .env(CHILD, format!("{number} {}", store.url()))
                .stdout(std::process::Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    for child in &mut children {
        let (log, out) = (load.log.clone(), child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in std::io::BufRead::lines(std::io::BufReader::new(out)).map_while(Result::ok)
            {
                let words: Vec<&str> = line.split(' ').collect();
                let ["took", numbers @ ..] = &words[..] else { continue };
                let numbers: Vec<u64> = numbers.iter().map(|word| word.parse().unwrap()).collect();
                let [before, after] = [numbers[0], numbers[1]].map(Duration::from_micros);
                log.lock().unwrap().push((before, after, numbers[2]));
            }
        });
    }
    for child in &mut children {
        load.run(Duration::from_millis(1500)).await;
        child.kill().unwrap();
        child.wait().unwrap();
    }
    at_least(&load, load.check(), 0.4);
}

#[tokio::test]
async fn a_store_that_hangs_delays_one_request_and_charges_none_twice() {
    let store = Store::start();
    let redis = node(&store, 1).await;
    let draw = [rate("tpm", 10, 100, MINUTE)];
    assert!(admitted(&redis.reserve("org", 1, &draw).await.unwrap()));
    store.signal(rustix::process::Signal::STOP);
    let began = Instant::now();
    assert!(redis.reserve("org", 2, &draw).await.is_err());
    assert!(began.elapsed() < Duration::from_secs(1));
    let began = Instant::now();
    for request in 3..100 {
        assert!(redis.reserve("org", request, &draw).await.is_err());
    }
    assert!(began.elapsed() < Duration::from_millis(200), "{:?}", began.elapsed());
    store.signal(rustix::process::Signal::CONT);
    while !redis.is_available() {
        tokio::time::sleep(Duration::from_millis(5)).await; // tidy: sleep while another process continues
    }
    // The call had taken effect: repeated, it is charged once and can be settled.
    assert!(admitted(&redis.reserve("org", 2, &draw).await.unwrap()));
    let shown = used(&redis, &draw).await[0];
    assert!((18..=20).contains(&shown), "{shown}");
    assert!(redis.settle("org", 2, &[Some(0)]));
}

#[tokio::test]
async fn a_durable_store_continues_after_a_restart() {
    let mut store = Store::start();
    store.kill();
    let keeps = ["--appendonly", "yes", "--appendfsync", "always"];
    store.run(&keeps);
    let (url, lease) = (store.url(), Duration::from_secs(1));
    let options = RedisOptions { url, lease, node: 1, first_start: true, durable: true };
    let redis = Redis::connect(options).await.unwrap();
    let draws = [rate("tpd", 10, 100, 86_400 * SECOND), spend(10, 1000, 1)];
    assert!(admitted(&redis.reserve("org", 1, &draws).await.unwrap()));
    store.kill();
    store.run(&keeps);
    while used_or_away(&redis, &draws).await != Some(vec![10, 10]) {
        tokio::time::sleep(Duration::from_millis(5)).await; // tidy: sleep another process starts
    }
    assert!(redis.settle("org", 1, &[Some(1), Some(1)]));
    until(&redis, &draws, &[1, 1]).await;
}

async fn used_or_away(redis: &Redis, draws: &[Draw<'_>]) -> Option<Vec<u64>> {
    let states = redis.look("org", draws).await.ok()?;
    Some(states.iter().map(|state| state.used).collect())
}

/// A busy organization needs no calls to the store; an idle one has no lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_spare_round_trips() {
    const REQUESTS: u64 = 5000;
    let store = Store::start();
    let redis = Arc::new(node(&store, 1).await);
    let began = Instant::now();
    let mut clients = Vec::new();
    for client in 0..16u64 {
        let redis = redis.clone();
        clients.push(tokio::spawn(async move {
            for number in 0..REQUESTS / 16 {
                let request = u128::from(client * REQUESTS + number);
                let draws = [
                    requests("rpm", 1_000_000),
                    rate("tpm", 50, 100_000_000, MINUTE),
                    spend(70, 1_000_000_000, 1),
                ];
                assert!(admitted(&redis.reserve("org", request, &draws).await.unwrap()));
                redis.settle("org", request, &[None, Some(40), Some(60)]);
                tokio::task::yield_now().await;
            }
        }));
    }
    for client in clients {
        client.await.unwrap();
    }
    let took = began.elapsed();
    let mut connection = redis::Client::open(store.url()).unwrap().get_connection().unwrap();
    let info: String = redis::cmd("INFO").arg("commandstats").query(&mut connection).unwrap();
    let line = info.lines().find_map(|line| line.strip_prefix("cmdstat_fcall:calls=")).unwrap();
    let calls: u64 = line.split(',').next().unwrap().parse().unwrap();
    println!("{REQUESTS} requests in {took:?} with {calls} calls");
    assert!(calls < REQUESTS / 4, "{calls} calls");
    redis.close().await;
    let done = REQUESTS / 16 * 16;
    let money = used(&redis, &[spend(0, 1_000_000_000, 1)]).await;
    assert_eq!(money, [done * 60], "to the last unit");
}

/// Unreported usage of a dead node counts once its lease has lapsed.
#[tokio::test]
async fn leases_of_a_dead_node_count_as_used() {
    let store = Store::start();
    let draw = [rate("tpm", 10, 10_000, 86_400 * SECOND)];
    let mut total = 0;
    let dies = node(&store, 1).await;
    for request in 0..100 {
        total += u64::from(admitted(&dies.reserve("org", request, &draw).await.unwrap()));
    }
    drop(dies);
    assert_eq!(total, 100);
    let stays = node(&store, 2).await;
    let deadline = Instant::now() + Duration::from_millis(2500);
    for request in 1000.. {
        let decision = stays.reserve("org", request, &draw).await.unwrap();
        total += u64::from(admitted(&decision));
        if !admitted(&decision) {
            if Instant::now() > deadline {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await; // tidy: sleep the store's clock runs
        }
    }
    // Never more than the limit; and at most a sixteenth is lost with a dead node's lease.
    assert!((930..=1000).contains(&total), "{total}");
}

/// A call that is cancelled takes nothing.
#[tokio::test]
async fn a_cancelled_caller_takes_nothing() {
    let store = Store::start();
    let redis = node(&store, 1).await;
    let draw = [rate("tpm", 10, 100, 86_400 * SECOND), spend(10, 100, 1)];
    for request in 0..20 {
        let asked = redis.reserve("org", request, &draw);
        if tokio::time::timeout(Duration::ZERO, asked).await.is_ok() {
            // It was taken from a lease, without a call.
            redis.settle("org", request, &[Some(0), Some(0)]);
        }
    }
    until(&redis, &draw[1..], &[0]).await;
    assert_eq!(redis.open_requests(), 0);
    // Nearly all of a rate is refunded: a lease knows only roughly when it was used.
    assert!(used(&redis, &draw[..1]).await[0] <= 40);
}
