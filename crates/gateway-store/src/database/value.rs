//! Values of statements and rows. Booleans are 0 and 1; moments are microseconds or seconds, as the
//! column's name says.

use crate::Error;

/// One value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// SQL's null.
    Null,
    /// `BIGINT`.
    Integer(i64),
    /// `TEXT`.
    Text(Box<str>),
    /// `BYTEA`.
    Bytes(Box<[u8]>),
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Integer(value)
    }
}

impl From<u32> for Value {
    fn from(value: u32) -> Self {
        Self::Integer(value.into())
    }
}

/// A value that does not fit is stored as the largest one that does: 9.2 · 10¹⁸.
impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::Integer(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

impl From<usize> for Value {
    fn from(value: usize) -> Self {
        Self::Integer(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Integer(value.into())
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(value.into())
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Self::Text(value.into())
    }
}

impl From<Box<str>> for Value {
    fn from(value: Box<str>) -> Self {
        Self::Text(value)
    }
}

impl From<&Box<str>> for Value {
    fn from(value: &Box<str>) -> Self {
        Self::Text(value.clone())
    }
}

impl From<&[u8]> for Value {
    fn from(value: &[u8]) -> Self {
        Self::Bytes(value.into())
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// One row. Columns count from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row(pub(super) Vec<Value>);

impl Row {
    /// All values, in the order of the columns.
    #[must_use]
    pub fn values(&self) -> &[Value] {
        &self.0
    }

    /// An integer.
    ///
    /// # Errors
    /// The column is missing, null or of another type.
    pub fn integer(&self, column: usize) -> Result<i64, Error> {
        self.optional_integer(column)?.ok_or_else(|| wrong(column, "a number"))
    }

    /// An integer, or null.
    ///
    /// # Errors
    /// The column is missing or of another type.
    pub fn optional_integer(&self, column: usize) -> Result<Option<i64>, Error> {
        match self.0.get(column) {
            Some(Value::Integer(value)) => Ok(Some(*value)),
            Some(Value::Null) => Ok(None),
            _ => Err(wrong(column, "a number")),
        }
    }

    /// A count or a sum; negative values read as zero.
    ///
    /// # Errors
    /// The column is missing, null or of another type.
    pub fn count(&self, column: usize) -> Result<u64, Error> {
        Ok(u64::try_from(self.integer(column)?).unwrap_or(0))
    }

    /// A count, or null.
    ///
    /// # Errors
    /// The column is missing or of another type.
    pub fn optional_count(&self, column: usize) -> Result<Option<u64>, Error> {
        Ok(self.optional_integer(column)?.map(|value| u64::try_from(value).unwrap_or(0)))
    }

    /// A boolean.
    ///
    /// # Errors
    /// The column is missing, null or of another type.
    pub fn boolean(&self, column: usize) -> Result<bool, Error> {
        Ok(self.integer(column)? != 0)
    }

    /// A text.
    ///
    /// # Errors
    /// The column is missing, null or of another type.
    pub fn text(&self, column: usize) -> Result<Box<str>, Error> {
        self.optional_text(column)?.ok_or_else(|| wrong(column, "a text"))
    }

    /// A text, or null.
    ///
    /// # Errors
    /// The column is missing or of another type.
    pub fn optional_text(&self, column: usize) -> Result<Option<Box<str>>, Error> {
        match self.0.get(column) {
            Some(Value::Text(text)) => Ok(Some(text.clone())),
            Some(Value::Null) => Ok(None),
            _ => Err(wrong(column, "a text")),
        }
    }

    /// Bytes.
    ///
    /// # Errors
    /// The column is missing, null or of another type.
    pub fn bytes(&self, column: usize) -> Result<Box<[u8]>, Error> {
        match self.0.get(column) {
            Some(Value::Bytes(bytes)) => Ok(bytes.clone()),
            _ => Err(wrong(column, "bytes")),
        }
    }
}

fn wrong(column: usize, expected: &str) -> Error {
    Error::failed(format!("column {column} of a row is not {expected}"))
}
