//! A JSON value that is passed on as it was written: its members keep their order, its numbers their digits
//! and its texts their escapes.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

/// A JSON value as its text, without white space between the tokens: messages are lines on some transports.
#[derive(Clone)]
pub struct JsonText(Box<RawValue>);

impl JsonText {
    /// The value of a text.
    ///
    /// # Errors
    /// The text is no JSON.
    pub fn read(text: &str) -> serde_json::Result<Self> {
        RawValue::from_string(compact(text).into_owned()).map(Self)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// The value, with numbers as far as 64 bits and doubles go.
    ///
    /// # Errors
    /// It is nested more deeply than 128 levels.
    pub fn value(&self) -> serde_json::Result<Value> {
        serde_json::from_str(self.as_str())
    }

    /// The value on several lines, for people.
    pub fn pretty(&self) -> String {
        // One that is nested too deeply for that stays on its line.
        self.value().map_or_else(|_| self.to_string(), |value| format!("{value:#}"))
    }

    /// True for an object.
    pub fn is_object(&self) -> bool {
        self.as_str().starts_with('{')
    }

    /// True for null, which stands for no value.
    pub fn is_null(&self) -> bool {
        self.as_str() == "null"
    }
}

/// Null.
impl Default for JsonText {
    fn default() -> Self {
        Value::Null.into()
    }
}

impl From<Value> for JsonText {
    fn from(value: Value) -> Self {
        Self(serde_json::value::to_raw_value(&value).expect("a value is JSON"))
    }
}

impl PartialEq for JsonText {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl fmt::Debug for JsonText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for JsonText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for JsonText {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for JsonText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        match compact(raw.get()) {
            Cow::Borrowed(_) => Ok(Self(raw)),
            Cow::Owned(text) => {
                RawValue::from_string(text).map(Self).map_err(serde::de::Error::custom)
            }
        }
    }
}

impl schemars::JsonSchema for JsonText {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        Value::schema_name()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        Value::json_schema(generator)
    }
}

/// The text of a JSON value without the white space outside of its strings.
fn compact(text: &str) -> Cow<'_, str> {
    let is_space = |byte: u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
    let mut in_string = false;
    let mut is_escaped = false;
    // Both kinds of bytes are ASCII, so that what is kept stays UTF-8.
    let mut keeps = |byte: u8| {
        if in_string {
            in_string = is_escaped || byte != b'"';
            is_escaped = !is_escaped && byte == b'\\';
            return true;
        }
        in_string = byte == b'"';
        !is_space(byte)
    };
    let Some(first) = text.bytes().position(|byte| !keeps(byte)) else {
        return Cow::Borrowed(text);
    };
    let (kept, rest) = text.split_at(first);
    let mut bytes = Vec::with_capacity(text.len());
    bytes.extend_from_slice(kept.as_bytes());
    // The first of the rest is white space outside of a string: the state is right for what follows.
    bytes.extend(rest.bytes().skip(1).filter(|byte| keeps(*byte)));
    Cow::Owned(String::from_utf8(bytes).expect("only ASCII was left out"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_are_kept_but_for_white_space() {
        for (text, expected) in [
            (r#"{"z":1e2,"a":0.10}"#, r#"{"z":1e2,"a":0.10}"#),
            (
                "{ \"z\" : 123456789012345678901234567890,\r\n\t\"a\":[ ] }",
                r#"{"z":123456789012345678901234567890,"a":[]}"#,
            ),
            (r#"["a b\" c \\", "\u00e9 ü"]"#, r#"["a b\" c \\","\u00e9 ü"]"#),
            (" null ", "null"),
        ] {
            assert_eq!(JsonText::read(text).unwrap().as_str(), expected);
            let member: Vec<JsonText> = serde_json::from_str(&format!("[{text}]")).unwrap();
            assert_eq!(member[0].as_str(), expected);
            assert_eq!(serde_json::to_string(&member).unwrap(), format!("[{expected}]"));
        }
        for text in ["", "{", "{} {}", "{'a':1}"] {
            assert!(JsonText::read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_no_text_any_more_is_read_too() {
        let value = json!({ "b": 1, "a": [null] });
        let read: JsonText = serde_json::from_value(value.clone()).unwrap();
        assert_eq!(read.as_str(), r#"{"b":1,"a":[null]}"#);
        assert_eq!((read.value().unwrap(), JsonText::from(value.clone())), (value, read.clone()));
        assert!(read.is_object() && !read.is_null() && JsonText::default().is_null());
    }

    proptest! {
        #[test]
        fn any_text_with_white_space_becomes_the_text_without(words in prop::collection::vec(".*", 0..8)) {
            let value = json!({ "w": words, "n": [1, { "x": words.len() }] });
            let read = JsonText::read(&format!("{value:#}")).unwrap();
            prop_assert_eq!(read.as_str(), value.to_string());
        }
    }
}
