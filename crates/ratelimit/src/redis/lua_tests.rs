//! The library's arithmetic against the meters of one process, in a real store whose clock the test controls.
#![allow(clippy::disallowed_methods)]

use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::wire::{self, Change, Terms};
use crate::bucket::Bucket;
use crate::{Bound, DAY, Draw, Limit, MINUTE, Micros};

#[path = "lua_spend_tests.rs"]
mod spend;
#[path = "../../tests/suite/store/mod.rs"]
mod store;

/// The longest time that the store returns.
const LONGEST: Micros = 1 << 52;

/// Loads the library with a clock that is read from a key, into `run` of the store; empty: into the present one.
fn load(connection: &mut redis::Connection, run: &str) {
    let text = include_str!("limits.lua");
    let real = "local time = redis.call('TIME')\n";
    assert!(text.contains(real));
    let set = "local time = { 0, redis.call('GET', 'clock') }\n";
    let text = text.replace(real, set).replace("@NAME@", "limits").replace("@BORN@", "0");
    let mut info = redis::cmd("INFO");
    let info: String = info.arg("server").query(connection).unwrap();
    let present = info.lines().find_map(|line| line.strip_prefix("run_id:")).unwrap().trim();
    let run = if run.is_empty() { present } else { run };
    let text = text.replace("@RUN@", run);
    redis::cmd("FUNCTION").arg("LOAD").arg("REPLACE").arg(text).exec(connection).unwrap();
}

struct Remote<'c> {
    connection: &'c mut redis::Connection,
    requests: u64,
}

impl Remote<'_> {
    fn call(&mut self, function: &str, third: &str, args: &[Vec<u8>]) -> Vec<i64> {
        let mut command = redis::cmd("FCALL");
        command.arg(format!("limits_{function}")).arg(3).arg("rates").arg("money").arg(third);
        command.arg(args).query(self.connection).unwrap()
    }

    fn clock(&mut self, now: Micros) {
        redis::cmd("SET").arg("clock").arg(now).exec(self.connection).unwrap();
    }

    fn reserve(&mut self, limit: Limit, amount: u64, client: u64) -> wire::MeterReply {
        let bound = Bound::Rate { limit, counts_refusals: true };
        self.reserve_on(1, bound, amount, client)
    }

    fn reserve_on(
        &mut self,
        node: u64,
        bound: Bound,
        amount: u64,
        client: u64,
    ) -> wire::MeterReply {
        let third = format!("r{}", self.requests + 1);
        self.reserve_as(&third, node, bound, amount, client)
    }

    fn reserve_as(
        &mut self,
        request: &str,
        node: u64,
        bound: Bound,
        amount: u64,
        client: u64,
    ) -> wire::MeterReply {
        let mut args = vec![b"1000".to_vec(), b"1".to_vec(), b"60000".to_vec()];
        wire::push(&mut args, client);
        let draw = Draw { meter: "m", bound, amount, set: 0 };
        self.requests += 1;
        let terms = Terms { number: self.requests, ..Terms::default() };
        wire::push_draw(&mut args, node, &draw, terms);
        wire::read_replies(&self.call("reserve", request, &args)[2..])[0]
    }

    fn change(&mut self, limit: Limit, refund: u64, since: Micros, owe: u64) -> wire::MeterReply {
        let bound = Bound::Rate { limit, counts_refusals: false };
        self.change_on(1, &Change { refund, since, owe, ..Change::none(bound) })
    }

    fn change_on(&mut self, node: u64, change: &Change) -> wire::MeterReply {
        self.requests += 1;
        self.batch(node, "n", self.requests, change)
    }

    /// A report of the first node that includes its calls up to this number.
    fn report_as(&mut self, number: u64, change: &Change) {
        self.batch(1, &format!("report {number} {}", change.open), number, change);
    }

    /// A batch of one change: the number of the batch is that of its report.
    fn batch(&mut self, node: u64, third: &str, number: u64, change: &Change) -> wire::MeterReply {
        let mut args = vec![b"1000".to_vec(), b"1".to_vec(), number.to_string().into()];
        let terms = Terms { number, ..change.terms };
        wire::push_change(&mut args, node, "m", &Change { terms, ..*change });
        wire::read_changed(&self.call("adjust", third, &args)[2..])[0]
    }
}

#[derive(Clone, Debug)]
enum Operation {
    Pass(u64),
    Reserve(f64, u64),
    Settle(usize, f64),
    Limit(u64),
}

fn history() -> impl Strategy<Value = (u64, u64, Vec<Operation>)> {
    let amounts = prop_oneof![1..1000u64, Just(1_000_000_000), Just(1_000_000_000_000)];
    let one = prop_oneof![
        prop_oneof![0..100u64, 0..30_000_000u64, 0..DAY].prop_map(Operation::Pass),
        (0.0..1.0, 0..12u64).prop_map(|(part, client)| Operation::Reserve(part, client)),
        (any::<usize>(), 0.0..1.5).prop_map(|(which, part)| Operation::Settle(which, part)),
        amounts.clone().prop_map(Operation::Limit),
    ];
    let windows = prop_oneof![Just(MINUTE), Just(DAY), Just(7)];
    (amounts, windows, prop::collection::vec(one, 1..40))
}

/// After any operations, the store and the bucket agree exactly on units, and on times up to the
/// precision of a double.
#[test]
fn the_lua_script_agrees_with_the_bucket() {
    let store = store::Store::start();
    let mut connection = redis::Client::open(store.url()).unwrap().get_connection().unwrap();
    load(&mut connection, "");
    let mut runner = TestRunner::new(ProptestConfig::with_cases(300));
    let connection = std::cell::RefCell::new(connection);
    let check = |(amount, window, all): (u64, u64, Vec<Operation>)| {
        let connection = &mut *connection.borrow_mut();
        redis::cmd("FLUSHDB").exec(connection).unwrap();
        let mut remote = Remote { connection, requests: 0 };
        let mut limit = Limit { amount, window };
        let (mut bucket, mut now, mut taken) = (Bucket::default(), 1_800_000_000_000_000, vec![]);
        bucket.advance(limit, now);
        let (began, mut rate) = (now, limit);
        for operation in all {
            let reply = match operation {
                Operation::Pass(time) => {
                    now += time;
                    continue;
                }
                Operation::Limit(amount) => {
                    limit.amount = amount;
                    continue;
                }
                Operation::Reserve(part, client) => {
                    let amount = (part * limit.amount as f64) as u64;
                    remote.clock(now);
                    let reply = remote.reserve(limit, amount, client);
                    bucket.advance(rate, now);
                    if bucket.fits(limit, amount) {
                        bucket.take(limit, amount);
                        taken.push((now, amount));
                        prop_assert_eq!(reply.helps, -3);
                    } else {
                        bucket.count_refusal(limit);
                        let wait = bucket.promise(limit, amount, client).unwrap();
                        let wait = wait.min(LONGEST).cast_signed();
                        // Two for each client with an earlier promise.
                        let most = wait + 80 + (wait >> 44);
                        // The longest time is counted from its promise.
                        let is_longest = wait == LONGEST.cast_signed();
                        let least =
                            if is_longest { wait - (now - began).cast_signed() } else { wait };
                        prop_assert!((least..=most).contains(&reply.helps), "{wait} {reply:?}");
                    }
                    reply
                }
                Operation::Settle(which, part) => {
                    if taken.is_empty() {
                        continue;
                    }
                    let (since, reserved) = taken.swap_remove(which % taken.len());
                    let actual = (part * reserved as f64) as u64;
                    remote.clock(now);
                    bucket.advance(rate, now);
                    if actual <= reserved {
                        bucket.refund(limit, reserved - actual, since);
                        remote.change(limit, reserved - actual, since, 0)
                    } else {
                        bucket.owe(limit, actual - reserved);
                        remote.change(limit, 0, 0, actual - reserved)
                    }
                }
            };
            rate = limit;
            prop_assert_eq!(reply.state.used, bucket.used(limit));
            prop_assert_eq!(reply.state.remaining, bucket.remaining(limit));
            let full = bucket.until_full(limit).unwrap().min(LONGEST);
            prop_assert!((full..=full + 2 + (full >> 48)).contains(&reply.state.until_full));
        }
        Ok(())
    };
    runner.run(&history(), check).unwrap();
}

/// Calls with the clock at some seconds after a store that may have lost data began to run.
struct AfterLoss<'c>(Remote<'c>);

impl AfterLoss<'_> {
    fn set_clock(&mut self, seconds: u64) {
        self.0.clock(1_800_000_000_000_000 + seconds * 1_000_000);
    }

    /// Returns whether a reservation asks for a seed.
    fn wants_seed(&mut self, meter: &str, bound: Bound, seconds: u64) -> bool {
        self.set_clock(seconds);
        let mut args = vec![b"1000".to_vec(), b"0".to_vec(), b"60000".to_vec(), b"1".to_vec()];
        let draw = Draw { meter, bound, amount: 0, set: 0 };
        wire::push_draw(&mut args, 1, &draw, Terms::default());
        self.0.requests += 1;
        let third = format!("r{}", self.0.requests);
        self.0.call("reserve", &third, &args)[0] == 3
    }

    fn seed(&mut self, meter: &str, bound: Bound, seconds: u64) {
        self.set_clock(seconds);
        let mut args = vec![b"0".to_vec()];
        wire::push_bound(&mut args, meter, bound);
        wire::push(&mut args, 7);
        self.0.call("seed", "n", &args);
    }
}

#[test]
fn seeds_are_repeated_until_what_was_open_has_ended() {
    let store = store::Store::start();
    let mut connection = redis::Client::open(store.url()).unwrap().get_connection().unwrap();
    load(&mut connection, "another run");
    let mut after = AfterLoss(Remote { connection: &mut connection, requests: 0 });
    let rate =
        |window| Bound::Rate { limit: Limit { amount: 100, window }, counts_refusals: false };
    let spend = |most| Bound::Spend { most, month: 1 };
    let (day, money) = (rate(DAY), spend(Some(1000)));
    assert!(!after.wants_seed("rpm", rate(MINUTE), 0));
    assert!(!after.wants_seed("counted", spend(None), 0), "nothing is refused there");
    for (meter, bound) in [("rpd", day), ("usd", money)] {
        let mut seconds = 1;
        for (until, seed_at) in [(1, 1), (60, 62), (124, 200), (400, 401), (802, 1900)] {
            for quiet in seconds + 1..until {
                assert!(!after.wants_seed(meter, bound, quiet), "{meter} at {quiet}");
            }
            seconds = seed_at;
            assert!(after.wants_seed(meter, bound, seed_at), "{meter} at {seed_at}");
            after.seed(meter, bound, seed_at);
            assert!(!after.wants_seed(meter, bound, seed_at), "{meter} at {seed_at}");
        }
        assert!(after.wants_seed(meter, bound, 3801));
        after.seed(meter, bound, 3801);
        for quiet in [3802, 7700, 50_000, 86_399] {
            assert!(!after.wants_seed(meter, bound, quiet), "{meter} at {quiet}");
        }
    }
    // A day later, nothing from before the loss counts on a new limit of a day; a month's sum still does.
    assert!(after.wants_seed("new rpd", day, 86_399));
    assert!(!after.wants_seed("later rpd", day, 86_400));
    assert!(after.wants_seed("new usd", money, 20 * 86_400));
}
