//! `POST …/moderations`: scores that are determined by the text and flag nothing.

use serde_json::{Map, Value, json};

use super::{
    offline::{Call, Offline},
    reply::{Answered, Refused, Reply},
    saying::hash,
};

const CATEGORIES: [&str; 13] = [
    "harassment",
    "harassment/threatening",
    "hate",
    "hate/threatening",
    "illicit",
    "illicit/violent",
    "self-harm",
    "self-harm/instructions",
    "self-harm/intent",
    "sexual",
    "sexual/minors",
    "violence",
    "violence/graphic",
];
/// The text that is scored in place of the output.
const SAID: &str = "the offline model";
/// Most inputs per request.
const MAX_INPUTS: usize = 1024;

impl Offline {
    pub(super) fn moderations(&self, call: &Call<'_>) -> Answered {
        let body = call.json()?;
        let inputs: Vec<&Value> = match &body["input"] {
            // A list of parts is one input.
            Value::Array(entries) if entries.first().is_some_and(Value::is_string) => {
                entries.iter().collect()
            }
            input @ (Value::String(_) | Value::Array(_)) => vec![input],
            _ => return Err(Refused::value("input", "`input` is a text or a list.")),
        };
        if inputs.len() > MAX_INPUTS {
            return Err(Refused::value("input", "`input` has at most 1024 entries."));
        }
        let results: Vec<Value> = inputs.into_iter().map(scores).collect();
        let model = body["model"].as_str().unwrap_or("offline");
        Ok(Reply::Json(json!({"id": self.id("modr-"), "model": model, "results": results})))
    }
}

/// The scores that a response adds for its input and its output when its request has `moderation`.
pub(super) fn of_response(moderation: &Value, input: &Value) -> Value {
    json!({"input": result(moderation, input), "output": result(moderation, &SAID.into())})
}

/// The same for a chat completion, whose scores are in lists.
pub(super) fn of_chat(moderation: &Value, messages: &Value) -> Value {
    let results = |content: &Value| {
        json!({"type": "moderation_results", "model": model(moderation),
            "results": [result(moderation, content)]})
    };
    json!({"input": results(messages), "output": results(&SAID.into())})
}

fn result(moderation: &Value, content: &Value) -> Value {
    let mut result = scores(content);
    result["type"] = "moderation_result".into();
    result["model"] = model(moderation).into();
    result
}

fn model(moderation: &Value) -> &str {
    moderation["model"].as_str().unwrap_or("offline")
}

fn scores(input: &Value) -> Value {
    let text = input.to_string();
    // Far below any threshold.
    let score =
        |name: &str| hash(format!("{name}\0{text}").as_bytes()) as f64 / u64::MAX as f64 / 100.0;
    let by_category = |value: &dyn Fn(&str) -> Value| -> Map<String, Value> {
        CATEGORIES.iter().map(|name| ((*name).to_owned(), value(name))).collect()
    };
    json!({"flagged": false, "categories": by_category(&|_| false.into()),
        "category_scores": by_category(&|name| score(name).into()),
        "category_applied_input_types": by_category(&|_| json!(["text"]))})
}
