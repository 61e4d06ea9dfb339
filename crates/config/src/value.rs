//! The tree that every source is parsed into: plain values, each with the place it was written.
//! Knows nothing of which keys exist.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::Origin;

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
    /// A number that is not a 64-bit integer, or a date: no key takes one, kept for messages.
    Other(String),
    Text(String),
    Array(Vec<Node>),
    Table(Table),
    /// JSON `null`: the value of the layers below is dropped.
    Unset,
}

impl Value {
    /// How the value is named in "found …".
    pub(crate) fn describe(&self) -> String {
        match self {
            Value::Boolean(b) => format!("the boolean {b}"),
            Value::Integer(i) => format!("the number {i}"),
            Value::Other(text) => format!("`{}`", shorten(text)),
            Value::Text(text) => format!("the string \"{}\"", shorten(text)),
            Value::Array(_) => "an array".to_owned(),
            Value::Table(_) => "a table".to_owned(),
            Value::Unset => "null".to_owned(),
        }
    }
}

impl Node {
    pub(crate) fn from_json(json: &serde_json::Value, origin: &Origin) -> Node {
        use serde_json::Value as Json;
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

    pub(crate) fn from_toml(
        toml: &Spanned<DeValue<'_>>,
        at: usize,
        origin_at: &dyn Fn(usize) -> Origin,
    ) -> Node {
        let value = match toml.get_ref() {
            DeValue::Boolean(b) => Value::Boolean(*b),
            DeValue::Integer(n) => i64::from_str_radix(n.as_str(), n.radix())
                .map_or_else(|_| Value::Other(n.to_string()), Value::Integer),
            DeValue::Float(n) => Value::Other(n.as_str().to_owned()),
            DeValue::Datetime(d) => Value::Other(d.to_string()),
            DeValue::String(s) => Value::Text(s.clone().into_owned()),
            DeValue::Array(all) => Value::Array(
                all.iter().map(|one| Node::from_toml(one, one.span().start, origin_at)).collect(),
            ),
            DeValue::Table(table) => Value::Table(table_from_toml(table, origin_at)),
        };
        Node { value, origin: origin_at(at) }
    }
}

/// A file's root table; `text` turns byte offsets into lines.
pub(crate) fn file_table(table: &DeTable<'_>, path: &Arc<Path>, text: &str) -> Table {
    let starts: Vec<usize> = text.match_indices('\n').map(|(at, _)| at + 1).collect();
    table_from_toml(table, &|at| Origin::File {
        path: Arc::clone(path),
        line: 1 + starts.partition_point(|start| *start <= at),
    })
}

fn table_from_toml(table: &DeTable<'_>, origin_at: &dyn Fn(usize) -> Origin) -> Table {
    table
        .iter()
        .map(|(key, value)| {
            // A value's own span may start at its table's header; the key's line is what a person
            // looks for.
            let node = Node::from_toml(value, key.span().start, origin_at);
            (key.get_ref().clone().into_owned(), node)
        })
        .collect()
}

/// Lays `upper` over `lower`: tables are merged key by key, everything else is replaced.
pub(crate) fn merge(lower: &mut Table, upper: &Table) {
    for (key, node) in upper {
        if node.value == Value::Unset {
            lower.remove(key);
            continue;
        }
        match (lower.get_mut(key).map(|n| &mut n.value), &node.value) {
            (Some(Value::Table(below)), Value::Table(above)) => merge(below, above),
            (_, Value::Table(above)) => {
                // Also drops the nulls nested in a table that has nothing below it.
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
