//! Ids: a prefix, the time and randomness, in hexadecimal. Sorted as texts they are in the order of
//! their creation, on which pagination relies.

use std::sync::atomic::{AtomicU64, Ordering};

use ratelimit::Micros;

use gateway_policy::environment::Random;

/// An id such as `proj_018b…`: the prefix and 32 hexadecimal digits. Half of them are the time in
/// milliseconds and a counter, so that ids of one process are in the order of their creation; the
/// other half is random.
#[must_use]
pub fn new(prefix: &str, now: Micros, random: &dyn Random) -> Box<str> {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let place = (now / 1000) << 16;
    let next = |last: u64| Some(place.max(last.saturating_add(1)));
    // The closure always returns a value.
    let last = LAST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).unwrap_or(place);
    let mut chance = [0; 8];
    random.fill(&mut chance);
    let mut id = format!("{prefix}{:016x}", place.max(last.saturating_add(1)));
    id.push_str(&hex(&chance));
    id.into()
}

/// Encodes bytes in hexadecimal.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    const_hex::encode(bytes)
}

/// Decodes 64 hexadecimal digits into 32 bytes.
#[must_use]
pub fn unhex(text: &str) -> Option<[u8; 32]> {
    const_hex::decode_to_array(Some(text).filter(|text| text.len() == 64)?).ok()
}
