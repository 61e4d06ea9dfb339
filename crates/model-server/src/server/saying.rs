//! The offline model's texts and token counts. Contains no model.

use serde_json::{Value, json};

use super::reply::Refused;

/// Characters of the user's text that are repeated.
const REPEATED: usize = 1000;
/// Characters per delta.
pub(super) const DELTA_CHARS: usize = 16;

/// A text, and whether the request's limit truncated it.
pub(super) struct Said {
    pub(super) text: String,
    pub(super) cut: bool,
}

/// The response to `user`, in the requested `format`, of at most `tokens` tokens.
///
/// # Errors
/// The format is a JSON schema.
pub(super) fn say(user: &str, format: &Value, tokens: Option<u64>) -> Result<Said, Refused> {
    let mut repeated: String = user.chars().take(REPEATED).collect();
    if repeated.len() < user.len() {
        repeated.push('…');
    }
    let whole = match format["type"].as_str() {
        Some("json_schema") => {
            let message = "The offline model cannot follow a JSON schema; it knows `text` and \
                           `json_object`.";
            return Err(Refused::value("response_format", message));
        }
        Some("json_object") => json!({"offline_model": true, "you_said": repeated}).to_string(),
        _ => format!(
            "This is the offline model: no request leaves this machine. You said: {repeated}"
        ),
    };
    let most =
        tokens.map_or(usize::MAX, |tokens| usize::try_from(tokens * 4).unwrap_or(usize::MAX));
    let text: String = whole.chars().take(most).collect();
    Ok(Said { cut: text.len() < whole.len(), text })
}

/// Splits `text` into deltas.
pub(super) fn deltas(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    chars.chunks(DELTA_CHARS).map(|chunk| chunk.iter().collect()).collect()
}

/// Tokens of this many characters.
pub(super) fn tokens(chars: usize) -> u64 {
    (chars.div_ceil(4) as u64).max(1)
}

/// Characters of the text in `value`: its strings, and those of its text members.
pub(super) fn chars(value: &Value) -> usize {
    const TEXT: [&str; 6] = ["text", "content", "output", "arguments", "input", "refusal"];
    match value {
        Value::String(text) => text.chars().count(),
        Value::Array(entries) => entries.iter().map(chars).sum(),
        Value::Object(members) => {
            TEXT.iter().filter_map(|name| members.get(*name)).map(chars).sum()
        }
        _ => 0,
    }
}

/// The text of the last user message in `input` or `messages`.
pub(super) fn last_user_text(items: &Value) -> String {
    let content = match items {
        Value::Array(items) => {
            let user = items.iter().rev().find(|item| item["role"] == "user");
            user.map_or(&Value::Null, |item| &item["content"])
        }
        other => other,
    };
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts: Vec<&str> = parts.iter().filter_map(|part| part["text"].as_str()).collect();
            texts.join("\n")
        }
        _ => String::new(),
    }
}

/// The function that the request requires to be called: the named one, or the first.
pub(super) fn forced_function(body: &Value) -> Option<String> {
    let choice = &body["tool_choice"];
    let named = choice["name"].as_str().or(choice["function"]["name"].as_str());
    if let Some(name) = named {
        return Some(name.to_owned());
    }
    let name = |tool: &Value| {
        let name = tool["name"].as_str().or(tool["function"]["name"].as_str());
        name.filter(|_| tool["type"] == "function").map(str::to_owned)
    };
    let tools = body["tools"].as_array().filter(|_| choice == "required")?;
    tools.iter().find_map(name)
}

/// A hash that is stable across runs and builds.
pub(super) fn hash(bytes: &[u8]) -> u64 {
    let fold = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3);
    mixed(bytes.iter().fold(0xCBF2_9CE4_8422_2325, fold))
}

/// Spreads the bits of `number`, so that consecutive numbers become dissimilar.
pub(super) fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let number = (number ^ number >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ number >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ number >> 31
}
