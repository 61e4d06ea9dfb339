//! Tests of the limits against their model, in one process and shared.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::print_stdout)]

mod faults;
mod histories;
mod lost;
mod shared;
mod spend;
mod store;
