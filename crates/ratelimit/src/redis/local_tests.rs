//! What a node reports of its open reservations.

use super::*;

const BOUND: Bound = Bound::Spend { most: Some(1000), month: 3 };
const MINUTE: Micros = crate::MINUTE;

/// The open reservations in the reports at this time; `None`: nothing is reported.
fn reported(meter: &mut LocalMeter, now: Micros) -> Option<u64> {
    meter.renew(now);
    if !meter.is_pending() {
        return None;
    }
    let changes = meter.changes(now, false);
    let open: Vec<u64> = changes.iter().map(|change| change.open).collect();
    assert!(open.windows(2).all(|both| both[0] == both[1]), "{changes:?}");
    open.first().copied()
}

/// A meter on which a call has taken this much.
fn with_open(amount: u64) -> (LocalMeter, Taken) {
    let mut meter = LocalMeter::new("usd", BOUND);
    ask(&mut meter, amount, 0);
    let taken = Taken { amount, month: 3, since: 1, from: None };
    // The lease of no capacity that the call has asked for is given up.
    meter.changes(0, true);
    (meter, taken)
}

fn ask(meter: &mut LocalMeter, amount: u64, now: Micros) {
    meter.terms(BOUND, amount, 1, Ask { now, until: now + 1000, leases: false });
}

#[test]
fn what_is_open_for_long_is_reported_again_before_the_store_forgets_it() {
    let (mut meter, taken) = with_open(500);
    let mut reports = Vec::new();
    for second in 1..=310 {
        let now = second * 1_000_000;
        if let Some(open) = reported(&mut meter, now) {
            reports.push((second, open));
        }
    }
    assert_eq!(reports, [(100, 500), (200, 500), (300, 500)]);
    meter.settle(taken, Some(500), 311_000_000);
    assert_eq!(
        reported(&mut meter, 311_000_000),
        Some(0),
        "nothing is refunded, but it is not open"
    );
    assert_eq!(reported(&mut meter, 1_000_000_000), None);
}

#[test]
fn a_part_that_is_given_back_is_no_longer_open() {
    let (mut meter, mut taken) = with_open(500);
    meter.shrink(&mut taken, 600, MINUTE);
    assert_eq!((taken.amount, reported(&mut meter, MINUTE)), (500, None));
    meter.shrink(&mut taken, 200, MINUTE);
    assert_eq!((taken.amount, reported(&mut meter, MINUTE)), (200, Some(200)));
    meter.settle(taken, None, MINUTE);
    assert_eq!(reported(&mut meter, MINUTE), Some(0));
}

/// A call that is under way counts as open in reports. Where it was refused, they are corrected.
#[test]
fn a_refused_call_is_reported_only_if_a_report_had_it() {
    let (mut meter, mut taken) = with_open(500);
    ask(&mut meter, 70, MINUTE);
    meter.forget_lease(1);
    meter.withdraw(70, 3, MINUTE);
    assert_eq!(reported(&mut meter, MINUTE), None);
    ask(&mut meter, 70, MINUTE);
    meter.forget_lease(1);
    meter.shrink(&mut taken, 400, MINUTE);
    assert_eq!(reported(&mut meter, MINUTE + 5), Some(470));
    meter.withdraw(70, 3, MINUTE);
    assert_eq!(reported(&mut meter, MINUTE + 6), Some(400));
}

#[test]
fn a_month_that_has_ended_is_not_open() {
    let (mut meter, taken) = with_open(500);
    let bound = Bound::Spend { most: Some(1000), month: 4 };
    meter.terms(bound, 30, 1, Ask { now: 0, until: 0, leases: false });
    meter.settle(taken, Some(100), MINUTE);
    let changes = meter.changes(MINUTE, true);
    assert!(!changes.is_empty() && changes.iter().all(|change| change.open == 30), "{changes:?}");
}
