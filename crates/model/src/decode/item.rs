//! Items of a response: the kind of an item at its beginning, its content at its end, and its JSON
//! for a later request.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

use crate::{Item, ItemKind, Phase};

/// The id and the kind of an added item.
pub(super) fn added(json: &str) -> serde_json::Result<(String, ItemKind)> {
    #[derive(Deserialize)]
    struct Added {
        #[serde(rename = "type")]
        kind: String,
        id: Option<String>,
        call_id: Option<String>,
        name: Option<String>,
        phase: Option<String>,
        #[serde(default)]
        action: serde_json::Value,
    }
    let Added { kind, id, call_id, name, phase, action } = serde_json::from_str(json)?;
    let (call_id, name) = (call_id.unwrap_or_default(), name.unwrap_or_default());
    let kind = match kind.as_str() {
        "message" => ItemKind::Message { phase: phase.as_deref().and_then(Phase::from_name) },
        "reasoning" => ItemKind::Reasoning,
        "function_call" => ItemKind::FunctionCall { call_id, name },
        "custom_tool_call" => ItemKind::CustomToolCall { call_id, name },
        "web_search_call" => ItemKind::WebSearch { query: searched_for(&action) },
        "image_generation_call" => ItemKind::ImageGeneration,
        _ => ItemKind::Other { kind },
    };
    Ok((id.unwrap_or_default(), kind))
}

/// A finished item.
pub(super) fn done(json: &str) -> serde_json::Result<Item> {
    #[derive(Deserialize)]
    struct Head<'a> {
        #[serde(borrow, rename = "type")]
        kind: Cow<'a, str>,
        /// For known items it is read with the other members.
        #[serde(default)]
        call_id: serde_json::Value,
    }
    let Head { kind, call_id } = serde_json::from_str(json)?;
    Ok(match kind.as_ref() {
        "message" => message(json)?,
        "reasoning" => reasoning(json)?,
        "function_call" => function_call(json)?,
        "custom_tool_call" => custom_tool_call(json)?,
        "web_search_call" => web_search(json)?,
        "image_generation_call" => image_generation(json)?,
        "tool_search_call" if call_id.is_string() => tool_search_call(json)?,
        _ => Item::Other { kind: kind.into_owned(), call_id: call_id.as_str().map(str::to_owned) },
    })
}

/// The item's JSON as input of a later request (see [`crate::Event::ItemDone`]).
pub(super) fn as_input<'a>(json: &'a str, item: &Item) -> Cow<'a, str> {
    if !matches!(item, Item::Reasoning { .. }) {
        return Cow::Borrowed(json);
    }
    // It was read as an item, so it is an object and this cannot fail.
    let Ok(Members(members)) = serde_json::from_str(json) else { return Cow::Borrowed(json) };
    // Without the encrypted content the provider would look up the id, but nothing is stored there.
    let has_content = members.iter().any(|(name, value)| {
        name == "encrypted_content" && value.get().trim_start().starts_with('"')
    });
    let kept = |name: &str| name != "status" && (name != "id" || has_content);
    let mut out = Vec::with_capacity(json.len());
    for (name, value) in members.iter().filter(|(name, _)| kept(name)) {
        out.push(if out.is_empty() { b'{' } else { b',' });
        crate::json::push_str(&mut out, name);
        out.push(b':');
        out.extend_from_slice(value.get().as_bytes());
    }
    out.push(b'}');
    String::from_utf8(out).map_or(Cow::Borrowed(json), Cow::Owned)
}

/// The members of an object in order, with unparsed values.
struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
                let mut members = Vec::new();
                while let Some(Name(name)) = map.next_key()? {
                    members.push((name, map.next_value()?));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}

/// A member's name, borrowed if it has no escapes.
#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

/// Content parts of messages and reasoning: `{"type": …, "text": …}`.
#[derive(Deserialize)]
struct Part {
    text: Option<String>,
    /// Present instead of `text` when the model declined to answer.
    refusal: Option<String>,
}

impl Part {
    fn into_text(self) -> Option<String> {
        self.text.or(self.refusal)
    }
}

fn texts(parts: Option<Vec<Part>>) -> Vec<String> {
    parts.into_iter().flatten().filter_map(Part::into_text).collect()
}

fn message(json: &str) -> serde_json::Result<Item> {
    #[derive(Deserialize)]
    struct Message {
        content: Option<Vec<Part>>,
        phase: Option<String>,
    }
    let message: Message = serde_json::from_str(json)?;
    let phase = message.phase.as_deref().and_then(Phase::from_name);
    Ok(Item::Message { text: texts(message.content).concat(), phase })
}

fn reasoning(json: &str) -> serde_json::Result<Item> {
    #[derive(Deserialize)]
    struct Reasoning {
        summary: Option<Vec<Part>>,
        content: Option<Vec<Part>>,
    }
    let reasoning: Reasoning = serde_json::from_str(json)?;
    Ok(Item::Reasoning { summary: texts(reasoning.summary), content: texts(reasoning.content) })
}

fn function_call(json: &str) -> serde_json::Result<Item> {
    #[derive(Deserialize)]
    struct Call {
        call_id: Option<String>,
        name: String,
        arguments: String,
    }
    let Call { call_id, name, arguments } = serde_json::from_str(json)?;
    Ok(Item::FunctionCall { call_id: call_id.unwrap_or_default(), name, arguments })
}

fn custom_tool_call(json: &str) -> serde_json::Result<Item> {
    #[derive(Deserialize)]
    struct Call {
        call_id: Option<String>,
        name: String,
        input: String,
    }
    let Call { call_id, name, input } = serde_json::from_str(json)?;
    Ok(Item::CustomToolCall { call_id: call_id.unwrap_or_default(), name, input })
}

/// A search that the provider carries out itself has no call id, and is not read here.
fn tool_search_call(json: &str) -> serde_json::Result<Item> {
    #[derive(Deserialize)]
    struct Call {
        call_id: String,
        #[serde(default)]
        arguments: serde_json::Value,
    }
    let Call { call_id, arguments } = serde_json::from_str(json)?;
    Ok(Item::ToolSearchCall { call_id, arguments: arguments.to_string() })
}

fn web_search(json: &str) -> serde_json::Result<Item> {
    #[derive(Deserialize)]
    struct Search {
        #[serde(default)]
        action: serde_json::Value,
        status: Option<String>,
    }
    let Search { action, status } = serde_json::from_str(json)?;
    let failed = status.as_deref() == Some("failed");
    Ok(Item::WebSearch { query: searched_for(&action), action, failed })
}

fn image_generation(json: &str) -> serde_json::Result<Item> {
    #[derive(Deserialize)]
    struct Generation {
        status: Option<String>,
        result: Option<String>,
        revised_prompt: Option<String>,
    }
    let Generation { status, result, revised_prompt } = serde_json::from_str(json)?;
    Ok(Item::ImageGeneration { status, result: result.unwrap_or_default(), revised_prompt })
}

/// The subject of a search: its query, the first of several, its page or pattern.
fn searched_for(action: &serde_json::Value) -> String {
    let texts = ["query", "queries", "url", "pattern"].iter().filter_map(|name| {
        let value = action.get(*name)?;
        value.as_str().or_else(|| value.as_array()?.iter().find_map(|query| query.as_str()))
    });
    texts.into_iter().find(|text| !text.trim().is_empty()).unwrap_or_default().to_owned()
}
