//! Edits of a configuration file that keep its comments, order, blank lines and the form of its
//! tables. [`apply`] changes the text, [`write`](fn@write) the file.

mod document;
mod write;

use serde_json::Value as Json;

pub use document::{apply, value_text};
pub use write::{Written, write};

/// One change.
#[derive(Debug, Clone, PartialEq)]
pub struct Edit {
    /// Dotted key; parts with dots in quotes, as `projects."/a/b.c".trust_level`.
    pub key_path: String,
    /// `null` removes the key.
    pub value: Json,
    /// The treatment of the present value.
    pub strategy: Strategy,
}

/// The treatment of a value that is already set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// The new value replaces it.
    Replace,
    /// Tables are merged key by key; everything else is replaced.
    Upsert,
}
