//! The messages available to a connection and the types that they use, with or without the
//! experimental ones. `bundle` and `typescript` render them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::message_schema::MessageSchema;
use crate::registry;
use crate::table::Stability;

use super::definition_name;

/// The messages of one surface and the definitions that they refer to.
pub(crate) struct Surface {
    pub(crate) experimental: bool,
    pub(crate) definitions: BTreeMap<String, Value>,
    pub(crate) client_requests: Vec<MessageSchema>,
    pub(crate) client_notifications: Vec<MessageSchema>,
    pub(crate) server_requests: Vec<MessageSchema>,
    pub(crate) server_notifications: Vec<MessageSchema>,
}

impl Surface {
    fn new(experimental: bool) -> Self {
        // The contract for serialization states which members are always present.
        let mut generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
        let mut surface = Self {
            experimental,
            client_requests: registry::method_schemas(&mut generator),
            client_notifications: registry::client_notification_schemas(&mut generator),
            server_requests: registry::server_request_schemas(&mut generator),
            server_notifications: registry::notification_schemas(&mut generator),
            definitions: BTreeMap::new(),
        };
        surface.sort();
        let _ = generator.subschema_for::<crate::common::RequestIdShape>();
        surface.definitions = generator.take_definitions(true).into_iter().collect();
        if !experimental {
            surface.drop_experimental();
        }
        surface.relax_sent_by_client();
        surface.spell_aliases();
        surface.prune();
        surface
    }

    /// Like `new`, computed once per process.
    pub(crate) fn cached(experimental: bool) -> &'static Self {
        static SURFACES: [OnceLock<Surface>; 2] = [const { OnceLock::new() }; 2];
        SURFACES[usize::from(experimental)].get_or_init(|| Self::new(experimental))
    }

    /// Returns every message of either side.
    pub(crate) fn messages(&self) -> impl Iterator<Item = &MessageSchema> {
        let requests = self.client_requests.iter().chain(&self.server_requests);
        requests.chain(&self.client_notifications).chain(&self.server_notifications)
    }

    fn lists(&mut self) -> [&mut Vec<MessageSchema>; 4] {
        [
            &mut self.client_requests,
            &mut self.client_notifications,
            &mut self.server_requests,
            &mut self.server_notifications,
        ]
    }

    fn sort(&mut self) {
        for list in self.lists() {
            list.sort_by_key(|message| message.method);
        }
    }

    fn drop_experimental(&mut self) {
        for list in self.lists() {
            list.retain(|message| message.stability == Stability::Stable);
        }
        for definition in self.definitions.values_mut() {
            visit(definition, &mut drop_experimental_members);
        }
    }

    /// Makes members with a default optional for clients, although the server always writes them.
    fn relax_sent_by_client(&mut self) {
        let requests = self.client_requests.iter().chain(&self.client_notifications);
        let answers = self.server_requests.iter().filter_map(|message| message.result.as_ref());
        let sent = requests.map(|message| &message.params).chain(answers).map(|part| &part.schema);
        for name in reachable(sent, &self.definitions) {
            if let Some(definition) = self.definitions.get_mut(&name) {
                visit(definition, &mut relax_defaults);
            }
        }
    }

    fn spell_aliases(&mut self) {
        for definition in self.definitions.values_mut() {
            spell_aliases(definition);
        }
    }

    fn prune(&mut self) {
        let id = json!({"$ref": "#/$defs/RequestId"});
        let roots = self
            .messages()
            .flat_map(|message| std::iter::once(&message.params).chain(&message.result))
            .map(|part| &part.schema)
            .chain(std::iter::once(&id));
        let used = reachable(roots, &self.definitions);
        self.definitions.retain(|name, _| used.contains(name));
    }
}

/// Calls `f` on the schema and on every schema inside it.
fn visit(schema: &mut Value, f: &mut impl FnMut(&mut Map<String, Value>)) {
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

fn relax_defaults(schema: &mut Map<String, Value>) {
    let Some(Value::Object(properties)) = schema.get("properties") else { return };
    let defaults: BTreeSet<String> = properties
        .iter()
        .filter(|(_, property)| property.get("default").is_some())
        .map(|(name, _)| name.clone())
        .collect();
    require(schema, |name| !defaults.contains(name));
}

/// Keeps the names in `required` that `keep` accepts, and removes an empty list.
fn require(schema: &mut Map<String, Value>, keep: impl Fn(&str) -> bool) {
    let Some(Value::Array(required)) = schema.get_mut("required") else { return };
    required.retain(|name| name.as_str().is_some_and(&keep));
    if required.is_empty() {
        schema.shift_remove("required");
    }
}

/// Adds the older spellings of an enumeration as a deprecated alternative. The TypeScript omits it:
/// the server never writes them, and new clients should not either.
fn spell_aliases(definition: &mut Value) {
    let Some(members) = definition.as_object_mut() else { return };
    let Some(aliases) = members.shift_remove("x-aliases") else { return };
    let older = json!({
        "description": "Older spelling, accepted from clients.",
        "deprecated": true,
        "type": "string",
        "enum": aliases,
    });
    if let Some(Value::Array(variants)) = members.get_mut("oneOf") {
        variants.push(older);
        return;
    }
    let description = members.shift_remove("description");
    let current = std::mem::take(definition);
    *definition = json!({"description": description, "oneOf": [current, older]});
}

/// Returns the names of definitions that the roots refer to, directly or indirectly.
pub(crate) fn reachable<'a>(
    roots: impl Iterator<Item = &'a Value>,
    definitions: &BTreeMap<String, Value>,
) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&Value> = roots.collect();
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
