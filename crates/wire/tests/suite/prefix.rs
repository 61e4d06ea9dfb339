//! The prompt cache of every provider goes by the prefix: a request of a thread begins with all bytes of the request
//! before it, but for marks of the cache. Threads here have what the agent sends: calls of each form with their outputs,
//! images, reasoning of the wire and of others, instructions in between, and tools that are added.

use proptest::prelude::*;
use serde_json::{Value, json};
use wire::{
    CacheHints, CacheMarks, ChatOptions, Envelope, GeminiOptions, MessagesOptions, Payload, Target,
    Wire, read_request, write_request,
};

use crate::support::target;

/// A part of the model's answer.
#[derive(Clone, Debug)]
enum Made {
    Text(String),
    /// Reasoning of the wire itself, or else of another one.
    Reasoning {
        is_own: bool,
        text: String,
    },
    Call {
        form: usize,
        input: String,
        output: usize,
    },
    Search(String),
}

/// An answer of the model, and what follows it before the next request.
#[derive(Clone, Debug)]
struct Step {
    made: Vec<Made>,
    heard: Vec<(usize, String)>,
    /// The number of tools that are added.
    tools: usize,
}

fn made() -> impl Strategy<Value = Made> {
    let text = "[a-z\"\\\\\n\u{e9}\u{1f600} ]{0,12}";
    prop_oneof![
        text.prop_map(Made::Text),
        (any::<bool>(), text).prop_map(|(is_own, text)| Made::Reasoning { is_own, text }),
        (0..3_usize, text, 0..4_usize).prop_map(|(form, input, output)| Made::Call {
            form,
            input,
            output
        }),
        text.prop_map(Made::Search),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let made = prop::collection::vec(made(), 0..6);
    let heard = prop::collection::vec((0..4_usize, "[a-z<& ]{1,9}"), 0..3);
    (made, heard, 0..8_usize).prop_map(|(made, heard, tools)| Step {
        made,
        heard,
        tools: tools.saturating_sub(6),
    })
}

/// Reasoning that continues a conversation on `wire`, before a call or another part.
fn envelope(wire: Wire, text: &str, is_before_call: bool) -> Envelope {
    let payload = match wire {
        Wire::Messages => Payload::Blocks(vec![
            json!({"type": "thinking", "thinking": text, "signature": "c2ln"}).to_string(),
        ]),
        Wire::Chat => Payload::Member {
            name: "reasoning_content".into(),
            json: Value::from(text).to_string(),
        },
        Wire::Gemini if is_before_call => Payload::CallSignature("c2ln".into()),
        Wire::Gemini => Payload::TextSignature("c2ln".into()),
        Wire::Responses => Payload::Encrypted { id: None, content: text.into() },
    };
    Envelope { wire, provider: "p".into(), model: "m".into(), payload }
}

/// The items that a step adds to the history.
fn items(wire: Wire, at: usize, step: &Step) -> Vec<Value> {
    let (mut items, mut outputs) = (Vec::new(), Vec::new());
    for (position, made) in step.made.iter().enumerate() {
        let id = format!("call_{at}_{position}");
        match made {
            Made::Text(text) => items.push(json!({"type": "message", "role": "assistant",
                "content": [{"type": "output_text", "text": text}]})),
            Made::Reasoning { is_own, text } => {
                let next = step.made.get(position + 1);
                let is_before_call = matches!(next, Some(Made::Call { .. }));
                let wire = if *is_own { wire } else { Wire::ALL[(wire as usize + 1) % 4] };
                let sealed = envelope(wire, text, is_before_call).write();
                items.push(json!({"type": "reasoning", "encrypted_content": sealed,
                    "summary": [{"type": "summary_text", "text": text}]}));
            }
            Made::Call { form, input, output } => {
                let image =
                    json!({"type": "input_image", "image_url": "data:image/png;base64,AAAA"});
                let output = match output {
                    0 => json!(""),
                    1 => json!([image]),
                    2 => json!([{"type": "input_text", "text": input}, image]),
                    _ => json!(format!("of {input}")),
                };
                let (call, kind) = match form {
                    0 => (
                        json!({"type": "custom_tool_call", "call_id": id, "name": "g", "input": input}),
                        "custom_tool_call_output",
                    ),
                    1 => (
                        json!({"type": "function_call", "call_id": id, "name": "f",
                        "arguments": json!({"z": input, "a": 1}).to_string()}),
                        "function_call_output",
                    ),
                    _ => (
                        json!({"type": "function_call", "call_id": id, "name": "ask", "namespace": "mcp",
                        "arguments": input}),
                        "function_call_output",
                    ),
                };
                items.push(call);
                outputs.push(json!({"type": kind, "call_id": id, "output": output}));
            }
            Made::Search(query) => items
                .push(json!({"type": "web_search_call", "status": "completed",
                "action": {"type": "search", "query": query}})),
        }
    }
    let needs_word = outputs.is_empty() && step.heard.is_empty();
    items.append(&mut outputs);
    items.extend(step.heard.iter().map(|(kind, text)| match kind {
        0 => json!({"type": "message", "role": "developer", "content": [{"type": "input_text", "text": text}]}),
        1 => json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text},
            {"type": "input_image", "image_url": "data:image/png;base64,BBBB"}]}),
        _ => json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}),
    }));
    if needs_word {
        items.push(json!({"role": "user", "content": "Go on."}));
    }
    items
}

fn tool(at: usize) -> Value {
    json!({"type": "function", "name": format!("t{at}"), "description": "T",
        "parameters": {"type": "object", "properties": {"z": {}, "a": {}}}})
}

/// The body without marks, in two parts: up to the conversation, and the conversation without what closes it.
fn parts(wire: Wire, target: &Target, input: &[Value], tools: usize) -> (String, String) {
    let tools: Vec<Value> = [
        json!({"type": "function", "name": "f", "parameters": {}}),
        json!({"type": "custom", "name": "g"}),
        json!({"type": "namespace", "name": "mcp",
            "tools": [{"type": "function", "name": "ask", "parameters": {}}]}),
    ]
    .into_iter()
    .chain((0..tools).map(tool))
    .collect();
    let body = json!({"model": "m", "instructions": "I", "input": input, "tools": tools,
        "reasoning": {"effort": "high", "summary": "auto"}, "stream": true, "prompt_cache_key": "k"});
    let text = body.to_string();
    let (request, _) = read_request(Wire::Responses, "", text.as_bytes()).unwrap();
    let body = write_request(wire, &request, target).unwrap().body;
    let body = body.replace(",\"cache_control\":{\"type\":\"ephemeral\",\"ttl\":\"1h\"}", "");
    let body = body.replace(",\"cache_control\":{\"type\":\"ephemeral\"}", "");
    let name = match wire {
        Wire::Responses => "\"input\":[",
        Wire::Messages | Wire::Chat => "\"messages\":[",
        Wire::Gemini => "\"contents\":[",
    };
    let at = body.find(name).unwrap() + name.len();
    let mut list = serde_json::Deserializer::from_str(&body[at - 1..]).into_iter::<Value>();
    list.next().unwrap().unwrap();
    let conversation = &body[at..at - 2 + list.byte_offset()];
    // The last message of these goes on when more is heard.
    let closing = if matches!(wire, Wire::Messages | Wire::Gemini) { 2 } else { 0 };
    (body[..at].to_owned(), conversation[..conversation.len() - closing].to_owned())
}

/// The servers of each wire whose switches change what is written.
fn targets() -> Vec<(Wire, Target)> {
    let hints = CacheHints { stable: [3, 0], passing: 0, is_long: true };
    let messages = |has_system_messages, cache| {
        let messages = MessagesOptions { has_system_messages, cache, ..MessagesOptions::default() };
        (Wire::Messages, Target { messages, cache: hints, ..target() })
    };
    let chat = |host: &str, system_first_only| {
        let chat = ChatOptions { system_first_only, ..ChatOptions::of_host(host) };
        (Wire::Chat, Target { chat, ..target() })
    };
    let gemini = |is_third| {
        let gemini = GeminiOptions { is_third, has_call_ids: is_third, ..GeminiOptions::default() };
        (Wire::Gemini, Target { gemini, ..target() })
    };
    let mut all = vec![
        (Wire::Responses, target()),
        messages(false, CacheMarks::Adaptive),
        messages(true, CacheMarks::Short),
        gemini(true),
        gemini(false),
    ];
    let hosts = ["", "api.openai.com", "api.deepseek.com", "api.mistral.ai", "api.z.ai"];
    all.extend(hosts.into_iter().flat_map(|host| [chat(host, false), chat(host, true)]));
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn a_request_begins_with_the_request_before_it(steps in prop::collection::vec(step(), 1..7)) {
        for (wire, target) in targets() {
            let mut input = vec![
                json!({"role": "developer", "content": "Rules."}),
                json!({"role": "user", "content": "first"}),
            ];
            let mut tools = 0;
            let (mut head, mut conversation) = parts(wire, &target, &input, tools);
            for (at, step) in steps.iter().enumerate() {
                input.extend(items(wire, at, step));
                tools += step.tools;
                let (next_head, next) = parts(wire, &target, &input, tools);
                prop_assert!(next.starts_with(&conversation), "{wire}\n{conversation}\n{next}");
                if step.tools == 0 {
                    prop_assert_eq!(&next_head, &head);
                } else {
                    // More tools come after those that were there.
                    let end = format!("\"t{}\"", tools - step.tools);
                    let until = next_head.find(&end).unwrap();
                    let common = next_head.bytes().zip(head.bytes()).take_while(|(a, b)| a == b);
                    prop_assert!(common.count() + 64 >= until, "{wire}\n{head}\n{next_head}");
                }
                (head, conversation) = (next_head, next);
            }
        }
    }
}
