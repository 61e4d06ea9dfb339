//! What the gateway keeps: statements over SQLite or PostgreSQL, typed records, the directory of keys,
//! and the usage ledger. It decides nothing about requests.

pub mod database;
pub mod directory;
pub mod ledger;
pub mod records;

mod api_error;
