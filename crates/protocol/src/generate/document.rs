//! The protocol as data, the form of the committed schema: its messages and the types that they use. The
//! stable surface, the JSON files and the TypeScript are derived from it, without the types of Rust: so
//! the released program derives them from the schema that it embeds.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::table::Stability;

/// Name of the file with every type and the unions of messages.
pub(crate) const SCHEMA: &str = "agentd.schema.json";
/// Name of the file with the table of messages.
pub(crate) const METHODS: &str = "methods.json";
/// Names of the unions of messages among the types of that file: of both sides, requests first.
pub(crate) const UNIONS: [&str; 4] =
    ["ClientRequest", "ClientNotification", "ServerRequest", "ServerNotification"];

/// The messages of one surface and the definitions that they refer to.
pub(crate) struct Document {
    /// True for the whole protocol, false for its stable part.
    pub(crate) experimental: bool,
    pub(crate) messages: Messages,
    pub(crate) definitions: BTreeMap<String, Value>,
}

/// The table of messages, each list in the order of their names.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Messages {
    pub(crate) client_requests: Vec<Message>,
    pub(crate) client_notifications: Vec<Message>,
    pub(crate) server_requests: Vec<Message>,
    pub(crate) server_notifications: Vec<Message>,
}

/// A row of the table.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Message {
    pub(crate) method: String,
    /// Name of the definition.
    pub(crate) params: String,
    /// Name of the definition; absent for notifications.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) result: Option<String>,
    pub(crate) stability: Stability,
    /// Members of `params` that need the `experimentalApi` capability.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) experimental_fields: Vec<String>,
    pub(crate) description: String,
}

/// The part of the schema's file that the rest is derived from.
#[derive(Deserialize)]
struct SchemaFile {
    #[serde(rename = "$defs")]
    definitions: BTreeMap<String, Value>,
}

impl Document {
    /// Reads the two files of the whole protocol.
    ///
    /// # Errors
    /// If one of them has another form.
    pub(crate) fn parse(schema: &str, methods: &str) -> serde_json::Result<Self> {
        let messages = serde_json::from_str(methods)?;
        let SchemaFile { mut definitions } = serde_json::from_str(schema)?;
        // The unions follow from the table.
        definitions.retain(|name, _| !UNIONS.contains(&name.as_str()));
        Ok(Self { experimental: true, messages, definitions })
    }

    /// The part that needs no capability.
    pub(crate) fn into_stable(self) -> Self {
        let Self { mut messages, mut definitions, .. } = self;
        for list in messages.lists_mut() {
            list.retain(|message| message.stability == Stability::Stable);
        }
        for definition in definitions.values_mut() {
            visit(definition, &mut drop_experimental_members);
        }
        let used = reachable(messages.names(), &definitions);
        definitions.retain(|name, _| used.contains(name));
        Self { experimental: false, messages, definitions }
    }
}

impl Messages {
    /// The row of a message of either side.
    pub(crate) fn row(&self, method: &str) -> Option<&Message> {
        self.lists().into_iter().flatten().find(|message| message.method == method)
    }

    fn lists(&self) -> [&Vec<Message>; 4] {
        [
            &self.client_requests,
            &self.client_notifications,
            &self.server_requests,
            &self.server_notifications,
        ]
    }

    fn lists_mut(&mut self) -> [&mut Vec<Message>; 4] {
        [
            &mut self.client_requests,
            &mut self.client_notifications,
            &mut self.server_requests,
            &mut self.server_notifications,
        ]
    }

    /// The definitions that messages name, and that of the id in their envelopes.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        let messages = self.lists().into_iter().flatten();
        let names = messages.flat_map(|it| std::iter::once(&it.params).chain(&it.result));
        names.map(String::as_str).chain(["RequestId"])
    }
}

/// Returns the named definitions and those that they refer to, directly or indirectly.
pub(crate) fn reachable<'a>(
    names: impl Iterator<Item = &'a str>,
    definitions: &'a BTreeMap<String, Value>,
) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&Value> = Vec::new();
    for name in names {
        if found.insert(name.to_owned()) {
            open.extend(definitions.get(name));
        }
    }
    while let Some(value) = open.pop() {
        if let Some(name) = definition_name(value)
            && found.insert(name.to_owned())
        {
            open.extend(definitions.get(name));
        }
        match value {
            Value::Object(members) => open.extend(members.values()),
            Value::Array(values) => open.extend(values),
            _ => {}
        }
    }
    found
}

/// Calls `f` on the schema and on every schema inside it.
pub(crate) fn visit(schema: &mut Value, f: &mut impl FnMut(&mut Map<String, Value>)) {
    match schema {
        Value::Object(members) => {
            f(members);
            members.values_mut().for_each(|value| visit(value, f));
        }
        Value::Array(values) => values.iter_mut().for_each(|value| visit(value, f)),
        _ => {}
    }
}

fn drop_experimental_members(schema: &mut Map<String, Value>) {
    let Some(Value::Object(properties)) = schema.get_mut("properties") else { return };
    let mut dropped = BTreeSet::new();
    properties.retain(|name, property| {
        let keep = property.get("x-experimental").is_none();
        if !keep {
            dropped.insert(name.clone());
        }
        keep
    });
    require(schema, |name| !dropped.contains(name));
}

/// Keeps the names in `required` that `keep` accepts, and removes an empty list.
pub(crate) fn require(schema: &mut Map<String, Value>, keep: impl Fn(&str) -> bool) {
    let Some(Value::Array(required)) = schema.get_mut("required") else { return };
    required.retain(|name| name.as_str().is_some_and(&keep));
    if required.is_empty() {
        schema.shift_remove("required");
    }
}

/// Returns the name of the definition that a schema refers to.
pub(crate) fn definition_name(schema: &Value) -> Option<&str> {
    schema.get("$ref")?.as_str()?.strip_prefix("#/$defs/")
}
