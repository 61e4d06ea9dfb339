//! The state file: restored after any kind of end, and rejected when it is damaged.

use std::path::Path;

use super::*;
use crate::{Bound, DAY, Draw, ErrorKind, Limit, MINUTE, Memory, SteadyTime};

fn draws(amount: u64) -> [Draw<'static>; 3] {
    let limit = |amount, window| Limit { amount, window };
    let rate = |meter, limit| {
        let bound = Bound::Rate { limit, counts_refusals: false };
        Draw { meter, bound, amount, set: 0 }
    };
    let bound = Bound::Spend { most: Some(1000), month: 3 };
    [
        rate("tpm", limit(100, MINUTE)),
        rate("tpd", limit(1000, DAY)),
        Draw { meter: "usd", bound, amount, set: 0 },
    ]
}

fn used(memory: &Memory, now: u64) -> Vec<u64> {
    memory.look("org", &draws(0), now).iter().map(|state| state.used).collect()
}

#[test]
fn the_use_survives_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("limits.state");
    let memory = Memory::open(&path, SteadyTime::default()).unwrap();
    memory.reserve("org", 1, &draws(60), 0).unwrap();
    memory.reserve("org", 2, &draws(40), 0).unwrap();
    memory.settle("org", 2, &[Some(10); 3], 0);
    let held = Draw { meter: "queue", bound: Bound::Held { most: 5 }, amount: 5, set: 0 };
    memory.reserve("org", 3, &[held], 0).unwrap();
    assert_eq!(used(&memory, 0), [70, 70, 70]);
    drop(memory);
    let memory = Memory::open(&path, SteadyTime::from_micros(6_000_000)).unwrap();
    assert_eq!(used(&memory, 0), [70, 70, 70]);
    assert_eq!(used(&memory, 6_000_000), [60, 70, 70]);
    assert_eq!(memory.look("org", &[held], 0)[0].used, 0, "its owner holds it again");
    assert!(!memory.settle("org", 1, &[Some(0); 3], 0), "what was open stays taken");
    // The clock was wrong when it was written: usage is refilled from now on, not from that time
    // on.
    memory.reserve("org", 4, &draws(40), 1000 * DAY).unwrap();
    drop(memory);
    let memory = Memory::open(&path, SteadyTime::from_micros(DAY)).unwrap();
    assert_eq!(used(&memory, DAY), [40, 40, 110]);
    assert_eq!(used(&memory, DAY + MINUTE), [0, 40, 110]);
    memory.sync().unwrap();
}

#[test]
fn a_file_has_one_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("limits.state");
    let first = Memory::open(&path, SteadyTime::default()).unwrap();
    assert_eq!(
        Memory::open(&path, SteadyTime::default()).unwrap_err().kind(),
        ErrorKind::StateFileInUse
    );
    drop(first);
    Memory::open(&path, SteadyTime::default()).unwrap();
    let missing = folder.path().join("none/limits.state");
    assert_eq!(
        Memory::open(&missing, SteadyTime::default()).unwrap_err().kind(),
        ErrorKind::StateFile
    );
    assert_eq!(
        Memory::open(folder.path(), SteadyTime::default()).unwrap_err().kind(),
        ErrorKind::StateFile
    );
}

#[test]
fn a_damaged_file_is_refused_and_not_changed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("limits.state");
    let memory = Memory::open(&path, SteadyTime::default()).unwrap();
    memory.reserve("org", 1, &draws(60), 0).unwrap();
    drop(memory);
    let good = std::fs::read(&path).unwrap();
    assert_eq!(check_state(&good).unwrap(), 3);
    let check = |bytes: &[u8], expected: &str| {
        std::fs::write(&path, bytes).unwrap();
        let error = Memory::open(&path, SteadyTime::default()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
    };
    check(b"", "it is cut off");
    check(&good[..HEADER - 1], "it is cut off");
    check(&good[..HEADER], "its slots are cut off");
    check(&good[..good.len() - SLOT], "its slots are cut off");
    check(&good[..good.len() - 1], "it is cut off");
    check(&[b'x'; 2 * HEADER], "it is not a state file");
    for (at, expected) in [(20, "another version"), (70, "damaged"), (HEADER + 2, "signature")] {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        check(&bytes, expected);
    }
    let mut bytes = good;
    bytes[HEADER + 128..HEADER + 256].fill(0x55);
    check(&bytes, "slot 0 at byte 4096: both of its versions are damaged");
}

#[test]
fn slots_are_reused_and_the_file_grows_in_steps() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("limits.state");
    let file = StateFile::open(&path, |_, _| panic!("it is new")).unwrap();
    let meter = Meter::Spend { month: 1, amount: 1, reserved: 0 };
    let slots: Vec<MeterSlot> = (0..STEP + 1)
        .map(|n| file.add(n.to_string().as_bytes(), &meter).unwrap().unwrap())
        .collect();
    let length = |path: &Path| std::fs::metadata(path).unwrap().len();
    assert_eq!(length(&path), offset(2 * STEP));
    file.remove(slots[7]);
    assert_eq!(file.add(b"new", &meter).unwrap().map(|slot| slot.number), Some(7));
    file.remove(slots[8]);
    drop(file);
    let mut found = Vec::new();
    let file = StateFile::open(&path, |record, slot| found.push((record.name, slot))).unwrap();
    assert_eq!(found.len(), STEP as usize);
    assert_eq!(&*found[7].0, b"new");
    assert_eq!(file.add(b"next", &meter).unwrap().map(|slot| slot.number), Some(8));
    assert_eq!(length(&path), offset(2 * STEP));
}
