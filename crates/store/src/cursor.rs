//! The text form of cursors, which hold the sort values of a row. A text that was not produced here
//! is refused.

use sha2::{Digest, Sha256};

use crate::StoreError;

/// The position of a thread in a sorted list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ThreadPosition {
    /// Sort key in Unix seconds.
    pub(crate) at: i64,
    /// Row id, which orders threads of the same second.
    pub(crate) rowid: i64,
}

impl ThreadPosition {
    pub(crate) const FIRST: Self = Self { at: i64::MIN, rowid: i64::MIN };
    pub(crate) const LAST: Self = Self { at: i64::MAX, rowid: i64::MAX };

    pub(crate) fn write(self, query: &str) -> String {
        format!("{query}.{}.{}", self.at, self.rowid)
    }

    pub(crate) fn read(cursor: &str, query: &str) -> Result<Self, StoreError> {
        let [at, rowid] = numbers(cursor, query)?;
        Ok(Self { at, rowid })
    }
}

/// The position of a turn, or of an item of a turn, in a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EntryPosition {
    pub(crate) ordinal: i64,
    /// Position of the item in the turn; 0 for a turn.
    pub(crate) position: i64,
}

impl EntryPosition {
    pub(crate) fn write(self, query: &str) -> String {
        format!("{query}.{}.{}", self.ordinal, self.position)
    }

    pub(crate) fn read(cursor: &str, query: &str) -> Result<Self, StoreError> {
        let [ordinal, position] = numbers(cursor, query)?;
        if ordinal < 0 || position < 0 {
            return Err(bad(cursor));
        }
        Ok(Self { ordinal, position })
    }
}

/// A short hash of a query. A cursor contains it, so that it cannot be used for another list.
pub fn query_tag(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    const_hex::encode(&hash.finalize()[..6])
}

/// The numbers of a cursor of this query. Accepts only the exact text of a cursor: "+1" and "01"
/// parse as numbers, but are never written.
fn numbers<const N: usize>(cursor: &str, query: &str) -> Result<[i64; N], StoreError> {
    let parse = || {
        let rest = cursor.strip_prefix(query)?.strip_prefix('.')?;
        let parts: Vec<&str> = rest.split('.').collect();
        let mut numbers = [0; N];
        if parts.len() != N {
            return None;
        }
        for (number, part) in numbers.iter_mut().zip(parts) {
            *number = part.parse().ok().filter(|number: &i64| number.to_string() == part)?;
        }
        Some(numbers)
    };
    parse().ok_or_else(|| bad(cursor))
}

fn bad(cursor: &str) -> StoreError {
    let shown: String = cursor.chars().take(80).collect();
    StoreError::BadCursor { cursor: shown }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn written_cursors_read_back(at: i64, rowid: i64, ordinal in 0..i64::MAX) {
            let position = ThreadPosition { at, rowid };
            let query = query_tag(&["created", "a"]);
            prop_assert_eq!(ThreadPosition::read(&position.write(&query), &query).unwrap(), position);
            let other = query_tag(&["created", "b"]);
            prop_assert!(ThreadPosition::read(&position.write(&query), &other).is_err());
            let spot = EntryPosition { ordinal, position: 3 };
            prop_assert_eq!(EntryPosition::read(&spot.write(&query), &query).unwrap(), spot);
        }

        #[test]
        fn no_text_panics(text in ".*") {
            for cursor in [text.clone(), format!("q.{text}")] {
                if let Ok(position) = ThreadPosition::read(&cursor, "q") {
                    prop_assert_eq!(position.write("q"), cursor);
                } else if let Ok(spot) = EntryPosition::read(&cursor, "q") {
                    prop_assert_eq!(spot.write("q"), cursor);
                }
            }
        }
    }

    #[test]
    fn invalid_cursors_are_named() {
        for cursor in ["", "q", "q.1", "q.1.x", "q.01.2", "u.1.2", "q.1.2.3", "q.+1.2", "é"] {
            let error = ThreadPosition::read(cursor, "q").unwrap_err().to_string();
            assert!(error.contains(&format!("`{cursor}`")), "{error}");
        }
        for cursor in ["q.-1.0", "q.0.-1", "q.99999999999999999999.0"] {
            assert!(EntryPosition::read(cursor, "q").is_err(), "{cursor}");
        }
    }

    #[test]
    fn tags_distinguish_queries() {
        assert_ne!(query_tag(&["a", "b"]), query_tag(&["ab", ""]));
        assert_eq!(query_tag(&["a", "b"]).len(), 12);
    }
}
