//! The limits' state file: whatever is in it is read or refused. The header is put before most
//! inputs, so that slots are reached.

use ratelimit::{check_state, empty_state};

/// Checks one input.
pub fn run(bytes: &[u8]) {
    let _ = check_state(bytes);
    let mut whole = empty_state();
    whole.extend_from_slice(bytes);
    if let Ok(meters) = check_state(&whole) {
        assert!(bytes.len().is_multiple_of(256) && meters <= bytes.len() / 256);
    }
}
