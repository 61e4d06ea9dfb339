//! Jobs and their rows in the tables.

mod apply;
mod keys;
pub(crate) mod read;

pub(crate) use apply::{apply, remove_of, sweep};
pub(crate) use keys::job_of;
