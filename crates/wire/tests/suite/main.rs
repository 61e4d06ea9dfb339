//! Tests of the translation between wires, as one program.
#![allow(clippy::unwrap_used)]

mod broken;
mod cache_marks;
mod histories;
mod prefix;
mod quirks;
mod requests;
mod support;
mod table;
mod transcripts;
