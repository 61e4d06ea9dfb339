//! Many requests against a provider with an exact limit, in virtual time.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::task::JoinSet;

use super::*;

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
    queue: Arc<Queue>,
    provider: Arc<Limited>,
    latency: Duration,
    end: Instant,
) -> usize {
    let mut turns = 0;
    while Instant::now() < end {
        let mut permit = queue.admit(100).await;
        // tidy: sleep in virtual time
        time::sleep(latency).await;
        let (is_admitted, limits, wait) = provider.request();
        // tidy: sleep in virtual time
        time::sleep(latency).await;
        permit.report(Some(&limits), wait);
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
    let (provider, queue) = (Arc::new(Limited::new(20.0)), Arc::new(Queue::default()));
    let end = Instant::now() + Duration::from_mins(11);
    let mut threads = JoinSet::new();
    for number in 0..50 {
        let latency = Duration::from_millis(20 + number * 7 % 300);
        threads.spawn(thread(Arc::clone(&queue), Arc::clone(&provider), latency, end));
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
    let queue = Arc::new(Queue::default());
    let started = Instant::now();
    for _ in 0..1_000 {
        queue.admit(1_000_000).await.report(None, None);
    }
    assert_eq!(started.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_withdrawn_request_gives_its_place_to_the_next() {
    let queue = Arc::new(Queue::default());
    let limit = RateLimit { limit: 20, remaining: 1, reset: Duration::from_secs(57) };
    let limits = RateLimits { requests: Some(limit), ..RateLimits::default() };
    queue.admit(1).await.report(Some(&limits), None);
    let started = Instant::now();
    let first = queue.admit(1).await;
    let second = {
        let queue = Arc::clone(&queue);
        tokio::spawn(async move {
            let mut permit = queue.admit(1).await;
            permit.report(None, None);
            started.elapsed()
        })
    };
    tokio::task::yield_now().await;
    assert_eq!(queue.outlook(1), Outlook { wait: Duration::from_secs(6), ahead: 1 });
    drop(first);
    assert_eq!(second.await.unwrap(), Duration::ZERO);
    // A request that is dropped while it waits in the queue delays no other.
    let waiting = tokio::spawn({
        let queue = Arc::clone(&queue);
        async move { queue.admit(1).await.report(None, None) }
    });
    tokio::task::yield_now().await;
    waiting.abort();
    let _ = waiting.await;
    queue.admit(1).await.report(None, None);
    assert_eq!(started.elapsed(), Duration::from_secs(3));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_holds_the_others_back_as_long_as_it_asks() {
    let queue = Arc::new(Queue::default());
    queue.admit(1).await.report(None, Some(Duration::from_secs(7)));
    let started = Instant::now();
    queue.admit(1).await.report(None, Some(Duration::from_mins(11)));
    assert_eq!(started.elapsed(), Duration::from_secs(7));
    // A wait that long is the user's to learn of, from the provider's answer.
    queue.admit(1).await.report(None, None);
    assert_eq!(started.elapsed(), Duration::from_secs(7));
}

#[tokio::test(start_paused = true)]
async fn the_outlook_counts_those_ahead() {
    let queue = Arc::new(Queue::default());
    let outlook = |seconds, ahead| Outlook { wait: Duration::from_secs(seconds), ahead };
    assert_eq!(queue.outlook(1_000_000), outlook(0, 0));
    let limit = RateLimit { limit: 20, remaining: 0, reset: Duration::from_secs(60) };
    let limits = RateLimits { requests: Some(limit), ..RateLimits::default() };
    queue.admit(1).await.report(Some(&limits), None);
    let mut waiting = JoinSet::new();
    for ahead in 0..50 {
        assert_eq!(queue.outlook(1), outlook(3 * (ahead as u64 + 1), ahead));
        let queue = Arc::clone(&queue);
        waiting.spawn(async move { queue.admit(1).await.report(None, None) });
        tokio::task::yield_now().await;
    }
    drop(waiting);
    tokio::task::yield_now().await;
    assert_eq!(queue.outlook(1), outlook(3, 0), "those that withdrew do not count");
    // A limit that needs longer is for the provider to report.
    let limit = RateLimit { reset: Duration::from_secs(86_400), ..limit };
    let limits = RateLimits { requests: Some(RateLimit { limit: 1, ..limit }), ..limits };
    queue.admit(1).await.report(Some(&limits), None);
    assert_eq!(queue.outlook(1), outlook(0, 0));
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
