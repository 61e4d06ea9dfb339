//! The JSON of a `hooks.json` and of what hooks answer. A member that is there twice is an error, because only one of them would
//! count; but the groups of an event that is there twice add up, so that no guard is lost.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// The member whose own members are events.
const EVENTS: &str = "hooks";

/// Reads a text of JSON, such as that of a `hooks.json`.
///
/// # Errors
/// It is no JSON, or has a member twice: with line and column.
pub fn read(text: &[u8]) -> Result<Value, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let value = Place::Root.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

/// Where in the file a value is.
#[derive(Clone, Copy)]
enum Place {
    Root,
    Events,
    Within,
}

impl<'de> DeserializeSeed<'de> for Place {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Place {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = seq.next_element_seed(Self::Within)? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some(name) = map.next_key::<String>()? {
            let place = match self {
                Self::Root if name == EVENTS => Self::Events,
                Self::Root | Self::Events | Self::Within => Self::Within,
            };
            let value = map.next_value_seed(place)?;
            match (members.get_mut(&name), value, self) {
                (None, value, _) => {
                    members.insert(name, value);
                }
                (Some(Value::Array(groups)), Value::Array(more), Self::Events) => {
                    groups.extend(more);
                }
                (Some(_), ..) => {
                    let name = visible::text(&name);
                    return Err(A::Error::custom(format_args!(
                        "the member `{name}` is there twice, and only one would count"
                    )));
                }
            }
        }
        Ok(Value::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn groups_of_an_event_add_up_and_other_members_are_there_once() {
        let text = br#"{"hooks": {"Stop": [1], "PreToolUse": [2], "Stop": [3, 4.5, null, true]}}"#;
        let expected = json!({"hooks": {"Stop": [1, 3, 4.5, null, true], "PreToolUse": [2]}});
        assert_eq!(read(text).unwrap(), expected);
        for (text, expected) in [
            ("{\n\"hooks\": {},\n\"hooks\": {}}", "`hooks` is there twice"),
            ("{\"hooks\": {\"Stop\": [],\n\"Stop\": {}}}", "line 2"),
            (
                "{\"hooks\": {\"Stop\": [{\"hooks\": [{\"command\": \"a\", \"command\": \"b\"}]}]}}",
                "`command` is there twice",
            ),
            ("{} x", "trailing characters at line 1 column 4"),
            (&"[".repeat(100_000), "recursion limit exceeded"),
        ] {
            let error = read(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
