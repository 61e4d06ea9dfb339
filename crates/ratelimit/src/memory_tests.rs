//! Decisions over several meters: all or nothing, settled once, exact with concurrent threads.

use std::sync::atomic::AtomicU64;

use proptest::prelude::*;

use super::*;
use crate::{ABANDONED_AFTER, DAY, ErrorKind, Limit, MINUTE, Remedy};

const SECOND: u64 = 1_000_000;

fn rate(meter: &str, amount: u64, limit: u64) -> Draw<'_> {
    let limit = Limit { amount: limit, window: MINUTE };
    Draw { meter, bound: Bound::Rate { limit, counts_refusals: false }, amount, set: 0 }
}

fn requests(meter: &str, limit: u64) -> Draw<'_> {
    let limit = Limit { amount: limit, window: MINUTE };
    Draw { meter, bound: Bound::Rate { limit, counts_refusals: true }, amount: 1, set: 0 }
}

fn spend(amount: u64, most: u64, month: u32) -> Draw<'static> {
    Draw { meter: "usd", bound: Bound::Spend { most: Some(most), month }, amount, set: 0 }
}

fn reserve(
    memory: &Memory,
    organization: &str,
    request: u128,
    draws: &[Draw<'_>],
    now: u64,
) -> Decision {
    memory.reserve(organization, request, draws, now).unwrap()
}

fn used(memory: &Memory, draws: &[Draw<'_>], now: u64) -> Vec<u64> {
    memory.look("org", draws, now).iter().map(|state| state.used).collect()
}

#[test]
fn reservations_are_atomic_and_refusals_count() {
    let memory = Memory::default();
    let draws = [requests("rpm", 10), rate("tpm", 60, 100), rate("tpd", 60, 1000)];
    assert!(matches!(reserve(&memory, "org", 1, &draws, 0), Decision::Admitted(_)));
    let Decision::Refused { which, remedy, states } = reserve(&memory, "org", 2, &draws, 0) else {
        panic!("120 tokens fit into 100")
    };
    assert_eq!((which, remedy), (1, Remedy::Wait(12 * SECOND)));
    let shown: Vec<u64> = states.iter().map(|state| state.used).collect();
    assert_eq!(shown, [2, 60, 60], "only the requests count what was refused");
    assert_eq!(used(&memory, &draws, 0), shown);
    // Another organization has meters of its own.
    assert!(matches!(reserve(&memory, "other", 3, &draws, 0), Decision::Admitted(_)));
    assert!(matches!(reserve(&memory, "org", 4, &draws, 12 * SECOND), Decision::Admitted(_)));
}

#[test]
fn the_longest_wait_is_returned() {
    let memory = Memory::default();
    let draws = [requests("rpm", 1), rate("tpm", 100, 100)];
    reserve(&memory, "org", 1, &draws, 0);
    let refused = reserve(&memory, "org", 2, &draws, 30 * SECOND);
    // For both, half a minute is left. The refusal does not make it longer.
    let Decision::Refused { which, remedy, .. } = refused else { panic!("{refused:?}") };
    assert_eq!((which, remedy), (0, Remedy::Wait(30 * SECOND)));
    let large = [requests("rpm", 1), rate("tpm", 101, 100)];
    let refused = reserve(&memory, "org", 3, &large, 60 * SECOND);
    let Decision::Refused { which, remedy, .. } = refused else { panic!("{refused:?}") };
    assert_eq!((which, remedy), (1, Remedy::AskForLess));
}

#[test]
fn settling_is_idempotent() {
    let memory = Memory::default();
    let draws = [requests("rpm", 10), rate("tpm", 80, 100), spend(500, 1000, 1)];
    reserve(&memory, "org", 1, &draws, 0);
    assert_eq!(memory.open_requests(), 1);
    // Repeated, as after a lost response: nothing is taken twice.
    assert!(matches!(reserve(&memory, "org", 1, &draws, 0), Decision::Admitted(_)));
    assert_eq!(used(&memory, &draws, 0), [1, 80, 500]);
    assert!(memory.settle("org", 1, &[None, Some(30), Some(200)], 0));
    for _ in 0..3 {
        assert!(!memory.settle("org", 1, &[None, Some(0), Some(0)], 0));
    }
    assert_eq!(used(&memory, &draws, 0), [1, 30, 200]);
    assert_eq!(memory.open_requests(), 0);
    // Usage above the reservation is debt.
    reserve(&memory, "org", 2, &[rate("tpm", 60, 100)], 0);
    memory.settle("org", 2, &[Some(90)], 0);
    assert_eq!(used(&memory, &draws[1..2], 0), [120]);
    let refused = reserve(&memory, "org", 3, &[rate("tpm", 1, 100)], 0);
    let Decision::Refused { remedy, .. } = refused else { panic!("{refused:?}") };
    assert_eq!(remedy, Remedy::Wait(21 * MINUTE / 100));
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
        in_set(0, rate("org tpm", 50, limit("org tpm") * 10)),
        twice(in_set(2, requests("project rpm", limit("project rpm")))),
        in_set(2, rate("project tpm", 50, limit("project tpm") * 10)),
        spend(50, limit("spend") * 10, 1),
    ]
}

#[test]
fn a_refusal_counts_only_where_a_limit_of_the_same_owner_refused() {
    for (exceeded, expected) in REFUSALS {
        let memory = Memory::default();
        let draws = of_both(exceeded);
        let refused = reserve(&memory, "org", 1, &draws, 0);
        assert!(matches!(refused, Decision::Refused { .. }), "{exceeded}: {refused:?}");
        let used = used(&memory, &draws, 0);
        assert_eq!([used[0], used[2]], expected, "{exceeded}");
        assert_eq!([used[1], used[3], used[4]], [0, 0, 0], "{exceeded}");
    }
}

#[test]
fn one_pool_has_one_bucket() {
    let memory = Memory::default();
    let twice = [rate("group", 60, 100), rate("group", 60, 100)];
    assert!(matches!(reserve(&memory, "org", 1, &twice, 0), Decision::Refused { .. }));
    let fits = [rate("group", 60, 100), rate("group", 40, 100)];
    assert!(matches!(reserve(&memory, "org", 1, &fits, 0), Decision::Admitted(_)));
    assert_eq!(used(&memory, &fits[..1], 0), [100]);
}

#[test]
fn spend_is_counted_per_month_and_never_exceeds_its_limit() {
    let memory = Memory::default();
    let admitted = |request, amount, month| {
        let decision = reserve(&memory, "org", request, &[spend(amount, 1000, month)], 0);
        matches!(decision, Decision::Admitted(_))
    };
    assert!(admitted(1, 600, 1) && admitted(2, 400, 1));
    let refused = reserve(&memory, "org", 3, &[spend(1, 1000, 1)], 0);
    assert!(matches!(refused, Decision::Refused { remedy: Remedy::Reserved, .. }));
    memory.settle("org", 1, &[Some(100)], 0);
    assert!(admitted(4, 500, 1) && !admitted(5, 1, 1));
    assert!(admitted(6, 1000, 2), "another month");
    // A late settlement belongs to the month that has ended.
    memory.settle("org", 2, &[Some(0)], 0);
    assert!(!admitted(7, 1, 2) && !admitted(8, 1, 1), "no clock brings money back");
}

/// Requests of 1000 of which 900 are open or settled, and a further one: what is open does not change what is admitted,
/// only the reason of a refusal.
#[test]
fn a_refusal_tells_reserved_money_from_money_that_is_gone() {
    let (settled, reserved) = (Remedy::NothingSoon, Remedy::Reserved);
    for (settles, more, expected) in [
        (&[][..], 100, None),
        (&[], 101, Some(reserved)),
        (&[], 1000, Some(reserved)),
        (&[], 1001, Some(settled)),
        (&[Some(600)], 101, Some(reserved)),
        (&[Some(600)], 400, Some(reserved)),
        (&[Some(600)], 401, Some(settled)),
        (&[None], 400, Some(reserved)),
        (&[None], 401, Some(settled)),
        (&[Some(0)], 700, None),
        (&[Some(0)], 701, Some(reserved)),
        (&[Some(700)], 300, Some(reserved)),
        (&[Some(700)], 301, Some(settled)),
        (&[Some(600), None], 100, None),
        (&[Some(600), None], 101, Some(settled)),
        (&[Some(5000), Some(0)], 0, Some(settled)),
    ] {
        let memory = Memory::default();
        for (request, amount) in [(0, 600), (1, 300)] {
            reserve(&memory, "org", request, &[spend(amount, 1000, 1)], 0);
        }
        for (request, actual) in settles.iter().enumerate() {
            assert!(memory.settle("org", request as u128, &[*actual], 0));
        }
        let what = format!("{settles:?} {more}");
        match (reserve(&memory, "org", 9, &[spend(more, 1000, 1)], 0), expected) {
            (Decision::Admitted(_), None) => {}
            (Decision::Refused { remedy, .. }, Some(expected)) => {
                assert_eq!(remedy, expected, "{what}");
            }
            (decision, _) => panic!("{what}: {decision:?}"),
        }
    }
}

#[test]
fn reservations_of_an_ended_month_or_of_lost_requests_are_not_open() {
    let memory = Memory::default();
    let remedy = |request, more, month, now| match reserve(
        &memory,
        "org",
        request,
        &[spend(more, 1000, month)],
        now,
    ) {
        Decision::Refused { remedy, .. } => remedy,
        Decision::Admitted(_) => panic!("{more} fit"),
    };
    reserve(&memory, "org", 1, &[spend(900, 1000, 1)], 0);
    reserve(&memory, "org", 2, &[spend(900, 1000, 2)], 0);
    memory.settle("org", 1, &[Some(10)], 0);
    assert_eq!(
        remedy(3, 101, 2, 0),
        Remedy::Reserved,
        "the old month's does not end the new one's"
    );
    // A day later, what is still open is closed as reserved.
    reserve(&memory, "org", 4, &[rate("tpm", 1, 100)], ABANDONED_AFTER);
    assert_eq!(remedy(5, 101, 2, ABANDONED_AFTER), Remedy::NothingSoon);
}

#[test]
fn a_reservation_shrinks_to_its_bound() {
    let memory = Memory::default();
    let draws = |amount| [rate("tpm", amount, 1000), spend(amount, 1000, 1)];
    reserve(&memory, "org", 1, &draws(800), 0);
    assert!(memory.shrink("org", 1, &[None, Some(300)], 0));
    assert_eq!(used(&memory, &draws(0), 0), [800, 300]);
    // No reservation grows, and one that is not open has no bound.
    assert!(memory.shrink("org", 1, &[Some(801), Some(301)], 0));
    assert!(!memory.shrink("org", 2, &[Some(0), Some(0)], 0));
    assert_eq!(used(&memory, &draws(0), 0), [800, 300]);
    assert!(memory.shrink("org", 1, &[Some(500)], 0));
    assert_eq!(used(&memory, &draws(0), 0), [500, 300]);
    let more = [spend(701, 1000, 1)];
    let refused = reserve(&memory, "org", 3, &more, 0);
    assert!(matches!(refused, Decision::Refused { remedy: Remedy::Reserved, .. }), "{refused:?}");
    memory.settle("org", 1, &[Some(400), Some(299)], 0);
    assert_eq!(used(&memory, &draws(0), 0), [400, 299]);
    assert!(matches!(reserve(&memory, "org", 3, &more, 0), Decision::Admitted(_)));
}

#[test]
fn a_seed_raises_what_is_settled_and_long_rates() {
    let memory = Memory::default();
    let day = |meter: &'static str| {
        let limit = Limit { amount: 200, window: DAY };
        let bound = Bound::Rate { limit, counts_refusals: false };
        Draw { meter, bound, amount: 0, set: 0 }
    };
    let draws = [spend(0, 1000, 1), day("rpd"), rate("rpm", 0, 100)];
    reserve(&memory, "org", 1, &[spend(300, 1000, 1)], 0);
    for (at_least, expected) in [(40, [340, 40, 0]), (20, [340, 40, 0]), (250, [550, 250, 0])] {
        for draw in &draws {
            memory.seed("org", draw.meter, draw.bound, at_least).unwrap();
        }
        assert_eq!(used(&memory, &draws, 0), expected, "{at_least}");
    }
    // Another month's sum changes nothing.
    memory.seed("org", "usd", Bound::Spend { most: None, month: 0 }, 900).unwrap();
    assert_eq!(used(&memory, &draws[..1], 0), [550]);
}

/// A clock that is set: the months on both sides of a jump have what the ledger knows of them.
#[test]
fn a_month_that_does_not_follow_must_be_seeded() {
    let memory = Memory::default();
    let ask = |request, amount, month| {
        memory.reserve("org", request, &[rate("rpm", 1, 1000), spend(amount, 1000, month)], 0)
    };
    let is_admitted = |request, amount, month| {
        matches!(ask(request, amount, month).unwrap(), Decision::Admitted(_))
    };
    let seed = |month, spent| {
        memory.seed("org", "usd", Bound::Spend { most: None, month }, spent).unwrap();
    };
    assert!(is_admitted(1, 900, 100));
    for far in [112, 88, 102, 98] {
        let error = ask(2, 100, far).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unseeded, "{far}");
    }
    assert_eq!(used(&memory, &[rate("rpm", 0, 1000)], 0), [1], "nothing else was drawn");
    seed(112, 50);
    assert!(!is_admitted(3, 951, 112) && is_admitted(4, 950, 112));
    // Back again: the ledger has the 900, and the reservation of before is of no month.
    assert!(ask(5, 1, 100).is_err());
    seed(100, 900);
    assert!(memory.settle("org", 4, &[None, Some(1)], 0));
    assert!(!is_admitted(6, 101, 100) && is_admitted(7, 100, 100));
    // A late request of the month before counts in this one, as ever.
    assert!(!is_admitted(8, 1, 99));
    assert!(is_admitted(9, 1000, 101));
}

#[test]
fn held_slots_are_released() {
    let memory = Memory::default();
    let queue =
        |amount| [Draw { meter: "queue", bound: Bound::Held { most: 100 }, amount, set: 0 }];
    assert!(matches!(reserve(&memory, "org", 1, &queue(70), 0), Decision::Admitted(_)));
    let remedy = |amount| match reserve(&memory, "org", 2, &queue(amount), 0) {
        Decision::Refused { remedy, .. } => remedy,
        Decision::Admitted(_) => panic!("{amount} fit"),
    };
    assert_eq!((remedy(31), remedy(101)), (Remedy::GiveBack, Remedy::AskForLess));
    memory.settle("org", 1, &[Some(0)], 0);
    assert!(matches!(reserve(&memory, "org", 2, &queue(100), DAY), Decision::Admitted(_)));
}

#[test]
fn a_changed_limit_keeps_the_use() {
    let memory = Memory::default();
    reserve(&memory, "org", 1, &[rate("tpm", 60, 60)], 0);
    // Half of it is refilled when the limit rises; from then on it refills ten times as fast.
    assert_eq!(used(&memory, &[rate("tpm", 0, 600)], 30 * SECOND), [30]);
    reserve(&memory, "org", 2, &[rate("tpm", 0, 600)], 30 * SECOND);
    assert_eq!(used(&memory, &[rate("tpm", 0, 600)], 32 * SECOND), [10]);
}

/// Sixty-four threads of one organization admit as much as one thread.
#[test]
fn threads_admit_no_more_than_the_limit() {
    const THREADS: u64 = 64;
    const EACH: u64 = 200;
    let memory = Memory::default();
    let (admitted, spent) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (memory, admitted, spent) = (&memory, &admitted, &spent);
            scope.spawn(move || {
                for number in 0..EACH {
                    let request = u128::from(thread * EACH + number);
                    let draws =
                        [requests("rpm", 5_000), rate("tpm", 10, 40_000), spend(7, 20_000, 1)];
                    let decision = reserve(memory, "org", request, &draws, 0);
                    if matches!(decision, Decision::Admitted(_)) {
                        admitted.fetch_add(1, Ordering::Relaxed);
                        let actual = 5 + number % 3;
                        spent.fetch_add(actual, Ordering::Relaxed);
                        memory.settle("org", request, &[None, Some(9), Some(actual)], 0);
                    }
                }
            });
        }
    });
    let (admitted, spent) = (admitted.into_inner(), spent.into_inner());
    assert!(spent <= 20_000 && admitted * 9 <= 40_000 && admitted <= 5_000);
    assert!(spent > 20_000 - 7 * THREADS, "and hardly less: {spent}");
    let draws = [rate("tpm", 0, 40_000), spend(0, 20_000, 1)];
    assert_eq!(used(&memory, &draws, 0), [admitted * 9, spent]);
    assert_eq!(memory.open_requests(), 0);
}

#[test]
fn open_requests_are_bounded_and_lost_ones_expire() {
    let memory = Memory { most_open: 3, ..Memory::default() };
    let held = |amount| Draw { meter: "queue", bound: Bound::Held { most: 100 }, amount, set: 0 };
    memory.reserve("org", 0, &[held(7)], 0).unwrap();
    for request in 1..3 {
        memory.reserve("org", request, &[rate("tpm", 10, 100)], 0).unwrap();
    }
    let full = memory.reserve("org", 3, &[rate("tpm", 10, 100)], 0);
    assert_eq!(full.unwrap_err().kind(), ErrorKind::Full);
    assert_eq!(used(&memory, &[rate("tpm", 0, 100)], 0), [20], "it was not charged");
    memory.reserve("org", 1, &[rate("tpm", 10, 100)], 0).expect("it is open already");
    // A day later they count as abandoned; held amounts stay held.
    let served =
        (0..32).any(|_| memory.reserve("org", 3, &[rate("tpm", 10, 100)], ABANDONED_AFTER).is_ok());
    assert!(served && memory.open_requests() == 2);
    assert_eq!(used(&memory, &[held(0)], ABANDONED_AFTER), [7]);
}

#[test]
fn unused_organizations_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("limits.state");
    let memory = Memory::open(&path, SteadyTime::default()).unwrap();
    for number in 0..100_000u64 {
        let organization = format!("org-{number}");
        let now = number * 10_000;
        memory.reserve(&organization, number.into(), &[rate("tpm", 1, 100)], now).unwrap();
        memory.settle(&organization, number.into(), &[Some(1)], now);
    }
    // Each is in use for six tenths of a second, during which sixty others are used.
    assert!(memory.meters() < 20_000, "{} meters", memory.meters());
    assert!(std::fs::metadata(&path).unwrap().len() < 6 << 20);
}

proptest! {
    /// With any jumps of the clock, one moment admits no more than the burst, and the total stays
    /// within what the clock's advance beyond its former maximum allows.
    #[test]
    fn clock_jumps_grant_no_more_than_the_burst(
        jumps in prop::collection::vec((0..600 * SECOND, 1..60u64), 1..60),
    ) {
        let memory = Memory::default();
        let (mut latest, mut since_latest) = (0, 0u64);
        for (request, (now, amount)) in jumps.into_iter().enumerate() {
            if now > latest {
                (latest, since_latest) = (now, 0);
            }
            if let Decision::Admitted(_) =
                reserve(&memory, "org", request as u128, &[rate("tpm", amount, 100)], now)
            {
                since_latest += amount;
            }
            prop_assert!(since_latest <= 100, "{since_latest} at one moment");
        }
    }

    /// A single client that waits as promised is admitted; a promised wait is at most a window if
    /// the request is within the limits.
    #[test]
    fn waiting_as_promised_admits_a_lone_request(
        before in prop::collection::vec((1..60u64, 0..20 * SECOND), 0..20), wanted in 1..100u64,
    ) {
        let memory = Memory::default();
        let draws = |amount| [requests("rpm", 5), rate("tpm", amount, 100), rate("tpm2", amount, 130)];
        let mut now = 0;
        for (request, (amount, pause)) in before.into_iter().enumerate() {
            now += pause;
            reserve(&memory, "org", request as u128, &draws(amount), now);
        }
        if let Decision::Refused { remedy, .. } = reserve(&memory, "org", 1000, &draws(wanted), now) {
            let Remedy::Wait(wait) = remedy else { panic!("{remedy:?}") };
            prop_assert!(wait <= MINUTE);
            let decision = reserve(&memory, "org", 1001, &draws(wanted), now + wait);
            prop_assert!(matches!(decision, Decision::Admitted(_)), "{decision:?}");
        }
    }
}

#[test]
fn what_was_left_as_reserved_is_corrected_later() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("limits");
    let memory = Memory::open(&path, SteadyTime::default()).unwrap();
    let draws = [rate("tpm", 60, 100), spend(500, 1000, 7)];
    assert!(matches!(reserve(&memory, "org", 1, &draws, 0), Decision::Admitted(_)));
    assert!(memory.settle("org", 1, &[None, None], 0));
    assert_eq!(used(&memory, &draws, 0), [60, 500]);
    drop(memory);
    // Another process sees the end. Neither an earlier month nor a rate gets anything back.
    let memory = Memory::open(&path, SteadyTime::default()).unwrap();
    for (draw, actual, expected) in [
        (spend(500, 1000, 6), 1, [60, 500]),
        (spend(500, 1000, 7), 30, [60, 30]),
        (spend(0, 1000, 7), 25, [60, 55]),
        (spend(u64::MAX, 1000, 7), 0, [60, 0]),
        (rate("tpm", 60, 100), 10, [60, 0]),
        (rate("tpm", 60, 100), 90, [90, 0]),
    ] {
        memory.correct("org", &draw, actual, 0).unwrap();
        assert_eq!(used(&memory, &draws, 0), expected, "{draw:?} {actual}");
    }
    // A meter that was dropped meanwhile.
    memory.correct("org", &rate("other", 5, 100), 50, 0).unwrap();
    assert_eq!(used(&memory, &[rate("other", 0, 100)], 0), [45]);
}
