//! Streams as servers send them, and what they mean.

use wire::{Stop, Target, Wire, read_request, write_request};

use crate::support::{context, decode, encode_context, events, plain_context, translate};

/// A stream of Messages with thinking, text and a call, in the form of the real API.
pub(crate) const MESSAGES: &str = r#"event: message_start
data: {"type":"message_start","message":{"model":"claude","id":"msg_01","type":"message","role":"assistant","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":10,"cache_creation_input_tokens":5,"cache_read_input_tokens":100,"cache_creation":{"ephemeral_5m_input_tokens":5,"ephemeral_1h_input_tokens":0},"output_tokens":1,"service_tier":"standard"}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}

event: ping
data: {"type":"ping"}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Let me "}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"see."}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2ln"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"I'll \"look\"."}}

event: content_block_stop
data: {"type":"content_block_stop","index":1}

event: content_block_start
data: {"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"toolu_01","name":"read","input":{},"caller":{"type":"direct"}}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"path\": \"a"}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":".rs\"}"}}

event: content_block_stop
data: {"type":"content_block_stop","index":2}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"input_tokens":10,"cache_creation_input_tokens":5,"cache_read_input_tokens":100,"output_tokens":42,"output_tokens_details":{"thinking_tokens":7}}}

event: message_stop
data: {"type":"message_stop"}

"#;

/// A stream of Chat Completions with reasoning, text and two calls that interleave.
pub(crate) const CHAT: &str = r#": OPENROUTER PROCESSING

data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"deepseek","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}

data: {"id":"chatcmpl-1","model":"deepseek","choices":[{"index":0,"delta":{"reasoning_content":"Hmm"},"finish_reason":null}]}

data: {"id":"chatcmpl-1","model":"deepseek","choices":[{"index":0,"delta":{"content":"Two files."},"finish_reason":null}]}

data: {"id":"chatcmpl-1","model":"deepseek","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"read","arguments":""}}]},"finish_reason":null}]}

data: {"id":"chatcmpl-1","model":"deepseek","choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"c2","type":"function","function":{"name":"read","arguments":"{\"a\""}}]},"finish_reason":null}]}

data: {"id":"chatcmpl-1","model":"deepseek","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]},"finish_reason":null}]}

data: {"id":"chatcmpl-1","model":"deepseek","choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"function":{"arguments":":1}"}}]},"finish_reason":null}]}

data: {"id":"chatcmpl-1","model":"deepseek","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}

data: {"id":"chatcmpl-1","model":"deepseek","choices":[],"usage":{"prompt_tokens":20,"completion_tokens":9,"total_tokens":29,"prompt_tokens_details":{"cached_tokens":16},"completion_tokens_details":{"reasoning_tokens":4}}}

data: [DONE]

"#;

/// A stream of Gemini with a thought, text and two parallel calls, of which the first has a signature and an id.
pub(crate) const GEMINI: &str = concat!(
    r#"data: {"candidates":[{"content":{"parts":[{"text":"Weighing.","thought":true}],"role":"model"},"index":0}],"usageMetadata":{"promptTokenCount":8,"totalTokenCount":8},"modelVersion":"gemini","responseId":"g1"}"#,
    "\r\n\r\n",
    r#"data: {"candidates":[{"content":{"parts":[{"text":"Both."}],"role":"model"},"index":0}],"modelVersion":"gemini","responseId":"g1"}"#,
    "\r\n\r\n",
    r#"data: {"candidates":[{"content":{"parts":[{"functionCall":{"id":"f1","name":"read","args":{"b":1,"a":2}},"thoughtSignature":"c2lnbg=="},{"functionCall":{"name":"read","args":{}}}],"role":"model"},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":8,"cachedContentTokenCount":3,"candidatesTokenCount":5,"thoughtsTokenCount":6,"totalTokenCount":19},"modelVersion":"gemini","responseId":"g1"}"#,
    "\r\n\r\n",
);

#[track_caller]
fn check(wire: Wire, stream: &str, expect: &[&str]) {
    let (_, lines) = decode(wire, plain_context(), stream);
    assert_eq!(lines, expect, "{wire}");
}

#[test]
fn a_stream_of_messages_becomes_items() {
    check(
        Wire::Messages,
        MESSAGES,
        &[
            "created msg_01 claude",
            "added 0 reasoning",
            "summary 0 Let me ",
            "summary 0 see.",
            "done 0 reasoning Let me see. sealed",
            "added 1 message",
            "text 1 I'll \"look\".",
            "done 1 message I'll \"look\".",
            "added 2 function_call",
            "arguments 2 {\"path\": \"a",
            "arguments 2 .rs\"}",
            "done 2 function_call toolu_01 read {\"path\": \"a.rs\"}",
            "ended ToolUse in 115 cached 100 written 5 out 42 thought 7",
        ],
    );
}

#[test]
fn a_stream_of_chat_completions_becomes_items() {
    check(
        Wire::Chat,
        CHAT,
        &[
            "created chatcmpl-1 deepseek",
            "added 0 reasoning",
            "reasoning 0 Hmm",
            "done 0 reasoning Hmm sealed",
            "added 1 message",
            "text 1 Two files.",
            "added 2 function_call",
            "added 3 function_call",
            "arguments 3 {\"a\"",
            "arguments 2 {}",
            "arguments 3 :1}",
            "done 1 message Two files.",
            "done 2 function_call c1 read {}",
            "done 3 function_call c2 read {\"a\":1}",
            "ended ToolUse in 20 cached 16 written 0 out 9 thought 4",
        ],
    );
}

#[test]
fn a_stream_of_gemini_becomes_items() {
    check(
        Wire::Gemini,
        GEMINI,
        &[
            "created g1 gemini",
            "added 0 reasoning",
            "summary 0 Weighing.",
            "done 0 reasoning Weighing.",
            "added 1 message",
            "text 1 Both.",
            "done 1 message Both.",
            "added 2 reasoning",
            "done 2 reasoning  sealed",
            "added 3 function_call",
            "arguments 3 {\"b\":1,\"a\":2}",
            "done 3 function_call f1 read {\"b\":1,\"a\":2}",
            "added 4 function_call",
            "arguments 4 {}",
            "done 4 function_call call_g1_4 read {}",
            "ended ToolUse in 8 cached 3 written 0 out 11 thought 6",
        ],
    );
}

/// The response that a stream of each wire means is the same after a detour over any other wire, but for reasoning,
/// whose form is the wire's own.
#[test]
fn a_stream_means_the_same_after_a_detour_over_any_wire() {
    for (from, stream) in [(Wire::Messages, MESSAGES), (Wire::Chat, CHAT), (Wire::Gemini, GEMINI)] {
        let (direct, _) = decode(from, plain_context(), stream);
        for to in Wire::ALL {
            let translated = translate(from, to, plain_context(), encode_context(), stream);
            let (again, lines) = decode(to, plain_context(), &translated);
            let texts = |response: &wire::Response| -> Vec<String> {
                let items = response.items.iter().filter_map(|(_, item)| match item {
                    wire::OutputItem::Message { text, .. } => Some(text.clone()),
                    wire::OutputItem::FunctionCall { call_id, name, arguments, .. } => {
                        Some(format!("{call_id} {name} {arguments}"))
                    }
                    _ => None,
                });
                items.collect()
            };
            assert_eq!(
                texts(&again),
                texts(&direct),
                "{from} over {to}:\n{translated}\n{lines:#?}"
            );
            let (first, second) =
                (direct.end.clone().unwrap().unwrap(), again.end.unwrap().unwrap());
            assert_eq!(second.stop, Stop::ToolUse, "{from} over {to}");
            assert_eq!(second.usage.input, first.usage.input, "{from} over {to}");
            assert_eq!(second.usage.cached, first.usage.cached, "{from} over {to}");
            assert_eq!(second.usage.output, first.usage.output, "{from} over {to}");
            assert_eq!(second.usage.reasoning, first.usage.reasoning, "{from} over {to}");
        }
    }
}

/// The signature that Gemini puts after its last text has no block of its own in a message, which never ends with
/// thinking; before a call it keeps its place.
#[test]
fn a_message_does_not_end_with_the_signature_of_a_text() {
    let part = |part: &str, end: &str| {
        format!("data: {{\"candidates\":[{{\"content\":{{\"parts\":[{part}]}}{end}}}]}}\n\n")
    };
    let (text, thought) = (r#"{"text":"Both."}"#, r#"{"text":"Hm.","thought":true}"#);
    let signature = r#"{"text":"","thoughtSignature":"c2ln"}"#;
    let call = r#"{"functionCall":{"id":"f1","name":"read","args":{}}}"#;
    let stop = r#","finishReason":"STOP""#;
    for (parts, expect) in [
        (vec![text, signature], vec!["text"]),
        (vec![thought, text, signature], vec!["thinking", "text"]),
        (vec![text, signature, call], vec!["text", "thinking", "tool_use"]),
    ] {
        let last = parts.len() - 1;
        let stream: String = (0..)
            .zip(&parts)
            .map(|(at, it)| part(it, if at == last { stop } else { "" }))
            .collect();
        let written =
            translate(Wire::Gemini, Wire::Messages, plain_context(), encode_context(), &stream);
        let starts = events(&written)
            .into_iter()
            .map(|data| serde_json::from_str::<serde_json::Value>(&data).unwrap())
            .filter(|event| event["type"] == "content_block_start");
        let kinds: Vec<String> =
            starts.map(|it| it["content_block"]["type"].as_str().unwrap().to_owned()).collect();
        assert_eq!(kinds, expect, "{written}");
        let (response, _) = decode(Wire::Gemini, plain_context(), &stream);
        let body = wire::whole_response(Wire::Messages, &response, &encode_context()).unwrap();
        let body: serde_json::Value = serde_json::from_str(&body).unwrap();
        let blocks = body["content"].as_array().unwrap().iter();
        let kinds: Vec<&str> = blocks.map(|block| block["type"].as_str().unwrap()).collect();
        assert_eq!(kinds, expect, "{body}");
    }
}

/// A stream that ends early has one end, a failure, and finishes no call that was under way.
#[test]
fn a_stream_that_is_cut_anywhere_fails_once() {
    for (wire, stream) in [(Wire::Messages, MESSAGES), (Wire::Chat, CHAT), (Wire::Gemini, GEMINI)] {
        let data = events(stream);
        for length in 0..data.len() {
            let cut: String =
                data[..length].iter().map(|data| format!("data: {data}\n\n")).collect();
            let (response, lines) = decode(wire, plain_context(), &cut);
            let ends =
                lines.iter().filter(|line| line.starts_with("ended") || line.starts_with("failed"));
            assert_eq!(ends.count(), 1, "{wire} after {length} events: {lines:#?}");
            if let Some(Err(_)) = response.end {
                let open = lines.iter().filter(|line| line.starts_with("added")).count();
                assert!(response.items.len() <= open);
            }
        }
    }
}

/// The input of a free-form tool streams out of the function that stands for it.
#[test]
fn a_free_form_tool_comes_back_as_one() {
    let body = r#"{"model":"m","input":"x","tools":[{"type":"custom","name":"apply_patch"},
        {"type":"namespace","name":"mcp","tools":[{"type":"function","name":"ask"}]}]}"#;
    let (request, _) = read_request(Wire::Responses, "", body.as_bytes()).unwrap();
    let encoded = write_request(Wire::Messages, &request, &Target::default()).unwrap();
    let stream =
        MESSAGES.replace("\"name\":\"read\"", "\"name\":\"apply_patch\"").replace("path", "input");
    let (_, lines) = decode(Wire::Messages, context(&encoded), &stream);
    assert_eq!(
        lines[8..12],
        [
            "added 2 custom_tool_call",
            "input 2 a",
            "input 2 .rs",
            "done 2 custom_tool_call toolu_01 apply_patch a.rs",
        ]
    );
    let stream = MESSAGES.replace("\"name\":\"read\"", "\"name\":\"mcp__ask\"");
    let (response, _) = decode(Wire::Messages, context(&encoded), &stream);
    let json = response.items[2].1.to_json();
    assert!(json.contains("\"name\":\"ask\",\"namespace\":\"mcp\""), "{json}");
}
