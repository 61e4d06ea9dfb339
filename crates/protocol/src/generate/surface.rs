//! All messages and the types that they use, from the types of Rust.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::message_schema::{MessageSchema, Part};
use crate::registry;

use super::document::{Document, Message, Messages, definition_name, reachable, require, visit};

/// The messages and the definitions that they refer to.
pub(crate) struct Surface {
    pub(crate) definitions: BTreeMap<String, Value>,
    client_requests: Vec<MessageSchema>,
    client_notifications: Vec<MessageSchema>,
    server_requests: Vec<MessageSchema>,
    server_notifications: Vec<MessageSchema>,
}

impl Surface {
    /// The whole protocol.
    fn whole() -> Self {
        // The contract for serialization states which members are always present.
        let mut generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
        let mut surface = Self {
            client_requests: registry::method_schemas(&mut generator),
            client_notifications: registry::client_notification_schemas(&mut generator),
            server_requests: registry::server_request_schemas(&mut generator),
            server_notifications: registry::notification_schemas(&mut generator),
            definitions: BTreeMap::new(),
        };
        for list in surface.lists_mut() {
            list.sort_by_key(|message| message.method);
        }
        let _ = generator.subschema_for::<crate::common::RequestIdShape>();
        surface.definitions = generator.take_definitions(true).into_iter().collect();
        surface.relax_sent_by_client();
        for definition in surface.definitions.values_mut() {
            spell_aliases(definition);
        }
        let used = reachable(surface.table().names(), &surface.definitions);
        surface.definitions.retain(|name, _| used.contains(name));
        surface
    }

    /// The whole protocol, computed once per process.
    pub(crate) fn cached() -> &'static Self {
        static SURFACE: OnceLock<Surface> = OnceLock::new();
        SURFACE.get_or_init(Self::whole)
    }

    /// The protocol as data.
    pub(crate) fn document(&self) -> Document {
        let definitions = self.definitions.clone();
        Document { experimental: true, messages: self.table(), definitions }
    }

    fn table(&self) -> Messages {
        let rows = |messages: &[MessageSchema]| messages.iter().map(row).collect();
        Messages {
            client_requests: rows(&self.client_requests),
            client_notifications: rows(&self.client_notifications),
            server_requests: rows(&self.server_requests),
            server_notifications: rows(&self.server_notifications),
        }
    }

    /// Returns every message of either side.
    pub(crate) fn messages(&self) -> impl Iterator<Item = &MessageSchema> {
        let requests = self.client_requests.iter().chain(&self.server_requests);
        requests.chain(&self.client_notifications).chain(&self.server_notifications)
    }

    fn lists_mut(&mut self) -> [&mut Vec<MessageSchema>; 4] {
        [
            &mut self.client_requests,
            &mut self.client_notifications,
            &mut self.server_requests,
            &mut self.server_notifications,
        ]
    }

    /// Makes members with a default optional for clients, although the server always writes them.
    fn relax_sent_by_client(&mut self) {
        let requests = self.client_requests.iter().chain(&self.client_notifications);
        let answers = self.server_requests.iter().filter_map(|message| message.result.as_ref());
        let sent = requests.map(|message| &message.params).chain(answers).map(name_of);
        for name in reachable(sent, &self.definitions) {
            if let Some(definition) = self.definitions.get_mut(&name) {
                visit(definition, &mut relax_defaults);
            }
        }
    }
}

fn row(message: &MessageSchema) -> Message {
    let fields = registry::lookup(message.method).map_or(&[][..], |info| info.experimental_fields);
    Message {
        method: message.method.to_owned(),
        params: name_of(&message.params).to_owned(),
        result: message.result.as_ref().map(|result| name_of(result).to_owned()),
        stability: message.stability,
        experimental_fields: fields.iter().map(|&field| field.to_owned()).collect(),
        description: message.doc.trim().to_owned(),
    }
}

/// The parameters and results of messages are named types; of any other, the test that every message
/// refers to a definition finds the empty name.
fn name_of(part: &Part) -> &str {
    definition_name(&part.schema).unwrap_or_default()
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
