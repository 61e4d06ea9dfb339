//! Spend that nodes share over a real store: what is settled and what is only reserved, and data of earlier versions.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use ratelimit::{Bound, Decision, ErrorKind, MINUTE, Redis, Remedy};

use crate::shared::{admitted, node, rate, spend, until};
use crate::store::Store;

async fn reserve(redis: &Redis, request: u128, amount: u64) -> Decision {
    redis.reserve("org", request, &[spend(amount, 1000, 1)]).await.unwrap()
}

fn remedy(decision: &Decision) -> Option<Remedy> {
    match decision {
        Decision::Admitted(_) => None,
        Decision::Refused { remedy, .. } => Some(*remedy),
    }
}

/// Asks until the store has received what the nodes report, with a new request each time.
async fn comes_to(redis: &Redis, amount: u64, expected: Option<Remedy>) {
    let deadline = Instant::now() + Duration::from_secs(10);
    for request in 1_000_000.. {
        let decision = reserve(redis, request, amount).await;
        if remedy(&decision) == expected {
            return;
        }
        assert!(!admitted(&decision) && Instant::now() < deadline, "{amount}: {decision:?}");
        tokio::time::sleep(Duration::from_millis(5)).await; // tidy: sleep until another process has reported
    }
}

#[tokio::test]
async fn a_node_tells_money_that_another_has_reserved_from_money_that_is_gone() {
    let store = Store::start();
    let (one, other) = (node(&store, 1).await, node(&store, 2).await);
    assert!(admitted(&reserve(&one, 1, 600).await));
    assert_eq!(remedy(&reserve(&other, 2, 401).await), Some(Remedy::Reserved));
    assert_eq!(remedy(&reserve(&other, 3, 1001).await), Some(Remedy::NothingSoon));
    // It costs what was reserved: nothing is refunded, but it is no longer reserved.
    assert!(one.settle("org", 1, &[Some(600)]));
    comes_to(&other, 401, Some(Remedy::NothingSoon)).await;
    // A draw without a number stays as reserved.
    assert!(admitted(&reserve(&one, 4, 300).await));
    assert_eq!(remedy(&reserve(&other, 5, 101).await), Some(Remedy::Reserved));
    assert!(one.settle("org", 4, &[None]));
    comes_to(&other, 101, Some(Remedy::NothingSoon)).await;
    assert!(admitted(&reserve(&other, 6, 100).await));
}

/// The clock of one node is set, by a year: the other nodes' month is seeded again, and nobody is stuck in the wrong one.
#[tokio::test]
async fn a_month_that_does_not_follow_is_seeded_again_by_each_node() {
    let store = Store::start();
    let (one, other) = (node(&store, 1).await, node(&store, 2).await);
    let ask = async |redis: &Redis, request, amount, month| {
        redis.reserve("org", request, &[spend(amount, 1000, month)]).await
    };
    let seed = async |redis: &Redis, month, spent| {
        let bound = Bound::Spend { most: Some(1000), month };
        redis.seed("org", "usd", bound, spent).await.unwrap();
    };
    assert!(admitted(&ask(&one, 1, 900, 100).await.unwrap()));
    for (request, (month, spent)) in (2..).zip([(112, 50), (100, 900), (88, 0), (100, 900)]) {
        let node = if month == 100 { &other } else { &one };
        let error = ask(node, 10 * request, 1, month).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unseeded, "{month}");
        seed(node, month, spent).await;
        assert!(!admitted(&ask(node, 10 * request + 1, 1001 - spent, month).await.unwrap()));
        assert!(admitted(&ask(node, 10 * request + 2, 1, month).await.unwrap()), "{month}");
    }
    // The month after it begins without a seed, and a late request of the one before counts in it.
    assert!(admitted(&ask(&other, 100, 1000, 101).await.unwrap()));
    assert!(!admitted(&ask(&other, 101, 1, 100).await.unwrap()));
}

#[tokio::test]
async fn a_reservation_that_shrinks_has_room_for_another_node() {
    let store = Store::start();
    let (one, other) = (node(&store, 1).await, node(&store, 2).await);
    let draws = [rate("tpm", 50, 100, MINUTE), spend(800, 1000, 1)];
    assert!(admitted(&one.reserve("org", 1, &draws).await.unwrap()));
    assert_eq!(remedy(&reserve(&other, 2, 700).await), Some(Remedy::Reserved));
    assert!(one.shrink("org", 1, &[None, Some(300)]));
    until(&other, &draws[1..], &[300]).await;
    assert!(admitted(&reserve(&other, 3, 700).await));
    // What is settled replaces what is left of the reservation.
    assert!(one.settle("org", 1, &[Some(50), Some(200)]));
    assert!(!one.shrink("org", 1, &[None, Some(0)]));
    until(&other, &draws[1..], &[900]).await;
    assert_eq!(remedy(&reserve(&one, 4, 101).await), Some(Remedy::Reserved));
}

/// Meters as earlier versions wrote them: without the clients that wait, and without the nodes' reservations.
#[tokio::test]
async fn spend_of_earlier_versions_goes_on_and_counts_as_settled() {
    for tail in ["", ", 0"] {
        let store = Store::start();
        let mut connection = redis::Client::open(store.url()).unwrap().get_connection().unwrap();
        let write = format!(
            "local now = redis.call('TIME')[1] * 1000000 \
             redis.call('HSET', 'limits:{{org}}:money', 'usd', \
             cmsgpack.pack({{ 1, 600, 0, now, 1000, 1, 0, -1, 0, 0, 0{tail} }}))"
        );
        // The library first: an earlier version had been there.
        let redis = node(&store, 1).await;
        redis::cmd("EVAL").arg(write).arg(0).exec(&mut connection).unwrap();
        assert_eq!(remedy(&reserve(&redis, 1, 401).await), Some(Remedy::NothingSoon), "{tail}");
        assert!(admitted(&reserve(&redis, 2, 400).await), "{tail}");
        assert_eq!(remedy(&reserve(&redis, 3, 400).await), Some(Remedy::Reserved), "{tail}");
    }
}

#[derive(Clone, Debug)]
enum Step {
    Reserve(usize, u64),
    Settle(usize, Option<u64>),
    Shrink(usize, u64),
    Pause,
}

fn steps(largest: u64) -> impl Strategy<Value = Vec<Step>> {
    let one = prop_oneof![
        8 => (0..2usize, 0..largest).prop_map(|(node, amount)| Step::Reserve(node, amount)),
        5 => (any::<usize>(), prop::option::of(0..largest)).prop_map(|(n, to)| Step::Settle(n, to)),
        2 => (any::<usize>(), 0..largest).prop_map(|(n, to)| Step::Shrink(n, to)),
        1 => Just(Step::Pause),
    ];
    prop::collection::vec(one, 1..60)
}

/// Two nodes, with or without leases, whose reports are under way: never is more admitted than the limit, never is
/// money called gone that is only reserved, and at the end every unit is accounted for.
#[test]
fn two_nodes_never_call_reserved_money_gone() {
    const MOST: u64 = 1000;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let store = Store::start();
    let nodes = runtime.block_on(async { [node(&store, 1).await, node(&store, 2).await] });
    let number = std::cell::Cell::new(0u128);
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(40));
    let sizes = prop_oneof![Just(12u64), Just(400)];
    let check = |steps: Vec<Step>| {
        runtime.block_on(async {
            let next = || number.replace(number.get() + 1);
            let organization = format!("org-{}", next());
            let (mut settled, mut open) = (0, HashMap::<u128, (usize, u64)>::new());
            let pick = |open: &HashMap<u128, (usize, u64)>, which: usize| {
                let mut ids: Vec<u128> = open.keys().copied().collect();
                ids.sort_unstable();
                (!ids.is_empty()).then(|| ids[which % ids.len()])
            };
            for step in steps {
                match step {
                    Step::Reserve(at, amount) => {
                        let (request, draws) = (next(), [spend(amount, MOST, 1)]);
                        let decision = nodes[at].reserve(&organization, request, &draws).await;
                        let reserved: u64 = open.values().map(|(_, amount)| amount).sum();
                        match remedy(&decision.unwrap()) {
                            None => {
                                prop_assert!(amount == 0 || settled + reserved + amount <= MOST);
                                open.insert(request, (at, amount));
                            }
                            Some(Remedy::Reserved) => {}
                            Some(other) => {
                                prop_assert_eq!(other, Remedy::NothingSoon);
                                prop_assert!(settled + amount > MOST, "{} of {}", amount, settled);
                            }
                        }
                    }
                    Step::Settle(which, actual) => {
                        let Some(request) = pick(&open, which) else { continue };
                        let (at, amount) = open.remove(&request).unwrap();
                        // Use beyond a reservation is known to others only when it is reported.
                        let actual = actual.map(|actual| actual.min(amount));
                        settled += actual.unwrap_or(amount);
                        prop_assert!(nodes[at].settle(&organization, request, &[actual]));
                    }
                    Step::Shrink(which, to) => {
                        let Some(request) = pick(&open, which) else { continue };
                        let (at, amount) = open.get_mut(&request).unwrap();
                        *amount = to.min(*amount);
                        prop_assert!(nodes[*at].shrink(&organization, request, &[Some(to)]));
                    }
                    Step::Pause => tokio::time::sleep(Duration::from_millis(25)).await, // tidy: sleep two reports
                }
            }
            for (request, (at, amount)) in open {
                settled += amount;
                nodes[at].settle(&organization, request, &[None]);
            }
            // Nothing is open, so that the refusal of one unit more than there is says so.
            let probe = [spend(MOST - settled.min(MOST) + 1, MOST, 1)];
            let deadline = Instant::now() + Duration::from_secs(10);
            loop {
                let decision = nodes[0].reserve(&organization, next(), &probe).await.unwrap();
                let state = nodes[0].look(&organization, &probe).await.unwrap()[0];
                prop_assert!(!admitted(&decision));
                if state.used == settled && remedy(&decision) == Some(Remedy::NothingSoon) {
                    return Ok(());
                }
                prop_assert!(Instant::now() < deadline, "{decision:?} of {settled}");
                tokio::time::sleep(Duration::from_millis(5)).await; // tidy: sleep until another process has reported
            }
        })
    };
    runner.run(&sizes.prop_flat_map(steps), check).unwrap();
}
