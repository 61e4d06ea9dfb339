//! The experimental gate: what a connection without `experimentalApi` may not send. The server
//! knows which connections have the capability.

use std::borrow::Cow;
use std::fmt;

use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserializer, de};
use serde_json::value::RawValue;

use crate::table::{MethodInfo, Stability};

/// Returns the error message for a connection without `experimentalApi`, if the method is
/// experimental, or an experimental member of its parameters is neither absent nor null
/// (specification, "Errors"). Parameters that are not an object pass: decoding reports them better.
#[must_use]
pub fn experimental_violation(info: &MethodInfo, params: Option<&RawValue>) -> Option<String> {
    if info.stability == Stability::Experimental {
        return Some(refusal(info.name));
    }
    if info.experimental_fields.is_empty() {
        return None;
    }
    let field = first_present(info.experimental_fields, params?)?;
    Some(refusal(&format!("{}.{field}", info.name)))
}

fn refusal(descriptor: &str) -> String {
    format!("{descriptor} requires experimentalApi capability")
}

fn first_present(fields: &'static [&'static str], params: &RawValue) -> Option<&'static str> {
    let mut json = serde_json::Deserializer::from_str(params.get());
    json.deserialize_map(Present { fields }).ok().flatten()
}

/// Reads an object's keys, skips its values, and finds the first of `fields` that is not null.
struct Present {
    fields: &'static [&'static str],
}

impl<'de> Visitor<'de> for Present {
    type Value = Option<&'static str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        // `Key` and not `Cow`: serde's `Cow` always copies.
        while let Some(Key(key)) = map.next_key::<Key<'de>>()? {
            let value = map.next_value::<Option<IgnoredAny>>()?;
            if found.is_none() && value.is_some() {
                // A member accepted in another spelling is gated in that spelling too.
                found = self.fields.iter().copied().find(|field| jsonrpc::same_name(field, &key));
            }
        }
        Ok(found)
    }
}

/// A member name: borrowed, unless it contains escapes.
struct Key<'de>(Cow<'de, str>);

impl<'de> de::Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(KeyVisitor)
    }
}

struct KeyVisitor;

impl<'de> Visitor<'de> for KeyVisitor {
    type Value = Key<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a member name")
    }

    fn visit_borrowed_str<E: de::Error>(self, key: &'de str) -> Result<Key<'de>, E> {
        Ok(Key(Cow::Borrowed(key)))
    }

    fn visit_str<E: de::Error>(self, key: &str) -> Result<Key<'de>, E> {
        Ok(Key(Cow::Owned(key.to_owned())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(method: &str, params: Option<&str>, expect: Option<&str>) {
        let info = crate::lookup(method).unwrap();
        let params = params.map(|json| RawValue::from_string(json.to_owned()).unwrap());
        let descriptor = experimental_violation(info, params.as_deref());
        let expect = expect.map(|what| format!("{what} requires experimentalApi capability"));
        assert_eq!(descriptor, expect, "{method}");
    }

    #[test]
    fn methods_and_fields_are_gated() {
        check("thread/goal/set", None, Some("thread/goal/set"));
        check("thread/start", None, None);
        check("thread/start", Some(r#"{"model":"m"}"#), None);
        check("thread/start", Some(r#"{"dynamicTools":null}"#), None);
        check("thread/start", Some(r#"{"dynamicTools":[]}"#), Some("thread/start.dynamicTools"));
        check(
            "thread/start",
            Some(r#"{"cwd":"/a","d\u0079namicTools":[{}]}"#),
            Some("thread/start.dynamicTools"),
        );
        check("thread/start", Some(r#"{"config":{"dynamicTools":[]}}"#), None);
        check("thread/start", Some(r#"{"dynamic_tools":[]}"#), Some("thread/start.dynamicTools"));
        check("thread/start", Some(r#"{"dynamic-tools":[]}"#), Some("thread/start.dynamicTools"));
        check("thread/start", Some("[1]"), None);
        check("turn/start", Some(r#"{"collaborationMode":{}}"#), None);
        check("turn/start", Some(r#"{"environments":[]}"#), Some("turn/start.environments"));
    }
}
