//! The estimate of tokens from text: what an answer is charged for whose usage is not known.

use super::json::count_scalars;

/// Estimated tokens of a piece of UTF-8, in eighths, so that pieces add up: a character of ASCII is a quarter of a
/// token, one of most other alphabets about half, a Chinese or Japanese one a whole. Pieces may end inside of a
/// character.
pub(super) fn eighths(utf8: &[u8]) -> u64 {
    3 * utf8.len() as u64 - count_scalars(utf8) as u64
}

/// Estimated tokens, rounded up.
pub fn tokens(eighths: u64) -> u64 {
    eighths.div_ceil(8)
}

#[cfg(test)]
mod tests {
    use super::{eighths, tokens};

    #[test]
    fn characters_have_the_tokens_of_their_alphabet() {
        for (text, expected) in [
            ("", 0),
            ("a", 1),
            ("abcd", 1),
            ("abcde", 2),
            ("\u{436}\u{436}\u{436}", 2),
            ("\u{4e2d}\u{6587}", 2),
            ("\u{1f600}", 2),
        ] {
            assert_eq!(tokens(eighths(text.as_bytes())), expected, "{text}");
            let pieces: u64 = text.as_bytes().chunks(1).map(eighths).sum();
            assert_eq!(pieces, eighths(text.as_bytes()), "{text}");
        }
    }
}
