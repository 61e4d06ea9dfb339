//! Tests of the translation between wires, as one program.
#![allow(clippy::unwrap_used)]

mod requests;
mod support;
mod transcripts;
