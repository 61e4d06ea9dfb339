//! Measures a decision over seven meters with the state file: `cargo run --release -p ratelimit
//! --example decision_cost`. Also the memory of ten thousand organizations with twenty meters each.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::disallowed_methods)]

use std::time::Instant;

use ratelimit::{Bound, DAY, Draw, Limit, MINUTE, Memory, SteadyTime};

const METERS: [(&str, u64, u64); 6] = [
    ("org/rpm/big-2026-08-01", 1_000_000_000, MINUTE),
    ("org/rpd/big-2026-08-01", 1_000_000_000, DAY),
    ("org/tpm/big-2026-08-01", 1_000_000_000_000, MINUTE),
    ("org/tpd/big-2026-08-01", 1_000_000_000_000, DAY),
    ("proj_0123456789abcdef/rpm/big-2026-08-01", 1_000_000_000, MINUTE),
    ("proj_0123456789abcdef/tpm/big-2026-08-01", 1_000_000_000_000, MINUTE),
];

fn draws() -> Vec<Draw<'static>> {
    let rates = METERS.iter().map(|(meter, amount, window)| {
        let limit = Limit { amount: *amount, window: *window };
        Draw { meter, bound: Bound::Rate { limit, counts_refusals: false }, amount: 1, set: 0 }
    });
    let bound = Bound::Spend { most: Some(u64::MAX / 2), month: 1 };
    rates.chain([Draw { meter: "spend", bound, amount: 100, set: 0 }]).collect()
}

fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096 / 1024
}

fn main() {
    let folder = tempfile::tempdir_in("target").or_else(|_| tempfile::tempdir()).unwrap();
    let path = folder.path().join("limits.state");
    for organizations in [1, 1000] {
        cost(&path, organizations);
        std::fs::remove_file(&path).unwrap();
    }
    many(&path);
}

fn cost(path: &std::path::Path, organizations: usize) {
    let memory = Memory::open(path, SteadyTime::default()).unwrap();
    let draws = draws();
    println!("{organizations} organizations in turn:");
    let organizations: Vec<String> = (0..organizations).map(|n| format!("org-{n:024}")).collect();
    let (mut reserves, mut settles) = (Vec::new(), Vec::new());
    let began = Instant::now();
    for number in 0..500_000u64 {
        let organization = &organizations[number as usize % organizations.len()];
        let now = began.elapsed().as_micros() as u64;
        let start = Instant::now();
        let decision = memory.reserve(organization, number.into(), &draws, now).unwrap();
        reserves.push(start.elapsed().as_nanos() as u64);
        std::hint::black_box(decision);
        let start = Instant::now();
        memory.settle(organization, number.into(), &[None, None, Some(0), Some(0)], now);
        settles.push(start.elapsed().as_nanos() as u64);
    }
    for (name, mut times) in [("reserve", reserves), ("settle", settles)] {
        times.drain(..20_000);
        times.sort_unstable();
        let at = |part: usize| times[times.len() * part / 1000];
        println!("  {name}: p50 {} ns, p99 {} ns, p99.9 {} ns", at(500), at(990), at(999));
    }
}

fn many(path: &std::path::Path) {
    let before = resident();
    let memory = Memory::open(path, SteadyTime::default()).unwrap();
    let names: Vec<String> =
        (0..20).map(|n| format!("proj_0123456789abcdef/tpm/big-2026-08-{n:02}")).collect();
    for number in 0..10_000u64 {
        let organization = format!("org-{number:024}");
        for (at, name) in names.iter().enumerate() {
            let limit = Limit { amount: 1000, window: DAY };
            let bound = Bound::Rate { limit, counts_refusals: false };
            let draw = Draw { meter: name, bound, amount: 10, set: 0 };
            let request = u128::from(number * 20 + at as u64);
            memory.reserve(&organization, request, &[draw], 0).unwrap();
            memory.settle(&organization, request, &[], 0);
        }
    }
    println!(
        "{} meters: {} MiB resident, all in use",
        memory.meters(),
        (resident() - before) / 1024
    );
    let start = Instant::now();
    memory.sync().unwrap();
    println!("written through in {:?}", start.elapsed());
    drop(memory);
    let before = resident();
    let start = Instant::now();
    let memory = Memory::open(path, SteadyTime::default()).unwrap();
    let took = start.elapsed();
    println!("opened in {took:?}: {} MiB more", resident().saturating_sub(before) / 1024);
    std::hint::black_box(&memory);
}
