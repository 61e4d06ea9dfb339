//! A part of a response that is kept: encoded once, and copied into each response.

use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// A value with its JSON, which is made when it is first needed. Cheap to clone. Only `serde_json` can
/// serialize it.
#[derive(Debug, Clone)]
pub struct Encoded<T>(Arc<Kept<T>>);

#[derive(Debug)]
struct Kept<T> {
    value: T,
    json: OnceLock<Box<RawValue>>,
}

impl<T> Encoded<T> {
    pub fn new(value: T) -> Self {
        Self(Arc::new(Kept { value, json: OnceLock::new() }))
    }
}

impl<T> std::ops::Deref for Encoded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.value
    }
}

impl<T: PartialEq> PartialEq for Encoded<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Serialize> Serialize for Encoded<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Kept { value, json } = &*self.0;
        if let Some(json) = json.get() {
            return json.serialize(serializer);
        }
        let encoded = serde_json::value::to_raw_value(value).map_err(serde::ser::Error::custom)?;
        json.get_or_init(|| encoded).serialize(serializer)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Encoded<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(Self::new)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn it_is_its_value_on_the_wire() {
        let text = r#"{"data":[["a\n",null],[]]}"#;
        let read: serde_json::Map<String, serde_json::Value> = serde_json::from_str(text).unwrap();
        let kept = Encoded::new(read.clone());
        for _ in 0..2 {
            assert_eq!(serde_json::to_string(&kept).unwrap(), text);
            assert_eq!(json!(kept), json!(read));
        }
        let again: Encoded<serde_json::Map<String, serde_json::Value>> =
            serde_json::from_str(text).unwrap();
        assert_eq!(again, kept);
        assert_eq!(again.len(), 1);
    }
}
