//! Lists of models as Messages and Gemini have them. There is the one model, and any that is asked for by name.

use serde_json::{Value, json};
use wire::Wire;

const NAME: &str = "offline";
/// Tokens that a model takes, and that it writes.
const CONTEXT_WINDOW: u64 = 200_000;
const MAX_OUTPUT: u64 = 64_000;

/// The list of models, or the one named `id`.
pub(crate) fn listing(wire: Wire, id: Option<&str>) -> Value {
    let model = match wire {
        Wire::Gemini => of_gemini,
        _ => of_messages,
    };
    match (wire, id) {
        (_, Some(id)) => model(id),
        (Wire::Gemini, None) => json!({ "models": [model(NAME)] }),
        (_, None) => {
            json!({"data": [model(NAME)], "first_id": NAME, "last_id": NAME, "has_more": false})
        }
    }
}

fn of_messages(id: &str) -> Value {
    json!({"type": "model", "id": id, "display_name": id, "created_at": "1970-01-01T00:00:00Z",
        "max_input_tokens": CONTEXT_WINDOW, "max_tokens": MAX_OUTPUT})
}

fn of_gemini(id: &str) -> Value {
    let id = id.strip_prefix("models/").unwrap_or(id);
    json!({"name": format!("models/{id}"), "version": "001", "displayName": id,
        "inputTokenLimit": CONTEXT_WINDOW, "outputTokenLimit": MAX_OUTPUT,
        "supportedGenerationMethods": ["generateContent", "countTokens"]})
}
