//! The agent for editors: the Agent Client Protocol, version 1 and the draft of version 2, over any pair of byte
//! streams. A thin adapter: towards the editor it is an agent, towards the server a client of this program's own protocol.
//!
//! ```text
//! editor ──session/prompt──▶ Adapter ──turn/start──▶ server
//!    ▲  ◀── session/update ──┘  │  ◀── item/…, turn/completed ──┘
//!    └─ session/request_permission ◀──┘ ◀── item/…/requestApproval
//! ```
//!
//! One task owns all state ([`adapter`]); the translation of messages is pure ([`map`]). It reads neither
//! the environment nor files, and starts no process.

mod adapter;
mod editor;
mod link;
mod map;
mod schema;
mod session;
mod wire;

pub use adapter::{Ended, Options, serve};
