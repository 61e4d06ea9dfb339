//! The bucket against its reference model: the list of all draws.

use proptest::prelude::*;

use super::*;
use crate::{DAY, MINUTE};

const MINUTE_OF_60: Limit = Limit { amount: 60, window: MINUTE };
const SECOND: Micros = 1_000_000;

fn at(limit: Limit, bucket: &mut Bucket, seconds: u64) -> u64 {
    bucket.advance(limit, seconds * SECOND);
    bucket.used(limit)
}

#[test]
fn it_refills_continuously() {
    let (limit, mut bucket) = (MINUTE_OF_60, Bucket::default());
    bucket.advance(limit, SECOND);
    assert!(bucket.fits(limit, 60) && !bucket.fits(limit, 61));
    bucket.take(limit, 60);
    assert_eq!((bucket.remaining(limit), bucket.wait(limit, 1)), (0, Some(SECOND)));
    assert_eq!(bucket.until_full(limit), Some(60 * SECOND));
    assert_eq!(at(limit, &mut bucket, 11), 50);
    assert_eq!(bucket.wait(limit, 11), Some(SECOND));
    assert_eq!(bucket.wait(limit, 61), None, "never");
    // A clock that goes backwards has no effect.
    bucket.advance(limit, 0);
    assert_eq!(bucket.used(limit), 50);
    bucket.advance(limit, u64::MAX);
    assert_eq!((bucket.used(limit), bucket.fits(limit, 61)), (0, false));
}

#[test]
fn changing_the_limit_keeps_what_is_used() {
    let (less, more) = (MINUTE_OF_60, Limit { amount: 600, window: MINUTE });
    let mut bucket = Bucket::default();
    bucket.take(more, 100);
    assert_eq!((bucket.used(less), bucket.remaining(less)), (100, 0));
    assert_eq!(bucket.remaining(more), 500);
    assert_eq!(bucket.wait(less, 1), Some(41 * SECOND));
}

#[test]
fn refusals_count_and_saturate() {
    let (limit, mut bucket) = (MINUTE_OF_60, Bucket::default());
    bucket.take(limit, 58);
    for _ in 0..100 {
        bucket.count_refusal(limit);
    }
    assert_eq!((bucket.used(limit), bucket.wait(limit, 1)), (60, Some(SECOND)));
}

#[test]
fn every_caller_that_waits_as_promised_is_served() {
    let (limit, mut bucket) = (MINUTE_OF_60, Bucket::default());
    bucket.take(limit, 60);
    let mut promised = Vec::new();
    for client in 0..30 {
        bucket.count_refusal(limit);
        promised.push(bucket.promise(limit, 1, client).unwrap());
    }
    assert_eq!(promised[..3], [SECOND, 2 * SECOND, 3 * SECOND]);
    for due in promised {
        bucket.advance(limit, due);
        assert!(bucket.fits(limit, 1), "after {due}");
        bucket.take(limit, 1);
    }
    // No promised wait is longer than a window.
    for client in 0..1000 {
        assert!(bucket.promise(limit, 1, client).unwrap() <= MINUTE);
    }
}

/// Clients that are refused one after another within a burst do not use up what is refilled in
/// between.
#[test]
fn callers_refused_in_a_burst_are_served_by_their_deadline() {
    let (limit, mut bucket) = (MINUTE_OF_60, Bucket::default());
    bucket.take(limit, 60);
    let mut due = Vec::new();
    for number in 0..40 {
        let now = number * 10_000;
        bucket.advance(limit, now);
        bucket.count_refusal(limit);
        due.push(now + bucket.promise(limit, 1, number).unwrap());
    }
    assert_eq!(due[..3], [SECOND, 2 * SECOND, 3 * SECOND]);
    for due in due {
        bucket.advance(limit, due);
        assert!(bucket.fits(limit, 1), "at {due}");
        bucket.take(limit, 1);
    }
}

/// A client that retries without waiting gets its whole limit, and is never sent a longer wait than before.
#[test]
fn a_client_that_asks_too_often_gets_the_limit_and_no_longer_waits() {
    for (limit, every) in [
        (MINUTE_OF_60, SECOND / 2),
        (MINUTE_OF_60, SECOND / 10),
        (Limit { amount: 3, window: MINUTE }, 7 * SECOND),
        (Limit { amount: 7, window: DAY }, MINUTE),
    ] {
        let mut bucket = Bucket::default();
        bucket.take(limit, limit.amount);
        let (mut admitted, mut now, mut deadline) = (0, 0, Micros::MAX);
        while now < 5 * limit.window {
            now += every;
            bucket.advance(limit, now);
            if bucket.fits(limit, 1) {
                bucket.take(limit, 1);
                (admitted, deadline) = (admitted + 1, Micros::MAX);
                continue;
            }
            bucket.count_refusal(limit);
            let due = now + bucket.promise(limit, 1, 1).unwrap();
            assert!(due <= deadline, "{limit:?} every {every}: {due} after {deadline}");
            deadline = due;
        }
        let most = 5 * limit.amount;
        assert!((most * 8 / 10..=most).contains(&admitted), "{limit:?} every {every}: {admitted}");
    }
}

/// Refusals of others do not take what a client waits for.
#[test]
fn a_promise_holds_however_many_others_are_refused() {
    let (limit, mut bucket) = (MINUTE_OF_60, Bucket::default());
    bucket.take(limit, 60);
    let due: Vec<_> = (0..20).map(|client| bucket.promise(limit, 1, client).unwrap()).collect();
    let mut served = 0;
    for step in 1..=2000 {
        let now = step * SECOND / 100;
        bucket.advance(limit, now);
        match due.get(served) {
            Some(due) if now >= *due => {
                assert!(bucket.fits(limit, 1), "at {now}");
                bucket.take(limit, 1);
                served += 1;
            }
            _ => {
                bucket.count_refusal(limit);
                let _ = bucket.promise(limit, 1, 1000 + step);
            }
        }
    }
    assert_eq!(served, 20);
}

#[test]
fn a_refund_returns_at_most_the_remaining_use() {
    let (limit, mut bucket) = (MINUTE_OF_60, Bucket::default());
    bucket.advance(limit, SECOND);
    bucket.take(limit, 60);
    bucket.refund(limit, 50, SECOND);
    assert_eq!(bucket.used(limit), 10, "at once: all of it");
    // The opposite: the bucket would have been empty long ago.
    let mut bucket = Bucket::default();
    bucket.take(limit, 60);
    assert_eq!(at(limit, &mut bucket, 60), 0);
    bucket.take(limit, 60);
    bucket.refund(limit, 50, 0);
    assert_eq!(bucket.used(limit), 60, "or 110 would be admitted in an instant");
}

/// A hundred requests are open at a time in a bucket that is never empty: nearly all of their
/// unused amounts are refunded, although only eight minima are recorded.
#[test]
fn refunds_survive_many_open_requests() {
    let (limit, mut bucket) = (Limit { amount: 10_000, window: MINUTE }, Bucket::default());
    for number in 0..100u64 {
        bucket.advance(limit, number * 1000);
        bucket.take(limit, 50);
    }
    for number in 0..100u64 {
        bucket.advance(limit, (100 + number) * 1000);
        bucket.refund(limit, 40, number * 1000);
    }
    let used = bucket.used(limit);
    assert!((960..1700).contains(&used), "{used}");
}

#[test]
fn no_limit_is_too_large() {
    let limit = Limit { amount: u64::MAX, window: DAY };
    let mut bucket = Bucket::default();
    bucket.take(limit, u64::MAX);
    assert!(!bucket.fits(limit, 1));
    bucket.owe(limit, u64::MAX);
    assert_eq!(bucket.used(limit), u64::MAX);
    let hardly = Limit { amount: 1, window: DAY };
    bucket.advance(hardly, 5);
    assert_eq!(bucket.promise(hardly, 1, 1), Some(u64::MAX - 5), "and no time too long");
    let none = Limit { amount: 0, window: MINUTE };
    let mut bucket = Bucket::default();
    assert!(!bucket.fits(none, 1) && bucket.fits(none, 0));
    bucket.count_refusal(none);
    assert_eq!((bucket.wait(none, 1), bucket.promise(none, 1, 1)), (None, None));
}

/// An operation on a bucket: time passes, a request draws, or a request settles.
#[derive(Clone, Debug)]
enum Operation {
    Pass(u64),
    Reserve(u64),
    Settle { which: usize, actual: u64 },
}

fn operations(most: usize) -> impl Strategy<Value = Vec<Operation>> {
    let one = prop_oneof![
        (0..30 * SECOND).prop_map(Operation::Pass),
        (0..80u64).prop_map(Operation::Reserve),
        (any::<usize>(), 0..100u64).prop_map(|(which, actual)| Operation::Settle { which, actual }),
    ];
    prop::collection::vec(one, 1..most)
}

/// A draw: its time, the amount that counts, and later additions with their times.
struct Taken {
    at: Micros,
    amount: u64,
    settled: bool,
}

/// The level of a bucket after exactly these draws.
fn level_of(limit: Limit, taken: &[(Micros, u64)], now: Micros) -> u128 {
    let mut taken = taken.to_vec();
    taken.sort_unstable();
    let (mut level, mut at) = (0u128, 0);
    for (when, amount) in taken.into_iter().chain([(now, 0)]) {
        level = level.saturating_sub(u128::from(when - at) * u128::from(limit.amount));
        level += scaled(limit, amount);
        at = when;
    }
    level
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Settling is equivalent to drawing the actual amount in the first place, or more, never less;
    /// with a short history it is exact. So no interval admits too much.
    #[test]
    fn settling_equals_reserving_the_actual_use(all in operations(60)) {
        let (limit, mut bucket, mut now) = (MINUTE_OF_60, Bucket::default(), 0);
        let mut taken: Vec<Taken> = Vec::new();
        let mut debts: Vec<(Micros, u64)> = Vec::new();
        let mut moments = 0;
        for operation in &all {
            match operation {
                Operation::Pass(time) => now += time,
                Operation::Reserve(amount) => {
                    bucket.advance(limit, now);
                    if bucket.fits(limit, *amount) {
                        bucket.take(limit, *amount);
                        taken.push(Taken { at: now, amount: *amount, settled: false });
                        moments += 1;
                    }
                }
                Operation::Settle { which, actual } => {
                    if taken.is_empty() {
                        continue;
                    }
                    let which = which % taken.len();
                    let one = &mut taken[which];
                    if std::mem::replace(&mut one.settled, true) {
                        continue;
                    }
                    bucket.advance(limit, now);
                    if *actual <= one.amount {
                        bucket.refund(limit, one.amount - actual, one.at);
                        one.amount = *actual;
                    } else {
                        bucket.owe(limit, actual - one.amount);
                        debts.push((now, actual - one.amount));
                        moments += 1;
                    }
                }
            }
            bucket.advance(limit, now);
            let mut all: Vec<(Micros, u64)> = taken.iter().map(|one| (one.at, one.amount)).collect();
            all.extend(&debts);
            let right = level_of(limit, &all, now);
            prop_assert!(bucket.level >= right, "{} < {right}", bucket.level);
            if moments <= MAX_MINIMA {
                prop_assert_eq!(bucket.level, right);
            }
        }
        // Check the bound itself, over every interval between two reservations.
        for (first, from) in taken.iter().enumerate() {
            let mut sum = 0u128;
            for to in &taken[first..] {
                sum += u128::from(to.amount.min(60));
                let span = u128::from(to.at - from.at);
                prop_assert!(sum <= 60 + span * 60 / u128::from(MINUTE));
            }
        }
    }

    /// A single request that waits as promised fits, and not a microsecond earlier.
    #[test]
    fn the_returned_wait_suffices_and_is_minimal(
        amount in 1..1_000_000u64, used in 0..2_000_000u64, wanted in 1..1_000_000u64,
        window in prop_oneof![Just(MINUTE), Just(DAY)], late in 0..MINUTE,
    ) {
        let limit = Limit { amount, window };
        let mut bucket = Bucket::default();
        bucket.owe(limit, used);
        bucket.advance(limit, late);
        let Some(wait) = bucket.wait(limit, wanted) else {
            prop_assert!(wanted > amount);
            return Ok(());
        };
        let mut early = bucket.clone();
        bucket.advance(limit, late + wait);
        prop_assert!(bucket.fits(limit, wanted));
        if wait > 0 {
            early.advance(limit, late + wait - 1);
            prop_assert!(!early.fits(limit, wanted));
        }
    }
}
