//! Searches eight bytes at a time: for short strings, where the call of a vectorised search costs
//! more than the search. Its only knowledge of JSON is which characters end a run of plain text.

const ONES: u64 = u64::from_le_bytes([1; 8]);
const HIGHS: u64 = u64::from_le_bytes([0x80; 8]);

/// The offset of the first match: `word` tests eight bytes at a time, `byte` the remaining ones.
#[inline]
pub(super) fn find(
    bytes: &[u8],
    word: impl Fn(u64) -> u64,
    byte: impl Fn(u8) -> bool,
) -> Option<usize> {
    let (words, rest) = bytes.as_chunks::<8>();
    for (at, eight) in words.iter().enumerate() {
        let found = word(u64::from_le_bytes(*eight));
        if found != 0 {
            return Some(at * 8 + found.trailing_zeros() as usize / 8);
        }
    }
    rest.iter().position(|found| byte(*found)).map(|at| words.len() * 8 + at)
}

/// Marks quotes, backslashes and control characters. Only the lowest mark is reliable.
#[inline]
pub(super) fn special(word: u64) -> u64 {
    let control = word.wrapping_sub(ONES * 0x20) & !word & HIGHS;
    control | closing(word)
}

/// Marks quotes and backslashes, as [`special`] does.
#[inline]
pub(super) fn closing(word: u64) -> u64 {
    equal(word, b'"') | equal(word, b'\\')
}

#[inline]
fn equal(word: u64, byte: u8) -> u64 {
    let zero = word ^ (ONES * u64::from(byte));
    zero.wrapping_sub(ONES) & !zero & HIGHS
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_first_match_is_found(bytes in prop::collection::vec(
            prop_oneof![Just(b'"'), Just(b'\\'), Just(0x1F), Just(0x20), Just(b'!'), any::<u8>(), Just(b'a')],
            0..40,
        )) {
            let is_special = |byte: u8| byte < 0x20 || byte == b'"' || byte == b'\\';
            let expect = bytes.iter().position(|byte| is_special(*byte));
            prop_assert_eq!(find(&bytes, special, is_special), expect);
            let is_closing = |byte: u8| byte == b'"' || byte == b'\\';
            let expect = bytes.iter().position(|byte| is_closing(*byte));
            prop_assert_eq!(find(&bytes, closing, is_closing), expect);
        }
    }
}
