//! A slot is read as it was written, at any instant of a write, or is found damaged.

#![allow(clippy::unwrap_used)]
use proptest::prelude::*;

use super::*;

fn identity() -> Identity<'static> {
    Identity {
        request: "req_0123456789abcdef0123456789abcdef",
        organization: "org-1",
        project: "proj_\u{e9}",
        key: "",
        model: "maker/big-2026",
        endpoint: Endpoint::AudioSpeeches,
        batch: true,
        received: 1_700_000_000_000_000,
    }
}

fn figures(of: u64) -> Figures {
    Figures {
        at: of,
        status: 503,
        ended: Ended::Killed,
        input_tokens: of + 1,
        cached_tokens: of + 2,
        cache_write_tokens: of + 3,
        cache_write_1h_tokens: of + 4,
        output_tokens: of + 5,
        web_searches: of + 6,
        images: of + 7,
        audio_milliseconds: of + 8,
        cost: of + 9,
        held: of + 10,
    }
}

fn found(slot: &Slot) -> (Phase, Figures) {
    let record = read(slot, 7).unwrap().unwrap();
    let identity = identity();
    let entry = &record.entry;
    let texts = [&entry.request, &entry.organization, &entry.project, &entry.key, &entry.model];
    let expected =
        [identity.request, identity.organization, identity.project, identity.key, identity.model];
    assert_eq!(texts.map(|text| &**text), expected);
    assert_eq!((entry.endpoint, entry.batch), (Endpoint::AudioSpeeches, true));
    (record.phase, Figures { held: record.held, ..Figures::from(entry) })
}

#[test]
fn a_kill_between_two_stores_leaves_the_old_figures_or_the_new_ones() {
    let mut slot = identity_words(&identity(), 7).unwrap();
    let salt = slot[1];
    // Remains of an earlier request in the slot do not count, however often it was written.
    let earlier = version((Phase::Settled, 1000), &figures(5), salt ^ 1);
    slot[VERSIONS[0]..VERSIONS[0] + VERSION_WORDS].copy_from_slice(&earlier);
    let mut before = None;
    for sequence in 1..20 {
        let phase = if sequence % 5 == 0 { Phase::Later } else { Phase::Open };
        let new = figures(sequence * 100);
        let words = version((phase, sequence), &new, salt);
        let at = VERSIONS[(sequence % 2) as usize];
        for stored in 0..VERSION_WORDS {
            match before {
                Some(before) => assert_eq!(found(&slot), before, "{sequence}: {stored}"),
                None => assert!(read(&slot, 7).is_err()),
            }
            slot[at + stored] = words[stored];
        }
        before = Some((phase, new));
        assert_eq!(found(&slot), (phase, new));
    }
}

#[test]
fn texts_that_do_not_fit_are_refused() {
    let long = "x".repeat(TEXTS);
    assert!(identity_words(&Identity { model: &long, ..identity() }, 7).is_none());
    let fits = &long[..TEXTS - 36 - 5 - 7];
    assert!(identity_words(&Identity { model: fits, ..identity() }, 7).is_some());
}

#[test]
fn headers_are_checked() {
    let words = |bytes: &[u8]| -> Vec<u64> {
        bytes.chunks_exact(8).map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap())).collect()
    };
    let good = words(&header());
    assert_eq!(check_header(&good), Ok(0));
    let with = |at: usize, word: u64| {
        let mut words = good.clone();
        words[at] = word;
        check_header(&words)
    };
    for (found, expected) in [
        (check_header(&[]), "it is cut off"),
        (check_header(&good[..4]), "it is cut off"),
        (with(0, 1), "it is not a journal of open requests"),
        (with(2, 2), "another version of this program wrote it"),
        (with(3, 2), "its header is damaged"),
        (with(4, 2), "its header is damaged"),
    ] {
        assert_eq!(found, Err(expected));
    }
    assert_eq!(with(COUNT_AT, count_word(3)), Ok(3));
}

proptest! {
    /// Damage to one word is found, or concerns the older figures only.
    #[test]
    fn damage_is_found(at in 0..SLOT_WORDS, bit in 0..64u32) {
        let mut slot = identity_words(&identity(), 7).unwrap();
        let salt = slot[1];
        for sequence in [1, 2] {
            let from = VERSIONS[(sequence % 2) as usize];
            let words = version((Phase::Open, sequence), &figures(sequence), salt);
            slot[from..from + VERSION_WORDS].copy_from_slice(&words);
        }
        slot[at] ^= 1 << bit;
        match read(&slot, 7) {
            Err(_) => prop_assert!(at < VERSIONS[0]),
            Ok(Some(record)) => {
                let is_newest = record.held == figures(2).held;
                prop_assert!(at >= VERSIONS[0] && is_newest == (at >= VERSIONS[1]));
            }
            Ok(None) => prop_assert!(false, "a slot in use is free"),
        }
        // A slot in another place of the file is not this one.
        prop_assert!(read(&slot, 8).is_err());
    }

    #[test]
    fn no_words_make_the_reader_fail(words in prop::collection::vec(any::<u64>(), SLOT_WORDS)) {
        let mut slot: Slot = words.try_into().unwrap();
        prop_assert!(read(&slot, 7).is_err());
        slot[0] = IN_USE;
        slot[1] = checksum(&slot[2..VERSIONS[0]], 7);
        prop_assert!(read(&slot, 7).is_err());
    }
}
