//! The wire protocol: the type of every message, the tables of methods and notifications, and their
//! JSON Schema and TypeScript. It defines the messages, and contains no behavior of the server.
//!
//! Each resource has one file, with its types and table entries. Adding a method takes one entry
//! there and one handler in the server: the table yields the marker for typed calls, the trait
//! method that the server must implement, the decoder, the experimental gate and the schema.

mod dialect;
mod dispatch;
mod gate;
pub mod generate;
mod handling;
mod message_schema;
mod registry;
mod resource;
mod table;
mod wire;

// Written out, because rustfmt does not visit modules declared by a macro.
pub mod account;
pub mod app;
pub mod approval;
pub mod artifacts;
pub mod collaboration;
pub mod command;
pub mod common;
pub mod config;
pub mod connection;
pub mod describe;
pub mod elicitation;
mod encoded;
pub mod error;
pub mod external_agent;
pub mod features;
pub mod feedback;
pub mod fs;
pub mod fuzzy;
pub mod goal;
pub mod guardian;
pub mod hooks;
pub mod input;
pub mod item;
pub mod item_event;
pub mod json_text;
pub mod legacy_approval;
pub mod marketplace;
pub mod mcp;
pub mod memory;
pub mod model;
pub mod permission;
pub mod plugin;
pub mod plugin_share;
pub mod policy;
pub mod process;
pub mod queue;
pub mod realtime;
pub mod requirements;
pub mod response_item;
pub mod review;
pub mod review_finding;
pub mod search;
pub mod skills;
pub mod thread;
pub mod thread_change;
pub mod thread_edit;
pub mod thread_list;
pub mod thread_record;
pub mod thread_start;
pub mod tool;
pub mod turn;
pub mod windows;
pub mod worktree;

pub use dialect::{Dialect, Translated, Translator};
pub use dispatch::dispatch;
pub use encoded::Encoded;
pub use gate::experimental_violation;
pub use handling::{Handlers, Reply, TURN_OVERRIDES, unimplemented};
pub use registry::{
    AllMethods, CLIENT_NOTIFICATIONS, METHODS, NOTIFICATIONS, SERVER_REQUESTS, lookup,
    lookup_notification, lookup_server_request,
};
pub use resource::Resource;
pub use table::{Load, MessageInfo, MethodInfo, Ordering, Retention, Stability};

#[doc(inline)]
pub use self::{
    account::*, app::*, approval::*, collaboration::*, command::*, common::*, config::*,
    connection::*, elicitation::*, error::*, external_agent::*, features::*, feedback::*, fs::*,
    fuzzy::*, goal::*, guardian::*, hooks::*, input::*, item::*, item_event::*, json_text::*,
    legacy_approval::*, marketplace::*, mcp::*, memory::*, model::*, permission::*, plugin::*,
    plugin_share::*, policy::*, process::*, queue::*, realtime::*, requirements::*,
    response_item::*, review::*, review_finding::*, search::*, skills::*, thread::*,
    thread_change::*, thread_edit::*, thread_list::*, thread_record::*, thread_start::*, tool::*,
    turn::*, windows::*, worktree::*,
};
