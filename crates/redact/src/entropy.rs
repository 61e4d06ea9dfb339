//! Words that look random.

/// Fewest characters of a random word: below it, ordinary words can be as varied.
const SHORTEST: usize = 24;
/// Fewest characters of a random word of hexadecimal digits.
const SHORTEST_HEX: usize = 32;
/// Fewest bits a character, in the word's own distribution. English words have less than 3.5 at this
/// length, base64 about 4.5.
const BITS: f64 = 3.8;
/// The minimum score of a random word, as opposed to a path. Random text of 40 characters has 1500,
/// with a standard deviation of 600; paths of that length have about -1500.
const LEAST_FOR_RANDOM: i32 = -700;

/// Returns whether a word is random: a key without a known form. An identifier in the form of a
/// UUID, a path and a word of several parts are not.
pub(crate) fn is_random(word: &str) -> bool {
    let body = word.trim_end_matches(['.', ':', '!', '?']).trim_end_matches('=');
    if body.len() < SHORTEST || is_uuid(body) {
        return false;
    }
    if body.len() >= SHORTEST_HEX && body.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return body.bytes().any(|byte| byte.is_ascii_alphabetic())
            && body.bytes().any(|byte| byte.is_ascii_digit());
    }
    let is_one_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'_');
    let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    let has = |test: fn(&u8) -> bool| body.as_bytes().iter().any(test);
    (body.bytes().all(is_one_part) || body.bytes().all(is_base64) && !reads_like_words(body))
        && has(u8::is_ascii_digit)
        && has(u8::is_ascii_lowercase)
        && has(u8::is_ascii_uppercase)
        && bits(body) >= BITS
}

/// Returns whether the parts of a path or a sum, which can have all characters of base64, are
/// words: they have letters of one case in a row, and digits too, which random text does not.
fn reads_like_words(body: &str) -> bool {
    #[derive(Clone, Copy)]
    enum Kind {
        Lower,
        Upper,
        Digit,
    }
    let kind = |byte: u8| match byte {
        b'a'..=b'z' => Some(Kind::Lower),
        b'A'..=b'Z' => Some(Kind::Upper),
        b'0'..=b'9' => Some(Kind::Digit),
        _ => None,
    };
    let kinds: Vec<_> = body.bytes().map(kind).collect();
    let for_random: i32 = kinds
        .windows(2)
        .filter_map(|pair| Some((pair[0]?, pair[1]?)))
        // How much more often the two follow each other in random text than in words: the logarithm of
        // the ratio, times 100.
        .map(|pair| match pair {
            (Kind::Lower, Kind::Lower) => -70,
            (Kind::Lower, Kind::Upper) => 166,
            (Kind::Lower, Kind::Digit) => 83,
            (Kind::Upper, Kind::Lower) => -58,
            (Kind::Upper, Kind::Upper) => 74,
            (Kind::Upper, Kind::Digit) => 116,
            (Kind::Digit, Kind::Lower) => 52,
            (Kind::Digit, Kind::Upper) => 74,
            (Kind::Digit, Kind::Digit) => -123,
        })
        .sum();
    for_random < LEAST_FOR_RANDOM
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
