//! The program of a fuzz target, which is the one that the program is named after.
#![no_main]

use fuzz_targets::{Run, TARGETS};
use libfuzzer_sys::fuzz_target;

/// Chosen when this is compiled, so that a program holds, and counts the edges of, its own target alone.
const TARGET: Run = target(env!("CARGO_BIN_NAME").as_bytes());

fuzz_target!(|bytes: &[u8]| TARGET(bytes));

const fn target(name: &[u8]) -> Run {
    let mut at = 0;
    while at < TARGETS.len() {
        let (other, run) = TARGETS[at];
        if is_equal(other.as_bytes(), name) {
            return run;
        }
        at += 1;
    }
    panic!("no fuzz target has the name of this program");
}

const fn is_equal(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let mut at = 0;
    while at < one.len() {
        if one[at] != other[at] {
            return false;
        }
        at += 1;
    }
    true
}
