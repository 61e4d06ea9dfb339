//! The one way to open a file that others control: a client, the model, or the authors of the
//! workspace and the configuration.
//!
//! [`open`] and the functions that read never wait for another program: they refuse every open
//! descriptor that is not a regular file, or that the kernel makes (`/proc`, `/sys`), and read a bounded
//! number of bytes. They can still wait
//! for the file system, so a caller on an asynchronous runtime reads through a [`Pool`], which
//! bounds that wait. This crate does not know what a file is for.
//!
//! [`open`] opens with `O_NONBLOCK` and `O_NOCTTY` and examines the opened descriptor; a read is
//! bounded even when the file grows in the meantime. Work in a [`Pool`] that exceeds its time
//! fails with an error that names the place, its thread is counted as overdue, and other work
//! takes its slot. No lock is held during a read. In the server, the actor of a thread receives
//! each result as a command, and has one read in progress at a time.

mod background;
mod error;
mod file_kind;
mod kernel;
mod open;
mod pool;
mod read;
mod secret;

pub use background::{give_way, in_background};
pub use error::Error;
pub use file_kind::FileKind;
pub use open::{
    Opened, append, append_without_links, check_usable, open, open_for_writing, open_without_links,
};
pub use pool::{ANSWER_TIMEOUT, Pool};
pub use read::{decoded, open_argument, read, read_argument, read_start, read_text, read_utf8};
pub use secret::{SecretFile, read_own_secret, read_secret};
