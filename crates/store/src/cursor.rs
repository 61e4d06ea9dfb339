//! The text form of cursors: the sort values of one row. Clients keep them as they are; anything
//! else that comes back is refused by name.

use crate::{SortKey, StoreError};

/// Place of a thread in a sorted list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ThreadPosition {
    /// Unix seconds of the sort key.
    pub(crate) at: i64,
    /// Row id; orders threads of the same second.
    pub(crate) rowid: i64,
}

impl ThreadPosition {
    pub(crate) const FIRST: Self = Self { at: i64::MIN, rowid: i64::MIN };
    pub(crate) const LAST: Self = Self { at: i64::MAX, rowid: i64::MAX };

    pub(crate) fn write(self, sort: SortKey) -> String {
        format!("{}.{}.{}", tag(sort), self.at, self.rowid)
    }

    pub(crate) fn read(cursor: &str, sort: SortKey) -> Result<Self, StoreError> {
        let parse = || {
            let rest = cursor.strip_prefix(tag(sort))?.strip_prefix('.')?;
            let (at, rowid) = rest.split_once('.')?;
            Some(Self { at: at.parse().ok()?, rowid: rowid.parse().ok()? })
        };
        // Only the very text that was given out: "+1" and "01" parse, but nobody gave them out.
        parse().filter(|position| position.write(sort) == cursor).ok_or_else(|| bad(cursor))
    }
}

/// Cursor of the turn at `ordinal`.
pub(crate) fn write_turn(ordinal: i64) -> String {
    format!("n.{ordinal}")
}

/// The ordinal that a turn's cursor names.
pub(crate) fn read_turn(cursor: &str) -> Result<i64, StoreError> {
    let ordinal = cursor.strip_prefix("n.").and_then(|digits| digits.parse::<u32>().ok());
    ordinal
        .map(i64::from)
        .filter(|ordinal| write_turn(*ordinal) == cursor)
        .ok_or_else(|| bad(cursor))
}

/// A cursor carries its sort key, so that it is not taken for a place in another order.
fn tag(sort: SortKey) -> &'static str {
    match sort {
        SortKey::Created => "c",
        SortKey::Updated => "u",
    }
}

fn bad(cursor: &str) -> StoreError {
    StoreError::BadCursor { cursor: cursor.to_owned() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_written_reads_back(at: i64, rowid: i64, ordinal: u32) {
            let position = ThreadPosition { at, rowid };
            for sort in [SortKey::Created, SortKey::Updated] {
                prop_assert_eq!(ThreadPosition::read(&position.write(sort), sort).unwrap(), position);
            }
            let ordinal = i64::from(ordinal);
            prop_assert_eq!(read_turn(&write_turn(ordinal)).unwrap(), ordinal);
        }

        #[test]
        fn any_text_is_an_answer(text in ".*") {
            if let Ok(position) = ThreadPosition::read(&text, SortKey::Created) {
                prop_assert_eq!(position.write(SortKey::Created), text);
            } else if let Ok(ordinal) = read_turn(&text) {
                prop_assert_eq!(write_turn(ordinal), text);
            }
        }
    }

    #[test]
    fn garbage_is_named() {
        for cursor in ["", "c", "c.1", "c.1.x", "c.01.2", "u.1.2", "c.1.2.3", "n.-1", "é", "n.1"] {
            let error = ThreadPosition::read(cursor, SortKey::Created).unwrap_err().to_string();
            assert!(error.contains(&format!("`{cursor}`")), "{error}");
        }
        for cursor in ["", "n", "n.", "n.+1", "n.99999999999", "c.1.2"] {
            assert!(read_turn(cursor).is_err(), "{cursor}");
        }
    }
}
