//! The tree that every source is parsed into: plain values, each with its origin. Does not know
//! which keys exist.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value as Json;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::Invalid;
use crate::origin::{Origin, SourceFile, SourceRange};

pub(crate) type Table = BTreeMap<String, Node>;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub(crate) value: Value,
    pub(crate) origin: Origin,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Boolean(bool),
    Integer(i64),
    /// A number that is not a 64-bit integer, or a date, as written.
    Other(String),
    Text(String),
    Array(Vec<Node>),
    Table(Table),
    /// JSON `null`: removes the value of lower layers.
    Unset,
    /// A value that its key does not accept, in a part that may be unused: an error only where it is
    /// read.
    Wrong(Box<(Value, Invalid)>),
}

/// Up to here each whole number has a float of its own.
const EXACT: f64 = 9_007_199_254_740_992.0;

impl Value {
    /// The value as JSON; one that JSON does not have is a string.
    pub(crate) fn to_json(&self) -> Json {
        match self {
            Value::Boolean(b) => (*b).into(),
            Value::Integer(i) => (*i).into(),
            Value::Other(text) => {
                serde_json::from_str(text).unwrap_or_else(|_| text.as_str().into())
            }
            Value::Text(text) => text.as_str().into(),
            Value::Array(all) => all.iter().map(|one| one.value.to_json()).collect(),
            Value::Table(table) => table_to_json(table),
            Value::Unset => Json::Null,
            Value::Wrong(wrong) => wrong.0.to_json(),
        }
    }

    /// Returns whether the value equals this JSON text.
    pub(crate) fn is_json(&self, text: &str) -> bool {
        serde_json::from_str::<Json>(text).is_ok_and(|json| json == self.to_json())
    }

    /// The number that was written with a point or an exponent.
    pub(crate) fn float(&self) -> Option<f64> {
        match self {
            Value::Other(text) => text.replace('_', "").parse().ok(),
            _ => None,
        }
    }

    /// The number without its fraction.
    pub(crate) fn floor(&self) -> Option<u64> {
        let n = self.float().filter(|n| (0.0..=EXACT).contains(n))?;
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        Some(n as u64)
    }

    /// The number as an integer, if it has no fraction: `30.0` is 30.
    pub(crate) fn whole(&self) -> Option<u64> {
        match self {
            Value::Integer(n) => u64::try_from(*n).ok(),
            _ => self.float().filter(|n| n.fract() == 0.0).and_then(|_| self.floor()),
        }
    }

    /// Describes the value in "found …".
    pub(crate) fn describe(&self) -> String {
        match self {
            Value::Boolean(b) => format!("the boolean {b}"),
            Value::Integer(i) => format!("the number {i}"),
            Value::Other(text) => format!("`{}`", shorten(text)),
            Value::Text(text) => format!("the string \"{}\"", visible::text(&shorten(text))),
            Value::Array(_) => "an array".to_owned(),
            Value::Table(_) => "a table".to_owned(),
            Value::Unset => "null".to_owned(),
            Value::Wrong(wrong) => wrong.0.describe(),
        }
    }
}

impl Value {
    /// The value as it is written on one line of a file.
    pub(crate) fn inline(&self) -> String {
        let join = |parts: Vec<String>| parts.join(", ");
        match self {
            Value::Boolean(b) => b.to_string(),
            Value::Integer(i) => i.to_string(),
            Value::Other(text) => shorten(text),
            Value::Text(text) => format!("\"{}\"", visible::text(&shorten(text))),
            Value::Array(all) => {
                format!("[{}]", join(all.iter().map(|one| one.value.inline()).collect()))
            }
            Value::Table(table) => {
                let member =
                    |(name, node): (&String, &Node)| format!("{name} = {}", node.value.inline());
                format!("{{ {} }}", join(table.iter().map(member).collect()))
            }
            Value::Unset => "null".to_owned(),
            Value::Wrong(wrong) => wrong.0.inline(),
        }
    }
}

impl Node {
    pub(crate) fn from_json(json: &serde_json::Value, origin: &Origin) -> Node {
        let value = match json {
            Json::Null => Value::Unset,
            Json::Bool(b) => Value::Boolean(*b),
            Json::Number(n) => {
                n.as_i64().map_or_else(|| Value::Other(n.to_string()), Value::Integer)
            }
            Json::String(s) => Value::Text(s.clone()),
            Json::Array(all) => {
                Value::Array(all.iter().map(|one| Node::from_json(one, origin)).collect())
            }
            Json::Object(all) => Value::Table(
                all.iter().map(|(k, v)| (k.clone(), Node::from_json(v, origin))).collect(),
            ),
        };
        Node { value, origin: origin.clone() }
    }

    pub(crate) fn from_toml(toml: &Spanned<DeValue<'_>>, places: &OriginSource<'_>) -> Node {
        Node::keyed(toml, None, places)
    }

    fn keyed(
        toml: &Spanned<DeValue<'_>>,
        key: Option<std::ops::Range<usize>>,
        places: &OriginSource<'_>,
    ) -> Node {
        let value = match toml.get_ref() {
            DeValue::Boolean(b) => Value::Boolean(*b),
            DeValue::Integer(n) => i64::from_str_radix(n.as_str(), n.radix())
                .map_or_else(|_| Value::Other(n.to_string()), Value::Integer),
            DeValue::Float(n) => Value::Other(n.as_str().to_owned()),
            DeValue::Datetime(d) => Value::Other(d.to_string()),
            DeValue::String(s) => Value::Text(s.clone().into_owned()),
            DeValue::Array(all) => {
                Value::Array(all.iter().map(|one| Node::from_toml(one, places)).collect())
            }
            DeValue::Table(table) => Value::Table(table_from_toml(table, places)),
        };
        // The span of a table can be that of its header; the key is easier to find.
        let span = match (&value, &key) {
            (Value::Table(_), Some(key)) => key.clone(),
            _ => toml.span(),
        };
        Node { value, origin: places.origin(span, key) }
    }
}

/// Where parsed values come from.
pub(crate) enum OriginSource<'p> {
    File(&'p Arc<SourceFile>),
    Elsewhere(&'p Origin),
}

impl OriginSource<'_> {
    fn origin(&self, span: std::ops::Range<usize>, key: Option<std::ops::Range<usize>>) -> Origin {
        match self {
            OriginSource::File(file) => Origin::File(SourceRange {
                file: Arc::clone(file),
                start: span.start,
                end: span.end,
                key: key.map(|key| (key.start, key.end)),
            }),
            OriginSource::Elsewhere(origin) => (*origin).clone(),
        }
    }
}

pub(crate) fn table_from_toml(table: &DeTable<'_>, places: &OriginSource<'_>) -> Table {
    table
        .iter()
        .map(|(key, value)| {
            let node = Node::keyed(value, Some(key.span()), places);
            (key.get_ref().clone().into_owned(), node)
        })
        .collect()
}

/// A table as JSON.
pub(crate) fn table_to_json(table: &Table) -> Json {
    Json::Object(table.iter().map(|(key, node)| (key.clone(), node.value.to_json())).collect())
}

/// Merges `upper` into `lower`: tables key by key; everything else is replaced.
pub(crate) fn merge(lower: &mut Table, upper: &Table) {
    for (key, node) in upper {
        if node.value == Value::Unset {
            lower.remove(key);
            continue;
        }
        match (lower.get_mut(key).map(|n| &mut n.value), &node.value) {
            (Some(Value::Table(below)), Value::Table(above)) => merge(below, above),
            (_, Value::Table(above)) => {
                // Removes the nulls in a table that lower layers do not have.
                let mut fresh = Table::new();
                merge(&mut fresh, above);
                let node = Node { value: Value::Table(fresh), origin: node.origin.clone() };
                lower.insert(key.clone(), node);
            }
            _ => {
                lower.insert(key.clone(), node.clone());
            }
        }
    }
}

fn shorten(text: &str) -> String {
    const SHOWN: usize = 40;
    if text.chars().count() <= SHOWN {
        return text.to_owned();
    }
    text.chars().take(SHOWN).chain(['…']).collect()
}
