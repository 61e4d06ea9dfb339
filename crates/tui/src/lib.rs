//! The terminal program: a client of the public protocol for a person at a terminal.
//!
//! It is a state machine: what the person types, what the server sends and the time go in, frames and
//! effects come out. Only [`terminal`] and [`run`] touch the world.
#![warn(missing_docs)]

pub mod app;
pub mod ask;
pub mod cells;
pub mod composer;
pub mod context;
pub mod diff;
pub mod here;
pub mod highlight;
pub mod history;
pub mod image;
pub mod link;
pub mod markdown;
pub mod output;
pub mod pager;
pub mod palette;
pub mod picker;
pub mod terminal;
pub mod text;
pub mod view;

mod image_files;
mod kept;
mod programs;
mod run;
mod server_queue;
mod session;

pub use app::Ended;
pub use kept::Kept;
pub use run::{Options, crash_report, run};
