//! Hooks: handlers of users, projects and administrators that run at defined points of a thread. This
//! crate reads `hooks.json`, decides which handlers an event starts, writes what a handler reads, and
//! reads and merges what handlers answer.
//!
//! Pure: opens no file and starts no process. The formats are those that other agents have, so that a
//! file written for one of them works unchanged.

mod answer;
mod event;
mod file;
mod hook;
mod input;
mod json;
mod matcher;
mod outcome;

pub use answer::{Answer, Entry, EntryKind, HandlerResult, Permission, Status, read_answer};
pub use event::{
    CompactionTrigger, EndReason, Event, EventName, StartSource, ToolUse, UnknownEvent,
};
pub use file::{Definitions, FileError, MAX_HOOKS, Warning, read_file, read_groups};
pub use hook::{Handler, Hook, Origin, Source};
pub use input::{Agent, Context, PermissionMode};
pub use json::read as read_json;
pub use matcher::{InvalidMatcher, Matcher};
pub use outcome::{Outcome, Refusal};
