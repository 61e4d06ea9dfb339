//! The limits' state file: whatever is in it is read or refused. The header is put before most
//! inputs, so that slots are reached.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ratelimit::{check_state, empty_state};

fuzz_target!(|bytes: &[u8]| {
    let _ = check_state(bytes);
    let mut whole = empty_state();
    whole.extend_from_slice(bytes);
    if let Ok(meters) = check_state(&whole) {
        assert!(bytes.len() % 256 == 0 && meters <= bytes.len() / 256);
    }
});
