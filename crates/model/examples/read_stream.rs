//! Sends a request to each base URL that a line of standard input names, with the `prompt_cache_key` after it,
//! and prints what the response holds as a line of JSON. `cargo xtask interop` compares that with what the
//! official clients read.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::sync::Arc;

use model::{Client, Event, Item, Phase, Prompt, Provider, Usage};
use serde_json::{Map, Value, json};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let client = Client::new();
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let (base_url, cache_key) = line.split_once(' ').unwrap();
        let provider = Arc::new(Provider::http("interop", base_url));
        let cache_key = Some(cache_key.into());
        let prompt = Prompt { model: "m".into(), cache_key, ..Prompt::default() };
        let mut stream = client.stream_prompt(&provider, &prompt);
        let mut events = Vec::new();
        while let Some(batch) = stream.next().await {
            events.extend(batch);
        }
        println!("{}", result(events));
    }
}

/// `items`, the finished ones; `texts`, the joined deltas by the item's position and the kind of delta;
/// `usage`; and the `end`.
fn result(events: Vec<Event>) -> Value {
    let (mut items, mut texts) = (Vec::new(), Map::new());
    let mut usage = Usage::default();
    let mut end = Value::Null;
    let mut add = |index: u32, kind: &str, text: String| {
        let joined = texts.entry(format!("{index} {kind}")).or_insert_with(|| "".into());
        *joined = format!("{}{text}", joined.as_str().unwrap()).into();
    };
    for event in events {
        match event {
            Event::TextDelta { index, text } => add(index, "text", text),
            Event::SummaryDelta { index, summary_index, text } => {
                add(index, &format!("summary {summary_index}"), text);
            }
            Event::ReasoningDelta { index, content_index, text } => {
                add(index, &format!("reasoning {content_index}"), text);
            }
            Event::ArgumentsDelta { index, text } => add(index, "arguments", text),
            Event::CustomInputDelta { index, text } => add(index, "input", text),
            Event::ItemDone { item, .. } => items.push(described(item)),
            Event::Completed { usage: used, .. } => {
                usage = used;
                end = json!({ "completed": true });
            }
            Event::Failed(failure) => {
                usage = failure.usage.as_deref().copied().unwrap_or_default();
                let (status, message) = (failure.http_status, failure.message);
                end = json!({ "completed": false, "status": status, "message": message });
            }
            _ => {}
        }
    }
    let usage = json!({
        "input": usage.input, "cached": usage.cached_input, "output": usage.output,
        "reasoning": usage.reasoning_output, "total": usage.total,
    });
    json!({ "items": items, "texts": texts, "usage": usage, "end": end })
}

fn described(item: Item) -> Value {
    match item {
        Item::Message { text, phase } => {
            json!({ "type": "message", "text": text, "phase": phase.map(Phase::as_str) })
        }
        Item::Reasoning { summary, content } => {
            json!({ "type": "reasoning", "summary": summary, "content": content })
        }
        Item::FunctionCall { call_id, name, arguments } => json!({
            "type": "function_call", "call_id": call_id, "name": name, "arguments": arguments,
        }),
        Item::CustomToolCall { call_id, name, input } => json!({
            "type": "custom_tool_call", "call_id": call_id, "name": name, "input": input,
        }),
        Item::ToolSearchCall { call_id, arguments } => {
            let arguments: Value = serde_json::from_str(&arguments).unwrap();
            json!({ "type": "tool_search_call", "call_id": call_id, "arguments": arguments })
        }
        Item::WebSearch { action, failed, .. } => {
            json!({ "type": "web_search_call", "action": action, "failed": failed })
        }
        Item::ImageGeneration { status, result, revised_prompt } => json!({
            "type": "image_generation_call", "status": status, "result": result,
            "revised_prompt": revised_prompt,
        }),
        Item::Other { kind, call_id } => json!({ "type": kind, "call_id": call_id }),
    }
}
