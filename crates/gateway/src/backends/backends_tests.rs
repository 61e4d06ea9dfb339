//! Many threads that look for a place at the same time.

use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use gateway_policy::settings::LoadContext;

use tokio::time::Instant;

use super::*;

struct TestClock(AtomicU64);

impl Clock for TestClock {
    fn now(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    fn steady(&self) -> ratelimit::SteadyTime {
        ratelimit::SteadyTime::from_micros(self.0.load(Ordering::SeqCst))
    }
}

struct Counting(AtomicU64);

impl Random for Counting {
    fn fill(&self, bytes: &mut [u8]) {
        let word = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed).to_le_bytes();
        bytes.iter_mut().zip(word).for_each(|(byte, random)| *byte = random);
    }
}

const SETTINGS: &str = "[upstreams.main]\nmax_concurrency = 3\nbackends = [\
    { name = \"a\", base_url = \"http://a.invalid/v1\" },\
    { name = \"b\", base_url = \"http://b.invalid/v1\", weight = 2 }]\n";

struct Fixture {
    backends: Backends,
    settings: Settings,
    clock: Arc<TestClock>,
}

fn settings(text: &str) -> Settings {
    let around = LoadContext {
        environment: &|_| None,
        folder: Path::new("/"),
        offline: "http://127.0.0.1:9/v1",
    };
    Settings::read(text, Path::new("g.toml"), around).unwrap()
}

fn fixture() -> Fixture {
    let settings = settings(SETTINGS);
    let clock = Arc::new(TestClock(AtomicU64::new(0)));
    let (dynamic, random): (Arc<dyn Clock>, Arc<dyn Random>) =
        (Arc::clone(&clock) as _, Arc::new(Counting(AtomicU64::new(1))));
    let backends = Backends::open(&settings, &dynamic, &random).unwrap();
    Fixture { backends, settings, clock }
}

impl Fixture {
    fn query(&self) -> Query<'_> {
        let upstream = &self.settings.upstreams[0];
        let (region, pinned, preference) = (None, None, Preference::Balanced);
        let requester = Requester { organization: "org-a", project: "proj_a" };
        Query { upstream, region, model: "big", requester, pinned, preference }
    }

    fn leased(&self) -> Option<Lease> {
        match self.backends.try_lease(self.query(), &[]) {
            Found::Leased(lease) => Some(lease),
            Found::Full => None,
            Found::Nothing => panic!("there are backends"),
        }
    }
}

#[test]
fn no_backend_gets_more_than_it_takes() {
    let fixture = fixture();
    let held: [AtomicU32; 2] = Default::default();
    let served = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..2000 {
                    let Some(mut lease) = fixture.leased() else { continue };
                    let at = usize::from(lease.live().label() == "main/b");
                    assert!(held[at].fetch_add(1, Ordering::SeqCst) < 3);
                    std::thread::yield_now();
                    served.fetch_add(1, Ordering::SeqCst);
                    held[at].fetch_sub(1, Ordering::SeqCst);
                    lease.succeeded();
                }
            });
        }
    });
    assert!(served.into_inner() > 1000);
    // All places are free again.
    let all: Vec<_> = (0..6).filter_map(|_| fixture.leased()).collect();
    assert_eq!((all.len(), fixture.leased().is_some()), (6, false));
}

/// A place is given back to whom it was taken for, also after a reload that removed or set the bound.
#[test]
fn shares_follow_the_places() {
    let fixture = fixture();
    let of = |project| {
        let requester = Requester { organization: "org-a", project };
        match fixture.backends.try_lease(Query { requester, ..fixture.query() }, &[]) {
            Found::Leased(lease) => Some(lease),
            Found::Full => None,
            Found::Nothing => panic!("there are backends"),
        }
    };
    let fill = |project| std::iter::from_fn(|| of(project)).collect::<Vec<_>>();
    let alone = fill("proj_a");
    assert_eq!(alone.len(), 6);
    assert!(of("proj_b").is_none());
    drop(alone);
    // `proj_b` has asked within a minute: each backend keeps a place for it.
    let held = fill("proj_a");
    assert_eq!((held.len(), fill("proj_b").len()), (4, 2));
    fixture.backends.reload(&settings(&SETTINGS.replace("max_concurrency = 3", ""))).unwrap();
    let unbounded: Vec<_> = (0..20).filter_map(|_| of("proj_a")).collect();
    drop(held);
    fixture.backends.reload(&fixture.settings).unwrap();
    drop(unbounded);
    fixture.clock.0.fetch_add(60_000_000, Ordering::SeqCst);
    assert_eq!(fill("proj_a").len(), 6);
}

#[test]
fn one_of_many_threads_tries_a_backend() {
    let fixture = fixture();
    let is_a = |lease: &Lease| lease.live().label() == "main/a";
    let mut tried = 0;
    for _ in 0..50 {
        // `a` fails its three requests, `b` serves its own.
        for mut lease in (0..6).filter_map(|_| fixture.leased()).collect::<Vec<_>>() {
            if is_a(&lease) { lease.failed("gone") } else { lease.succeeded() }
        }
        fixture.clock.0.fetch_add(120_000_000, Ordering::SeqCst);
        let leases: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| fixture.leased())).collect();
            threads.into_iter().filter_map(|thread| thread.join().unwrap()).collect()
        });
        let trials = leases.iter().filter(|lease| is_a(lease)).count();
        assert!(trials <= 1, "{trials} at a time");
        tried += trials;
        for mut lease in leases {
            lease.began();
            lease.succeeded();
        }
        if trials == 0 {
            let mut lease = fixture.leased();
            while !lease.as_ref().is_some_and(is_a) {
                lease = fixture.leased();
            }
            lease.into_iter().for_each(|mut lease| lease.began());
        }
        assert!(fixture.backends.all().iter().all(|live| live.is_available()));
    }
    assert!(tried > 10, "{tried}");
}

/// Nothing wakes a gateway whose backends have neither health checks nor keys in files.
#[test]
fn only_what_is_due_wakes_the_task_of_the_backends() {
    let Fixture { backends, .. } = fixture();
    let mut schedule = probe::Schedule::default();
    let now = Instant::now();
    let mut due = |backends: &Backends, now| {
        let probes = schedule.probes(&backends.all(), now, 64).len();
        let reads_keys = schedule.reads_keys(&backends.all(), now);
        let wait = |next: Instant| next.duration_since(now).as_millis();
        (probes, reads_keys, schedule.next(true).map(wait))
    };
    assert_eq!(due(&backends, now), (0, false, None));
    let checked = |interval: u64| {
        let health = format!("health_path = \"/up\"\nhealth_interval_ms = {interval}\nmax");
        settings(&SETTINGS.replace("max", &health))
    };
    backends.reload(&checked(60_000)).unwrap();
    assert_eq!(due(&backends, now), (2, false, Some(60_000)), "at once, and then in its interval");
    let later = now + Duration::from_secs(20);
    assert_eq!(due(&backends, later), (0, false, Some(40_000)));
    backends.reload(&checked(5000)).unwrap();
    assert_eq!(due(&backends, later), (0, false, Some(5000)), "a shorter interval counts at once");
    assert_eq!(due(&backends, later + Duration::from_secs(5)), (2, false, Some(5000)));
    backends.reload(&settings(SETTINGS)).unwrap();
    assert_eq!(due(&backends, later), (0, false, None));
}

#[tokio::test]
async fn a_reload_and_the_end_are_signalled() {
    let Fixture { backends, settings, .. } = fixture();
    let changed = backends.changed();
    // Of the configuration that it was opened with.
    changed.notified().await;
    backends.reload(&settings).unwrap();
    changed.notified().await;
    let watching = tokio::spawn(watch(std::sync::Weak::new(), Arc::clone(&changed)));
    watching.await.unwrap();
    drop(backends);
    changed.notified().await;
}

const ACCOUNT: &str = "[upstreams.main]\nauth = \"aws-sigv4\"\naws = { region = \"us-east-1\" }\n\
    base_url = \"https://bedrock-mantle.us-east-1.api.aws/v1\"\n";

fn signed(name: &str) -> cloud::Key {
    let (id, secret) = (format!("AK-{name}"), http_client::Secret::new(format!("secret-{name}")));
    let session_token = Some(http_client::Secret::new(format!("session-{name}")));
    let keys = cloud::AwsKeys { id, secret, session_token };
    let (region, service) = ("us-east-1".to_owned(), "bedrock");
    cloud::Key::Signed(Arc::new(cloud::AwsSigner { keys, region, service }))
}

#[test]
#[cfg(feature = "bedrock")]
fn the_mask_knows_the_last_keys_of_an_account_with_their_session() {
    let clock: Arc<dyn Clock> = Arc::new(TestClock(AtomicU64::new(0)));
    let random: Arc<dyn Random> = Arc::new(Counting(AtomicU64::new(1)));
    let settings = settings(ACCOUNT);
    let backends = Backends::open(&settings, &clock, &random).unwrap();
    let live = backends.all().remove(0);
    for name in ["a", "b", "b", "c"] {
        live.keep_for_mask(&signed(name));
    }
    let known = live.secrets();
    let has = |text: &str| known.iter().any(|known| **known == *text);
    for name in ["b", "c"] {
        assert!(has(&format!("secret-{name}")) && has(&format!("session-{name}")), "{known:?}");
    }
    assert!(!has("secret-a"));
    // A reload keeps them: answers may still come.
    backends.reload(&settings).unwrap();
    assert_eq!(backends.all().remove(0).secrets(), known);
}

#[test]
#[cfg(feature = "bedrock")]
fn a_changed_network_is_also_that_of_credentials() {
    let clock: Arc<dyn Clock> = Arc::new(TestClock(AtomicU64::new(0)));
    let random: Arc<dyn Random> = Arc::new(Counting(AtomicU64::new(1)));
    let backends = Backends::open(&settings(ACCOUNT), &clock, &random).unwrap();
    let credentials = || backends.all().remove(0).credentials().unwrap();
    let first = credentials();
    backends.reload(&settings(ACCOUNT)).unwrap();
    assert!(Arc::ptr_eq(&first, &credentials()), "what was fetched stays known");
    let changed = format!("{ACCOUNT}proxy = \"http://127.0.0.1:3128\"\n");
    backends.reload(&settings(&changed)).unwrap();
    assert!(!Arc::ptr_eq(&first, &credentials()));
}
