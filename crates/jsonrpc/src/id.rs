//! The id that matches a response to its request. It is echoed unchanged and never interpreted.

use std::fmt;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The `id` member: a 64-bit integer or a string ("Message envelope"; strings are an extension of
/// the specification).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RequestId {
    /// An integer, possibly negative.
    Integer(i64),
    /// A string, possibly empty.
    String(String),
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(id) => id.fmt(f),
            Self::String(id) => id.fmt(f),
        }
    }
}

impl From<i64> for RequestId {
    fn from(id: i64) -> Self {
        Self::Integer(id)
    }
}

impl From<String> for RequestId {
    fn from(id: String) -> Self {
        Self::String(id)
    }
}

impl From<&str> for RequestId {
    fn from(id: &str) -> Self {
        Self::String(id.to_owned())
    }
}

impl Serialize for RequestId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Integer(id) => serializer.serialize_i64(*id),
            Self::String(id) => serializer.serialize_str(id),
        }
    }
}

impl<'de> Deserialize<'de> for RequestId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(IdVisitor)
    }
}

struct IdVisitor;

impl Visitor<'_> for IdVisitor {
    type Value = RequestId;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string or an integer of 64 bits")
    }

    fn visit_i64<E: de::Error>(self, id: i64) -> Result<RequestId, E> {
        Ok(RequestId::Integer(id))
    }

    fn visit_u64<E: de::Error>(self, id: u64) -> Result<RequestId, E> {
        i64::try_from(id)
            .map(RequestId::Integer)
            .map_err(|_| E::invalid_value(de::Unexpected::Unsigned(id), &self))
    }

    fn visit_str<E: de::Error>(self, id: &str) -> Result<RequestId, E> {
        Ok(RequestId::String(id.to_owned()))
    }

    fn visit_string<E: de::Error>(self, id: String) -> Result<RequestId, E> {
        Ok(RequestId::String(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(json: &str, expect: Option<RequestId>) {
        let read: Option<RequestId> = serde_json::from_str(json).ok();
        assert_eq!(read, expect, "{json}");
        if let Some(id) = read {
            assert_eq!(serde_json::to_string(&id).unwrap(), json, "echoed as it came");
        }
    }

    #[test]
    fn ids_are_integers_or_strings() {
        check("0", Some(0.into()));
        check("-7", Some((-7).into()));
        check("9223372036854775807", Some(i64::MAX.into()));
        check("-9223372036854775808", Some(i64::MIN.into()));
        check("9223372036854775808", None);
        check("1.5", None);
        check("null", None);
        check("true", None);
        check("[1]", None);
        check("{}", None);
        check(r#""""#, Some("".into()));
        check(r#""7""#, Some("7".into()));
        check(r#""a\"b""#, Some("a\"b".into()));
    }
}
