//! The usage ledger: a row a request, from which usage, costs and exports are read.

mod entry;

pub use entry::{Endpoint, Entry};
