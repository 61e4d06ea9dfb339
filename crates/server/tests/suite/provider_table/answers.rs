//! The answers of products: a command first, then a message, in each wire.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::OUTPUT;

pub(super) fn data(events: &[Value]) -> String {
    events.iter().map(|event| format!("data: {event}\n\n")).collect()
}

pub(super) fn claude(n: usize) -> String {
    let arguments = json!({ "cmd": format!("echo {OUTPUT}") }).to_string();
    let (block, delta, reason) = match n {
        0 => (
            json!({ "type": "tool_use", "id": "toolu_0", "name": "exec_command", "input": {} }),
            json!({ "type": "input_json_delta", "partial_json": arguments }),
            "tool_use",
        ),
        _ => (
            json!({ "type": "text", "text": "" }),
            json!({ "type": "text_delta", "text": "Done." }),
            "end_turn",
        ),
    };
    data(&[
        json!({ "type": "message_start", "message": { "id": format!("msg_{n}"), "type": "message",
            "role": "assistant", "model": "claude-sonnet-5-5", "content": [],
            "usage": { "input_tokens": 100, "output_tokens": 1 } } }),
        json!({ "type": "content_block_start", "index": 0, "content_block": block }),
        json!({ "type": "ping" }),
        json!({ "type": "content_block_delta", "index": 0, "delta": delta }),
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({ "type": "message_delta", "delta": { "stop_reason": reason, "stop_sequence": null },
            "usage": { "output_tokens": 10 } }),
        json!({ "type": "message_stop" }),
    ])
}

pub(super) fn gemini(n: usize) -> String {
    let part = match n {
        0 => json!({ "functionCall": { "name": "exec_command",
            "args": { "cmd": format!("echo {OUTPUT}") } }, "thoughtSignature": "c2ln" }),
        _ => json!({ "text": "Done." }),
    };
    data(&[json!({ "candidates": [{ "content": { "role": "model", "parts": [part] },
        "finishReason": "STOP", "index": 0 }], "modelVersion": "gemini-3.8-flash",
        "responseId": format!("g{n}"), "usageMetadata": { "promptTokenCount": 100,
        "candidatesTokenCount": 10, "totalTokenCount": 110 } })])
}

pub(super) fn chat(n: usize) -> String {
    let arguments = json!({ "cmd": format!("echo {OUTPUT}") }).to_string();
    let chunk = |delta: Value, reason: Value| {
        json!({ "id": format!("chatcmpl-{n}"), "object": "chat.completion.chunk", "created": 1,
            "choices": [{ "index": 0, "delta": delta, "finish_reason": reason }] })
    };
    let (delta, reason) = match n {
        0 => (
            json!({ "tool_calls": [{ "index": 0, "id": "call_0", "type": "function",
                "function": { "name": "exec_command", "arguments": arguments } }] }),
            "tool_calls",
        ),
        _ => (json!({ "content": "Done." }), "stop"),
    };
    let usage = json!({ "prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110 });
    let mut end = chunk(json!({}), json!(reason));
    end["usage"] = usage;
    data(&[
        chunk(json!({ "role": "assistant", "content": "" }), Value::Null),
        chunk(delta, Value::Null),
        end,
    ]) + "data: [DONE]\n\n"
}

fn event(kind: &str, mut members: Value, is_named: bool) -> String {
    members["type"] = json!(kind);
    let name = if is_named { format!("event: {kind}\n") } else { String::new() };
    format!("{name}data: {members}\n\n")
}

/// A command first, then a message. Ids of calls begin again in each answer.
pub(super) fn plain(n: usize, is_named: bool) -> String {
    let arguments = json!({ "cmd": format!("echo {OUTPUT}") }).to_string();
    let call = json!({ "type": "function_call", "id": "fc_0", "call_id": "call_0", "name": "exec_command",
        "arguments": arguments, "status": "completed" });
    let message = json!({ "type": "message", "id": "msg_0", "role": "assistant", "status": "completed",
        "content": [{ "type": "output_text", "text": "Done.", "annotations": [] }] });
    let item = if n == 0 { call } else { message };
    let middle = if n == 0 {
        let delta = json!({ "output_index": 0, "item_id": "fc_0", "delta": arguments });
        let open = json!({ "output_index": 0, "item": { "type": "function_call", "id": "fc_0",
            "call_id": "call_0", "name": "exec_command", "arguments": "" } });
        event("response.output_item.added", open, is_named)
            + &event("response.function_call_arguments.delta", delta, is_named)
    } else {
        let open = json!({ "output_index": 0, "item": { "type": "message", "id": "msg_0",
            "role": "assistant", "content": [] } });
        let delta =
            json!({ "output_index": 0, "content_index": 0, "item_id": "msg_0", "delta": "Done." });
        event("response.output_item.added", open, is_named)
            + &event("response.output_text.delta", delta, is_named)
    };
    let usage = json!({ "input_tokens": 100, "output_tokens": 10, "total_tokens": 110 });
    let end =
        json!({ "response": { "id": format!("resp_{n}"), "status": "completed", "usage": usage } });
    event("response.created", json!({ "response": { "id": format!("resp_{n}") } }), is_named)
        + &middle
        + &event("response.output_item.done", json!({ "output_index": 0, "item": item }), is_named)
        + &event("response.completed", end, is_named)
}

pub(super) fn thought() -> String {
    let delta = json!({ "output_index": 7, "item_id": "rs_0", "content_index": 0, "delta": "Hm." });
    event("response.reasoning_text.delta", delta, true)
}

/// A stream of events in the frames of Amazon's: lengths, checksum, headers, JSON with the event as base64, checksum.
pub(super) fn frames(events: &str) -> Vec<u8> {
    let mut stream = Vec::new();
    for event in events.lines().filter_map(|line| line.strip_prefix("data: ")) {
        let mut headers = Vec::new();
        for (name, value) in [(":event-type", "chunk"), (":message-type", "event")] {
            headers.push(name.len() as u8);
            headers.extend(name.as_bytes());
            headers.push(7);
            headers.extend((value.len() as u16).to_be_bytes());
            headers.extend(value.as_bytes());
        }
        let payload = json!({ "bytes": STANDARD.encode(event), "p": "abcd" }).to_string();
        let mut frame = Vec::new();
        frame.extend(((16 + headers.len() + payload.len()) as u32).to_be_bytes());
        frame.extend((headers.len() as u32).to_be_bytes());
        frame.extend(checksum(&frame).to_be_bytes());
        frame.extend(headers);
        frame.extend(payload.as_bytes());
        frame.extend(checksum(&frame).to_be_bytes());
        stream.extend(frame);
    }
    stream
}

/// CRC-32 as in zip files.
fn checksum(bytes: &[u8]) -> u32 {
    let step = |sum: u32| (sum >> 1) ^ if sum & 1 == 1 { 0xedb8_8320 } else { 0 };
    let byte = |sum: u32, byte: &u8| (0..8).fold(sum ^ u32::from(*byte), |sum, _| step(sum));
    !bytes.iter().fold(u32::MAX, byte)
}
