//! Many requests against a provider with an exact limit, in virtual time.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::task::JoinSet;

use super::*;
use crate::rate_limits::RateLimit;

/// A provider that admits `limit` requests a minute, refilled continuously.
struct Limited {
    limit: f64,
    used: Mutex<(f64, Instant)>,
    refused: AtomicUsize,
    admitted: AtomicUsize,
}

impl Limited {
    fn new(limit: f64) -> Self {
        let used = Mutex::new((0.0, Instant::now()));
        Self { limit, used, refused: AtomicUsize::new(0), admitted: AtomicUsize::new(0) }
    }

    /// Whether a request is admitted, the limits that its response reports, and the wait that a refusal
    /// asks for.
    fn request(&self) -> (bool, RateLimits, Option<Duration>) {
        let mut guard = self.used.lock().unwrap();
        let (used, at) = &mut *guard;
        let rate = self.limit / 60.0;
        *used = (*used - at.elapsed().as_secs_f64() * rate).max(0.0);
        *at = Instant::now();
        let is_admitted = *used + 1.0 <= self.limit + 1e-9;
        let counter = if is_admitted { &self.admitted } else { &self.refused };
        counter.fetch_add(1, Ordering::Relaxed);
        let wait = match is_admitted {
            true => None,
            false => Some(Duration::from_secs_f64((*used + 1.0 - self.limit) / rate)),
        };
        *used += if is_admitted { 1.0 } else { 0.0 };
        let remaining = (self.limit - *used).max(0.0) as u64;
        // Rounded up to the millisecond, as the gateway reports it.
        let reset = Duration::from_millis((*used / rate * 1_000.0).ceil() as u64);
        let limits = RateLimit { limit: self.limit as u64, remaining, reset };
        (is_admitted, RateLimits { requests: Some(limits), ..RateLimits::default() }, wait)
    }
}

/// One thread: turn after turn, each of one request that is sent again when it is refused.
async fn thread(
    (pacer, queue): (Arc<Pacer>, Arc<Queue>),
    provider: Arc<Limited>,
    latency: Duration,
    end: Instant,
) -> usize {
    let mut turns = 0;
    while Instant::now() < end {
        let mut permit = queue.admit(100, &pacer.arrival()).await;
        // tidy: sleep in virtual time
        time::sleep(latency).await;
        let (is_admitted, limits, wait) = provider.request();
        // tidy: sleep in virtual time
        time::sleep(latency).await;
        permit.report(Some(&limits));
        if wait.is_some() {
            permit.refused(wait);
        }
        match wait {
            // tidy: sleep in virtual time
            Some(wait) => time::sleep(wait).await,
            None => turns += usize::from(is_admitted),
        }
    }
    turns
}

#[tokio::test(start_paused = true)]
async fn fifty_threads_use_a_limit_of_twenty_a_minute_without_refusals() {
    let provider = Arc::new(Limited::new(20.0));
    let queue = (Arc::new(Pacer::default()), Arc::new(Queue::default()));
    let end = Instant::now() + Duration::from_mins(11);
    let mut threads = JoinSet::new();
    for number in 0..50 {
        let latency = Duration::from_millis(20 + number * 7 % 300);
        threads.spawn(thread(queue.clone(), Arc::clone(&provider), latency, end));
    }
    // tidy: sleep in virtual time
    time::sleep(Duration::from_mins(1)).await;
    let refused = provider.refused.load(Ordering::Relaxed);
    let admitted = provider.admitted.load(Ordering::Relaxed);
    // tidy: sleep in virtual time
    time::sleep(Duration::from_mins(10)).await;
    assert_eq!(provider.refused.load(Ordering::Relaxed), refused, "after the first minute");
    let throughput = provider.admitted.load(Ordering::Relaxed) - admitted;
    assert!(throughput >= 190, "{throughput} of 200 requests in ten minutes");
    let mut turns = Vec::new();
    while let Some(done) = threads.join_next().await {
        turns.push(done.unwrap());
    }
    let (least, most) = (turns.iter().min().unwrap(), turns.iter().max().unwrap());
    assert!(most - least <= 2, "fair: {least} to {most} turns each");
}

#[tokio::test(start_paused = true)]
async fn without_limits_requests_wait_for_nothing() {
    let requests = Requests::default();
    let started = Instant::now();
    for _ in 0..1_000 {
        requests.admit(1_000_000).await.report(None);
    }
    assert_eq!(started.elapsed(), Duration::ZERO);
}

/// A queue, and arrivals at it.
#[derive(Default, Clone)]
struct Requests {
    pacer: Arc<Pacer>,
    queue: Arc<Queue>,
}

impl Requests {
    async fn admit(&self, tokens: u64) -> Permit {
        self.queue.admit(tokens, &self.pacer.arrival()).await
    }

    fn outlook(&self, tokens: u64) -> Outlook {
        self.queue.outlook(tokens, &self.pacer.arrival())
    }
}

fn requests(limit: u64, remaining: u64, reset: u64) -> RateLimits {
    let limit = RateLimit { limit, remaining, reset: Duration::from_secs(reset) };
    RateLimits { requests: Some(limit), ..RateLimits::default() }
}

#[tokio::test(start_paused = true)]
async fn a_withdrawn_request_gives_its_place_to_the_next() {
    let queue = Requests::default();
    queue.admit(1).await.report(Some(&requests(20, 1, 57)));
    let started = Instant::now();
    let first = queue.admit(1).await;
    let second = {
        let queue = queue.clone();
        tokio::spawn(async move {
            queue.admit(1).await.report(None);
            started.elapsed()
        })
    };
    tokio::task::yield_now().await;
    assert_eq!(queue.outlook(1), Outlook { wait: Duration::from_secs(6), ahead: 1 });
    drop(first);
    assert_eq!(second.await.unwrap(), Duration::ZERO);
    // A request that is dropped while it waits in the queue delays no other.
    let waiting = tokio::spawn({
        let queue = queue.clone();
        async move { queue.admit(1).await.report(None) }
    });
    tokio::task::yield_now().await;
    waiting.abort();
    let _ = waiting.await;
    assert_eq!(queue.queue.state().waiting(), 0);
    queue.admit(1).await.report(None);
    assert_eq!(started.elapsed(), Duration::from_secs(3));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_holds_the_others_back_as_long_as_it_asks() {
    let queue = Requests::default();
    queue.admit(1).await.refused(Some(Duration::from_secs(7)));
    let started = Instant::now();
    queue.admit(1).await.refused(Some(Duration::from_mins(11)));
    assert_eq!(started.elapsed(), Duration::from_secs(7));
    // A wait that long is the user's to learn of, from the provider's answer.
    queue.admit(1).await.report(None);
    assert_eq!(started.elapsed(), Duration::from_secs(7));
}

/// Requests of arrivals that a client keeps, and the order in which they are sent.
#[derive(Default, Clone)]
struct Order {
    requests: Requests,
    sent: Arc<Mutex<Vec<(usize, Duration)>>>,
}

impl Order {
    fn join(&self, number: usize, arrival: &Arrival) -> tokio::task::JoinHandle<()> {
        let (order, arrival, started) = (self.clone(), arrival.clone(), Instant::now());
        tokio::spawn(async move {
            let mut permit = order.requests.queue.admit(1, &arrival).await;
            permit.report(None);
            order.sent.lock().unwrap().push((number, started.elapsed()));
        })
    }

    fn numbers(&self) -> Vec<usize> {
        self.sent.lock().unwrap().iter().map(|(number, _)| *number).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_request_keeps_its_place() {
    let order = Order::default();
    let arrivals: Vec<Arrival> = (0..4).map(|_| order.requests.pacer.arrival()).collect();
    let queue = &order.requests.queue;
    // Two requests fit into each six seconds.
    let mut permit = queue.admit(1, &arrivals[0]).await;
    permit.report(Some(&requests(2, 0, 6)));
    permit.refused(Some(Duration::from_secs(6)));
    drop(permit);
    for (number, arrival) in arrivals.iter().enumerate().skip(1) {
        drop(order.join(number, arrival));
    }
    let outlook = Outlook { wait: Duration::from_secs(12), ahead: 3 };
    tokio::task::yield_now().await;
    assert_eq!(queue.outlook(1, &arrivals[3]), outlook);
    // It comes again a little after the wait, as clients that were refused do not return at once.
    // tidy: sleep in virtual time
    time::sleep(Duration::from_millis(6_500)).await;
    assert_eq!(order.numbers(), [1], "one place in the window is kept");
    order.join(0, &arrivals[0]).await.unwrap();
    assert_eq!(order.numbers(), [1, 0]);
    // tidy: sleep in virtual time
    time::sleep(Duration::from_secs(6)).await;
    assert_eq!(order.numbers(), [1, 0, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn a_place_is_kept_for_no_longer_than_its_request() {
    for gives_up in [true, false] {
        let queue = Requests::default();
        let arrival = queue.pacer.arrival();
        let mut permit = queue.queue.admit(1, &arrival).await;
        permit.report(Some(&requests(1, 0, 6)));
        permit.refused(Some(Duration::from_secs(6)));
        drop(permit);
        let started = Instant::now();
        // Otherwise the request waits longer than it was asked to.
        let kept = (!gives_up).then_some(arrival);
        queue.admit(1).await.report(None);
        let waited = if gives_up { 6 } else { 12 };
        assert_eq!(started.elapsed(), Duration::from_secs(waited));
        drop(kept);
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_withdrawn_and_made_anew_keeps_its_place() {
    let order = Order::default();
    let arrivals: Vec<Arrival> = (0..3).map(|_| order.requests.pacer.arrival()).collect();
    order.requests.admit(1).await.report(Some(&requests(20, 0, 60)));
    let first = order.join(0, &arrivals[0]);
    let second = order.join(1, &arrivals[1]);
    tokio::task::yield_now().await;
    first.abort();
    // Before the first one is gone, and behind the second one.
    let anew = order.join(0, &arrivals[0]);
    assert_eq!(order.requests.queue.outlook(1, &arrivals[2]).ahead, 2);
    let (anew, second) = tokio::join!(anew, second);
    anew.unwrap();
    second.unwrap();
    let seconds = |(number, wait): &(usize, Duration)| (*number, wait.as_secs());
    let sent: Vec<_> = order.sent.lock().unwrap().iter().map(seconds).collect();
    assert_eq!(sent, [(0, 3), (1, 6)]);
}

#[tokio::test(start_paused = true)]
async fn the_outlook_counts_those_ahead() {
    let queue = Requests::default();
    let outlook = |seconds, ahead| Outlook { wait: Duration::from_secs(seconds), ahead };
    assert_eq!(queue.outlook(1_000_000), outlook(0, 0));
    queue.admit(1).await.report(Some(&requests(20, 0, 60)));
    let (mut waiting, mut arrivals) = (JoinSet::new(), Vec::new());
    for ahead in 0..50 {
        assert_eq!(queue.outlook(1), outlook(3 * (ahead as u64 + 1), ahead));
        let (queue, arrival) = (queue.clone(), queue.pacer.arrival());
        arrivals.push(arrival.clone());
        waiting.spawn(async move { queue.queue.admit(1, &arrival).await.report(None) });
        tokio::task::yield_now().await;
    }
    // Those behind do not count.
    assert_eq!(queue.queue.outlook(1, &arrivals[9]), outlook(30, 9));
    drop(waiting);
    tokio::task::yield_now().await;
    assert_eq!(queue.outlook(1), outlook(3, 0), "those that withdrew do not count");
    // A limit that needs longer is for the provider to report.
    queue.admit(1).await.report(Some(&requests(1, 0, 86_400)));
    assert_eq!(queue.outlook(1), outlook(0, 0));
}

/// A provider that admits six requests in each six seconds, counted in fixed windows, and reports other
/// limits that matter to none of them: one of them is smaller than a request, and resets at once.
struct Windows {
    window: Mutex<(Instant, u64)>,
    refused: AtomicUsize,
}

impl Windows {
    const LIMIT: u64 = 6;
    const LENGTH: Duration = Duration::from_secs(6);

    fn request(&self) -> (RateLimits, Option<Duration>) {
        let mut window = self.window.lock().unwrap();
        if window.0.elapsed() >= Self::LENGTH {
            *window = (Instant::now(), 0);
        }
        window.1 += 1;
        let (reset, sent) = (Self::LENGTH - window.0.elapsed(), window.1);
        let refused = (sent > Self::LIMIT).then_some(reset);
        self.refused.fetch_add(usize::from(refused.is_some()), Ordering::Relaxed);
        let limit = |limit, remaining, reset| Some(RateLimit { limit, remaining, reset });
        let limits = RateLimits {
            requests: limit(Self::LIMIT, Self::LIMIT.saturating_sub(sent), reset),
            tokens: limit(100_000, 90_000, Duration::from_mins(6)),
            project_tokens: limit(1_000, 10, Duration::from_millis(1)),
        };
        (limits, refused)
    }
}

#[tokio::test(start_paused = true)]
async fn the_outlook_of_fixed_windows_is_right() {
    const TOKENS: u64 = 3_000;
    let requests = Requests::default();
    let provider =
        Windows { window: Mutex::new((Instant::now(), 0)), refused: AtomicUsize::new(0) };
    let provider = Arc::new(provider);
    let mut threads = JoinSet::new();
    for number in 0..20_usize {
        let (requests, provider) = (requests.clone(), Arc::clone(&provider));
        threads.spawn(async move {
            let (arrival, started) = (requests.pacer.arrival(), Instant::now());
            let (mut foreseen, mut tries) = (None, 0);
            loop {
                let (events, mut announced) = mpsc::channel::<Vec<Event>>(9);
                let joined = Instant::now();
                let announces = async {
                    while let Some(mut events) = announced.recv().await {
                        if let Some(Event::Queued { wait, .. }) = events.pop() {
                            return Some(started.elapsed() + wait);
                        }
                    }
                    None
                };
                let admitted = async {
                    let permit = requests.queue.admit_announced(TOKENS, &arrival, &events).await;
                    drop(events);
                    permit
                };
                let (mut permit, wait) = tokio::join!(admitted, announces);
                assert_eq!(wait.is_some(), joined.elapsed() > LONG, "long waits are announced");
                foreseen = foreseen.or(wait);
                tries += 1;
                let sent = started.elapsed();
                let (limits, refused) = provider.request();
                // tidy: sleep in virtual time
                time::sleep(Duration::from_millis(100)).await;
                permit.report(Some(&limits));
                let Some(wait) = refused else { return (number, tries, foreseen, sent) };
                permit.refused(refused);
                drop(permit);
                // tidy: sleep in virtual time
                time::sleep(wait + wait.mul_f64(0.05)).await;
            }
        });
        // tidy: sleep in virtual time
        time::sleep(Duration::from_millis(16)).await;
    }
    let mut sent = Vec::new();
    while let Some(done) = threads.join_next().await {
        sent.push(done.unwrap());
    }
    sent.sort_unstable_by_key(|(_, _, _, sent)| *sent);
    let refused = provider.refused.load(Ordering::Relaxed);
    assert!(refused <= 1, "{refused} refusals: {sent:?}");
    assert!(sent.iter().all(|(_, tries, ..)| *tries <= 2), "{sent:?}");
    let last = sent.last().unwrap().3;
    assert!(last <= Duration::from_secs(19), "{sent:?}");
    let foreseen: Vec<_> = sent
        .iter()
        .filter_map(|(number, _, foreseen, sent)| Some((number, (*foreseen)?, sent)))
        .collect();
    assert!(foreseen.len() >= 12, "{sent:?}");
    for (number, foreseen, sent) in foreseen {
        let ratio = foreseen.as_secs_f64() / sent.as_secs_f64();
        assert!((0.7..=1.3).contains(&ratio), "{number}: {foreseen:?} foreseen, sent at {sent:?}");
    }
    // In the order of arrival but for what comes again within the last moments of its wait.
    for (place, (number, ..)) in sent.iter().enumerate() {
        assert!(number.abs_diff(place) <= 6, "{sent:?}");
    }
}

#[test]
fn keys_and_models_have_queues_of_their_own() {
    let pacer = Pacer::default();
    let provider = |key: &str| Provider::built_in(Some(crate::Secret::new(key)), None);
    let queue = |key: &str, model: &str| pacer.queue(&provider(key), model);
    let one = queue("sk-one-key", "m");
    assert!(Arc::ptr_eq(&one, &queue("sk-one-key", "m")));
    assert!(!Arc::ptr_eq(&one, &queue("sk-one-key", "n")));
    assert!(!Arc::ptr_eq(&one, &queue("sk-two-key", "m")));
    for number in 0..2 * MAX_QUEUES {
        queue("sk-one-key", &number.to_string());
    }
    assert!(pacer.queues.lock().unwrap().len() <= MAX_QUEUES);
    assert!(Arc::ptr_eq(&one, &queue("sk-one-key", "m")), "a queue in use is kept");
}

/// Answers of requests that ran side by side can arrive in any order.
#[tokio::test(start_paused = true)]
async fn an_older_report_frees_nothing_that_newer_requests_have_used() {
    let queue = Requests::default();
    queue.admit(1).await.report(Some(&requests(3, 3, 60)));
    let started = Instant::now();
    let mut permits = Vec::new();
    for _ in 0..3 {
        permits.push(queue.admit(1).await);
    }
    for (left, permit) in permits.iter_mut().rev().enumerate() {
        permit.report(Some(&requests(3, left as u64, 60)));
    }
    assert_eq!(started.elapsed(), Duration::ZERO);
    queue.admit(1).await.report(None);
    assert_eq!(started.elapsed(), Duration::from_secs(60));
}

/// Whoever sent the request learns that it can still be changed, however short the wait is.
#[tokio::test(start_paused = true)]
async fn a_request_that_waits_is_reported_at_once_and_when_it_is_sent() {
    let requests_of = Requests::default();
    requests_of.admit(1).await.report(Some(&requests(1, 0, 2)));
    let arrival = requests_of.pacer.arrival();
    let (events, mut reported) = mpsc::channel::<Vec<Event>>(9);
    let waiting = requests_of.queue.admit_announced(1, &arrival, &events);
    let mut waiting = std::pin::pin!(waiting);
    assert!(time::timeout(Duration::from_millis(1), &mut waiting).await.is_err());
    assert!(matches!(reported.try_recv().unwrap()[..], [Event::Held]));
    waiting.await.report(None);
    assert!(matches!(reported.try_recv().unwrap()[..], [Event::Sent]));
    // One that goes out at once needs no word.
    let arrival = requests_of.pacer.arrival();
    time::advance(Duration::from_secs(60)).await;
    drop(requests_of.queue.admit_announced(1, &arrival, &events).await);
    assert!(reported.try_recv().is_err());
}
