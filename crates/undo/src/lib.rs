//! Undo of what turns change in folders, outside of the user's git (`features.undo`).
//!
//! Each tracked folder has an index: the state of every entry, and the stamps of the system by which
//! an unchanged one is recognized without reading it. Contents are stored once each, under their
//! digest. A turn's tool calls run inside of *windows*: the folder is compared with its index before
//! and after, so that what changed in between is recorded as the turn's, and what changed outside of
//! any window is known to come from elsewhere.
//!
//! [`Undo`] is the handle. A [`Plan`] says what going back would do; nothing is written before
//! [`Undo::restore`].
//!
//! What is not kept, so that it cannot be restored: version control folders (`.git` and others),
//! files of more than [`MAX_FILE_BYTES`], ignored files of more than [`MAX_IGNORED_FILE_BYTES`],
//! ignored folders of more than [`MAX_IGNORED_ENTRIES`] entries, sockets, FIFOs, devices, and what
//! this user cannot read.

mod database;
mod error;
mod event;
mod folder;
mod index;
mod kernel;
mod plan;
mod recovery;
mod restore;
mod rules;
mod state;
mod turn;
mod undo;
mod writer;

pub use error::Error;
pub use folder::{
    MAX_ENTRIES, MAX_FILE_BYTES, MAX_IGNORED_ENTRIES, MAX_IGNORED_FILE_BYTES, MAX_TOTAL_BYTES,
};
pub use plan::{Conflict, Obstacle, Plan, Step, Unkept};
pub use restore::Outcome;
pub use state::{Digest, Reason, State};
pub use turn::Turn;
pub use undo::{Undo, Window};
