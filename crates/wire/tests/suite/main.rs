//! Tests of the translation between wires, as one program.
#![allow(clippy::unwrap_used)]

mod broken;
mod histories;
mod quirks;
mod requests;
mod support;
mod table;
mod transcripts;
