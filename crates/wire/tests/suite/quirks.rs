//! Chunks of Chat Completions servers that differ from the official form, each with its source in comments, and
//! errors of providers.

use wire::{Failure, FailureKind, Stop, Wire};

use crate::support::{decode, plain_context};

/// What a stream of chunks means, in short: the texts of the finished items, and the end.
fn means(chunks: &[&str]) -> String {
    let stream: String = chunks.iter().map(|data| format!("data: {data}\n\n")).collect();
    let (response, lines) = decode(Wire::Chat, plain_context(), &stream);
    let done = lines.iter().filter_map(|line| match line.strip_prefix("done ") {
        Some(done) => Some(&done[2..]),
        None => line.starts_with("warning tool_calls").then_some(line.as_str()),
    });
    let end = match response.end.unwrap() {
        Ok(end) => format!("{:?} {}/{}", end.stop, end.usage.input, end.usage.output),
        Err(failure) => format!("{:?}", failure.kind),
    };
    done.map(str::to_owned).chain([end]).collect::<Vec<_>>().join(", ")
}

#[test]
fn quirks_of_servers_are_read() {
    let stop = r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#;
    let usage =
        r#"{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7}}"#;
    let cases: &[(&str, &[&str], &str)] = &[
        (
            "Ollama, vLLM: `reasoning`; no index of calls (ollama/ollama#7881)",
            &[
                r#"{"choices":[{"delta":{"reasoning":"R"}}]}"#,
                r#"{"choices":[{"delta":{"tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}}]}}]}"#,
                stop,
            ],
            "reasoning R sealed, function_call a f {}, ToolUse 0/0",
        ),
        (
            "Azure: no choices, an empty id, no delta (pydantic/pydantic-ai#797, microsoft/autogen#6465)",
            &[
                r#"{"id":"","choices":[],"prompt_filter_results":[]}"#,
                r#"{"id":"x","choices":[{"index":0,"content_filter_offsets":{}}]}"#,
                r#"{"id":"x","choices":[{"index":0,"delta":{"content":"A"}}]}"#,
                stop,
                usage,
            ],
            "message A, EndTurn 5/2",
        ),
        (
            "null for content, calls and choices",
            &[
                r#"{"choices":null,"usage":null}"#,
                r#"{"choices":[{"delta":{"content":null,"tool_calls":null,"reasoning_content":null}}]}"#,
                r#"{"choices":[{"delta":{"content":"A"},"finish_reason":null}]}"#,
                stop,
            ],
            "message A, EndTurn 0/0",
        ),
        (
            "DeepSeek: the head of a second call has index 0, too (agno-agi/agno#8880)",
            &[
                r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":"}}]}}]}"#,
                r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"1}"}}]}}]}"#,
                r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"b","function":{"name":"g","arguments":""}}]}}]}"#,
                r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}}]}"#,
                stop,
            ],
            "function_call a f {\"x\":1}, function_call b g {}, ToolUse 0/0",
        ),
        (
            "two calls with one id: their indexes tell them apart, and the second gets another id",
            &[
                r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":"}},{"index":1,"id":"a","function":{"name":"g","arguments":"{\"y\":"}}]}}]}"#,
                r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"arguments":"1}"}},{"index":1,"id":"a","function":{"arguments":"2}"}}]}}]}"#,
                stop,
            ],
            "warning tool_calls[].id: an id that repeats is replaced, function_call a f {\"x\":1}, function_call call_r_1 g {\"y\":2}, ToolUse 0/0",
        ),
        (
            "every piece has the id and the name",
            &[
                r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}]}}]}"#,
                r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"}"}}]}}]}"#,
                stop,
            ],
            "function_call a f {}, ToolUse 0/0",
        ),
        (
            "Qwen: later pieces repeat an empty id",
            &[
                r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}]}}]}"#,
                r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"","function":{"name":"","arguments":"}"}}]}}]}"#,
                stop,
            ],
            "function_call a f {}, ToolUse 0/0",
        ),
        (
            "a name after the first piece of arguments (vercel/ai#15879)",
            &[
                r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"arguments":"{\"x\""}}]}}]}"#,
                r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"f","arguments":":1}"}}]}}]}"#,
                stop,
            ],
            "function_call a f {\"x\":1}, ToolUse 0/0",
        ),
        (
            "calls without id and index: a name begins one (EricLBuehler/mistral.rs#1507)",
            &[
                r#"{"choices":[{"delta":{"tool_calls":[{"function":{"name":"f","arguments":"{}"}}]}}]}"#,
                r#"{"choices":[{"delta":{"tool_calls":[{"function":{"name":"g","arguments":"{}"}}]}}]}"#,
                stop,
            ],
            "function_call call_r_0 f {}, function_call call_r_1 g {}, ToolUse 0/0",
        ),
        (
            "llama.cpp: arguments as an object (ggml-org/llama.cpp#20198); empty arguments (sigoden/aichat#1217)",
            &[
                r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":{"x":1}}},{"index":1,"id":"b","function":{"name":"g","arguments":""}}]},"finish_reason":"tool_calls"}]}"#,
            ],
            "function_call a f {\"x\":1}, function_call b g {}, ToolUse 0/0",
        ),
        (
            "Mistral: content as an array with thinking (BerriAI/litellm#16272)",
            &[
                r#"{"choices":[{"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"T"}]}]}}]}"#,
                r#"{"choices":[{"delta":{"content":[{"type":"text","text":"A"}]}}]}"#,
                stop,
            ],
            "reasoning T, message A, EndTurn 0/0",
        ),
        (
            "Kimi: usage in the choice (AstrBotDevs/AstrBot#6614)",
            &[
                r#"{"choices":[{"delta":{"content":"A"},"finish_reason":"stop","usage":{"prompt_tokens":5,"completion_tokens":2}}]}"#,
            ],
            "message A, EndTurn 5/2",
        ),
        (
            "xAI: reasoning is in the total alone (vercel/ai#12425)",
            &[
                r#"{"choices":[{"delta":{"content":"A"},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":17,"completion_tokens_details":{"reasoning_tokens":10}}}"#,
            ],
            "message A, EndTurn 5/12",
        ),
        (
            "Groq: usage in `x_groq`",
            &[
                r#"{"choices":[{"delta":{"content":"A"},"finish_reason":"stop"}],"x_groq":{"usage":{"prompt_tokens":5,"completion_tokens":2}}}"#,
            ],
            "message A, EndTurn 5/2",
        ),
        (
            "OpenRouter: details in pieces; text in the last chunk",
            &[
                r#"{"choices":[{"delta":{"reasoning":"T","reasoning_details":[{"type":"reasoning.text","text":"T","index":0}]}}]}"#,
                r#"{"choices":[{"delta":{"reasoning_details":[{"type":"reasoning.text","signature":"s","index":0}]}}]}"#,
                r#"{"choices":[{"delta":{"content":"A"},"finish_reason":"end_turn"}]}"#,
            ],
            "reasoning T sealed, message A, EndTurn 0/0",
        ),
        (
            "`tool_calls` without any call, an unknown reason, `[DONE]` without a reason",
            &[r#"{"choices":[{"delta":{"content":"A"},"finish_reason":"tool_calls"}]}"#],
            "message A, EndTurn 0/0",
        ),
        (
            "",
            &[r#"{"choices":[{"delta":{"content":"A"},"finish_reason":"whim"}]}"#],
            "message A, EndTurn 0/0",
        ),
        ("", &[r#"{"choices":[{"delta":{"content":"A"}}]}"#, "[DONE]"], "message A, EndTurn 0/0"),
        (
            "the old form of one call",
            &[
                r#"{"choices":[{"delta":{"function_call":{"name":"f","arguments":"{"}}}]}"#,
                r#"{"choices":[{"delta":{"function_call":{"arguments":"}"}},"finish_reason":"function_call"}]}"#,
            ],
            "function_call call_r_0 f {}, ToolUse 0/0",
        ),
        (
            "a whole response in place of a stream",
            &[
                r#"{"id":"x","choices":[{"index":0,"message":{"role":"assistant","content":"A"},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":2}}"#,
            ],
            "message A, EndTurn 5/2",
        ),
    ];
    for (name, chunks, expect) in cases {
        assert_eq!(means(chunks), *expect, "{name}");
    }
}

/// Details in pieces come back as one list, with their signature.
#[test]
fn details_of_reasoning_come_back_whole() {
    let stream = concat!(
        r#"data: {"choices":[{"delta":{"reasoning_details":[{"type":"reasoning.text","text":"a","index":0}]}}]}"#,
        "\n\n",
        r#"data: {"choices":[{"delta":{"reasoning_details":[{"type":"reasoning.text","text":"b","signature":"s","index":0}]}}]}"#,
        "\n\n",
        r#"data: {"choices":[{"delta":{"content":"A"},"finish_reason":"stop"}]}"#,
        "\n\n",
    );
    let (response, _) = decode(Wire::Chat, plain_context(), stream);
    let items: Vec<String> = response.items.iter().map(|(_, item)| item.to_json()).collect();
    let body =
        format!(r#"{{"model":"m","input":[{{"role":"user","content":"q"}},{}]}}"#, items.join(","));
    let (request, _) = wire::read_request(Wire::Responses, "", body.as_bytes()).unwrap();
    let written =
        wire::write_request(Wire::Chat, &request, &crate::support::target()).unwrap().body;
    assert!(written.contains(r#""reasoning_details":[{"type":"reasoning.text","text":"ab","index":0,"signature":"s"}]"#), "{written}");
}

#[test]
fn errors_of_providers_have_a_kind() {
    let cases = [
        (
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}"#,
            FailureKind::ContextWindow,
        ),
        (
            400,
            r#"{"error":{"message":"This model's maximum context length is 8192 tokens.","type":"invalid_request_error","code":"context_length_exceeded"}}"#,
            FailureKind::ContextWindow,
        ),
        (
            400,
            r#"{"error":{"code":400,"message":"The input token count (9) exceeds the maximum number of tokens allowed (8).","status":"INVALID_ARGUMENT"}}"#,
            FailureKind::ContextWindow,
        ),
        (
            529,
            r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
            FailureKind::Overloaded,
        ),
        (
            429,
            r#"{"type":"error","error":{"type":"rate_limit_error","message":"x","details":{"error_code":"enforced_spend_limit_reached"}}}"#,
            FailureKind::Quota,
        ),
        (
            429,
            r#"{"error":{"code":429,"message":"x","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"17.5s"}]}}"#,
            FailureKind::RateLimit,
        ),
        (
            401,
            r#"{"type":"error","error":{"type":"authentication_error","message":"x"}}"#,
            FailureKind::Unauthorized,
        ),
        (400, r#"{"error":{"code":"1214","message":"bad role"}}"#, FailureKind::Invalid),
        (
            400,
            r#"{"error":{"message":"x","type":"invalid_request_error","code":"tool_use_failed"}}"#,
            FailureKind::Invalid,
        ),
        (502, "<html>Bad gateway</html>", FailureKind::Server),
        (404, "", FailureKind::NotFound),
        (400, r#"{"error":"Your credit balance is too low"}"#, FailureKind::Quota),
        // DeepSeek.
        (
            401,
            r#"{"error":{"message":"Authentication Fails","type":"authentication_error","code":"invalid_request_error"}}"#,
            FailureKind::Unauthorized,
        ),
        (401, r#"{"error":{"message":"x","code":"server_error"}}"#, FailureKind::Unauthorized),
        (
            400,
            r#"{"error":{"code":400,"message":"API key not valid.","status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID"}]}}"#,
            FailureKind::Unauthorized,
        ),
        (
            404,
            r#"{"type":"error","error":{"type":"not_found_error","message":"model: claude-opus-9"}}"#,
            FailureKind::NotFound,
        ),
        // Groq.
        (
            413,
            r#"{"error":{"message":"Request too large for model `m` on tokens per minute (TPM): Limit 6000, Requested 10000","type":"tokens","code":"rate_limit_exceeded"}}"#,
            FailureKind::TooLarge,
        ),
        (413, "<html>Request Entity Too Large</html>", FailureKind::TooLarge),
    ];
    for (status, body, kind) in cases {
        let failure = Failure::read(status, body.as_bytes());
        assert_eq!(failure.kind, kind, "{body}");
        for wire in Wire::ALL {
            if (wire, kind) == (Wire::Gemini, FailureKind::Quota) {
                continue; // It has one status for limits of any length.
            }
            let written = failure.body(wire);
            let again = Failure::read(failure.kind.status(wire), written.as_bytes());
            assert_eq!(again.kind, kind, "{wire}: {written}");
        }
    }
    let retry = Failure::read(429, cases[5].1.as_bytes());
    assert_eq!(retry.retry_after_ms, Some(17_500));
}

/// A pause of a server's tool is sent back as it came, and goes on.
#[test]
fn a_pause_goes_on_with_the_blocks_of_the_server() {
    let stream = concat!(
        r#"data: {"type":"message_start","message":{"id":"m1","model":"c","usage":{"input_tokens":1}}}"#,
        "\n\n",
        r#"data: {"type":"content_block_start","index":0,"content_block":{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{},"caller":{"type":"direct"}}}"#,
        "\n\n",
        r#"data: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"query\":\"q\"}"}}"#,
        "\n\n",
        r#"data: {"type":"content_block_stop","index":0}"#,
        "\n\n",
        r#"data: {"type":"content_block_start","index":1,"content_block":{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[{"type":"web_search_result","url":"u","title":"t","encrypted_content":"e"}]}}"#,
        "\n\n",
        r#"data: {"type":"content_block_stop","index":1}"#,
        "\n\n",
        r#"data: {"type":"content_block_start","index":2,"content_block":{"type":"server_tool_use","id":"srvtoolu_2","name":"web_search","input":{"query":"r"}}}"#,
        "\n\n",
        r#"data: {"type":"content_block_stop","index":2}"#,
        "\n\n",
        r#"data: {"type":"message_delta","delta":{"stop_reason":"pause_turn"},"usage":{"output_tokens":3,"server_tool_use":{"web_search_requests":1}}}"#,
        "\n\n",
        r#"data: {"type":"message_stop"}"#,
        "\n\n",
    );
    let (response, lines) = decode(Wire::Messages, plain_context(), stream);
    assert!(lines.contains(&"done 0 web_search_call q false".to_owned()), "{lines:#?}");
    let end = response.end.unwrap().unwrap();
    assert_eq!((end.stop, end.usage.searches), (Stop::Pause, 1));
    let items: Vec<String> = response.items.iter().map(|(_, item)| item.to_json()).collect();
    let body =
        format!(r#"{{"model":"m","input":[{{"role":"user","content":"q"}},{}]}}"#, items.join(","));
    let (request, _) = wire::read_request(Wire::Responses, "", body.as_bytes()).unwrap();
    let written =
        wire::write_request(Wire::Messages, &request, &crate::support::target()).unwrap().body;
    let body: serde_json::Value = serde_json::from_str(&written).unwrap();
    let blocks = body["messages"][1]["content"].as_array().unwrap();
    let kinds: Vec<_> = blocks.iter().map(|block| block["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["server_tool_use", "web_search_tool_result", "server_tool_use"]);
    assert_eq!(blocks[0]["input"]["query"], "q");
    assert_eq!(body["messages"].as_array().unwrap().len(), 2, "no note after a pause");
}
