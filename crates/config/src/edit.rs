//! Changes to a configuration file that keep what a person wrote: comments, order, blank lines and
//! the form of tables. Here the text; [`write`](fn@write) puts it on disk.

mod document;
mod write;

use serde_json::Value as Json;

pub use document::{apply, value_text};
pub use write::{WriteError, Written, write};

/// One change.
#[derive(Debug, Clone, PartialEq)]
pub struct Edit {
    /// Dotted key; parts with dots in quotes, as `projects."/a/b.c".trust_level`.
    pub key_path: String,
    /// `null` removes the key.
    pub value: Json,
    /// What happens to what is there.
    pub strategy: Strategy,
}

/// What happens to a value that is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// The new value takes its place as a whole.
    Replace,
    /// Tables are merged key by key; everything else is replaced.
    Upsert,
}

/// An edit that cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// The file itself is broken.
    #[error("the file is not TOML, mend it first: {0}")]
    Syntax(String),
    /// The key is none.
    #[error("`{key_path}` is no key: {message}")]
    Key {
        /// As it was given.
        key_path: String,
        /// Why.
        message: String,
    },
    /// Something on the way is no table.
    #[error("`{key_path}` cannot be set: `{parent}` is {found}, not a table")]
    NotATable {
        /// As it was given.
        key_path: String,
        /// The part of it that is no table.
        parent: String,
        /// What it is.
        found: &'static str,
    },
    /// A value that TOML does not have.
    #[error("`{key_path}`: {message}")]
    Value {
        /// As it was given.
        key_path: String,
        /// Why.
        message: String,
    },
}
