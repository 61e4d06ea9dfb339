//! Tests of how skills are found and read.
#![allow(clippy::unwrap_used)]

mod discovery;
mod table;
