//! Members of events as servers write them: a member of another type than the API's is read for what it
//! means, or counts as absent. It never costs the event.

use std::{borrow::Cow, fmt};

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// A position. Absent if it is null, negative or no number; a number may be written as a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Index(pub(super) Option<u32>);

/// A text, borrowed if it has no escapes. A list or an object of texts counts as their concatenation; `None` for
/// null and for what has no text.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Text<'a>(pub(super) Option<Cow<'a, str>>);

impl Index {
    /// The position, or the first one.
    pub(super) fn or_first(self) -> u32 {
        self.0.unwrap_or_default()
    }
}

impl Text<'_> {
    pub(super) fn into_string(self) -> String {
        self.0.map(Cow::into_owned).unwrap_or_default()
    }

    pub(super) fn as_str(&self) -> &str {
        self.0.as_deref().unwrap_or_default()
    }
}

/// The text of a value: itself, its `text`, `refusal` or `content`, or that of the parts of a list.
pub(super) fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(parts) => {
            let texts: Vec<String> = parts.iter().filter_map(text_of).collect();
            (!texts.is_empty()).then(|| texts.concat())
        }
        Value::Object(members) => {
            ["text", "refusal", "content"].iter().find_map(|name| text_of(members.get(*name)?))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

impl<'de> Deserialize<'de> for Index {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Index;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a position")
            }

            fn visit_u64<E>(self, number: u64) -> Result<Index, E> {
                Ok(Index(u32::try_from(number).ok()))
            }

            fn visit_i64<E>(self, number: i64) -> Result<Index, E> {
                Ok(Index(u32::try_from(number).ok()))
            }

            fn visit_f64<E>(self, number: f64) -> Result<Index, E> {
                Ok(Index(format!("{number}").parse().ok()))
            }

            fn visit_str<E>(self, text: &str) -> Result<Index, E> {
                Ok(Index(text.trim().parse().ok()))
            }

            fn visit_bool<E>(self, _: bool) -> Result<Index, E> {
                Ok(Index(None))
            }

            fn visit_unit<E>(self) -> Result<Index, E> {
                Ok(Index(None))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Index, A::Error> {
                Value::deserialize(SeqAccessDeserializer::new(seq)).map(|_| Index(None))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Index, A::Error> {
                Value::deserialize(MapAccessDeserializer::new(map)).map(|_| Index(None))
            }
        }
        deserializer.deserialize_any(Read)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Some(Cow::Borrowed(text))))
            }

            fn visit_str<E>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Some(Cow::Owned(text.to_owned()))))
            }

            fn visit_u64<E>(self, _: u64) -> Result<Text<'de>, E> {
                Ok(Text(None))
            }

            fn visit_i64<E>(self, _: i64) -> Result<Text<'de>, E> {
                Ok(Text(None))
            }

            fn visit_f64<E>(self, _: f64) -> Result<Text<'de>, E> {
                Ok(Text(None))
            }

            fn visit_bool<E>(self, _: bool) -> Result<Text<'de>, E> {
                Ok(Text(None))
            }

            fn visit_unit<E>(self) -> Result<Text<'de>, E> {
                Ok(Text(None))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Text<'de>, A::Error> {
                let parts = Value::deserialize(SeqAccessDeserializer::new(seq))?;
                Ok(Text(text_of(&parts).map(Cow::Owned)))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Text<'de>, A::Error> {
                let part = Value::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Text(text_of(&part).map(Cow::Owned)))
            }
        }
        deserializer.deserialize_any(Read)
    }
}

/// The members of an object in order, with unparsed values.
#[derive(Default)]
pub(super) struct Members<'a>(pub(super) Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'a> Members<'a> {
    /// The members of `json`; `None` if it is not an object.
    pub(super) fn read(json: &'a str) -> Option<Self> {
        serde_json::from_str(json).ok()
    }

    /// The JSON of a member that is not null.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let (_, json) = self.0.iter().find(|(member, _)| member == name)?;
        Some(&**json).filter(|json| *json != "null")
    }

    pub(super) fn value(&self, name: &str) -> Value {
        let value = self.get(name).map(serde_json::from_str);
        value.and_then(Result::ok).unwrap_or_default()
    }

    /// A member that is a text.
    pub(super) fn string(&self, name: &str) -> Option<String> {
        serde_json::from_str(self.get(name)?).ok()
    }

    /// A name or an id: a text that is not empty, or a number as text.
    pub(super) fn name(&self, name: &str) -> Option<String> {
        let json = self.get(name)?;
        match json.starts_with('"') {
            true => self.string(name).filter(|text| !text.is_empty()),
            false => json.parse::<i64>().ok().map(|number| number.to_string()),
        }
    }

    pub(super) fn set(&mut self, name: &'static str, json: String) {
        match self.0.iter_mut().find(|(member, _)| member == name) {
            Some((_, value)) => *value = Cow::Owned(json),
            None => self.0.push((Cow::Borrowed(name), Cow::Owned(json))),
        }
    }

    pub(super) fn remove(&mut self, name: &str) -> bool {
        let before = self.0.len();
        self.0.retain(|(member, _)| member != name);
        self.0.len() < before
    }

    /// The object as JSON text.
    pub(super) fn write(&self) -> String {
        let mut out = vec![b'{'];
        for (at, (name, json)) in self.0.iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            crate::json::push_str(&mut out, name);
            out.push(b':');
            out.extend_from_slice(json.as_bytes());
        }
        out.push(b'}');
        // All parts of it are texts.
        String::from_utf8(out).unwrap_or_default()
    }
}

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
                let mut members = Vec::new();
                while let Some(Name(name)) = map.next_key()? {
                    let value: &RawValue = map.next_value()?;
                    members.push((name, Cow::Borrowed(value.get())));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}

/// A member's name, borrowed if it has no escapes.
#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);
