//! Concurrent calls are linearizable: a search finds a sequential order with the same results. A
//! killed process forgets nothing.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Barrier, Mutex};

use proptest::prelude::*;
use ratelimit::{Bound, Decision, Draw, Limit, MINUTE, Memory, SteadyTime};

const SECOND: u64 = 1_000_000;
const RPM: Limit = Limit { amount: 4, window: MINUTE };
const TPM: Limit = Limit { amount: 100, window: MINUTE };
const MOST: u64 = 150;

fn draws(amount: u64) -> [Draw<'static>; 4] {
    let rate = |meter, limit, counts_refusals, amount| Draw {
        meter,
        bound: Bound::Rate { limit, counts_refusals },
        amount,
        set: 0,
    };
    [
        rate("rpm", RPM, true, 1),
        rate("tpm", TPM, false, amount),
        // The same meter, as of a shared group.
        rate("tpm", TPM, false, amount / 2),
        Draw { meter: "usd", bound: Bound::Spend { most: Some(MOST), month: 1 }, amount, set: 0 },
    ]
}

#[derive(Clone, Copy, Debug)]
enum Call {
    Reserve { request: u128, amount: u64, now: u64 },
    Settle { request: u128, actual: u64, now: u64 },
}

/// The observable part of a decision.
#[derive(Clone, Debug, PartialEq)]
enum Answer {
    Decision { admitted: bool, used: Vec<u64> },
    Settled(bool),
}

/// Every draw so far, by meter: its time, and its amount in units times the window.
#[derive(Clone, Debug, Default)]
struct Reference {
    rates: [Vec<(u64, u128)>; 2],
    at: u64,
    spent: u64,
    /// True if a client may wait for the limit of requests: while one does, other refusals do not count.
    may_wait: bool,
    open: HashMap<u128, Open>,
}

/// Positions in the lists, the reserved amount, and the response.
type Open = (Vec<(usize, usize)>, u64, Vec<u64>);

impl Reference {
    fn level(&self, which: usize) -> u128 {
        let limit = [RPM, TPM][which];
        let (mut level, mut at) = (0u128, 0);
        for (when, amount) in self.rates[which].iter().chain([&(self.at, 0)]) {
            level = level.saturating_sub(u128::from(when - at) * u128::from(limit.amount));
            level += amount;
            at = *when;
        }
        level
    }

    fn used(&self) -> Vec<u64> {
        let used = |which| u64::try_from(self.level(which).div_ceil(u128::from(MINUTE))).unwrap();
        vec![used(0), used(1), used(1), self.spent]
    }

    /// `counts`: whether a refusal counts, where a client may wait.
    fn apply(&mut self, call: Call, counts: bool) -> Answer {
        let scaled = |amount: u64| u128::from(amount) * u128::from(MINUTE);
        let (Call::Reserve { now, .. } | Call::Settle { now, .. }) = call;
        self.at = self.at.max(now);
        match call {
            Call::Reserve { request, amount, .. } => {
                if let Some((_, _, used)) = self.open.get(&request) {
                    return Answer::Decision { admitted: true, used: used.clone() };
                }
                let both = amount + amount / 2;
                // Nothing always fits, in debt too.
                let fits = self.level(0) + scaled(1) <= scaled(RPM.amount)
                    && (both == 0 || self.level(1) + scaled(both) <= scaled(TPM.amount));
                let has_money = self.spent + amount <= MOST;
                let has_room = |one: &Self| one.level(0) + scaled(1) <= scaled(RPM.amount);
                if !fits && has_money && has_room(self) && (counts || !self.may_wait) {
                    self.rates[0].push((self.at, scaled(1)));
                }
                if !fits || !has_money {
                    self.may_wait |= !has_room(self);
                    return Answer::Decision { admitted: false, used: self.used() };
                }
                let mut places = Vec::new();
                for (which, amount) in [(0, 1), (1, amount), (1, amount / 2)] {
                    places.push((which, self.rates[which].len()));
                    self.rates[which].push((self.at, scaled(amount)));
                }
                self.spent += amount;
                let used = self.used();
                self.open.insert(request, (places, amount, used.clone()));
                Answer::Decision { admitted: true, used }
            }
            Call::Settle { request, actual, .. } => {
                let Some((places, amount, _)) = self.open.remove(&request) else {
                    return Answer::Settled(false);
                };
                let (which, place) = places[1];
                if actual <= amount {
                    self.rates[which][place].1 = scaled(actual);
                } else {
                    self.rates[which].push((self.at, scaled(actual - amount)));
                }
                self.spent = self.spent - amount + actual;
                Answer::Settled(true)
            }
        }
    }
}

/// A call: its start, its end, its arguments and its result.
type Event = (u64, u64, Call, Answer);

/// Whether some sequential order of these calls has these results. A call never precedes one that
/// had ended when it started.
fn has_order(reference: &Reference, left: &[Event], end: &[u64]) -> bool {
    if left.is_empty() {
        return reference.used() == end;
    }
    let first_end = left.iter().map(|(_, end, ..)| *end).min().unwrap();
    let ways = (0..left.len()).flat_map(|next| [(next, true), (next, false)]);
    ways.into_iter().any(|(next, counts)| {
        let (began, _, call, answer) = &left[next];
        if *began > first_end || !counts && !reference.may_wait {
            return false;
        }
        let mut reference = reference.clone();
        let same = reference.apply(*call, counts) == *answer;
        let mut rest = left.to_vec();
        rest.remove(next);
        same && has_order(&reference, &rest, end)
    })
}

fn do_call(memory: &Memory, call: Call) -> Answer {
    match call {
        Call::Reserve { request, amount, now } => {
            match memory.reserve("org", request, &draws(amount), now).unwrap() {
                Decision::Admitted(states) => Answer::Decision {
                    admitted: true,
                    used: states.iter().map(|state| state.used).collect(),
                },
                Decision::Refused { states, .. } => Answer::Decision {
                    admitted: false,
                    used: states.iter().map(|state| state.used).collect(),
                },
            }
        }
        Call::Settle { request, actual, now } => {
            let actual = [None, Some(actual), None, Some(actual)];
            Answer::Settled(memory.settle("org", request, &actual, now))
        }
    }
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let now = || prop_oneof![Just(0u64), 0..90 * SECOND];
    let reserve = (0..4u128, 0..70u64, now()).prop_map(|(request, amount, now)| Call::Reserve {
        request,
        amount,
        now,
    });
    let settle = (0..4u128, 0..90u64, now()).prop_map(|(request, actual, now)| Call::Settle {
        request,
        actual,
        now,
    });
    prop::collection::vec(prop_oneof![2 => reserve, 1 => settle], 2..3)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn concurrent_histories_are_linearizable(threads in prop::collection::vec(calls(), 1..4)) {
        let memory = Memory::default();
        let (clock, barrier) = (AtomicU64::new(0), Barrier::new(threads.len()));
        let events = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for calls in &threads {
                let (memory, clock, barrier, events) = (&memory, &clock, &barrier, &events);
                scope.spawn(move || {
                    barrier.wait();
                    for call in calls {
                        let began = clock.fetch_add(1, Ordering::SeqCst);
                        let answer = do_call(memory, *call);
                        let end = clock.fetch_add(1, Ordering::SeqCst);
                        events.lock().unwrap().push((began, end, *call, answer));
                    }
                });
            }
        });
        let events = events.into_inner().unwrap();
        // Also at the end, at the time that each meter has reached.
        let end: Vec<u64> =
            memory.look("org", &draws(0), 0).iter().map(|state| state.used).collect();
        prop_assert!(has_order(&Reference::default(), &events, &end), "{events:?} {end:?}");
    }
}

/// The search can fail: a lost update has no order.
#[test]
fn a_lost_update_is_detected() {
    let call = |request| Call::Reserve { request, amount: 10, now: 0 };
    let answer = || Answer::Decision { admitted: true, used: vec![1, 15, 15, 10] };
    let events = vec![(0, 2, call(1), answer()), (1, 3, call(2), answer())];
    assert!(!has_order(&Reference::default(), &events, &[1, 15, 15, 10]));
    assert!(has_order(&Reference::default(), &events[..1], &[1, 15, 15, 10]));
}

const CHILD: &str = "LIMITS_TEST_CHILD";

fn counted(amount: u64) -> Vec<Draw<'static>> {
    const NAMES: [&str; 3] = ["a", "b", "c"];
    let limit = Limit { amount: u64::MAX, window: MINUTE };
    let bound = Bound::Rate { limit, counts_refusals: false };
    let rates = NAMES.map(|meter| Draw { meter, bound, amount, set: 0 });
    let bound = Bound::Spend { most: None, month: 1 };
    rates.into_iter().chain([Draw { meter: "usd", bound, amount, set: 0 }]).collect()
}

/// Not a test of its own: the child process that the next test kills.
#[test]
#[ignore = "the child of `killed_at_any_instant`"]
fn child() {
    let Some(path) = std::env::var_os(CHILD) else { return };
    let memory = Memory::open(path.as_ref(), SteadyTime::default()).unwrap();
    let mut out = std::io::stdout().lock();
    for request in 0.. {
        memory.reserve("org", request, &counted(1), 0).unwrap();
        writeln!(out, "took").unwrap();
    }
}

#[test]
fn a_kill_at_any_instant_loses_no_use() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("limits.state");
    let mut taken = 0;
    for round in 0..12 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["histories::child", "--exact", "--ignored", "--nocapture"])
            .env(CHILD, &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut seen = 0;
        while seen < 10 + 137 * round {
            seen += usize::from(lines.next().unwrap().unwrap().contains("took"));
        }
        child.kill().unwrap();
        // The responses of the process before it was killed.
        let rest = lines.map_while(Result::ok).filter(|line| line == "took").count();
        child.wait().unwrap();
        taken += (seen + rest) as u64;
        let memory = Memory::open(&path, SteadyTime::default()).unwrap();
        for state in memory.look("org", &counted(0), 0) {
            let most = taken + round as u64 + 1;
            assert!((taken..=most).contains(&state.used), "{} of {taken}", state.used);
        }
    }
}
