//! The keywords of one schema: each is kept as it is, or with what it holds repaired, or left out. A
//! keyword that would allow less once its schemas allow more is left out too.

use serde_json::{Value, json};

use super::pattern::is_common;
use super::references::{Object, References, Target, is_name};
use crate::error::quoted;

/// Schemas within each other; deeper ones allow anything.
pub(super) const MAX_DEPTH: usize = 20;
/// Parts that are written in the place of a reference: these could multiply without end.
const MAX_INLINED: usize = 500;
/// Names of properties that a description lists.
const MAX_LISTED: usize = 20;
/// A part that has its own base for references, which lead nowhere then.
const OTHER_BASE: &str = "";
/// Keywords that do not restrict values.
const ANNOTATIONS: [&str; 6] =
    ["title", "description", "default", "examples", "deprecated", "$comment"];
const TYPES: [&str; 7] = ["object", "array", "string", "number", "integer", "boolean", "null"];

/// The type of a keyword's value.
enum Kind {
    Any,
    Enum,
    List,
    Text,
    Pattern,
    Flag,
    Type,
    Number,
    /// A number above zero.
    Divisor,
    /// A whole number from zero on.
    Count,
    /// A list of names.
    Names,
    /// A list of names by name.
    NamesByName,
    Schema,
    SchemaOrFlag,
    /// Schemas of which at least one is to fit, or all.
    Schemas,
    /// Schemas by position.
    Positions,
    Items,
    Properties,
    PatternProperties,
    SchemaByName,
    /// Handled on its own, or meaningless in the result.
    Skipped,
    Unknown,
}

fn kind(keyword: &str) -> Kind {
    match keyword {
        "default" | "const" => Kind::Any,
        "enum" => Kind::Enum,
        "examples" => Kind::List,
        "title" | "description" | "format" | "contentEncoding" | "contentMediaType"
        | "$comment" => Kind::Text,
        "pattern" => Kind::Pattern,
        "deprecated" | "readOnly" | "writeOnly" | "uniqueItems" => Kind::Flag,
        "type" => Kind::Type,
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => Kind::Number,
        "multipleOf" => Kind::Divisor,
        "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties"
        | "minContains" | "maxContains" => Kind::Count,
        "required" => Kind::Names,
        "dependentRequired" => Kind::NamesByName,
        "not" | "if" | "then" | "else" | "contains" | "propertyNames" | "contentSchema" => {
            Kind::Schema
        }
        "additionalProperties" | "unevaluatedProperties" | "unevaluatedItems" => Kind::SchemaOrFlag,
        "allOf" | "anyOf" | "oneOf" => Kind::Schemas,
        "prefixItems" => Kind::Positions,
        "items" => Kind::Items,
        "properties" => Kind::Properties,
        "patternProperties" => Kind::PatternProperties,
        "dependentSchemas" => Kind::SchemaByName,
        "$ref" | "$dynamicRef" | "$recursiveRef" | "$id" | "$schema" | "$anchor"
        | "$dynamicAnchor" | "$recursiveAnchor" | "$vocabulary" | "$defs" | "definitions" => {
            Kind::Skipped
        }
        _ => Kind::Unknown,
    }
}

/// The keywords of one schema while it is repaired.
pub(super) struct Keywords<'r, 's> {
    references: &'r References<'s>,
    /// Each definition allows exactly what it did.
    definitions_are_exact: bool,
    inlined: usize,
}

impl<'r, 's> Keywords<'r, 's> {
    pub(super) fn new(references: &'r References<'s>, definitions_are_exact: bool) -> Self {
        Self { references, definitions_are_exact, inlined: 0 }
    }

    /// The schema of the part `within`, repaired; `None` for one that nothing fits.
    pub(super) fn schema(&mut self, schema: &Value, within: &str, depth: usize) -> Option<Object> {
        match schema {
            Value::Bool(false) => None,
            Value::Object(members) if depth <= MAX_DEPTH => {
                Some(self.repaired(members, within, depth))
            }
            _ => Some(Object::new()),
        }
    }

    /// As [`Keywords::schema`], of the members of a schema.
    pub(super) fn repaired(&mut self, schema: &Object, within: &str, depth: usize) -> Object {
        let has_base = depth > 0 && schema.contains_key("$id");
        let within = if has_base { OTHER_BASE } else { within };
        let mut kept = Object::new();
        for (keyword, value) in schema {
            if let Some(value) = self.value(keyword, value, within, depth) {
                kept.insert(keyword.clone(), value);
            }
        }
        open_properties(schema, &mut kept);
        if let Some(Value::String(pattern)) = schema.get("pattern")
            && !is_common(pattern)
        {
            describe(&mut kept, &format!("Must match the pattern {}", quoted(pattern)));
        }
        self.loosen_conditions(schema, &mut kept);
        if let Some(prefix @ Value::Array(_)) = schema.get("items")
            && !kept.contains_key("prefixItems")
            && let Some(prefix) = self.value("prefixItems", prefix, within, depth)
        {
            // As earlier drafts write it.
            kept.insert("prefixItems".to_owned(), prefix);
        }
        if let Some(Value::String(reference)) = schema.get("$ref") {
            add_items(&mut kept);
            kept = self.with_reference(kept, reference, within, depth);
        }
        add_items(&mut kept);
        kept
    }

    /// The value of a keyword; `None` if it is left out.
    fn value(&mut self, keyword: &str, value: &Value, within: &str, depth: usize) -> Option<Value> {
        let mut inner = |value: &Value| self.schema(value, within, depth + 1).map(Value::Object);
        let is_kept = match kind(keyword) {
            Kind::Skipped => false,
            Kind::Any => is_shallow(value, MAX_DEPTH),
            Kind::List => value.is_array() && is_shallow(value, MAX_DEPTH),
            Kind::Text => value.is_string(),
            Kind::Pattern => value.as_str().is_some_and(is_common),
            Kind::Flag => value.is_boolean(),
            Kind::Number => value.is_number(),
            Kind::Divisor => value.as_f64().is_some_and(|number| number > 0.0),
            // One that holds schemas could hide references.
            Kind::Unknown => is_shallow(value, 1) && !value.is_object(),
            Kind::Enum => return choices(value),
            Kind::Type => return types(value),
            Kind::Count => return count(value),
            Kind::Names => return names(value).map(|names| json!(names)),
            Kind::NamesByName => {
                let lists = value.as_object()?.iter();
                let lists = lists.filter_map(|(name, list)| Some((name.clone(), names(list)?)));
                return Some(lists.map(|(name, list)| (name, json!(list))).collect());
            }
            Kind::SchemaOrFlag if value.is_boolean() => true,
            Kind::Schema | Kind::SchemaOrFlag => return inner(value),
            Kind::Items => {
                return Some(match value {
                    Value::Array(_) => json!({}),
                    value => inner(value).unwrap_or_else(|| json!({})),
                });
            }
            Kind::Positions => {
                let all = value.as_array()?.iter();
                let all: Vec<Value> =
                    all.map(|one| inner(one).unwrap_or_else(|| json!({}))).collect();
                return (!all.is_empty()).then_some(Value::Array(all));
            }
            Kind::Schemas => {
                let all: Vec<Value> = value.as_array()?.iter().filter_map(inner).collect();
                return (!all.is_empty()).then_some(Value::Array(all));
            }
            Kind::Properties | Kind::PatternProperties | Kind::SchemaByName => {
                let all = value.as_object()?.iter().filter(|(name, _)| match keyword {
                    "properties" => is_name(name),
                    "patternProperties" => is_common(name),
                    _ => true,
                });
                return Some(
                    all.filter_map(|(name, one)| Some((name.clone(), inner(one)?))).collect(),
                );
            }
        };
        is_kept.then(|| value.clone())
    }

    /// Leaves out the conditions that would allow less now.
    fn loosen_conditions(&self, schema: &Object, kept: &mut Object) {
        let is_exact = |keyword: &str, kept: &Object| match (schema.get(keyword), kept.get(keyword))
        {
            (None, None) => true,
            (Some(before), Some(after)) => {
                before == after && (self.definitions_are_exact || !has_reference(after))
            }
            _ => false,
        };
        if !is_exact("not", kept) {
            kept.shift_remove("not");
        }
        if !is_exact("if", kept) {
            ["if", "then", "else"].iter().for_each(|keyword| drop(kept.shift_remove(*keyword)));
        }
        if !is_exact("contains", kept) && schema.contains_key("maxContains") {
            ["contains", "minContains", "maxContains"]
                .iter()
                .for_each(|keyword| drop(kept.shift_remove(*keyword)));
        }
        if !is_exact("oneOf", kept)
            && let Some(choices) = kept.shift_remove("oneOf")
        {
            kept.entry("anyOf").or_insert(choices);
        }
        let is_whole = schema.keys().all(|keyword| is_exact(keyword, kept) || keyword == "$schema");
        if !is_whole {
            kept.shift_remove("unevaluatedProperties");
            kept.shift_remove("unevaluatedItems");
        }
    }

    /// A schema together with what its reference leads to.
    fn with_reference(
        &mut self,
        mut kept: Object,
        reference: &str,
        within: &str,
        depth: usize,
    ) -> Object {
        if within == OTHER_BASE {
            return kept;
        }
        match self.references.target(reference, within) {
            Target::Definition => {
                kept.insert("$ref".to_owned(), reference.into());
                kept
            }
            Target::Circle(target) => {
                let of_top = json!("object");
                let types = if target.is_null() {
                    Some(of_top)
                } else {
                    target.get("type").and_then(types)
                };
                if let Some(types) = types {
                    kept.entry("type").or_insert(types);
                }
                kept
            }
            Target::Part(part, pointer) if self.inlined < MAX_INLINED => {
                self.inlined += 1;
                let part = self.schema(part, &pointer, depth + 1).unwrap_or_default();
                joined(part, kept)
            }
            Target::Part(..) | Target::Unknown => kept,
        }
    }
}

/// Lists without a schema of their entries allow any, which some APIs want to be written.
fn add_items(kept: &mut Object) {
    let is_array = kept.get("type").is_some_and(|types| match types {
        Value::Array(types) => types.iter().any(|one| one == "array"),
        one => one == "array",
    });
    if is_array {
        kept.entry("items").or_insert_with(|| json!({}));
    }
}

/// Returns the values that satisfy both a part and the keywords next to the reference to it.
fn joined(mut part: Object, beside: Object) -> Object {
    if beside.keys().all(|keyword| ANNOTATIONS.contains(&keyword.as_str())) {
        part.extend(beside);
        return part;
    }
    match part.is_empty() {
        true => beside,
        false => Object::from_iter([("allOf".to_owned(), json!([part, beside]))]),
    }
}

/// Lets properties whose names or patterns cannot be kept be what they may, and describes them.
fn open_properties(schema: &Object, kept: &mut Object) {
    let members = |keyword: &str| schema.get(keyword).and_then(Value::as_object);
    let lost = members("properties").into_iter().flatten().map(|(name, _)| name);
    let lost: Vec<&String> = lost.filter(|name| !is_name(name)).collect();
    let lost_pattern =
        members("patternProperties").into_iter().flatten().any(|(name, _)| !is_common(name));
    if lost.is_empty() && !lost_pattern {
        return;
    }
    if kept.get("additionalProperties") != Some(&Value::Bool(true)) {
        kept.shift_remove("additionalProperties");
    }
    if lost.is_empty() {
        return;
    }
    let mut required = schema.get("required").and_then(names).unwrap_or_default();
    let mut listed = Vec::new();
    for name in lost.iter().take(MAX_LISTED) {
        let is_required = required.contains(name);
        let shown = json!(quoted(name));
        listed.push(format!("{shown}{}", if is_required { " (required)" } else { "" }));
    }
    describe(kept, &format!("Further properties: {}", listed.join(", ")));
    required.retain(|name| !lost.contains(&name));
    match required.is_empty() {
        true => drop(kept.shift_remove("required")),
        false => drop(kept.insert("required".to_owned(), json!(required))),
    }
}

/// Adds a line to the description.
fn describe(kept: &mut Object, line: &str) {
    let described = kept.get("description").and_then(Value::as_str).unwrap_or_default();
    let text = format!("{described}\n{line}");
    kept.insert("description".to_owned(), text.trim_start().into());
}

/// Returns whether an object can have the type of a schema, and be among its constants.
pub(super) fn allows_objects(schema: &Object) -> bool {
    let by_type = schema.get("type").and_then(types).is_none_or(|types| match types {
        Value::Array(types) => types.iter().any(|one| one == "object"),
        one => one == "object",
    });
    let constants = schema.get("enum").and_then(choices);
    let by_enum = constants
        .is_none_or(|all| all.as_array().is_none_or(|all| all.iter().any(Value::is_object)));
    by_type && by_enum && schema.get("const").is_none_or(Value::is_object)
}

/// A list of names, each once.
pub(super) fn names(value: &Value) -> Option<Vec<String>> {
    let mut all: Vec<String> = Vec::new();
    for name in value.as_array()? {
        let name = name.as_str()?;
        if !all.iter().any(|one| one == name) {
            all.push(name.to_owned());
        }
    }
    Some(all)
}

/// One type or several, each once.
fn types(value: &Value) -> Option<Value> {
    let is_type = |name: &str| TYPES.contains(&name);
    if let Value::String(one) = value {
        return is_type(one).then(|| value.clone());
    }
    let all = names(value).filter(|all| !all.is_empty())?;
    all.iter().all(|one| is_type(one)).then(|| json!(all))
}

/// Constants, each once.
fn choices(value: &Value) -> Option<Value> {
    let mut all: Vec<&Value> = Vec::new();
    for one in value.as_array().filter(|_| is_shallow(value, MAX_DEPTH))? {
        // Long lists of distinct constants stay as they are.
        if all.len() > MAX_INLINED || !all.contains(&one) {
            all.push(one);
        }
    }
    (!all.is_empty()).then(|| json!(all))
}

fn count(value: &Value) -> Option<Value> {
    /// The whole numbers below it are exact.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if value.is_u64() {
        return Some(value.clone());
    }
    let number = value.as_f64().filter(|number| number.fract() == 0.0)?;
    (0.0..EXACT).contains(&number).then(|| json!(number as u64))
}

/// Returns whether no value is deeper than `depth` lists and objects.
fn is_shallow(value: &Value, depth: usize) -> bool {
    match value {
        Value::Array(entries) => {
            depth > 0 && entries.iter().all(|entry| is_shallow(entry, depth - 1))
        }
        Value::Object(members) => {
            depth > 0 && members.values().all(|value| is_shallow(value, depth - 1))
        }
        _ => true,
    }
}

fn has_reference(value: &Value) -> bool {
    match value {
        Value::Array(entries) => entries.iter().any(has_reference),
        Value::Object(members) => {
            members.contains_key("$ref") || members.values().any(has_reference)
        }
        _ => false,
    }
}
