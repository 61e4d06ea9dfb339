//! The error of [`super::Validator`].

use std::fmt;

/// Why a value cannot be checked, or does not pass the check.
#[derive(Debug, PartialEq, Eq)]
pub struct SchemaError {
    kind: SchemaErrorKind,
    message: String,
}

/// The kinds of [`SchemaError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemaErrorKind {
    /// The surface has no message or type of this name.
    UnknownName,
    /// The value does not fit its schema.
    Mismatch,
    /// The value cannot be decoded into its type.
    Decode,
    /// The generated schema uses a construct that the validator does not support.
    Unsupported,
}

impl SchemaError {
    /// The kind, for tests that expect a particular failure.
    #[must_use]
    pub fn kind(&self) -> SchemaErrorKind {
        self.kind
    }

    pub(crate) fn unknown_name(message: String) -> Self {
        Self { kind: SchemaErrorKind::UnknownName, message }
    }

    pub(crate) fn mismatch(message: String) -> Self {
        Self { kind: SchemaErrorKind::Mismatch, message }
    }

    pub(crate) fn unsupported(message: String) -> Self {
        Self { kind: SchemaErrorKind::Unsupported, message }
    }

    pub(crate) fn decode(error: impl fmt::Display) -> Self {
        Self { kind: SchemaErrorKind::Decode, message: error.to_string() }
    }
}

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for SchemaError {}
