//! The schema as a dialect's clients read it: a folder with one file a type, with their names.

use serde_json::{Map, Value, json};

use super::plan::referenced;
use super::table::{Table, TypeTable, theirs};

/// The folder, of which each file stands alone.
const FOLDER: &str = "v2";

/// The files of all types that messages consist of, by path.
pub(super) fn files(table: &Table, schema: &Value, methods: &Value) -> Vec<(String, String)> {
    let definitions = schema.get("$defs").and_then(Value::as_object);
    let Some(definitions) = definitions else { return Vec::new() };
    let translated: Map<String, Value> = definitions
        .iter()
        .map(|(name, schema)| (name.clone(), translate(table, schema, table.of_type(name))))
        .collect();
    let groups = methods.as_object().into_iter().flat_map(Map::values);
    let rows = groups.filter_map(Value::as_array).flatten();
    let mut names: Vec<&str> = rows
        .flat_map(|row| ["params", "result"].map(|member| row.get(member)))
        .filter_map(|name| name?.as_str())
        .collect();
    names.sort_unstable();
    names.dedup();
    let one = |name: &str| {
        let content = format!("{:#}\n", file(name, &translated)?);
        Some((format!("{FOLDER}/{name}.json"), content))
    };
    names.into_iter().filter_map(one).collect()
}

/// The schema of a type, with those of all types that it refers to.
fn file(name: &str, definitions: &Map<String, Value>) -> Option<Value> {
    let mut file = definitions.get(name)?.clone();
    let mut found: Map<String, Value> = Map::new();
    let mut open = Vec::new();
    references(&file, &mut open);
    while let Some(next) = open.pop() {
        if !found.contains_key(&next)
            && let Some(schema) = definitions.get(&next)
        {
            references(schema, &mut open);
            found.insert(next, schema.clone());
        }
    }
    let members = file.as_object_mut()?;
    members.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
    members.insert("title".to_owned(), json!(name));
    if !found.is_empty() {
        members.insert("$defs".to_owned(), Value::Object(found));
    }
    Some(file)
}

fn references(schema: &Value, to: &mut Vec<String>) {
    to.extend(referenced(schema).map(str::to_owned));
    match schema {
        Value::Object(members) => members.values().for_each(|value| references(value, to)),
        Value::Array(values) => values.iter().for_each(|value| references(value, to)),
        _ => {}
    }
}

/// The schema of a type with the dialect's names.
fn translate(table: &Table, schema: &Value, entry: Option<&TypeTable>) -> Value {
    let Some(entry) = entry else { return schema.clone() };
    let Value::Object(members) = schema else { return schema.clone() };
    let renamed = |name: &Value| {
        let other = name.as_str().and_then(|name| theirs(entry.members, name));
        other.map_or_else(|| name.clone(), Value::from)
    };
    let value = |value: &Value| {
        let other = value.as_str().and_then(|value| theirs(entry.values, value));
        other.map_or_else(|| value.clone(), Value::from)
    };
    let all = |list: &Value, change: &dyn Fn(&Value) -> Value| match list {
        Value::Array(list) => Value::Array(list.iter().map(change).collect()),
        other => change(other),
    };
    let inner = |schema: &Value| translate(table, schema, Some(entry));
    let translated = members.iter().map(|(key, schema)| {
        let translated = match key.as_str() {
            "properties" => properties(table, schema, entry),
            "required" => all(schema, &renamed),
            "enum" | "const" => all(schema, &value),
            "anyOf" | "oneOf" | "allOf" | "items" | "additionalProperties" => all(schema, &inner),
            _ => schema.clone(),
        };
        (key.clone(), translated)
    });
    Value::Object(translated.collect())
}

fn properties(table: &Table, schemas: &Value, entry: &TypeTable) -> Value {
    let Value::Object(schemas) = schemas else { return schemas.clone() };
    let translated = schemas.iter().map(|(name, schema)| {
        let schema = translate(table, schema, Some(entry));
        let name = theirs(entry.members, name).map_or_else(|| name.clone(), str::to_owned);
        (name, schema)
    });
    Value::Object(translated.collect())
}
