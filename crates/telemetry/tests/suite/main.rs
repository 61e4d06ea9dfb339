//! Tests of what is exported, and of the pages that list it.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod docs;
#[cfg(feature = "collector")]
mod export;
