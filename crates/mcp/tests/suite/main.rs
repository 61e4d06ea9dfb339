//! The pool of servers with servers in memory: lives, calls, and what bad servers do.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod calls;
mod fake;
mod http;
mod lists;
mod lives;
