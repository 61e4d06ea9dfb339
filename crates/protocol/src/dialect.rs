//! Dialects: the names that another server of this kind uses on the wire, for clients that were
//! written for it. A dialect is a table ([`table::Table`]): it says which members and values of which
//! types have another name. The JSON Schema says where the types are, so nothing is renamed inside
//! data of users, which has no type.
//!
//! Messages to the client get the other names. Messages from it may use either.

mod codex;
mod folder;
mod plan;
mod rewrite;
mod table;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::path::Path;

use bytes::Bytes;
use jsonrpc::{ErrorObject, Outgoing};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::artifacts;
use plan::{Direction, NodeId, Plan};
use rewrite::{rewrite, rewrite_noting};
use table::Table;

const TABLES: &[&Table] = &[&codex::TABLE];
/// The type of an error's `data` that has names of its own.
const ERROR_DATA: &str = "TurnError";

/// A dialect, by name.
#[derive(Clone, Copy, Debug)]
pub struct Dialect {
    table: &'static Table,
}

impl Dialect {
    /// Finds a dialect.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let table = TABLES.iter().copied().find(|table| table.name == name)?;
        Some(Self { table })
    }

    /// The names of all dialects.
    pub fn names() -> impl Iterator<Item = &'static str> {
        TABLES.iter().map(|table| table.name)
    }

    /// The other server's variable for its home folder.
    #[must_use]
    pub fn home_variable(self) -> &'static str {
        self.table.home_variable
    }

    /// The other server's variable for the key of the default provider.
    #[must_use]
    pub fn key_variable(self) -> &'static str {
        self.table.key_variable
    }

    /// Configuration keys: ours, and the other server's.
    #[must_use]
    pub fn config_keys(self) -> &'static [(&'static str, &'static str)] {
        self.table.config_keys
    }

    /// The folder that the dialect's clients read in place of the schema's bundle: one file a type.
    /// Paths are relative.
    #[must_use]
    pub fn schema_folder(self, experimental: bool) -> Vec<(String, String)> {
        let (schema, methods) = bundle(experimental);
        folder::files(self.table, &schema, &methods)
    }

    /// Prepares the translation of messages. Relative paths of clients are relative to `folder`.
    #[must_use]
    pub fn translator(self, folder: &Path) -> Translator {
        Translator::new(self.table, folder)
    }
}

/// Parameters with our names.
#[derive(Debug)]
pub struct Translated {
    pub params: Box<RawValue>,
    /// Members of newer clients that this server does not have and that decide no permission.
    pub left_out: Vec<String>,
}

/// Translates the messages of a connection. Prepared once, from the schema.
pub struct Translator {
    table: &'static Table,
    to_client: Plan,
    from_client: Plan,
    /// Parameters of the client's requests that need a translation, by method.
    params: HashMap<String, NodeId>,
    /// Results of the client's requests.
    results: HashMap<String, NodeId>,
    /// Whole messages of the server.
    messages: HashMap<String, NodeId>,
    /// The client's results of the server's requests.
    answers: HashMap<String, NodeId>,
    error_data: Option<NodeId>,
}

impl Translator {
    /// Version of the protocol that its clients accept, for the user agent.
    #[must_use]
    pub fn protocol_version(&self) -> &'static str {
        self.table.protocol_version
    }

    /// Returns whether `thread/resume` and `thread/fork` return turns unless `excludeTurns` is set.
    #[must_use]
    pub fn returns_turns_with_thread(&self) -> bool {
        self.table.turns_with_thread
    }

    /// Our name of a method of the client.
    #[must_use]
    pub fn method<'a>(&self, method: &'a str) -> &'a str {
        let renamed = self.table.methods.iter().find(|(_, theirs)| *theirs == method);
        renamed.map_or(method, |(ours, _)| ours)
    }

    /// The parameters of a request with our names; `None` if they are unchanged.
    #[must_use]
    pub fn params(&self, method: &str, params: &RawValue) -> Option<Translated> {
        let mut left_out = Vec::new();
        let node = *self.params.get(method)?;
        let text = rewrite_noting(&self.from_client, node, params.get(), &mut left_out)?;
        Some(Translated { params: RawValue::from_string(text).ok()?, left_out })
    }

    /// The client's result of a request of the server with our names; `None` if it is unchanged.
    #[must_use]
    pub fn answer(&self, method: &str, result: &RawValue) -> Option<Box<RawValue>> {
        rewrite_raw(&self.from_client, *self.answers.get(method)?, result)
    }

    /// The result of a request with the client's names.
    #[must_use]
    pub fn result(&self, method: &str, result: Bytes) -> Bytes {
        let Some(node) = self.results.get(method) else { return result };
        rewrite_bytes(&self.to_client, *node, result)
    }

    /// An error response with the client's names in its data.
    #[must_use]
    pub fn error(&self, error: ErrorObject) -> ErrorObject {
        let (Some(node), Some(data @ Value::Object(_))) = (self.error_data, &error.data) else {
            return error;
        };
        let translated = rewrite(&self.to_client, node, &data.to_string())
            .and_then(|text| serde_json::from_str(&text).ok());
        match translated {
            Some(data) => error.with_data(data),
            None => error,
        }
    }

    /// A notification or request of the server with the client's names.
    #[must_use]
    pub fn message(&self, message: Outgoing) -> Outgoing {
        let head = match &message {
            Outgoing::Whole(bytes) => bytes,
            Outgoing::Delta { head, .. } => head,
        };
        let Some(node) = method_of(head).and_then(|method| self.messages.get(method)) else {
            return message;
        };
        let whole = match message {
            Outgoing::Whole(bytes) => bytes,
            Outgoing::Delta { head, text, tail } => [head, text, tail].concat().into(),
        };
        Outgoing::Whole(rewrite_bytes(&self.to_client, *node, whole))
    }

    fn new(table: &'static Table, folder: &Path) -> Self {
        let (schema, methods) = bundle(true);
        let mut to_client = Plan::new(table, Direction::ToClient, &schema, folder);
        let mut from_client = Plan::new(table, Direction::FromClient, &schema, folder);
        let error_data = to_client.type_node(ERROR_DATA);
        let mut params = HashMap::new();
        let mut results = HashMap::new();
        let mut messages = HashMap::new();
        let mut answers = HashMap::new();
        for entry in rows(&methods, "clientRequests") {
            params.extend(entry.node(&mut from_client, "params"));
            results.extend(entry.node(&mut to_client, "result"));
        }
        for entry in rows(&methods, "serverNotifications") {
            messages.extend(entry.message_node(&mut to_client));
        }
        for entry in rows(&methods, "serverRequests") {
            messages.extend(entry.message_node(&mut to_client));
            answers.extend(entry.node(&mut from_client, "result"));
        }
        to_client.prune();
        from_client.prune();
        let keep = |plan: &Plan, nodes: HashMap<String, NodeId>| -> HashMap<String, NodeId> {
            nodes.into_iter().filter(|(_, node)| plan.changes(*node)).collect()
        };
        Self {
            table,
            params: keep(&from_client, params),
            results: keep(&to_client, results),
            messages: keep(&to_client, messages),
            answers: keep(&from_client, answers),
            error_data: error_data.filter(|node| to_client.changes(*node)),
            to_client,
            from_client,
        }
    }
}

/// A row of the method table: the method, and the names of its types.
struct Row<'a>(&'a Value);

impl Row<'_> {
    fn text(&self, member: &str) -> Option<&str> {
        self.0.get(member)?.as_str()
    }

    fn node(&self, plan: &mut Plan, member: &str) -> Option<(String, NodeId)> {
        let node = plan.type_node(self.text(member)?)?;
        Some((self.text("method")?.to_owned(), node))
    }

    fn message_node(&self, plan: &mut Plan) -> Option<(String, NodeId)> {
        let method = self.text("method")?;
        Some((method.to_owned(), plan.message_node(method, self.text("params"))))
    }
}

fn rows<'a>(methods: &'a Value, group: &str) -> impl Iterator<Item = Row<'a>> {
    methods.get(group).and_then(Value::as_array).into_iter().flatten().map(Row)
}

/// The schema's bundle and the method table.
fn bundle(experimental: bool) -> (Value, Value) {
    let mut files = artifacts::json_schema(experimental).into_iter();
    let mut parsed = || {
        let (_, text) = files.next().expect("a file with the schema, and one with the methods");
        serde_json::from_str(&text).expect("the committed schema is JSON")
    };
    (parsed(), parsed())
}

/// The method of an encoded notification or request; see `encode_notification` and `encode_request`.
fn method_of(message: &[u8]) -> Option<&str> {
    const MEMBER: &[u8] = b"\"method\":\"";
    let members = message.strip_prefix(b"{")?;
    let rest = match members.strip_prefix(MEMBER) {
        Some(rest) => rest,
        None => {
            // Ids of the server are integers.
            let id = members.strip_prefix(b"\"id\":")?;
            let (_, rest) = id.split_at(id.iter().position(|byte| *byte == b',')?);
            rest.strip_prefix(b",")?.strip_prefix(MEMBER)?
        }
    };
    let (method, _) = rest.split_at(rest.iter().position(|byte| *byte == b'"')?);
    std::str::from_utf8(method).ok()
}

fn rewrite_raw(plan: &Plan, node: NodeId, json: &RawValue) -> Option<Box<RawValue>> {
    RawValue::from_string(rewrite(plan, node, json.get())?).ok()
}

fn rewrite_bytes(plan: &Plan, node: NodeId, json: Bytes) -> Bytes {
    let rewritten = std::str::from_utf8(&json).ok().and_then(|text| rewrite(plan, node, text));
    rewritten.map_or(json, Bytes::from)
}
