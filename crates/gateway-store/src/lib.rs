//! Stored state of the gateway: statements over SQLite or PostgreSQL, typed records, the directory
//! of keys, the usage ledger, and the journal of open requests. It makes no decisions about requests.

pub mod database;
pub mod directory;
pub mod journal;
pub mod ledger;
pub mod records;

mod api_error;
mod error;

pub use error::{Error, ErrorKind};
