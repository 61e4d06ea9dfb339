//! A store that has lost all of its data, or its last second: how much is admitted beyond a limit, and how soon a node
//! serves again.

use std::time::{Duration, Instant};

use ratelimit::{Bound, DAY, Decision, Draw, ErrorKind, Limit, MINUTE, Redis, RedisOptions};

use crate::shared::{admitted, node, rate, spend};
use crate::store::Store;

fn daily(amount: u64) -> Draw<'static> {
    rate("rpd", amount, 200, DAY)
}

/// Reserves and settles, with a request of its own; returns whether it was admitted. A machine that is busy may let a
/// call wait for too long: repeated, it is charged once.
async fn take(redis: &Redis, request: u128, draws: &[Draw<'_>]) -> Result<bool, ErrorKind> {
    let deadline = Instant::now() + Duration::from_secs(10);
    let decision = loop {
        match redis.reserve("org", request, draws).await.map_err(|error| error.kind()) {
            Err(ErrorKind::Unreachable) if Instant::now() < deadline => {
                tokio::time::sleep(Duration::from_millis(5)).await; // tidy: sleep another process answers
            }
            decision => break decision?,
        }
    };
    let amounts: Vec<_> = draws.iter().map(|draw| Some(draw.amount)).collect();
    let is_admitted = admitted(&decision);
    assert_eq!(redis.settle("org", request, &amounts), is_admitted);
    Ok(is_admitted)
}

async fn is_back(redis: &Redis) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !redis.is_available() {
        assert!(Instant::now() < deadline, "{:?}", redis.problem());
        tokio::time::sleep(Duration::from_millis(5)).await; // tidy: sleep another process starts
    }
}

/// Kills the store and starts it with what it has on its disk.
async fn restart(store: &mut Store, redis: &Redis) {
    store.kill();
    store.run(&[]);
    // The node notices when it asks.
    while redis.look("org", &[]).await.is_err() {
        tokio::time::sleep(Duration::from_millis(5)).await; // tidy: sleep another process starts
    }
    is_back(redis).await;
}

#[tokio::test]
async fn long_rates_are_seeded_after_a_loss_and_short_ones_refill() {
    let mut store = Store::start();
    let redis = node(&store, 1).await;
    let draws = [daily(1), rate("rpm", 1, 60, MINUTE), spend(10, 1000, 1)];
    assert_eq!(take(&redis, 1, &draws).await, Ok(true));
    restart(&mut store, &redis).await;
    // The meters are lost. Until all of them are seeded, nothing is decided.
    assert_eq!(take(&redis, 2, &draws).await, Err(ErrorKind::Unseeded));
    redis.seed("org", "usd", draws[2].bound, 10).await.unwrap();
    assert_eq!(take(&redis, 3, &draws).await, Err(ErrorKind::Unseeded));
    redis.seed("org", "rpd", draws[0].bound, 1).await.unwrap();
    let states = redis.look("org", &draws).await.unwrap();
    assert_eq!((states[0].used, states[2].used), (1, 10));
    // The minute is used up, less what has refilled, and so no client gets a second burst.
    assert!(states[1].used >= 50, "{states:?}");
    let refused = redis.reserve("org", 4, &[rate("rpm", 50, 60, MINUTE)]).await.unwrap();
    let Decision::Refused { remedy: ratelimit::Remedy::Wait(wait), .. } = refused else {
        panic!("{refused:?}")
    };
    assert!(wait <= MINUTE, "{wait}");
    assert_eq!(take(&redis, 5, &[daily(199), spend(990, 1000, 1)]).await, Ok(true));
    assert_eq!(take(&redis, 6, &[daily(1)]).await, Ok(false));
    // An organization that is new starts with all of its day.
    let new = redis.reserve("new", 7, &[daily(200)]).await.unwrap_err();
    assert_eq!(new.kind(), ErrorKind::Unseeded);
    redis.seed("new", "rpd", daily(0).bound, 0).await.unwrap();
    assert!(admitted(&redis.reserve("new", 8, &[daily(200)]).await.unwrap()));
}

/// The store comes back with an older dump. `written`: what the ledger has of the 150 used then, of which the dump has
/// 100. Beyond the limit is admitted at most what neither has.
#[tokio::test]
async fn a_store_that_has_lost_its_last_second_admits_only_what_the_ledger_lacks() {
    for written in [0, 90, 100, 120, 150] {
        let mut store = Store::start();
        let redis = node(&store, 1).await;
        let (daily, money) = (|amount| [daily(amount)], |amount| [spend(amount, 200, 1)]);
        let mut connection = redis::Client::open(store.url()).unwrap().get_connection().unwrap();
        for (request, amount) in [(1, 100), (2, 50)] {
            assert_eq!(take(&redis, request, &daily(amount)).await, Ok(true));
            assert_eq!(take(&redis, 10 + request, &money(amount)).await, Ok(true));
            if request == 1 {
                redis::cmd("SAVE").exec(&mut connection).unwrap();
            }
        }
        restart(&mut store, &redis).await;
        assert_eq!(take(&redis, 20, &daily(1)).await, Err(ErrorKind::Unseeded));
        assert_eq!(take(&redis, 21, &money(1)).await, Err(ErrorKind::Unseeded));
        redis.seed("org", "rpd", daily(0)[0].bound, written).await.unwrap();
        redis.seed("org", "usd", money(0)[0].bound, written).await.unwrap();
        for (meter, from) in [("rpd", 100), ("usd", 1000)] {
            let mut sum = 150;
            for request in from..from + 200 {
                let draw = if meter == "rpd" { daily(1) } else { money(1) };
                sum += u64::from(take(&redis, request, &draw).await == Ok(true));
            }
            let known = written.max(100);
            assert_eq!(sum, 200 + 150 - known, "{meter}, {written} written");
        }
    }
}

/// A store that is said to be durable, and is not: it goes on with its older data, and admits again at most what it has
/// lost.
#[tokio::test]
async fn a_store_that_is_said_to_be_durable_admits_its_last_second_again() {
    let mut store = Store::start();
    let (url, lease) = (store.url(), Duration::from_secs(1));
    let options = RedisOptions { url, lease, node: 1, first_start: true, durable: true };
    let redis = Redis::connect(options).await.unwrap();
    let mut connection = redis::Client::open(store.url()).unwrap().get_connection().unwrap();
    let bound = Bound::Rate { limit: Limit { amount: 200, window: DAY }, counts_refusals: false };
    let draws = |amount| [Draw { meter: "rpd", bound, amount, set: 0 }, spend(amount, 200, 1)];
    assert_eq!(take(&redis, 1, &draws(100)).await, Ok(true));
    redis::cmd("SAVE").exec(&mut connection).unwrap();
    let lost = 50;
    assert_eq!(take(&redis, 2, &draws(lost)).await, Ok(true));
    restart(&mut store, &redis).await;
    let mut sum = 100 + lost;
    for request in 100..350 {
        sum += u64::from(take(&redis, request, &draws(1)).await == Ok(true));
    }
    assert_eq!(sum, 200 + lost);
}
