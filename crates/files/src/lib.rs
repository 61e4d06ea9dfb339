//! The one way to open a file that somebody else controls: a client, the model, or whoever wrote
//! the workspace or the configuration.
//!
//! [`open`] and the functions that read never wait for another program: they refuse whatever is
//! not a regular file, by the opened descriptor, and read a bounded number of bytes. They still
//! wait for the file system. A caller on an asynchronous runtime therefore reads through a
//! [`Pool`], which bounds that wait. Nothing here knows what a file is for.

mod open;
mod pool;
mod read;
mod secret;

pub use open::{FileKind, Opened, append, check_usable, open, open_without_links};
pub use pool::{ANSWER_TIMEOUT, Pool, Unanswered};
pub use read::{ReadError, open_argument, read, read_argument, read_start, read_text};
pub use secret::{SecretError, SecretFile, read_secret};
