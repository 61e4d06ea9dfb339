//! The library's arithmetic against the bucket, in a real store whose clock the test controls.
#![allow(clippy::disallowed_methods)]

use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::wire::{self, Change, Terms};
use crate::bucket::Bucket;
use crate::{Bound, DAY, Draw, Limit, MINUTE, Micros};

#[path = "../../tests/suite/store/mod.rs"]
mod store;

/// The longest time that the store returns.
const LONGEST: Micros = 1 << 52;

/// Loads the library with a clock that is read from a key.
fn load(connection: &mut redis::Connection) {
    let text = include_str!("limits.lua");
    let real = "local time = redis.call('TIME')\n";
    assert!(text.contains(real));
    let set = "local time = { 0, redis.call('GET', 'clock') }\n";
    let text = text.replace(real, set).replace("@NAME@", "limits").replace("@BORN@", "0");
    let mut info = redis::cmd("INFO");
    let info: String = info.arg("server").query(connection).unwrap();
    let run = info.lines().find_map(|line| line.strip_prefix("run_id:")).unwrap().trim();
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
        let mut args = vec![b"1000".to_vec(), b"1".to_vec(), b"60000".to_vec()];
        wire::push(&mut args, client);
        let bound = Bound::Rate { limit, counts_refusals: true };
        let draw = Draw { meter: "m", bound, amount, set: 0 };
        wire::push_draw(&mut args, 1, &draw, Terms::default());
        self.requests += 1;
        let third = format!("r{}", self.requests);
        wire::read_replies(&self.call("reserve", &third, &args)[2..])[0]
    }

    fn change(&mut self, limit: Limit, refund: u64, since: Micros, owe: u64) -> wire::MeterReply {
        self.requests += 1;
        let mut args = vec![b"1000".to_vec(), b"1".to_vec(), self.requests.to_string().into()];
        let bound = Bound::Rate { limit, counts_refusals: false };
        let change = Change { refund, since, owe, ..Change::none(bound) };
        wire::push_change(&mut args, 1, "m", &change);
        wire::read_changed(&self.call("adjust", "n", &args)[2..])[0]
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
    load(&mut connection);
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
