//! Requests: the bodies that are written for each wire, and those that are read from each.

use serde_json::{Value, json};
use wire::{
    ChatOptions, ChatThinking, Envelope, GeminiOptions, GeminiThinking, MessagesOptions,
    MessagesThinking, Payload, Target, Wire, read_request, write_request,
};

use crate::support::{request, target};

/// A request of the agent: tools of each form, an image, reasoning, parallel calls and their outputs.
fn agent_request() -> Value {
    let own = Envelope {
        wire: Wire::Messages,
        provider: "p".into(),
        model: "m".into(),
        payload: Payload::Blocks(vec![
            r#"{"type":"thinking","thinking":"T","signature":"c2ln"}"#.into(),
        ]),
    };
    json!({
        "model": "m", "instructions": "Be brief.",
        "tools": [
            {"type": "function", "name": "read", "description": "Reads.", "strict": false,
             "parameters": {"type": "object", "properties": {"z": {"type": "string"}, "a": {"type": "string"}}}},
            {"type": "custom", "name": "apply_patch", "description": "Patches.",
             "format": {"type": "grammar", "syntax": "lark", "definition": "start: X"}},
            {"type": "namespace", "name": "mcp", "tools": [{"type": "function", "name": "ask", "parameters": {}}]}],
        "tool_choice": "auto", "parallel_tool_calls": true,
        "reasoning": {"effort": "high", "summary": "auto"}, "store": false, "stream": true,
        "include": ["reasoning.encrypted_content"],
        "input": [
            {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Rules."}]},
            {"type": "message", "role": "user", "content": [
                {"type": "input_text", "text": "Look."},
                {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}]},
            {"type": "reasoning", "summary": [], "encrypted_content": own.write()},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Yes."}]},
            {"type": "function_call", "call_id": "c1", "name": "read", "arguments": "{\"z\": 1, \"a\": 2}"},
            {"type": "custom_tool_call", "call_id": "c2", "name": "apply_patch", "input": "*** \"x\"\n"},
            {"type": "function_call", "call_id": "c 3", "name": "ask", "namespace": "mcp", "arguments": ""},
            {"type": "custom_tool_call_output", "call_id": "c2", "output": "ok"},
            {"type": "function_call_output", "call_id": "c1",
             "output": [{"type": "input_text", "text": "see"}, {"type": "input_image", "image_url": "data:image/png;base64,BBBB"}]},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Go on."}]}],
        "prompt_cache_key": "t"
    })
}

#[test]
fn a_request_of_the_agent_is_written_for_messages() {
    let (body, warnings) =
        request(Wire::Responses, Wire::Messages, &target(), &agent_request()).unwrap();
    let mark = json!({"type": "ephemeral"});
    assert_eq!(
        body["system"],
        json!([{"type": "text", "text": "Be brief."},
        {"type": "text", "text": "Rules.", "cache_control": mark}])
    );
    assert_eq!(body["max_tokens"], 1000);
    assert_eq!(body["output_config"], json!({"effort": "high"}));
    assert_eq!(body["thinking"], json!({"type": "adaptive", "display": "summarized"}));
    assert_eq!(
        body["tools"][0]["input_schema"].to_string(),
        r#"{"type":"object","properties":{"z":{"type":"string"},"a":{"type":"string"}}}"#
    );
    assert_eq!(body["tools"][1]["input_schema"]["required"], json!(["input"]));
    assert!(body["tools"][1]["description"].as_str().unwrap().ends_with("start: X"));
    assert_eq!(body["tools"][2]["name"], "mcp__ask");
    let messages = body["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 3);
    assert_eq!(
        messages[0]["content"][1]["source"],
        json!({"type": "base64", "media_type": "image/png", "data": "AAAA"})
    );
    assert_eq!(messages[0]["content"][1]["cache_control"], mark);
    assert_eq!(
        messages[1],
        json!({"role": "assistant", "content": [
        {"type": "thinking", "thinking": "T", "signature": "c2ln"},
        {"type": "text", "text": "Yes."},
        {"type": "tool_use", "id": "c1", "name": "read", "input": {"z": 1, "a": 2}},
        {"type": "tool_use", "id": "c2", "name": "apply_patch", "input": {"input": "*** \"x\"\n"}},
        {"type": "tool_use", "id": messages[1]["content"][4]["id"], "name": "mcp__ask", "input": {}}]})
    );
    let id = messages[1]["content"][4]["id"].as_str().unwrap();
    assert!(id.starts_with("c_3_"), "{id}");
    assert_eq!(
        messages[2],
        json!({"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "see"},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "BBBB"}}]},
        {"type": "tool_result", "tool_use_id": "c2", "content": "ok"},
        {"type": "tool_result", "tool_use_id": id, "content": "(no output was recorded)"},
        {"type": "text", "text": "Go on.", "cache_control": mark}]})
    );
    assert_eq!(
        warnings,
        [
            "input[]: a call without its output gets a note in its place",
            "prompt_cache_key: the cache goes by the prefix alone"
        ]
    );
}

#[test]
fn a_request_of_the_agent_is_written_for_chat_completions() {
    let (body, _) = request(Wire::Responses, Wire::Chat, &target(), &agent_request()).unwrap();
    assert_eq!(body["reasoning_effort"], "high");
    assert_eq!(body["stream_options"], json!({"include_usage": true}));
    let messages = &body["messages"];
    assert_eq!(messages[0], json!({"role": "system", "content": "Be brief."}));
    assert_eq!(messages[1], json!({"role": "system", "content": "Rules."}));
    assert_eq!(messages[2]["content"][1]["image_url"]["url"], "data:image/png;base64,AAAA");
    assert_eq!(messages[3]["content"], "Yes.");
    assert_eq!(
        messages[3]["tool_calls"][0],
        json!({"id": "c1", "type": "function",
        "function": {"name": "read", "arguments": "{\"z\": 1, \"a\": 2}"}})
    );
    assert_eq!(
        messages[3]["tool_calls"][1]["function"]["arguments"],
        "{\"input\":\"*** \\\"x\\\"\\n\"}"
    );
    assert_eq!(messages[4], json!({"role": "tool", "tool_call_id": "c1", "content": "see"}));
    assert_eq!(messages[5], json!({"role": "tool", "tool_call_id": "c2", "content": "ok"}));
    assert_eq!(messages[6]["role"], "tool");
    assert_eq!(messages[7]["content"][0]["image_url"]["url"], "data:image/png;base64,BBBB");
    assert_eq!(messages[8], json!({"role": "user", "content": "Go on."}));
}

#[test]
fn a_request_of_the_agent_is_written_for_gemini() {
    let text = agent_request().to_string();
    let (read, _) = read_request(Wire::Responses, "", text.as_bytes()).unwrap();
    let encoded = write_request(Wire::Gemini, &read, &target()).unwrap();
    assert_eq!(encoded.path, "/v1beta/models/m:streamGenerateContent?alt=sse");
    let body: Value = serde_json::from_str(&encoded.body).unwrap();
    assert_eq!(
        body["generationConfig"]["thinkingConfig"],
        json!({"includeThoughts": true, "thinkingLevel": "HIGH"})
    );
    let contents = &body["contents"];
    assert_eq!(
        contents[0]["parts"][1]["inlineData"],
        json!({"mimeType": "image/png", "data": "AAAA"})
    );
    assert_eq!(
        contents[1]["parts"][1],
        json!({"functionCall": {"id": "c1", "name": "read", "args": {"z": 1, "a": 2}},
        "thoughtSignature": "skip_thought_signature_validator"})
    );
    assert_eq!(contents[1]["parts"][2].get("thoughtSignature"), None);
    assert_eq!(
        contents[2]["parts"][0]["functionResponse"],
        json!({"id": "c1", "name": "read",
        "response": {"output": "see"}, "parts": [{"inlineData": {"mimeType": "image/png", "data": "BBBB"}}]})
    );
    assert_eq!(contents[2]["parts"][3], json!({"text": "Go on."}));
}

/// Official clients of Gemini write base64 for URLs, and take the empty text off a part that has a signature.
#[test]
fn base64_for_urls_and_lone_signatures_of_gemini_are_read() {
    use base64::Engine;
    use base64::engine::general_purpose::{STANDARD, URL_SAFE, URL_SAFE_NO_PAD};
    let bytes = [0xfb, 0xff, 0xbf, 0xfe];
    let thinking = r#"{"type":"thinking","thinking":"T>?~","signature":"c2ln"}"#;
    let own = Envelope {
        wire: Wire::Messages,
        provider: "p".into(),
        model: "m".into(),
        payload: Payload::Blocks(vec![thinking.into()]),
    };
    for (engine, pads) in [(&STANDARD, true), (&URL_SAFE, true), (&URL_SAFE_NO_PAD, false)] {
        let data = engine.encode(bytes);
        assert_eq!(data.ends_with('='), pads);
        let body = json!({"contents": [
            {"role": "user", "parts": [{"text": "a"}, {"inlineData": {"mimeType": "image/png", "data": data}}]},
            {"role": "model", "parts": [
                {"thoughtSignature": engine.encode(own.write())},
                {"functionCall": {"id": "c1", "name": "read", "args": {}}}]},
            {"role": "user", "parts": [{"functionResponse": {"id": "c1", "name": "read", "response": {"output": "b"}}}]}],
            "tools": [{"functionDeclarations": [{"name": "read"}]}]});
        let (body, _) = request(Wire::Gemini, Wire::Messages, &target(), &body).unwrap();
        let image = &body["messages"][0]["content"][1]["source"];
        assert_eq!(image["data"], STANDARD.encode(bytes), "{body}");
        let answer = &body["messages"][1]["content"];
        assert_eq!(answer[0], serde_json::from_str::<Value>(thinking).unwrap(), "{body}");
        assert_eq!(answer[1]["type"], "tool_use", "{body}");
    }
    let empty = json!({"contents": [{"role": "user", "parts": [{}]}]});
    assert!(request(Wire::Gemini, Wire::Messages, &target(), &empty).is_err());
}

#[test]
fn members_of_gemini_have_two_spellings() {
    let body = json!({
        "system_instruction": {"parts": [{"text": "Be brief."}]},
        "generation_config": {"max_output_tokens": 5, "stop_sequences": ["Z"], "top_p": 0.5,
            "thinking_config": {"thinking_level": "HIGH"}},
        "tools": [{"function_declarations": [{"name": "f", "parameters": {"type": "OBJECT"}}]}],
        "tool_config": {"function_calling_config": {"mode": "ANY", "allowed_function_names": ["f"]}},
        "contents": [
            {"role": "user", "parts": [{"inline_data": {"mime_type": "image/png", "data": "-_8"}}]},
            {"role": "model", "parts": [{"function_call": {"id": "c", "name": "f", "args": {"snake_case": 1}}}]},
            {"role": "user", "parts": [{"function_response": {"id": "c", "name": "f", "response": {"error_text": "x"}}}]},
        ],
    });
    let (written, warnings) = request(Wire::Gemini, Wire::Chat, &target(), &body).unwrap();
    assert_eq!(warnings, Vec::<String>::new());
    let limit = written.get("max_tokens").or_else(|| written.get("max_completion_tokens"));
    assert_eq!((limit, &written["stop"]), (Some(&json!(5)), &json!(["Z"])));
    assert_eq!((&written["top_p"], &written["reasoning_effort"]), (&json!(0.5), &json!("high")));
    assert_eq!(written["tool_choice"], json!({"type": "function", "function": {"name": "f"}}));
    assert_eq!(written["messages"][0]["content"], "Be brief.");
    // The alphabet for URLs, which the official client for Python writes, and its missing end.
    assert_eq!(
        written["messages"][1]["content"][0]["image_url"]["url"],
        "data:image/png;base64,+/8="
    );
    // The names of arguments and results are the caller's own.
    let call = &written["messages"][2]["tool_calls"][0]["function"];
    assert_eq!(call["arguments"], r#"{"snake_case":1}"#);
    assert_eq!(written["messages"][3]["content"], r#"{"error_text":"x"}"#);
}

#[test]
fn thinking_of_messages_goes_without_a_temperature() {
    let thinks = |temperature: f64, effort: &str| {
        let body = json!({"model": "m", "input": "x", "temperature": temperature, "reasoning": {"effort": effort}});
        let target = Target {
            messages: MessagesOptions { has_sampling: true, ..MessagesOptions::default() },
            ..target()
        };
        let (written, warnings) = request(Wire::Responses, Wire::Messages, &target, &body).unwrap();
        (written.get("temperature").is_some(), warnings)
    };
    let warning = "temperature: the API takes none with thinking".to_owned();
    assert_eq!(thinks(0.5, "high"), (false, vec![warning]));
    assert_eq!(thinks(1.0, "high"), (false, Vec::new()));
    assert_eq!(thinks(0.5, "none"), (true, Vec::new()));
}

#[test]
fn a_summary_of_none_is_not_asked_for() {
    let body =
        json!({"model": "m", "input": "x", "reasoning": {"effort": "high", "summary": "none"}});
    let (written, _) = request(Wire::Responses, Wire::Messages, &target(), &body).unwrap();
    assert_eq!(written["thinking"]["display"], "omitted");
    let (written, _) = request(Wire::Responses, Wire::Gemini, &target(), &body).unwrap();
    assert_eq!(written["generationConfig"]["thinkingConfig"], json!({"thinkingLevel": "HIGH"}));
}

#[test]
fn reasoning_of_another_model_is_left_out() {
    let other = Target { model: "n".into(), ..target() };
    let (body, warnings) =
        request(Wire::Responses, Wire::Messages, &other, &agent_request()).unwrap();
    assert_eq!(body["messages"][1]["content"][0]["type"], "text");
    assert!(warnings.contains(&"input[]: reasoning of another model is not sent".to_owned()));
    let (body, _) = request(Wire::Responses, Wire::Responses, &target(), &agent_request()).unwrap();
    assert!(!body.to_string().contains("wire:"), "providers of Responses refuse envelopes");
}

#[test]
fn a_budget_of_thinking_leaves_room_for_the_answer() {
    let messages = MessagesOptions {
        thinking: MessagesThinking::Budget,
        has_effort: false,
        ..MessagesOptions::default()
    };
    let target = Target { messages, max_output: Some(8000), ..target() };
    let body = |limit: Value| json!({"model": "m", "input": "x", "max_output_tokens": limit, "reasoning": {"effort": "high"}});
    let (written, _) =
        request(Wire::Responses, Wire::Messages, &target, &body(Value::Null)).unwrap();
    assert_eq!(written["thinking"], json!({"type": "enabled", "budget_tokens": 4000}));
    let (written, _) =
        request(Wire::Responses, Wire::Messages, &target, &body(json!(3000))).unwrap();
    assert_eq!(written["thinking"]["budget_tokens"], 1500);
    for limit in [500, 1500] {
        let (written, warnings) =
            request(Wire::Responses, Wire::Messages, &target, &body(json!(limit))).unwrap();
        assert_eq!(written.get("thinking"), None, "{limit}");
        assert_eq!(warnings, ["reasoning.effort: the output limit leaves no room for thinking"]);
    }
    let gemini = GeminiOptions { thinking: GeminiThinking::Budget, ..GeminiOptions::default() };
    let gemini = Target { gemini, ..target };
    for (limit, budget) in [(Value::Null, 24_576), (json!(3000), 1500)] {
        let (written, _) = request(Wire::Responses, Wire::Gemini, &gemini, &body(limit)).unwrap();
        let config = &written["generationConfig"]["thinkingConfig"];
        assert_eq!(config["thinkingBudget"], budget);
    }
}

/// An effort is sent, or its absence is named.
#[test]
fn an_effort_that_is_not_sent_is_named() {
    let body = |more: Value| {
        let mut body = json!({"model": "m", "input": "x", "reasoning": {"effort": "low"},
            "tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}}]});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let chat = |thinking| {
        let chat = ChatOptions { thinking, ..ChatOptions::default() };
        Target { chat, ..target() }
    };
    let gemini = GeminiOptions { thinking: GeminiThinking::None, ..GeminiOptions::default() };
    let messages = |thinking| {
        let messages =
            MessagesOptions { thinking, has_effort: false, ..MessagesOptions::default() };
        Target { messages, ..target() }
    };
    let forced = json!({"tool_choice": "required"});
    for (wire, target, more, expect) in [
        (Wire::Messages, messages(MessagesThinking::Unknown), json!({}), "no switch"),
        (Wire::Messages, messages(MessagesThinking::Budget), forced, "demanded tool"),
        (
            Wire::Messages,
            messages(MessagesThinking::Budget),
            json!({"max_output_tokens": 500}),
            "no room",
        ),
        (Wire::Gemini, Target { gemini, ..target() }, json!({}), "no switch"),
        (Wire::Chat, chat(ChatThinking::None), json!({}), "no switch"),
        (Wire::Chat, chat(ChatThinking::Type), json!({}), "no levels"),
        (Wire::Chat, chat(ChatThinking::Template), json!({}), "no levels"),
        (Wire::Chat, chat(ChatThinking::Budget), json!({"stream": false}), "in streams alone"),
    ] {
        let (_, warnings) = request(Wire::Responses, wire, &target, &body(more)).unwrap();
        let named = warnings.iter().find(|it| it.starts_with("reasoning"));
        assert!(named.is_some_and(|it| it.contains(expect)), "{wire} {expect}: {warnings:?}");
    }
    // What is sent as it is asked for needs no words.
    for thinking in [ChatThinking::Type, ChatThinking::Effort, ChatThinking::Object] {
        let high = json!({"reasoning": {"effort": "high"}});
        let (_, warnings) =
            request(Wire::Responses, Wire::Chat, &chat(thinking), &body(high)).unwrap();
        assert!(warnings.is_empty(), "{thinking:?}: {warnings:?}");
    }
}

/// A thread that changes its provider hears the same on each wire.
#[test]
fn reasoning_of_another_provider_is_named_alike_on_every_wire() {
    let envelope = |wire: &str| format!("wire:1:{wire}:other:m:eyJibG9ja3MiOltdfQ");
    for from in ["messages", "chat", "gemini", "responses"] {
        let body = json!({"model": "m", "input": [{"role": "user", "content": "x"},
            {"type": "reasoning", "summary": [], "encrypted_content": envelope(from)},
            {"role": "assistant", "content": "y"}, {"role": "user", "content": "z"}]});
        for to in Wire::ALL {
            let (_, warnings) = request(Wire::Responses, to, &target(), &body).unwrap();
            assert_eq!(
                warnings,
                ["input[]: reasoning of another model is not sent"],
                "{from} {to}"
            );
        }
    }
}

#[test]
fn mistakes_name_their_member_in_the_callers_wire() {
    let cases = [
        (
            Wire::Messages,
            json!({"model": "m", "messages": []}),
            "Missing required member `max_tokens`.",
        ),
        (
            Wire::Messages,
            json!({"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": [{"type": "tool_result"}]}]}),
            "Missing required member `messages[0].content[0].tool_use_id`.",
        ),
        (
            Wire::Chat,
            json!({"model": "m", "messages": [{"role": "bot", "content": ""}]}),
            "Invalid value for `messages[0].role`: unknown role `bot`.",
        ),
        (
            Wire::Chat,
            json!({"model": "m", "n": 2, "messages": [{"role": "user", "content": ""}]}),
            "`n` is not supported here: the server of this model makes one answer a request.",
        ),
        (Wire::Gemini, json!({"contents": "x"}), "Invalid type for `contents`: expected an array."),
        (
            Wire::Responses,
            json!({"model": "m", "input": [{"type": "function_call", "name": "x"}]}),
            "Missing required member `input[0].call_id`.",
        ),
    ];
    for (wire, body, expect) in cases {
        let text = body.to_string();
        let error = read_request(wire, "m", text.as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), expect);
        let body: Value = serde_json::from_str(&error.body(wire)).unwrap();
        assert_eq!(body["error"]["message"], expect);
    }
}

#[test]
fn members_that_change_the_meaning_are_errors_in_the_callers_words() {
    let body = json!({"model": "m", "max_tokens": 5, "stop_sequences": ["x"], "messages": [{"role": "user", "content": "y"}]});
    let text = body.to_string();
    let (read, _) = read_request(Wire::Messages, "", text.as_bytes()).unwrap();
    let error =
        write_request(Wire::Responses, &read, &target()).unwrap_err().in_wire(Wire::Messages);
    assert_eq!(error.member, "stop_sequences");
    assert_eq!(
        error.to_string(),
        "`stop_sequences` cannot be sent over responses: it has no stop sequences."
    );
}

#[test]
fn servers_of_chat_completions_get_what_they_take() {
    let body = json!({"model": "m", "instructions": "I", "reasoning": {"effort": "high"}, "stream": true,
        "input": [
            {"role": "user", "content": "q"},
            {"type": "function_call", "call_id": "call_1", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "call_1", "output": "1"},
            {"role": "user", "content": "next"}]});
    let write = |host: &str| {
        let target = Target { chat: ChatOptions::of_host(host), ..target() };
        request(Wire::Responses, Wire::Chat, &target, &body).unwrap().0
    };
    let openai = write("api.openai.com");
    assert_eq!(openai["messages"][0]["role"], "developer");
    let deepseek = write("api.deepseek.com");
    assert_eq!(deepseek["thinking"], json!({"type": "enabled"}));
    assert_eq!(deepseek["messages"][2]["reasoning_content"], " ");
    let mistral = write("api.mistral.ai");
    let id = mistral["messages"][2]["tool_calls"][0]["id"].as_str().unwrap();
    assert_eq!((id.len(), &mistral["messages"][3]["tool_call_id"]), (9, &json!(id)));
    assert_eq!(mistral["messages"][4]["role"], "assistant");
    let qwen = write("dashscope.aliyuncs.com");
    assert_eq!(
        (&qwen["enable_thinking"], &qwen["thinking_budget"]),
        (&json!(true), &json!(24_576))
    );
}
