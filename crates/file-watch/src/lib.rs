//! Reports which files change: below a folder, in a folder, or one file, even where nothing exists yet.
//!
//! A [`Watcher`] has one inotify instance for all of its watches, and a thread that reads it. A
//! [`Watch`] collects the changed paths, within bounds, until its owner takes them: a burst becomes one
//! [`Change`]. A caller that examines each path of each change (its metadata, and of a folder the names in it), and
//! everything below the watched path when a change is an overflow, has a picture that equals the disk as soon as the disk is at rest.
//!
//! What inotify cannot watch is examined at intervals by a thread of its own: file systems that
//! change elsewhere, and everything once the system's limits are reached.
//!
//! This crate reads no contents and opens no files.

mod changes;
mod error;
mod limits;
#[cfg(target_os = "linux")]
mod linux;
mod mounts;
mod poll;
mod watcher;

pub use changes::{Change, LONGEST_DELAY, MAX_BYTES, MAX_PATHS, QUIET};
pub use error::Error;
pub use limits::Limits;
pub use watcher::{Watch, Watcher};
