//! Generates the JSON Schema of the configuration files from the option table, for editors that
//! read `#:schema` at the top of a file.

use serde_json::{Map, Value as Json, json};

use crate::key_path;
use crate::kind::{Effect, Kind, MAX_NICKNAME, OptionEntry, Section};
use crate::table::{DEPRECATED, Keys, RENAMED, RequirementsFile};

/// Name of the schema of `config.toml` below `schema/`.
pub const CONFIG_SCHEMA: &str = "config.schema.json";
/// Name of the schema of `requirements.toml` below `schema/`.
pub const REQUIREMENTS_SCHEMA: &str = "requirements.schema.json";

/// The schema files, name and content.
pub fn files() -> Vec<(String, String)> {
    let text = |schema: &Json| format!("{schema:#}\n");
    vec![
        (CONFIG_SCHEMA.to_owned(), text(&config())),
        (REQUIREMENTS_SCHEMA.to_owned(), text(&requirements())),
    ]
}

/// The schema of `config.toml`.
pub fn config() -> Json {
    let mut schema = root("config.toml of agentd", Keys::SECTION);
    let mut profile = section(Keys::SECTION, "");
    if let Some(properties) = properties(&mut profile) {
        properties.shift_remove("profile");
        properties.shift_remove("profiles");
    }
    add_renamed(&mut profile);
    add_renamed(&mut schema);
    schema["$defs"] = json!({ "profile": profile });
    schema
}

/// The schema of `requirements.toml`.
pub fn requirements() -> Json {
    root("requirements.toml of agentd", RequirementsFile::SECTION)
}

fn root(title: &str, keys: &Section) -> Json {
    let mut schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
    });
    if let (Json::Object(schema), Json::Object(members)) = (&mut schema, section(keys, "")) {
        schema.extend(members);
    }
    schema
}

fn section(section: &Section, path: &str) -> Json {
    let member = |entry: &OptionEntry| {
        let path =
            if path.is_empty() { entry.name.to_owned() } else { format!("{path}.{}", entry.name) };
        described(entry, &path)
    };
    let properties: Map<String, Json> =
        section.entries.iter().map(|entry| (entry.name.to_owned(), member(entry))).collect();
    let mut schema = json!({
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
    });
    if let Some(rest) = section.rest {
        match rest.name.split_once('<').zip(rest.name.rsplit_once('>')) {
            Some(((start, _), (_, end))) if !(start.is_empty() && end.is_empty()) => {
                schema["patternProperties"] = json!({ format!("^{start}.+{end}$"): member(rest) });
            }
            _ => schema["additionalProperties"] = member(rest),
        }
    }
    schema
}

fn described(entry: &OptionEntry, path: &str) -> Json {
    let mut schema = schema_of_kind(&entry.kind, path);
    let mut description = one_line(entry.doc);
    if let Effect::Pending(part) = entry.effect {
        description.push_str(&format!(" No effect yet: requires {part}."));
    }
    schema["description"] = description.into();
    if let Some(default) = (entry.default)() {
        schema["default"] = default;
    }
    if DEPRECATED.iter().any(|one| one.key == path && one.value.is_none()) {
        schema["deprecated"] = true.into();
    }
    schema
}

fn schema_of_kind(kind: &Kind, path: &str) -> Json {
    match kind {
        Kind::Boolean => json!({ "type": "boolean" }),
        Kind::Whole { min, max } => json!({ "type": "integer", "minimum": min, "maximum": max }),
        Kind::Time { min, max, .. } => json!({ "type": "number", "minimum": min, "maximum": max }),
        Kind::Text => json!({ "type": "string" }),
        Kind::Url => json!({ "type": "string", "pattern": "^https?://[^/?#:\\s][^\\s]*$" }),
        Kind::Uuid => json!({
            "type": "string",
            "pattern": "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$",
        }),
        Kind::Nickname => {
            json!({ "type": "string", "minLength": 1, "maxLength": MAX_NICKNAME, "pattern": "\\S" })
        }
        Kind::Country => json!({ "type": "string", "pattern": "^[A-Za-z]{2}$" }),
        Kind::TimeZone => json!({ "type": "string", "pattern": "^[A-Za-z][A-Za-z0-9_+/-]*$" }),
        Kind::Host => {
            let label = "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?";
            let pattern = format!("^{label}(\\.{label})*$");
            json!({ "type": "string", "maxLength": 253, "pattern": pattern })
        }
        Kind::Path => json!({ "type": "string", "minLength": 1 }),
        Kind::Choice(names, also) => {
            json!({ "enum": names.iter().chain(*also).collect::<Vec<_>>() })
        }
        Kind::List(of) => json!({ "type": "array", "items": schema_of_kind(of, path) }),
        Kind::Map(_, of) => {
            json!({ "type": "object", "additionalProperties": schema_of_kind(of, path) })
        }
        Kind::Table(keys) => section(keys, path),
        Kind::Either(kinds) => {
            json!({ "anyOf": kinds.iter().map(|kind| schema_of_kind(kind, path)).collect::<Vec<_>>() })
        }
        Kind::Profile => json!({ "$ref": "#/$defs/profile" }),
    }
}

/// Adds the old names of renamed keys, marked as deprecated.
fn add_renamed(schema: &mut Json) {
    for renamed in RENAMED {
        let mut found = &*schema;
        for part in key_path::parse(renamed.new).unwrap_or_default() {
            found = &found["properties"][part];
        }
        let mut old = found.clone();
        old["deprecated"] = true.into();
        old["description"] = format!("Renamed: write `{}`.", renamed.new).into();
        if let Some(properties) = properties(schema) {
            properties.insert(renamed.old.to_owned(), old);
        }
    }
}

fn properties(schema: &mut Json) -> Option<&mut Map<String, Json>> {
    schema.get_mut("properties")?.as_object_mut()
}

pub(crate) fn one_line(doc: &str) -> String {
    doc.split_whitespace().collect::<Vec<_>>().join(" ")
}
