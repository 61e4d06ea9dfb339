//! Loaded threads of the application server: one actor each, which owns the session's machine and carries
//! its effects out, the loading of threads, and the agents that threads start. It knows no handler of the
//! protocol, and no connection beyond its peer.

pub mod agents;
pub mod egress;
pub mod requests;
pub mod thread;
pub mod thread_loader;
pub mod warm_up;
