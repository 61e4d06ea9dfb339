//! Row keys. The key of a turn contains its thread and ordinal; the key of an item or a fragment
//! contains its turn and position. So the rows of a thread are adjacent and ordered without an
//! index.
//!
//! Layout of the 63 bits, highest first: 24 thread, 20 turn ordinal, 19 position in the turn.

use std::ops::Range;

use crate::StoreError;

const TURN_BITS: u32 = 20;
const SEQ_BITS: u32 = 19;
/// The key of an item or a fragment, shifted right by this many bits, is the key of its thread.
pub(crate) const ENTRY_BITS: u32 = TURN_BITS + SEQ_BITS;
const MAX_THREAD: i64 = (1 << 24) - 1;
pub(crate) const MAX_ORDINAL: i64 = (1 << TURN_BITS) - 1;
const MAX_SEQ: i64 = (1 << SEQ_BITS) - 1;

/// Checks that a new row id of a thread fits into the other keys.
pub(crate) fn thread_key(rowid: i64) -> Result<i64, StoreError> {
    if rowid > MAX_THREAD {
        return Err(StoreError::TooMany { what: "the number of threads", limit: MAX_THREAD });
    }
    Ok(rowid)
}

/// The key of the turn at `ordinal`, from 1; 0 is the position before the first turn.
pub(crate) fn turn_key(thread: i64, ordinal: i64) -> Result<i64, StoreError> {
    if ordinal > MAX_ORDINAL {
        return Err(StoreError::TooMany { what: "the thread's turns", limit: MAX_ORDINAL });
    }
    Ok(thread << TURN_BITS | ordinal)
}

/// The ordinal inside a turn's key.
pub(crate) fn ordinal(turn: i64) -> i64 {
    turn & MAX_ORDINAL
}

/// The thread inside a turn's key.
pub(crate) fn thread_of(turn: i64) -> i64 {
    turn >> TURN_BITS
}

/// All turn keys of a thread, ordinal 0 included.
pub(crate) fn turns_of(thread: i64) -> Range<i64> {
    thread << TURN_BITS..(thread + 1) << TURN_BITS
}

/// All item or fragment keys of the turns from `first` to `last`, both included.
pub(crate) fn entries_of(first: i64, last: i64) -> Range<i64> {
    // The end of the highest thread would be 2^63. It saturates, since the key below is never used.
    first << SEQ_BITS..(last + 1).checked_shl(SEQ_BITS).filter(|end| *end > 0).unwrap_or(i64::MAX)
}

/// The position inside an item's or fragment's key.
pub(crate) fn position(entry: i64) -> i64 {
    entry & MAX_SEQ
}

/// The key of the entry at this position in the thread of `entry`, clamped to the last possible
/// one.
pub(crate) fn entry_at(entry: i64, ordinal: i64, position: i64) -> i64 {
    let thread = turn_of(entry) >> TURN_BITS << TURN_BITS;
    (thread | ordinal.clamp(0, MAX_ORDINAL)) << SEQ_BITS | position.clamp(0, MAX_SEQ)
}

/// The turn inside an item's or fragment's key.
pub(crate) fn turn_of(entry: i64) -> i64 {
    entry >> SEQ_BITS
}

/// The key of the entry after `last`, the highest one of the turn.
pub(crate) fn next_entry(
    turn: i64,
    last: Option<i64>,
    what: &'static str,
) -> Result<i64, StoreError> {
    let Some(last) = last else { return Ok(turn << SEQ_BITS) };
    // One below the highest key, because `entries_of` excludes `i64::MAX`.
    if last & MAX_SEQ >= MAX_SEQ - 1 {
        return Err(StoreError::TooMany { what, limit: MAX_SEQ });
    }
    Ok(last + 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn keys_keep_order_and_parts(
            thread in 1..=MAX_THREAD, ordinal_in in 0..=MAX_ORDINAL, seq in 0..MAX_SEQ - 1,
        ) {
            let turn = turn_key(thread, ordinal_in).unwrap();
            prop_assert!(turns_of(thread).contains(&turn));
            prop_assert!(!turns_of(thread - 1).contains(&turn));
            prop_assert_eq!(ordinal(turn), ordinal_in);
            let first = next_entry(turn, None, "x").unwrap();
            let entry = first + seq;
            prop_assert!(entries_of(turn, turn).contains(&entry));
            prop_assert_eq!(turn_of(entry), turn);
            prop_assert_eq!(next_entry(turn, Some(entry), "x").unwrap(), entry + 1);
        }
    }

    #[test]
    fn limits_are_errors() {
        assert!(thread_key(MAX_THREAD + 1).is_err());
        assert!(turn_key(1, MAX_ORDINAL + 1).is_err());
        let turn = turn_key(MAX_THREAD, MAX_ORDINAL).unwrap();
        let end = entries_of(turn, turn).end;
        assert_eq!(end, i64::MAX);
        assert!(next_entry(turn, Some(end - 1), "x").is_err());
    }
}
