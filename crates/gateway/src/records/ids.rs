//! Ids: a prefix, the time in milliseconds and chance, in hexadecimal. Sorted as texts they are in
//! the order they were made in, which is what lists are paged by.

use std::fmt::Write;

use ratelimit::Micros;

use crate::world::Random;

/// An id such as `proj_0197…`: the prefix and 32 digits, 80 bits of them chance.
#[must_use]
pub fn new(prefix: &str, now: Micros, random: &dyn Random) -> Box<str> {
    let mut chance = [0; 10];
    random.fill(&mut chance);
    let mut id = format!("{prefix}{:012x}", (now / 1000) & 0xffff_ffff_ffff);
    push_hex(&mut id, &chance);
    id.into()
}

/// Bytes in hexadecimal.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    push_hex(&mut text, bytes);
    text
}

fn push_hex(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
}
