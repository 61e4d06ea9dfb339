//! Edits of a configuration file that keep its comments, order, blank lines and the form of its
//! tables. [`apply`] changes the text, [`write`](fn@write) the file. In a text that is not TOML, an edit can
//! remove the cause.

mod document;
mod mend;
mod write;

use serde_json::Value as Json;

pub use document::{apply, value_text};
pub use write::{Written, write};

/// One change.
#[derive(Debug, Clone, PartialEq)]
pub struct Edit {
    /// Dotted key; parts with dots in quotes, as `projects."/a/b.c".trust_level`. A number names an element
    /// of a list that is there, from 0.
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
