//! Where the names of a dialect's table are: a graph of the schema's types, reduced to the paths that
//! lead to a name.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::table::{Table, TypeTable, theirs};

/// Which way a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    ToClient,
    FromClient,
}

/// Index of a [`Node`].
pub(super) type NodeId = usize;

/// The paths of the schema that lead to a name of a dialect.
#[derive(Debug)]
pub(super) struct Plan {
    table: &'static Table,
    direction: Direction,
    /// The folder of relative paths.
    folder: PathBuf,
    definitions: Map<String, Value>,
    by_type: HashMap<String, NodeId>,
    nodes: Vec<Node>,
}

/// A place in a message: the forms that its value can have.
#[derive(Debug, Default)]
pub(super) struct Node {
    pub(super) forms: Vec<Form>,
    changes: bool,
}

/// One form of a value.
#[derive(Clone, Debug, Default)]
pub(super) struct Form {
    /// Members that an object of this form has, with the values of one of which it has.
    pub(super) tags: Vec<(String, Vec<String>)>,
    pub(super) members: Vec<Member>,
    /// The value of every other member.
    pub(super) others: Option<NodeId>,
    pub(super) items: Option<NodeId>,
    /// Strings and what replaces them.
    pub(super) values: Vec<(String, String)>,
}

/// A member, as it arrives.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) name: String,
    pub(super) change: Option<Change>,
    pub(super) value: Option<NodeId>,
}

/// A change of a member.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// It gets this name.
    Renamed(String),
    /// It is removed.
    LeftOut,
    /// Its path becomes an absolute one.
    Absolute,
}

const DEFINITIONS: &str = "#/$defs/";

impl Plan {
    /// An empty plan over this schema.
    pub(super) fn new(
        table: &'static Table,
        direction: Direction,
        schema: &Value,
        folder: &Path,
    ) -> Self {
        let definitions = schema.get("$defs").and_then(Value::as_object).cloned();
        Self {
            table,
            direction,
            folder: folder.to_owned(),
            definitions: definitions.unwrap_or_default(),
            by_type: HashMap::new(),
            nodes: Vec::new(),
        }
    }

    /// A relative path in JSON as an absolute one.
    pub(super) fn absolute(&self, json: &str) -> Option<String> {
        let path: String = serde_json::from_str(json).ok()?;
        if path.is_empty() || Path::new(&path).is_absolute() {
            return None;
        }
        // `.` and nothing after it is the folder itself.
        let path: PathBuf = self.folder.join(path).components().collect();
        serde_json::to_string(path.to_str()?).ok()
    }

    pub(super) fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(id)
    }

    /// Returns whether anything is renamed at or below a node. Valid after [`Plan::prune`].
    pub(super) fn changes(&self, id: NodeId) -> bool {
        self.nodes.get(id).is_some_and(|node| node.changes)
    }

    /// The node of a type of the schema.
    pub(super) fn type_node(&mut self, name: &str) -> Option<NodeId> {
        if let Some(id) = self.by_type.get(name) {
            return Some(*id);
        }
        let schema = self.definitions.get(name)?.clone();
        // Known before its members are, because a type can contain itself.
        let id = self.push(Vec::new());
        self.by_type.insert(name.to_owned(), id);
        self.nodes[id].forms = self.forms(&schema, Some(name));
        Some(id)
    }

    /// The node of a message with `params` of this type.
    pub(super) fn message_node(&mut self, method: &str, params: Option<&str>) -> NodeId {
        let value = params.and_then(|params| self.type_node(params));
        let mut members = vec![Member::same("params", value)];
        if let Some(renamed) = theirs(self.table.methods, method) {
            let values = vec![(method.to_owned(), renamed.to_owned())];
            let name = self.push(vec![Form { values, ..Form::default() }]);
            members.push(Member::same("method", Some(name)));
        }
        self.push(vec![Form { members, ..Form::default() }])
    }

    /// Removes everything that leads to no name.
    pub(super) fn prune(&mut self) {
        loop {
            let found: Vec<NodeId> = (0..self.nodes.len())
                .filter(|id| !self.nodes[*id].changes)
                .filter(|id| self.nodes[*id].forms.iter().any(|form| self.form_changes(form)))
                .collect();
            if found.is_empty() {
                break;
            }
            for id in found {
                self.nodes[id].changes = true;
            }
        }
        let changes: Vec<bool> = self.nodes.iter().map(|node| node.changes).collect();
        let kept = |id: &NodeId| changes.get(*id).is_some_and(|changes| *changes);
        for form in self.nodes.iter_mut().flat_map(|node| &mut node.forms) {
            form.others = form.others.filter(kept);
            form.items = form.items.filter(kept);
            for member in &mut form.members {
                member.value = member.value.filter(kept);
            }
            // With `others`, the member's name decides which of the two applies.
            if form.others.is_none() {
                form.members.retain(|member| member.change.is_some() || member.value.is_some());
            }
        }
        self.definitions = Map::new();
        self.by_type = HashMap::new();
    }

    fn form_changes(&self, form: &Form) -> bool {
        let renames = form.members.iter().any(|member| member.change.is_some());
        let own = renames || !form.values.is_empty();
        let mut below = form.members.iter().filter_map(|member| member.value);
        own || below.any(|id| self.changes(id))
            || form.others.is_some_and(|id| self.changes(id))
            || form.items.is_some_and(|id| self.changes(id))
    }

    fn push(&mut self, forms: Vec<Form>) -> NodeId {
        self.nodes.push(Node { forms, changes: false });
        self.nodes.len() - 1
    }

    /// The node of a schema inside the type `owner`.
    fn schema_node(&mut self, schema: &Value, owner: Option<&str>) -> Option<NodeId> {
        // A type that contains itself does so here, by name.
        if let Some(name) = only_reference(schema) {
            return self.type_node(name);
        }
        schema.as_object()?;
        let forms = self.forms(schema, owner);
        Some(self.push(forms))
    }

    /// The forms of a schema: its own keywords, combined with each alternative.
    fn forms(&mut self, schema: &Value, owner: Option<&str>) -> Vec<Form> {
        let mut forms = vec![self.own_form(schema, owner)];
        if let Some(name) = referenced(schema)
            && let Some(target) = self.definitions.get(name).cloned()
        {
            let of_target = self.forms(&target, Some(name));
            forms = combine(&forms, &of_target);
        }
        for keyword in ["anyOf", "oneOf"] {
            let Some(list) = schema.get(keyword).and_then(Value::as_array) else { continue };
            let alternatives: Vec<Form> =
                list.iter().flat_map(|one| self.forms(one, owner)).collect();
            forms = combine(&forms, &alternatives);
        }
        for part in schema.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            let of_part = self.forms(part, owner);
            forms = combine(&forms, &of_part);
        }
        forms
    }

    fn own_form(&mut self, schema: &Value, owner: Option<&str>) -> Form {
        let entry = owner.and_then(|owner| self.table.of_type(owner));
        let mut form = Form::default();
        let properties = schema.get("properties").and_then(Value::as_object);
        for (name, schema) in properties.into_iter().flatten() {
            if let Some(value) = schema.get("const").and_then(Value::as_str) {
                form.tags.push((name.clone(), self.spellings(entry, value)));
            }
            let value = self.schema_node(schema, owner);
            self.add_member(&mut form, entry, name, value);
        }
        let known = |name: &str| properties.is_some_and(|known| known.contains_key(name));
        if self.direction == Direction::FromClient && properties.is_some() {
            let left_out = entry.iter().flat_map(|entry| entry.left_out);
            form.members.extend(left_out.filter(|name| !known(name)).map(|name| Member {
                name: (*name).to_owned(),
                change: Some(Change::LeftOut),
                value: None,
            }));
        }
        if let Some(schema @ Value::Object(_)) = schema.get("additionalProperties") {
            form.others = self.schema_node(schema, owner);
        }
        if let Some(schema @ Value::Object(_)) = schema.get("items") {
            form.items = self.schema_node(schema, owner);
        }
        let listed = schema.get("enum").and_then(Value::as_array).into_iter().flatten();
        for value in listed.chain(schema.get("const")).filter_map(Value::as_str) {
            if let Some(other) = entry.and_then(|entry| theirs(entry.values, value)) {
                let (from, to) = self.ordered(value, other);
                form.values.push((from.to_owned(), to.to_owned()));
            }
            if self.direction == Direction::FromClient {
                let also = entry.iter().flat_map(|entry| entry.also);
                let also = also.filter(|(ours, _)| *ours == value);
                form.values
                    .extend(also.map(|(ours, from)| ((*from).to_owned(), (*ours).to_owned())));
            }
        }
        form
    }

    fn add_member(
        &self,
        form: &mut Form,
        entry: Option<&TypeTable>,
        name: &str,
        value: Option<NodeId>,
    ) {
        let other = entry.and_then(|entry| theirs(entry.members, name));
        if let Some(other) = other {
            let (from, to) = self.ordered(name, other);
            let (name, change) = (from.to_owned(), Some(Change::Renamed(to.to_owned())));
            form.members.push(Member { name, change, value });
        }
        if other.is_none() || self.direction == Direction::FromClient {
            let is_relative = entry.is_some_and(|entry| entry.relative.contains(&name));
            let change = (is_relative && self.direction == Direction::FromClient)
                .then_some(Change::Absolute);
            form.members.push(Member { change, ..Member::same(name, value) });
        }
    }

    /// The spellings in which a tag's value can arrive.
    fn spellings(&self, entry: Option<&TypeTable>, value: &str) -> Vec<String> {
        let other = entry.and_then(|entry| theirs(entry.values, value));
        match (other, self.direction) {
            (Some(other), Direction::FromClient) => vec![value.to_owned(), other.to_owned()],
            _ => vec![value.to_owned()],
        }
    }

    /// The name that arrives, and the one that replaces it.
    fn ordered<'n>(&self, ours: &'n str, theirs: &'n str) -> (&'n str, &'n str) {
        match self.direction {
            Direction::ToClient => (ours, theirs),
            Direction::FromClient => (theirs, ours),
        }
    }
}

impl Member {
    fn same(name: &str, value: Option<NodeId>) -> Self {
        Self { name: name.to_owned(), change: None, value }
    }
}

/// The name of the type that a schema refers to.
pub(super) fn referenced(schema: &Value) -> Option<&str> {
    schema.get("$ref")?.as_str()?.strip_prefix(DEFINITIONS)
}

/// The name of the type, if a schema is that type or `null` and nothing else.
fn only_reference(schema: &Value) -> Option<&str> {
    let members = schema.as_object()?;
    let is_keyword = |key: &String| !matches!(key.as_str(), "properties" | "oneOf" | "allOf");
    if !members.keys().all(is_keyword) {
        return None;
    }
    let Some(alternatives) = members.get("anyOf").and_then(Value::as_array) else {
        return referenced(schema);
    };
    let mut others = alternatives.iter().filter(|one| one.get("type") != Some(&"null".into()));
    match (others.next(), others.next()) {
        (Some(one), None) => only_reference(one),
        _ => None,
    }
}

/// Every form of the one with every form of the other.
fn combine(left: &[Form], right: &[Form]) -> Vec<Form> {
    if right.is_empty() {
        return left.to_vec();
    }
    let pair = |one: &Form, other: &Form| {
        let mut form = one.clone();
        form.tags.extend(other.tags.iter().cloned());
        form.members.extend(other.members.iter().cloned());
        form.values.extend(other.values.iter().cloned());
        form.others = form.others.or(other.others);
        form.items = form.items.or(other.items);
        form
    };
    left.iter().flat_map(|one| right.iter().map(move |other| pair(one, other))).collect()
}
