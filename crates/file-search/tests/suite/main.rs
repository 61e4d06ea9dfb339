//! Searches in real folders.
// FIFOs are made, and `fd` is run, where there is one.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod bounds;
mod changes;
mod ignoring;
mod matching;
mod ranking;
mod sessions;
mod support;
