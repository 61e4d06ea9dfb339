//! Shared by tests of the whole server: a server in this process with a scripted model, a clock
//! that tests set and counted ids, and a client that records its messages. It contains no tests,
//! and never waits for time to pass.
//!
//! ```no_run
//! # async fn example() {
//! use serde_json::json;
//! use testkit::TestEnvironment;
//!
//! let env = TestEnvironment::with_responses(json!([{ "steps": [{ "message": "Hello." }] }])).await;
//! let server = env.start();
//! let mut peer = server.connect().await;
//! let thread = peer.start_thread(json!({})).await;
//! let turn = peer.run_turn(&thread, "Say hello.").await;
//! assert_eq!(turn["status"], "completed");
//! # }
//! ```

mod answered;
mod contract;
mod deterministic;
mod environment;
mod image;
mod peer;
mod realtime_server;
mod recorded;
mod scripted_model;
mod transcript;

pub use contract::{Contract, ContractError};
pub use deterministic::{ManualClock, SequentialIds};
pub use environment::{TestEnvironment, TestServer};
pub use image::{png, png_url, png_with_text};
pub use peer::{ErrorResponse, Peer, ReceivedRequest};
pub use realtime_server::{RealtimeReply, RealtimeScript, RealtimeServer};
pub use scripted_model::ScriptedModel;
pub use transcript::{Transcript, assert_lines};
/// For tests that compare what the model was sent over different wires.
pub use wire;
