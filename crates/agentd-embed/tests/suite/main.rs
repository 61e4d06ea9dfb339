//! Tests of the crate over its public functions, against servers of their own.
#![allow(clippy::unwrap_used)]

mod bounds;
mod callbacks;
mod fake;
mod hostile;
mod output;
mod reconnect;
mod recording;
mod threads;
mod tls;
mod turns;
