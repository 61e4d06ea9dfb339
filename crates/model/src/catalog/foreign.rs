//! Reads the list of models of another agent, whose entries have a `slug`: the facts that this catalog has
//! too, in its own names.

use serde_json::{Map, Value, json};

/// Members whose name and meaning are ours.
const SAME: [&str; 3] = ["display_name", "context_window", "supports_parallel_tool_calls"];
/// Members of the other list, and ours.
const RENAMED: [(&str, &str); 3] = [
    ("base_instructions", "instructions"),
    ("max_output_tokens", "max_output"),
    ("support_verbosity", "supports_verbosity"),
];

/// The text of a catalog for the text of such a list; `None` for any other text. Other efforts than these
/// are left out.
pub(super) fn converted(text: &str, efforts: &[&str]) -> Option<String> {
    if !text.contains("\"slug\"") {
        return None;
    }
    let parsed: Value = serde_json::from_str(text).ok()?;
    let models = parsed.as_array().or_else(|| parsed.get("models")?.as_array())?;
    let is_theirs = |model: &Value| model["slug"].is_string() && model["id"].is_null();
    if models.is_empty() || !models.iter().all(is_theirs) {
        return None;
    }
    let mut models: Vec<&Value> = models.iter().collect();
    models.sort_by_key(|model| model["priority"].as_i64().unwrap_or(i64::MAX));
    let ours: Vec<Value> = models.into_iter().map(|model| entry(model, efforts)).collect();
    Some(json!({ "models": ours }).to_string())
}

fn entry(model: &Value, efforts: &[&str]) -> Value {
    let mut entry = Map::new();
    let same = SAME.iter().map(|name| (*name, *name));
    for (theirs, ours) in same.chain(RENAMED).chain([("slug", "id")]) {
        if let Some(value) = model.get(theirs).filter(|value| !value.is_null()) {
            entry.insert(ours.to_owned(), value.clone());
        }
    }
    if let Some(description) = model["description"].as_str() {
        entry.insert("description".to_owned(), description.into());
    }
    if let Some(levels) = model["supported_reasoning_levels"].as_array() {
        let is_known = |level: &&Value| efforts.iter().any(|known| level["effort"] == **known);
        let levels = levels.iter().filter(is_known).map(|level| {
            let description = level["description"].as_str().unwrap_or_default();
            json!({ "effort": level["effort"], "description": description })
        });
        let levels: Vec<Value> = levels.collect();
        let default = &model["default_reasoning_level"];
        if levels.iter().any(|level| level["effort"] == *default) {
            entry.insert("default_effort".to_owned(), default.clone());
        }
        entry.insert("supported_efforts".to_owned(), levels.into());
    }
    let patch = match model["apply_patch_tool_type"].as_str() {
        Some("freeform") => Some("custom"),
        Some("function") => Some("function"),
        _ => None,
    };
    if let Some(patch) = patch {
        entry.insert("patch_tool".to_owned(), patch.into());
    }
    if let Some(modalities) = model["input_modalities"].as_array() {
        let is_known = |it: &&Value| matches!(it.as_str(), Some("text" | "image"));
        entry.insert(
            "input_modalities".to_owned(),
            modalities.iter().filter(is_known).cloned().collect(),
        );
    }
    if let Some(visibility) = model["visibility"].as_str() {
        entry.insert("hidden".to_owned(), (visibility != "list").into());
    }
    Value::Object(entry)
}
