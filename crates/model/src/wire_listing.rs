//! The lists of models of the wires other than Responses: their paths, their pages, and their entries as
//! [`crate::catalog::parse_listing`] reads them.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value, json};
use wire::Wire;

/// The path below a provider's address that lists its models.
pub(crate) fn path(wire: Wire) -> &'static str {
    match wire {
        Wire::Responses | Wire::Chat => "/models",
        Wire::Messages => "/v1/models?limit=1000",
        Wire::Gemini => "/v1beta/models?pageSize=1000",
    }
}

/// The query of the page after this one, to be appended to the path.
pub(crate) fn next_page(wire: Wire, answer: &Value) -> Option<String> {
    let (parameter, cursor) = match wire {
        Wire::Responses | Wire::Chat => return None,
        Wire::Messages if answer["has_more"] == true => ("after_id", answer["last_id"].as_str()?),
        Wire::Messages => return None,
        Wire::Gemini => ("pageToken", answer["nextPageToken"].as_str()?),
    };
    if cursor.is_empty() {
        return None;
    }
    Some(format!("&{parameter}={}", utf8_percent_encode(cursor, NON_ALPHANUMERIC)))
}

/// A list of models, as the Responses API has it.
pub(crate) fn translated(wire: Wire, mut answer: Value) -> Value {
    match wire {
        Wire::Responses | Wire::Chat => {}
        Wire::Messages => {
            let models = answer["data"].as_array_mut().into_iter().flatten();
            models.filter_map(Value::as_object_mut).for_each(messages_model);
        }
        Wire::Gemini => {
            if let Some(models) = answer["models"].as_array() {
                return json!({ "data": models.iter().filter_map(gemini_model).collect::<Vec<_>>() });
            }
        }
    }
    answer
}

/// Adds our names of the facts to a model of Messages.
fn messages_model(model: &mut Map<String, Value>) {
    for (theirs, ours) in [("max_input_tokens", "context_window"), ("max_tokens", "max_output")] {
        if let Some(tokens) = model.get(theirs).cloned() {
            model.insert(ours.to_owned(), tokens);
        }
    }
    let Some(capabilities) = model.get("capabilities").filter(|it| it.is_object()).cloned() else {
        return;
    };
    let supports = |of: &Value| of["supported"].as_bool();
    match supports(&capabilities["image_input"]) {
        Some(true) => model.insert("input_modalities".to_owned(), json!(["text", "image"])),
        Some(false) => model.insert("input_modalities".to_owned(), json!(["text"])),
        None => None,
    };
    let (effort, thinking) = (&capabilities["effort"], &capabilities["thinking"]);
    let known = ["low", "medium", "high", "xhigh"];
    let efforts: Vec<&str> = match (supports(effort), supports(thinking)) {
        (Some(true), _) => {
            known.into_iter().filter(|name| supports(&effort[*name]) == Some(true)).collect()
        }
        // It thinks with a budget, which the efforts stand for.
        (_, Some(true)) => known[..3].to_vec(),
        (_, Some(false)) => Vec::new(),
        (_, None) => return,
    };
    model.insert("efforts".to_owned(), json!(efforts));
}

/// A model of Gemini, if it generates content.
fn gemini_model(model: &Value) -> Option<Value> {
    let methods = model["supportedGenerationMethods"].as_array();
    if !methods.is_none_or(|methods| methods.iter().any(|it| it == "generateContent")) {
        return None;
    }
    let name = model["name"].as_str()?;
    let (input, output) = (model["inputTokenLimit"].as_u64(), model["outputTokenLimit"].as_u64());
    let mut entry = json!({
        "id": name.strip_prefix("models/").unwrap_or(name),
        "display_name": model["displayName"],
        "description": model["description"],
        // The limit of the input does not include the output.
        "context_window": input.map(|input| input.saturating_add(output.unwrap_or(0))),
        "max_output": output,
    });
    if model["thinking"] == false {
        entry["efforts"] = json!([]);
    }
    Some(entry)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{Modality, parse_listing};

    #[test]
    fn a_list_of_gemini() {
        let gemini = json!({"models": [
            {"name": "models/gemini-3-pro", "displayName": "Gemini 3", "inputTokenLimit": 1000,
             "outputTokenLimit": 200, "supportedGenerationMethods": ["generateContent"]},
            {"name": "models/embed", "supportedGenerationMethods": ["embedContent"]},
            {"name": "models/plain", "thinking": false},
        ], "nextPageToken": "a/b="});
        assert_eq!(next_page(Wire::Gemini, &gemini).as_deref(), Some("&pageToken=a%2Fb%3D"));
        assert_eq!(next_page(Wire::Gemini, &json!({"nextPageToken": ""})), None);
        let listed = translated(Wire::Gemini, gemini).to_string();
        let models = parse_listing(listed.as_bytes()).unwrap().models;
        assert_eq!(models.len(), 2);
        assert_eq!(&*models[0].id, "gemini-3-pro");
        assert_eq!((models[0].context_window, models[0].max_output), (Some(1200), Some(200)));
        assert_eq!((&models[0].efforts, &models[1].efforts), (&None, &Some(Vec::new())));
    }

    #[test]
    fn a_list_of_messages() {
        let yes = json!({"supported": true});
        let no = json!({"supported": false});
        let claude = json!({"data": [
            {"id": "a", "max_input_tokens": 1000, "max_tokens": 100, "capabilities": {
                "image_input": no, "thinking": yes, "effort": {"supported": true, "low": yes,
                "medium": no, "high": yes, "xhigh": yes, "max": yes}}},
            {"id": "b", "capabilities": {"thinking": yes, "effort": no}},
            {"id": "c", "capabilities": null},
        ], "has_more": true, "last_id": "c"});
        assert_eq!(next_page(Wire::Messages, &claude).as_deref(), Some("&after_id=c"));
        assert_eq!(next_page(Wire::Messages, &json!({"has_more": false, "last_id": "c"})), None);
        let listed = translated(Wire::Messages, claude).to_string();
        let models = parse_listing(listed.as_bytes()).unwrap().models;
        let efforts = |at: usize| models[at].efforts.as_ref().map(|them| them.join(","));
        assert_eq!((models[0].context_window, models[0].max_output), (Some(1000), Some(100)));
        assert_eq!(models[0].input_modalities.as_deref(), Some(&[Modality::Text][..]));
        assert_eq!(efforts(0).as_deref(), Some("low,high,xhigh"));
        assert_eq!(efforts(1).as_deref(), Some("low,medium,high"));
        assert_eq!(efforts(2), None);
    }
}
