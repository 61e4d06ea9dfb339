//! Words that look random.

/// Fewest characters of a random word: below it, ordinary words can be as varied.
const SHORTEST: usize = 24;
/// Fewest characters of a random word of hexadecimal digits.
const SHORTEST_HEX: usize = 32;
/// Fewest bits a character, in the word's own distribution. English words have less than 3.5 at this
/// length, base64 about 4.5.
const BITS: f64 = 3.8;

/// Whether a word is random: a key without a known form. An identifier in the form of a UUID, a path
/// and a word of several parts are not.
pub(crate) fn is_random(word: &str) -> bool {
    let body = word.trim_end_matches('=');
    if body.len() < SHORTEST || is_uuid(body) {
        return false;
    }
    if body.len() >= SHORTEST_HEX && body.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return body.bytes().any(|byte| byte.is_ascii_alphabetic())
            && body.bytes().any(|byte| byte.is_ascii_digit());
    }
    let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'_');
    let has = |test: fn(&u8) -> bool| body.as_bytes().iter().any(test);
    body.bytes().all(is_base64)
        && has(u8::is_ascii_digit)
        && has(u8::is_ascii_lowercase)
        && has(u8::is_ascii_uppercase)
        && bits(body) >= BITS
}

fn is_uuid(word: &str) -> bool {
    const PARTS: [usize; 5] = [8, 4, 4, 4, 12];
    let mut parts = word.split('-');
    PARTS.iter().all(|length| {
        parts.next().is_some_and(|part| {
            part.len() == *length && part.bytes().all(|byte| byte.is_ascii_hexdigit())
        })
    }) && parts.next().is_none()
}

/// Shannon's entropy a character.
fn bits(word: &str) -> f64 {
    let mut counts = [0_u32; 256];
    for byte in word.bytes() {
        counts[usize::from(byte)] += 1;
    }
    let length = f64::from(u32::try_from(word.len()).unwrap_or(u32::MAX));
    counts
        .iter()
        .filter(|count| **count > 0)
        .map(|count| {
            let share = f64::from(*count) / length;
            -share * share.log2()
        })
        .sum()
}
