//! Values of statements, and the columns of rows.
//!
//! PostgreSQL's text cannot hold U+0000, so a text column holds an escaped form: U+0010 followed by
//! `0` stands for U+0000, and U+0010 followed by `1` for itself. Payloads are bytes as given.

use std::borrow::Cow;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

use bytes::BytesMut;
use tokio_postgres::Row;
use tokio_postgres::types::{Format, IsNull, ToSql, Type, to_sql_checked};

use super::failure::Failure;

/// A value of a statement, with its type.
#[derive(Debug, Clone)]
pub(super) enum Value {
    Int(Option<i64>),
    Bool(bool),
    Text(Option<String>),
    Bytes(Option<Vec<u8>>),
    Ints(Vec<Option<i64>>),
    Bools(Vec<bool>),
    Texts(Vec<Option<String>>),
    AllBytes(Vec<Option<Vec<u8>>>),
}

impl Value {
    /// A payload, which is stored byte by byte.
    pub(super) fn payload(text: &str) -> Self {
        Self::Bytes(Some(text.as_bytes().to_vec()))
    }

    pub(super) fn payload_or_null(text: Option<&str>) -> Self {
        Self::Bytes(text.map(|text| text.as_bytes().to_vec()))
    }

    /// A text that is searched, or searched for: no escapes, in which a search could find something.
    pub(super) fn searched(text: &str) -> Self {
        Self::Text(Some(text.replace('\0', "\u{ffff}")))
    }

    pub(super) fn texts<'t>(texts: impl IntoIterator<Item = &'t str>) -> Self {
        Self::Texts(texts.into_iter().map(|text| Some(escaped(text).into_owned())).collect())
    }

    /// The first `letters` of each text, as the function `left` returns them of its column.
    pub(super) fn beginnings<'t>(texts: impl IntoIterator<Item = &'t str>, letters: usize) -> Self {
        let beginning = |text| Some(escaped(text).chars().take(letters).collect());
        Self::Texts(texts.into_iter().map(beginning).collect())
    }

    pub(super) fn ints(numbers: impl IntoIterator<Item = i64>) -> Self {
        Self::Ints(numbers.into_iter().map(Some).collect())
    }

    pub(super) fn kind(&self) -> Type {
        match self {
            Self::Int(_) => Type::INT8,
            Self::Bool(_) => Type::BOOL,
            Self::Text(_) => Type::TEXT,
            Self::Bytes(_) => Type::BYTEA,
            Self::Ints(_) => Type::INT8_ARRAY,
            Self::Bools(_) => Type::BOOL_ARRAY,
            Self::Texts(_) => Type::TEXT_ARRAY,
            Self::AllBytes(_) => Type::BYTEA_ARRAY,
        }
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Int(Some(number))
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Int(Some(number.into()))
    }
}

impl From<Option<i64>> for Value {
    fn from(number: Option<i64>) -> Self {
        Self::Int(number)
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self::Bool(flag)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(Some(escaped(text).into_owned()))
    }
}

impl From<&String> for Value {
    fn from(text: &String) -> Self {
        text.as_str().into()
    }
}

impl From<Option<&str>> for Value {
    fn from(text: Option<&str>) -> Self {
        Self::Text(text.map(|text| escaped(text).into_owned()))
    }
}

impl ToSql for Value {
    fn to_sql(
        &self,
        target: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self {
            Self::Int(value) => value.to_sql(target, out),
            Self::Bool(value) => value.to_sql(target, out),
            Self::Text(value) => value.to_sql(target, out),
            Self::Bytes(value) => value.to_sql(target, out),
            Self::Ints(values) => values.to_sql(target, out),
            Self::Bools(values) => values.to_sql(target, out),
            Self::Texts(values) => values.to_sql(target, out),
            Self::AllBytes(values) => values.to_sql(target, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, _: &Type) -> Format {
        Format::Binary
    }

    to_sql_checked!();
}

/// A random number, which tells one commit from all others.
pub(super) fn random() -> i64 {
    // Keys of the hasher are random.
    RandomState::new().build_hasher().finish().cast_signed()
}

const ESCAPE: char = '\u{10}';

/// A text as a text column holds it.
pub(super) fn escaped(text: &str) -> Cow<'_, str> {
    if !text.bytes().any(|byte| byte == 0 || byte == 0x10) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for letter in text.chars() {
        match letter {
            '\0' => escaped.extend([ESCAPE, '0']),
            ESCAPE => escaped.extend([ESCAPE, '1']),
            other => escaped.push(other),
        }
    }
    Cow::Owned(escaped)
}

/// The text that a text column stands for; `None` if it holds no escaped text.
fn unescaped(column: &str) -> Option<String> {
    if !column.bytes().any(|byte| byte == 0x10) {
        return Some(column.to_owned());
    }
    let mut text = String::with_capacity(column.len());
    let mut letters = column.chars();
    while let Some(letter) = letters.next() {
        match letter {
            ESCAPE => match letters.next()? {
                '0' => text.push('\0'),
                '1' => text.push(ESCAPE),
                _ => return None,
            },
            other => text.push(other),
        }
    }
    Some(text)
}

/// The columns of a row, read one after the other.
pub(super) struct Columns<'r> {
    row: &'r Row,
    next: usize,
}

impl<'r> Columns<'r> {
    pub(super) fn of(row: &'r Row) -> Self {
        Self { row, next: 0 }
    }

    pub(super) fn int(&mut self) -> Result<i64, Failure> {
        let at = self.advance();
        Ok(self.row.try_get(at)?)
    }

    pub(super) fn int_or_null(&mut self) -> Result<Option<i64>, Failure> {
        let at = self.advance();
        Ok(self.row.try_get(at)?)
    }

    /// A number that is never negative or large.
    pub(super) fn small(&mut self) -> Result<u32, Failure> {
        let number = self.int()?;
        u32::try_from(number).map_err(|_| Failure::damaged(format!("{number} is out of range")))
    }

    pub(super) fn flag(&mut self) -> Result<bool, Failure> {
        let at = self.advance();
        Ok(self.row.try_get(at)?)
    }

    pub(super) fn text(&mut self) -> Result<String, Failure> {
        self.text_or_null()?.ok_or_else(|| Failure::damaged("a text is null".to_owned()))
    }

    pub(super) fn text_or_null(&mut self) -> Result<Option<String>, Failure> {
        let at = self.advance();
        let Some(column) = self.row.try_get::<_, Option<&str>>(at)? else { return Ok(None) };
        let text = unescaped(column);
        text.map(Some).ok_or_else(|| Failure::damaged(format!("{column:?} is not escaped")))
    }

    pub(super) fn texts(&mut self) -> Result<Vec<String>, Failure> {
        let at = self.advance();
        let columns: Vec<&str> = self.row.try_get(at)?;
        let text = |column: &str| {
            unescaped(column).ok_or_else(|| Failure::damaged(format!("{column:?} is not escaped")))
        };
        columns.into_iter().map(text).collect()
    }

    pub(super) fn payload(&mut self) -> Result<String, Failure> {
        self.payload_or_null()?.ok_or_else(|| Failure::damaged("a payload is null".to_owned()))
    }

    pub(super) fn payload_or_null(&mut self) -> Result<Option<String>, Failure> {
        let at = self.advance();
        let Some(bytes) = self.row.try_get::<_, Option<Vec<u8>>>(at)? else { return Ok(None) };
        let text = String::from_utf8(bytes);
        text.map(Some).map_err(|_| Failure::damaged("a payload is not UTF-8".to_owned()))
    }

    fn advance(&mut self) -> usize {
        self.next += 1;
        self.next - 1
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn escaped_texts_read_back_and_hold_no_nul(text in "[a\0\u{10}01é]{0,12}") {
            let column = escaped(&text);
            prop_assert!(!column.contains('\0'));
            prop_assert_eq!(unescaped(&column), Some(text));
        }
    }

    #[test]
    fn a_column_that_was_not_escaped_is_damage() {
        for column in ["\u{10}", "a\u{10}2"] {
            assert_eq!(unescaped(column), None);
        }
    }
}
