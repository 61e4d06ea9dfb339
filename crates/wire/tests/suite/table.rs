//! The written table of what a translation does not carry is what the translation does.

use serde_json::{Value, json};
use wire::{Target, Wire, read_request, write_request};

/// A member with a body that has it.
type Feature = (&'static str, Value);

fn merged(base: &Value, more: &Value) -> Value {
    let mut body = base.clone();
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

fn base(wire: Wire) -> Value {
    match wire {
        Wire::Responses => json!({"model": "m", "input": [{"role": "user", "content": "q"}]}),
        Wire::Messages => {
            json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "q"}]})
        }
        Wire::Chat => json!({"model": "m", "messages": [{"role": "user", "content": "q"}]}),
        Wire::Gemini => json!({"contents": [{"role": "user", "parts": [{"text": "q"}]}]}),
    }
}

fn user(wire: Wire, part: &Value) -> Value {
    match wire {
        Wire::Responses => json!({"input": [{"role": "user", "content": [part]}]}),
        Wire::Messages | Wire::Chat => json!({"messages": [{"role": "user", "content": [part]}]}),
        Wire::Gemini => json!({"contents": [{"role": "user", "parts": [part]}]}),
    }
}

fn features(wire: Wire) -> Vec<Feature> {
    match wire {
        Wire::Responses => responses_features(),
        Wire::Messages => messages_features(),
        Wire::Chat => chat_features(),
        Wire::Gemini => gemini_features(),
    }
}

fn responses_features() -> Vec<Feature> {
    let wire = Wire::Responses;
    let function = json!({"type": "function", "name": "f", "parameters": {"type": "object"}});
    let strict =
        json!({"type": "function", "name": "f", "strict": true, "parameters": {"type": "object"}});
    let tools = |tool: Value| json!({"tools": [tool]});
    let choice = |choice: Value| json!({"tools": [function.clone()], "tool_choice": choice});
    let item = |item: Value| json!({"input": [{"role": "user", "content": "q"}, item, {"role": "user", "content": "r"}]});
    vec![
        ("instructions", json!({"instructions": "I"})),
        (
            "input: input_image, data URL",
            user(wire, &json!({"type": "input_image", "image_url": "data:image/png;base64,AA"})),
        ),
        (
            "input: input_image, URL",
            user(wire, &json!({"type": "input_image", "image_url": "https://a.example/b.png"})),
        ),
        (
            "input: input_image, file id",
            user(wire, &json!({"type": "input_image", "file_id": "file-1"})),
        ),
        (
            "input: input_file, PDF",
            user(
                wire,
                &json!({"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,AA"}),
            ),
        ),
        (
            "input: input_file, text",
            user(
                wire,
                &json!({"type": "input_file", "filename": "a.txt", "file_data": "data:text/plain;base64,YQ=="}),
            ),
        ),
        ("input: developer message in between", item(json!({"role": "developer", "content": "d"}))),
        (
            "input: phase",
            item(
                json!({"type": "message", "role": "assistant", "phase": "commentary", "content": "c"}),
            ),
        ),
        (
            "input: reasoning of another model",
            item(json!({"type": "reasoning", "summary": [], "encrypted_content": "e"})),
        ),
        ("input: web_search_call", item(json!({"type": "web_search_call", "status": "completed"}))),
        (
            "input: image_generation_call",
            item(
                json!({"type": "image_generation_call", "id": "i", "status": "completed", "result": "AA"}),
            ),
        ),
        ("input: compaction", item(json!({"type": "compaction", "encrypted_content": "e"}))),
        ("input: item_reference", item(json!({"type": "item_reference", "id": "i"}))),
        ("tools: function", tools(function.clone())),
        ("tools: strict", tools(strict)),
        ("tools: custom", tools(json!({"type": "custom", "name": "p"}))),
        ("tools: namespace", tools(json!({"type": "namespace", "name": "n", "tools": [function]}))),
        ("tools: web_search", tools(json!({"type": "web_search"}))),
        (
            "tools: tool_search",
            tools(
                json!({"type": "tool_search", "execution": "client", "parameters": {"type": "object"}}),
            ),
        ),
        ("tools: image_generation", tools(json!({"type": "image_generation"}))),
        ("tool_choice: none", choice(json!("none"))),
        ("tool_choice: required", choice(json!("required"))),
        ("tool_choice: function", choice(json!({"type": "function", "name": "f"}))),
        (
            "tool_choice: allowed_tools",
            choice(
                json!({"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "f"}]}),
            ),
        ),
        ("parallel_tool_calls: false", json!({"tools": [function], "parallel_tool_calls": false})),
        ("reasoning.effort", json!({"reasoning": {"effort": "high"}})),
        ("reasoning.effort: none", json!({"reasoning": {"effort": "none"}})),
        ("reasoning.summary", json!({"reasoning": {"summary": "auto"}})),
        (
            "text.format: json_schema",
            json!({"text": {"format": {"type": "json_schema", "name": "o", "schema": {"type": "object"}}}}),
        ),
        ("text.format: json_object", json!({"text": {"format": {"type": "json_object"}}})),
        ("text.verbosity", json!({"text": {"verbosity": "low"}})),
        ("max_output_tokens", json!({"max_output_tokens": 77})),
        ("temperature", json!({"temperature": 0.5})),
        ("top_p", json!({"top_p": 0.5})),
        ("service_tier: priority", json!({"service_tier": "priority"})),
        ("service_tier: flex", json!({"service_tier": "flex"})),
        ("store: true", json!({"store": true})),
        ("metadata", json!({"metadata": {"a": "b"}})),
        ("safety_identifier", json!({"safety_identifier": "u"})),
        ("prompt_cache_key", json!({"prompt_cache_key": "k"})),
        ("previous_response_id", json!({"previous_response_id": "r"})),
        ("background: true", json!({"background": true})),
        ("truncation: auto", json!({"truncation": "auto"})),
        ("max_tool_calls", json!({"max_tool_calls": 3})),
        ("top_logprobs", json!({"top_logprobs": 3})),
    ]
}

fn messages_features() -> Vec<Feature> {
    let wire = Wire::Messages;
    let tool = json!({"name": "f", "input_schema": {"type": "object"}});
    let said = |block: Value| json!({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": [block, {"type": "text", "text": "a"}]}, {"role": "user", "content": "r"}]});
    let failed = json!({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "is_error": true, "content": "no"}]}]});
    vec![
        ("system", json!({"system": "S"})),
        (
            "system: cache_control",
            json!({"system": [{"type": "text", "text": "S", "cache_control": {"type": "ephemeral"}}]}),
        ),
        (
            "messages: role system in between",
            json!({"messages": [{"role": "user", "content": "q"}, {"role": "system", "content": "s"}, {"role": "user", "content": "r"}]}),
        ),
        (
            "messages: image",
            user(
                wire,
                &json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA"}}),
            ),
        ),
        (
            "messages: document, PDF",
            user(
                wire,
                &json!({"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "AA"}}),
            ),
        ),
        (
            "messages: document, text",
            user(
                wire,
                &json!({"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "t"}}),
            ),
        ),
        (
            "messages: search_result",
            user(
                wire,
                &json!({"type": "search_result", "title": "t", "source": "s", "content": [{"type": "text", "text": "x"}]}),
            ),
        ),
        (
            "messages: thinking, signed",
            said(json!({"type": "thinking", "thinking": "t", "signature": "s"})),
        ),
        (
            "messages: thinking, unsigned",
            said(json!({"type": "thinking", "thinking": "t", "signature": ""})),
        ),
        ("messages: redacted_thinking", said(json!({"type": "redacted_thinking", "data": "d"}))),
        ("messages: tool_result.is_error", failed),
        ("tools", json!({"tools": [tool]})),
        (
            "tools: strict",
            json!({"tools": [{"name": "f", "strict": true, "input_schema": {"type": "object"}}]}),
        ),
        (
            "tools: web_search",
            json!({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}),
        ),
        (
            "tools: code_execution",
            json!({"tools": [{"type": "code_execution_20250825", "name": "code_execution"}]}),
        ),
        ("tool_choice: any", json!({"tools": [tool], "tool_choice": {"type": "any"}})),
        (
            "tool_choice: disable_parallel_tool_use",
            json!({"tools": [tool], "tool_choice": {"type": "auto", "disable_parallel_tool_use": true}}),
        ),
        ("thinking: enabled", json!({"thinking": {"type": "enabled", "budget_tokens": 2000}})),
        ("thinking: disabled", json!({"thinking": {"type": "disabled"}})),
        ("output_config.effort", json!({"output_config": {"effort": "high"}})),
        (
            "output_config.format",
            json!({"output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}}),
        ),
        ("stop_sequences", json!({"stop_sequences": ["x"]})),
        ("temperature", json!({"temperature": 0.5})),
        ("top_k", json!({"top_k": 4})),
        ("metadata.user_id", json!({"metadata": {"user_id": "u"}})),
        ("service_tier: standard_only", json!({"service_tier": "standard_only"})),
        ("container", json!({"container": "c"})),
        ("mcp_servers", json!({"mcp_servers": [{}]})),
        ("context_management", json!({"context_management": {"edits": []}})),
    ]
}

fn chat_features() -> Vec<Feature> {
    let wire = Wire::Chat;
    let tool =
        json!({"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}});
    let said = |member: Value| json!({"messages": [{"role": "user", "content": "q"}, merged(&json!({"role": "assistant", "content": "a"}), &member), {"role": "user", "content": "r"}]});
    vec![
        (
            "messages: system",
            json!({"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "q"}]}),
        ),
        ("messages: name", json!({"messages": [{"role": "user", "name": "n", "content": "q"}]})),
        (
            "messages: image_url",
            user(
                wire,
                &json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}),
            ),
        ),
        (
            "messages: file",
            user(
                wire,
                &json!({"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AA"}}),
            ),
        ),
        (
            "messages: input_audio",
            user(
                wire,
                &json!({"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}}),
            ),
        ),
        ("messages: reasoning_content", said(json!({"reasoning_content": "t"}))),
        ("messages: refusal", said(json!({"refusal": "no"}))),
        ("tools: function", json!({"tools": [tool]})),
        ("tools: custom", json!({"tools": [{"type": "custom", "custom": {"name": "p"}}]})),
        ("web_search_options", json!({"web_search_options": {}})),
        ("tool_choice: required", json!({"tools": [tool], "tool_choice": "required"})),
        ("parallel_tool_calls: false", json!({"tools": [tool], "parallel_tool_calls": false})),
        (
            "response_format: json_schema",
            json!({"response_format": {"type": "json_schema", "json_schema": {"name": "o", "schema": {"type": "object"}}}}),
        ),
        ("response_format: json_object", json!({"response_format": {"type": "json_object"}})),
        ("reasoning_effort", json!({"reasoning_effort": "high"})),
        ("max_completion_tokens", json!({"max_completion_tokens": 77})),
        ("stop", json!({"stop": ["x"]})),
        ("temperature", json!({"temperature": 0.5})),
        ("seed", json!({"seed": 1})),
        ("n: 2", json!({"n": 2})),
        ("logprobs", json!({"logprobs": true})),
        ("logit_bias", json!({"logit_bias": {"1": 1}})),
        ("modalities: audio", json!({"modalities": ["audio"]})),
        ("user", json!({"user": "u"})),
        ("metadata", json!({"metadata": {"a": "b"}})),
        ("prompt_cache_key", json!({"prompt_cache_key": "k"})),
        ("service_tier: priority", json!({"service_tier": "priority"})),
        ("verbosity", json!({"verbosity": "low"})),
    ]
}

fn gemini_features() -> Vec<Feature> {
    let wire = Wire::Gemini;
    let tools =
        json!([{"functionDeclarations": [{"name": "f", "parameters": {"type": "OBJECT"}}]}]);
    let config = |config: Value| json!({"generationConfig": config});
    let signed = json!({"contents": [{"role": "user", "parts": [{"text": "q"}]},
        {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}, "thoughtSignature": "c2ln"}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"output": "x"}}}]}]});
    let unsigned = json!({"contents": [{"role": "user", "parts": [{"text": "q"}]},
        {"role": "model", "parts": [{"text": "t", "thought": true}, {"text": "a"}]},
        {"role": "user", "parts": [{"text": "r"}]}]});
    vec![
        ("systemInstruction", json!({"systemInstruction": {"parts": [{"text": "s"}]}})),
        (
            "contents: inlineData, image",
            user(wire, &json!({"inlineData": {"mimeType": "image/png", "data": "AA"}})),
        ),
        (
            "contents: inlineData, PDF",
            user(wire, &json!({"inlineData": {"mimeType": "application/pdf", "data": "AA"}})),
        ),
        (
            "contents: inlineData, sound",
            user(wire, &json!({"inlineData": {"mimeType": "audio/wav", "data": "AA"}})),
        ),
        ("contents: thought", unsigned),
        ("contents: thoughtSignature", signed),
        ("contents: executableCode", user(wire, &json!({"executableCode": {"code": "1"}}))),
        ("tools: functionDeclarations", json!({"tools": tools})),
        ("tools: googleSearch", json!({"tools": [{"googleSearch": {}}]})),
        ("tools: codeExecution", json!({"tools": [{"codeExecution": {}}]})),
        (
            "toolConfig: ANY",
            json!({"tools": tools, "toolConfig": {"functionCallingConfig": {"mode": "ANY"}}}),
        ),
        ("generationConfig.maxOutputTokens", config(json!({"maxOutputTokens": 77}))),
        ("generationConfig.stopSequences", config(json!({"stopSequences": ["x"]}))),
        (
            "generationConfig.responseSchema",
            config(
                json!({"responseMimeType": "application/json", "responseSchema": {"type": "OBJECT"}}),
            ),
        ),
        (
            "generationConfig.thinkingConfig",
            config(json!({"thinkingConfig": {"thinkingLevel": "HIGH"}})),
        ),
        ("generationConfig.temperature", config(json!({"temperature": 0.5}))),
        ("generationConfig.topK", config(json!({"topK": 4}))),
        ("generationConfig.candidateCount: 2", config(json!({"candidateCount": 2}))),
        ("generationConfig.responseModalities", config(json!({"responseModalities": ["IMAGE"]}))),
        ("safetySettings", json!({"safetySettings": [{}]})),
        ("cachedContent", json!({"cachedContent": "c"})),
        ("labels", json!({"labels": {"a": "b"}})),
        ("serviceTier: FLEX", json!({"serviceTier": "FLEX"})),
    ]
}

/// The body without the member that a row is about, where the row needs more than the plain body.
fn without(name: &str, plain: &Value, body: &Value) -> Value {
    let mut without = body.clone();
    match name {
        "input: phase" => drop(without["input"][1].as_object_mut().unwrap().shift_remove("phase")),
        "tools: strict" => {
            drop(without["tools"][0].as_object_mut().unwrap().shift_remove("strict"));
        }
        "messages: tool_result.is_error" => {
            without["messages"][2]["content"][0]["is_error"] = false.into();
        }
        "tool_choice: any"
        | "tool_choice: required"
        | "tool_choice: none"
        | "tool_choice: function"
        | "tool_choice: allowed_tools"
        | "tool_choice: disable_parallel_tool_use" => {
            without.as_object_mut().unwrap().shift_remove("tool_choice");
        }
        "parallel_tool_calls: false" => {
            without.as_object_mut().unwrap().shift_remove("parallel_tool_calls");
        }
        "toolConfig: ANY" => drop(without.as_object_mut().unwrap().shift_remove("toolConfig")),
        _ => return plain.clone(),
    }
    without
}

/// A cell: `yes`, or the reason that the member is left out or refused.
fn cell(from: Wire, to: Wire, plain: &Value, body: &Value) -> String {
    let target = Target {
        provider: "p".into(),
        model: "m".into(),
        max_output: Some(9),
        ..Target::default()
    };
    let write = |body: &Value| -> Result<(String, Vec<&'static str>), String> {
        let text = body.to_string();
        let (request, mut warnings) =
            read_request(from, "m", text.as_bytes()).map_err(|error| error.message)?;
        let encoded = write_request(to, &request, &target).map_err(|error| error.message)?;
        warnings.extend(encoded.warnings);
        Ok((encoded.body, warnings.as_slice().iter().map(|warning| warning.reason).collect()))
    };
    let plain = write(plain).unwrap();
    match write(body) {
        Err(message) => {
            let reason = message.split_once(": ").map_or(message.as_str(), |(_, reason)| reason);
            format!("error: {}", reason.trim_end_matches('.').replace('|', "\\|"))
        }
        Ok((_, warnings)) if !warnings.is_empty() => format!("warning: {}", warnings.join("; ")),
        Ok((body, _)) if body == plain.0 => "no difference".to_owned(),
        Ok(_) => "yes".to_owned(),
    }
}

fn table() -> String {
    let mut out = String::from(
        "# Members and what becomes of them\n\nWith the switches that unknown servers have. `yes`: carried. `warning`: left out, and named in \
         the warnings. `error`: refused. `no difference`: the default of the wire.\n",
    );
    for from in Wire::ALL {
        let others: Vec<Wire> = Wire::ALL.into_iter().filter(|to| *to != from).collect();
        out.push_str(&format!("\n## From {from}\n\n| member |"));
        others.iter().for_each(|to| out.push_str(&format!(" {to} |")));
        out.push_str("\n|---|---|---|---|\n");
        for (name, more) in features(from) {
            out.push_str(&format!("| {name} |"));
            let plain = base(from);
            let body = merged(&plain, &more);
            others.iter().for_each(|to| {
                out.push_str(&format!(
                    " {} |",
                    cell(from, *to, &without(name, &plain, &body), &body)
                ));
            });
            out.push('\n');
        }
    }
    out
}

#[test]
fn the_written_table_is_what_a_translation_does() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/carried.md");
    let (written, table) = (std::fs::read_to_string(path).unwrap_or_default(), table());
    if written != table {
        let actual = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("carried.md");
        std::fs::write(&actual, table).unwrap();
        panic!("{path} differs from what the crate does, which is in {}", actual.display());
    }
}

/// Nothing is left out in silence: where a member makes no difference, that is the wire's default.
#[test]
fn a_member_without_effect_is_a_default() {
    let defaults = ["parallel_tool_calls: true", "store: false"];
    let silent: Vec<String> = table()
        .lines()
        .filter(|line| line.contains("| no difference |"))
        .filter(|line| !defaults.iter().any(|name| line.contains(name)))
        .map(str::to_owned)
        .collect();
    assert_eq!(silent, Vec::<String>::new());
}
