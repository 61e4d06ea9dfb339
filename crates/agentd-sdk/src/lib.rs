//! The Rust client: a server that this process starts, or one that runs elsewhere, with its threads and
//! turns as objects. It adds nothing to the protocol: whatever has no function of its own is
//! [`Agent::request`] with the types of the crate [`protocol`]. It does not connect again after the
//! connection was lost.
//!
//! ```no_run
//! # async fn example() -> Result<(), agentd_sdk::Error> {
//! use agentd_sdk::Agent;
//!
//! let agent = Agent::builder().start().await?;
//! println!("{}", agent.run("What does this project do?").await?.text);
//! agent.close().await;
//! # Ok(())
//! # }
//! ```

mod address;
mod agent;
mod answers;
mod builder;
mod compaction;
mod decline;
mod error;
mod hub;
mod input;
mod order;
mod process;
mod setting;
mod shared;
mod thread;
mod tool;
mod turn;

pub use address::ServerAddress;
pub use agent::Agent;
pub use answers::{Approval, Decision};
pub use builder::AgentBuilder;
pub use decline::decline;
pub use error::{Error, RefusalKind};
pub use input::Input;
pub use jsonrpc;
pub use jsonrpc::{ErrorObject, Method};
pub use protocol;
pub use thread::Thread;
pub use tool::Tool;
pub use turn::{Notification, Turn, TurnEvent, TurnResult};

use jsonrpc::Limits;

/// The bounds of a connection to a server: a line may hold a whole turn.
#[must_use]
pub fn connection_limits() -> Limits {
    Limits { line_bytes: 64 << 20, ..Limits::default() }
}

/// The blocks of the page about this crate, which are compiled with the doc tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/sdk-rust.md")]
struct Page;
