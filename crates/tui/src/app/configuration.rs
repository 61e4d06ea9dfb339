//! The configuration that `config/read` answers with, read by dotted keys. The protocol has no types for its
//! values; one that has another type than expected counts as unset.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// A configuration, borrowed from the response.
#[derive(Clone, Copy)]
pub(super) struct Configuration<'c>(&'c BTreeMap<String, Value>);

impl<'c> Configuration<'c> {
    pub(super) fn new(config: &'c BTreeMap<String, Value>) -> Self {
        Self(config)
    }

    /// The value at a dotted key.
    pub(super) fn value(self, key: &str) -> Option<&'c Value> {
        let mut parts = key.split('.');
        let first = self.0.get(parts.next()?)?;
        parts.try_fold(first, |value, part| value.get(part))
    }

    pub(super) fn text(self, key: &str) -> Option<&'c str> {
        self.value(key)?.as_str()
    }

    pub(super) fn flag(self, key: &str) -> Option<bool> {
        self.value(key)?.as_bool()
    }

    pub(super) fn strings(self, key: &str) -> Option<Vec<String>> {
        let items = self.value(key)?.as_array()?.iter();
        Some(items.filter_map(|item| item.as_str().map(str::to_owned)).collect())
    }

    /// The members of a table; none where there is no such table.
    pub(super) fn table(
        self,
        key: &str,
    ) -> impl Iterator<Item = (&'c String, &'c Value)> + use<'c> {
        self.value(key).and_then(Value::as_object).into_iter().flat_map(Map::iter)
    }
}

/// A part of a dotted key, in quotes.
pub(super) fn quoted(part: &str) -> String {
    format!("\"{}\"", part.replace('\\', r"\\").replace('"', r#"\""#))
}
