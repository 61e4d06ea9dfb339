//! Slots: encoded meters are decoded, and damage is detected.

use super::*;
use crate::MINUTE;

fn slot_of(meter: &Meter, sequences: [u64; 2], number: u64) -> Slot {
    let mut slot = name_words(b"org\0tpm");
    for (at, sequence) in VERSIONS.into_iter().zip(sequences) {
        if sequence > 0 {
            let version = encode(meter, sequence, number).unwrap();
            slot[at..at + VERSION_WORDS].copy_from_slice(&version);
        }
    }
    slot
}

fn meter(level: u128) -> Meter {
    let limit = Limit { amount: 10, window: MINUTE };
    Meter::Rate { bucket: Bucket::restored(level, 5, 6), limit }
}

#[test]
fn slots_round_trip() {
    for meter in [meter(u128::MAX - 1), Meter::Spend { month: 7, amount: u64::MAX, reserved: 0 }] {
        let record = read(&slot_of(&meter, [3, 2], 9), 9).unwrap().unwrap();
        assert_eq!((&*record.name, record.sequence), (&b"org\0tpm"[..], 3));
        assert_eq!(format!("{:?}", record.meter), format!("{meter:?}"));
    }
    assert!(read(&[0; SLOT_WORDS], 0).unwrap().is_none());
}

/// Any single flipped bit is detected, or leaves a version that was written.
#[test]
fn a_flipped_bit_is_found() {
    let mut slot = slot_of(&meter(70), [2, 0], 4);
    let newer = encode(&meter(80), 3, 4).unwrap();
    slot[VERSIONS[1]..VERSIONS[1] + VERSION_WORDS].copy_from_slice(&newer);
    for bit in 0..SLOT_WORDS * 64 {
        let mut bad = slot;
        bad[bit / 64] ^= 1 << (bit % 64);
        if let Ok(Some(record)) = read(&bad, 4) {
            let Meter::Rate { bucket, .. } = record.meter else { panic!("bit {bit}") };
            assert!([(2, 70), (3, 80)].contains(&(record.sequence, bucket.kept().0)), "bit {bit}");
        } else {
            assert!(bit < VERSIONS[0] * 64, "bit {bit}");
        }
    }
}

#[test]
fn long_names_differ() {
    let (long, longer) = ("o".repeat(100), "o".repeat(1000));
    let names =
        [name(&long, "a"), name(&long, "aaaaaaaaaaaaaaa"), name(&longer, "a"), name("a", &longer)];
    for (at, one) in names.iter().enumerate() {
        assert!(one.len() <= NAME && !one.spilled());
        assert!(names[at + 1..].iter().all(|other| other != one));
    }
}
