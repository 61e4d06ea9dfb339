//! Spend in the library against the meter of one process: the same admissions, and the same reasons of refusals.

use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestRunner};

use super::{Remote, load, store};
use crate::meter::{Meter, Reserved};
use crate::redis::wire::{self, Change};
use crate::{Bound, Micros, Remedy};

#[derive(Clone, Debug)]
enum Money {
    Reserve(u64, u64),
    /// An open reservation, and what it cost or, if it stays open, may cost, in parts of its amount.
    Settle(usize, Option<f64>),
    Shrink(usize, f64),
    NextMonth,
    Seed(u64),
    /// A node reports nothing for longer than the store keeps its reservations.
    Die(u64),
}

fn money() -> impl Strategy<Value = Vec<Money>> {
    let one = prop_oneof![
        6 => (0..3u64, 0..400u64).prop_map(|(node, amount)| Money::Reserve(node, amount)),
        4 => (any::<usize>(), prop::option::of(0.0..1.5)).prop_map(|(n, part)| Money::Settle(n, part)),
        2 => (any::<usize>(), 0.0..1.2).prop_map(|(n, part)| Money::Shrink(n, part)),
        1 => Just(Money::NextMonth),
        1 => (0..900u64).prop_map(Money::Seed),
        1 => (0..3u64).prop_map(Money::Die),
    ];
    prop::collection::vec(one, 1..40)
}

/// The store, and the meter of one process, after the same operations of several nodes.
struct Twins<'c> {
    remote: Remote<'c>,
    meter: Meter,
    /// Open reservations, each with its node.
    open: Vec<(u64, Reserved)>,
    now: Micros,
    month: u32,
}

/// The limit of both.
const MOST: u64 = 1000;

impl Twins<'_> {
    fn bound(&self) -> Bound {
        Bound::Spend { most: Some(MOST), month: self.month }
    }

    /// The reservations that a node has open in this month.
    fn open_of(&self, node: u64) -> u64 {
        let is_its = |(owner, one): &&(u64, Reserved)| *owner == node && one.month == self.month;
        self.open.iter().filter(is_its).map(|(_, one)| one.amount).sum()
    }

    /// A report of a node; `change` has neither its bound nor what is open.
    fn report(&mut self, node: u64, change: Change) -> wire::MeterReply {
        let (bound, open) = (self.bound(), self.open_of(node));
        self.remote.change_on(node, &Change { bound, open, ..change })
    }

    fn apply(&mut self, operation: Money) -> Result<Option<wire::MeterReply>, TestCaseError> {
        self.now += 1000;
        self.remote.clock(self.now);
        let bound = self.bound();
        self.meter.follow(bound, self.now);
        Ok(match operation {
            Money::NextMonth => {
                self.month += 1;
                self.meter.follow(self.bound(), self.now);
                // A store that no one asks for two months must be seeded.
                Some(self.report(0, Change::none(self.bound())))
            }
            Money::Reserve(node, amount) => Some(self.reserve(node, amount)?),
            Money::Settle(..) | Money::Shrink(..) if self.open.is_empty() => None,
            Money::Settle(which, part) => Some(self.settle(which, part)),
            Money::Shrink(which, part) => Some(self.shrink(which, part)),
            // With reservations, the store cannot know whether they are part of the sum.
            Money::Seed(_) if self.open.iter().any(|(_, one)| one.month == self.month) => None,
            Money::Seed(at_least) => {
                let mut args = vec![b"1".to_vec()];
                wire::push_bound(&mut args, "m", bound);
                wire::push(&mut args, at_least);
                self.remote.call("seed", "n", &args);
                self.meter.raise(bound, at_least);
                None
            }
            Money::Die(node) => {
                self.die(node);
                None
            }
        })
    }

    fn reserve(&mut self, node: u64, amount: u64) -> Result<wire::MeterReply, TestCaseError> {
        let bound = self.bound();
        let reply = self.remote.reserve_on(node, bound, amount, 0);
        let expected = match self.meter.remedy(bound, amount, 0) {
            None => {
                self.meter.take(amount);
                let (since, month) = (self.now, self.month);
                self.open.push((node, Reserved { since, month, amount }));
                -3
            }
            Some(Remedy::Reserved) => -5,
            Some(_) => -1,
        };
        prop_assert_eq!(reply.helps, expected, "{} {:?}", amount, self.meter);
        Ok(reply)
    }

    fn settle(&mut self, which: usize, part: Option<f64>) -> wire::MeterReply {
        let (node, one) = self.open.swap_remove(which % self.open.len());
        let actual = part.map(|part| (part * one.amount as f64) as u64);
        let stays = actual.unwrap_or(one.amount);
        match actual {
            Some(actual) => self.meter.settle(one, actual, self.now),
            None => self.meter.close(one),
        }
        let is_of_this_month = one.month == self.month;
        let change = Change {
            refund: one.amount.saturating_sub(stays),
            owe: if is_of_this_month { stays.saturating_sub(one.amount) } else { 0 },
            since: one.since,
            month: one.month,
            ..Change::none(self.bound())
        };
        self.report(node, change)
    }

    fn shrink(&mut self, which: usize, part: f64) -> wire::MeterReply {
        let place = which % self.open.len();
        let (node, one) = self.open[place];
        let to = ((part * one.amount as f64) as u64).min(one.amount);
        self.meter.shrink(one, to, self.now);
        self.open[place].1.amount = to;
        let (refund, since, month) = (one.amount - to, one.since, one.month);
        self.report(node, Change { refund, since, month, ..Change::none(self.bound()) })
    }

    /// All other nodes report in time.
    fn die(&mut self, node: u64) {
        self.now += 300_000_000;
        self.remote.clock(self.now);
        for other in (0..3).filter(|other| *other != node) {
            self.report(other, Change::none(self.bound()));
        }
        let meter = &mut self.meter;
        self.open.retain(|(owner, one)| {
            if *owner == node {
                meter.close(*one);
            }
            *owner != node
        });
    }
}

/// After any operations of several nodes, the store and the meter of one process admit the same, refuse for the same
/// reason, and have the same spend.
#[test]
fn spend_in_the_store_agrees_with_spend_in_memory() {
    let store = store::Store::start();
    let mut connection = redis::Client::open(store.url()).unwrap().get_connection().unwrap();
    load(&mut connection, "");
    let mut runner = TestRunner::new(ProptestConfig::with_cases(300));
    let connection = std::cell::RefCell::new(connection);
    let check = |all: Vec<Money>| {
        let connection = &mut *connection.borrow_mut();
        redis::cmd("FLUSHDB").exec(connection).unwrap();
        let remote = Remote { connection, requests: 0 };
        let (now, month, open) = (1_800_000_000_000_000, 1, Vec::new());
        let meter = Meter::new(Bound::Spend { most: Some(MOST), month });
        let mut twins = Twins { remote, meter, open, now, month };
        for operation in all {
            let Some(reply) = twins.apply(operation)? else { continue };
            let state = twins.meter.state(twins.bound());
            let stored = (reply.state.used, reply.state.remaining);
            prop_assert_eq!(stored, (state.used, state.remaining));
        }
        Ok(())
    };
    runner.run(&money(), check).unwrap();
}

/// All orders of some things.
fn orders<T: Copy>(all: &[T]) -> Vec<Vec<T>> {
    if all.is_empty() {
        return vec![Vec::new()];
    }
    let mut orders_of_all = Vec::new();
    for first in 0..all.len() {
        let mut rest = all.to_vec();
        let first = rest.remove(first);
        for mut order in orders(&rest) {
            order.insert(0, first);
            orders_of_all.push(order);
        }
    }
    orders_of_all
}

#[derive(Clone, Copy, Debug)]
enum Message {
    /// A reservation of so much, with the number of the call.
    Call(u64, u64),
    /// So much is open, up to the call of that number.
    Report(u64, u64),
}

/// Two calls of a node and two of its reports, in each order of arrival: what has arrived is never called settled, and in
/// the end what is settled is not called reserved.
#[test]
fn calls_and_reports_arrive_in_any_order() {
    const MOST: u64 = 100;
    use Message::{Call, Report};
    let bound = Bound::Spend { most: Some(MOST), month: 1 };
    let store = store::Store::start();
    let mut connection = redis::Client::open(store.url()).unwrap().get_connection().unwrap();
    load(&mut connection, "");
    for order in orders(&[Call(10, 1), Call(20, 2), Report(10, 1), Report(30, 2)]) {
        redis::cmd("FLUSHDB").exec(&mut connection).unwrap();
        let mut remote = Remote { connection: &mut connection, requests: 0 };
        remote.clock(1_800_000_000_000_000);
        // 40 of another node are settled.
        remote.change_on(2, &Change { owe: 40, ..Change::none(bound) });
        let mut used = 40;
        for message in &order {
            match *message {
                Call(amount, number) => {
                    remote.requests = number - 1;
                    let third = format!("call {number}");
                    let reply = remote.reserve_as(&third, 1, bound, amount, 0);
                    assert_eq!(reply.helps, -3);
                    used += amount;
                }
                Report(open, number) => {
                    let change = Change { open, ..Change::none(bound) };
                    remote.report_as(number, &change);
                }
            }
            if used > 40 {
                let probe = remote.reserve_as("probe", 2, bound, MOST - 40, 0);
                assert_eq!(probe.helps, -5, "{order:?} at {message:?}");
            }
        }
        let gone = remote.reserve_as("gone", 2, bound, MOST - 40 + 1, 0);
        assert_eq!(gone.helps, -1, "{order:?}");
        remote.report_as(2, &Change::none(bound));
        for (amount, expected) in [(MOST - used, -3), (MOST - used + 1, -1)] {
            let probe = remote.reserve_as(&format!("end {amount}"), 2, bound, amount, 0);
            assert_eq!(probe.helps, expected, "{order:?}");
            if expected == -3 {
                let refund = Change {
                    refund: amount,
                    since: 1_800_000_000_000_000,
                    month: 1,
                    ..Change::none(bound)
                };
                remote.change_on(2, &refund);
            }
        }
    }
}
