//! File operations for clients: read, write, list, create, remove and copy files and folders.
//!
//! The functions act with the rights of this process and wait for the file system, so a caller on an
//! asynchronous runtime runs them on a [`files::Pool`]. None waits for another program: FIFOs, sockets
//! and devices are refused, or removed and listed without being opened. Every error names the path.

mod copy;
mod draft;
mod error;
mod folder;
mod metadata;
mod read;
mod remove;
mod write;

pub use copy::copy;
pub use draft::sync_folder;
pub use error::Error;
pub use folder::{Entry, MAX_ENTRIES, create_folder, read_folder};
pub use metadata::{Metadata, metadata};
pub use read::{MAX_FILE_BYTES, read};
pub use remove::remove;
pub use write::write;
