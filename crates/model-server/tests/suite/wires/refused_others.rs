//! Requests of Chat Completions, Gemini and Responses that a provider refuses, each with one mistake.

use serde_json::{Value, json};

use super::refused::{refused, said, server};

#[tokio::test]
async fn chat_requests() {
    let server = server().await;
    let call = |id: &str| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}});
    let called = |ids: &[&str]| json!({"role": "assistant", "tool_calls": ids.iter().map(|id| call(id)).collect::<Vec<_>>()});
    let output = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": "plum"});
    let tool = |name: &str| json!({"type": "function", "function": {"name": name}});
    let strict = json!({"type": "function", "function": {"name": "f", "strict": true,
        "parameters": {"type": "object", "properties": {}}}});
    let format = json!({"type": "json_schema", "json_schema": {"name": "o", "strict": true, "schema": {"type": "object"}}});
    for (members, part, code) in [
        (
            json!({"messages": null}),
            "Missing required parameter: 'messages'.",
            "missing_required_parameter",
        ),
        (
            json!({"model": null}),
            "Missing required parameter: 'model'.",
            "missing_required_parameter",
        ),
        (json!({"max_token": 1}), "Unknown parameter: 'max_token'.", "unknown_parameter"),
        (
            json!({"model": 1}),
            "Invalid type for 'model': expected a string, but got 1 instead.",
            "invalid_type",
        ),
        (json!({"temperature": 3}), "'temperature': expected a value from 0 to 2", "invalid_value"),
        (
            json!({"max_tokens": 1, "max_completion_tokens": 1}),
            "at the same time is not supported",
            "invalid_parameter_combination",
        ),
        (json!({"max_tokens": 0}), "integer below minimum value", "integer_below_min_value"),
        (
            json!({"stream_options": {"include_usage": true}}),
            "only allowed when 'stream' is enabled",
            "invalid_value",
        ),
        (
            json!({"stop": ["a", "b", "c", "d", "e"]}),
            "Invalid 'stop': array too long",
            "array_above_max_length",
        ),
        (json!({"tools": []}), "Invalid 'tools': empty array", "empty_array"),
        (json!({"tools": [tool("a b")]}), "Invalid 'tools[0].function.name'", "invalid_value"),
        (
            json!({"tools": [{"type": "function"}]}),
            "'tools[0].function'",
            "missing_required_parameter",
        ),
        (
            json!({"tools": [strict]}),
            "Invalid schema for function 'f': ",
            "invalid_function_parameters",
        ),
        (
            json!({"response_format": format}),
            "Invalid schema for response_format 'o': ",
            "invalid_value",
        ),
        (
            json!({"response_format": {"type": "json_object"}}),
            "must contain the word 'json'",
            "invalid_value",
        ),
        (
            json!({"tool_choice": "auto"}),
            "only allowed when 'tools' are specified",
            "invalid_value",
        ),
        (
            json!({"parallel_tool_calls": true}),
            "only allowed when 'tools' are specified",
            "invalid_value",
        ),
        (
            json!({"tools": [tool("f")], "tool_choice": "any"}),
            "Supported values are: 'none', 'auto' and 'required'",
            "invalid_value",
        ),
        (
            json!({"tools": [tool("f")], "tool_choice": tool("g")}),
            "with name 'g' not found",
            "invalid_value",
        ),
        (json!({"messages": []}), "Invalid 'messages': empty array", "empty_array"),
        (
            json!({"messages": [{"role": "model", "content": "x"}]}),
            "at 'messages[0].role': 'model'",
            "invalid_value",
        ),
        (
            json!({"messages": [{"content": "x"}]}),
            "'messages[0].role'",
            "missing_required_parameter",
        ),
        (
            json!({"messages": [{"role": "user"}]}),
            "'messages[0].content'",
            "missing_required_parameter",
        ),
        (
            json!({"messages": [{"role": "user", "content": [{"type": "image"}]}]}),
            "'messages[0].content[0].type'",
            "invalid_value",
        ),
        (
            json!({"messages": [said("x"), {"role": "assistant"}]}),
            "Invalid value for 'content'",
            "invalid_type",
        ),
        (
            json!({"messages": [said("x"), {"role": "assistant", "tool_calls": []}]}),
            "'messages[1].tool_calls': empty array",
            "empty_array",
        ),
        (
            json!({"messages": [said("x"), called(&["a"]), said("y")]}),
            "The following tool_call_ids did not have response messages: a",
            "invalid_value",
        ),
        (
            json!({"messages": [said("x"), called(&["a", "b"]), output("b")]}),
            "did not have response messages: a",
            "invalid_value",
        ),
        (
            json!({"messages": [said("x"), called(&["a", "a"]), output("a")]}),
            "Duplicate value for 'messages[1].tool_calls[1].id'",
            "invalid_value",
        ),
        (
            json!({"messages": [said("x"), output("a")]}),
            "must be a response to a preceeding message with 'tool_calls'",
            "invalid_value",
        ),
        (
            json!({"messages": [said("x"), called(&["a"]), output("b")]}),
            "No call has the id 'b'",
            "invalid_value",
        ),
    ] {
        let answer = server.chat(members.clone()).await;
        refused(&answer, part, &members);
        assert_eq!(answer.json()["error"]["code"], code, "{members}");
    }
    for members in [
        json!({"messages": [said("x"), called(&["a", "b"]), output("b"), output("a"), said("y")]}),
        json!({"messages": [{"role": "developer", "content": "Be brief."}, said("x")], "reasoning_effort": "low"}),
        json!({"messages": [said("x"), {"role": "assistant", "content": "y", "reasoning_content": "Hm."}, said("z")]}),
    ] {
        server.chat(members).await.ok();
    }
}

#[tokio::test]
async fn gemini_requests() {
    let server = server().await;
    let user = |part: Value| json!({"role": "user", "parts": [part]});
    let text = || user(json!({"text": "hi"}));
    let skip = "skip_thought_signature_validator";
    let call = |signature: &str| json!({"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}, "thoughtSignature": signature}]});
    let response = |name: &str| {
        user(json!({"functionResponse": {"name": name, "response": {"output": "plum"}}}))
    };
    let unsigned = json!({"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]});
    let functions = |list: Value| json!([{"functionDeclarations": list}]);
    let calling = |config: Value| json!({"functionCallingConfig": config});
    for (members, part) in [
        (json!({"contents": null}), "contents is not specified"),
        (json!({"contents": []}), "contents is not specified"),
        (json!({"messages": []}), "Unknown name \"messages\": Cannot find field."),
        (json!({"contents": [{"role": "user", "part": []}]}), "parts is not specified"),
        (
            json!({"contents": [{"role": "user", "parts": []}]}),
            "contents.parts must not be empty. (at 'contents[0].parts')",
        ),
        (
            json!({"contents": [{"role": "assistant", "parts": [{"text": "x"}]}]}),
            "Please use a valid role: user, model. (at 'contents[0].role')",
        ),
        (
            json!({"contents": [user(json!({"text": 1}))]}),
            "Invalid value at 'contents[0].parts[0].text' (TYPE_STRING), 1",
        ),
        (
            json!({"contents": [user(json!({"text": "x", "image": 1}))]}),
            "Unknown name \"image\" at 'contents[0].parts[0]'",
        ),
        (
            json!({"contents": [user(json!({"thought": true}))]}),
            "required oneof field 'data' must have one initialized field",
        ),
        (
            json!({"contents": [user(json!({"inlineData": {"mimeType": "image/png", "data": "%"}}))]}),
            "Base64 decoding failed",
        ),
        (
            json!({"contents": [text(), call(skip), text()]}),
            "the number of function response parts is equal",
        ),
        (
            json!({"contents": [text(), response("f")]}),
            "the number of function response parts is equal",
        ),
        (
            json!({"contents": [text(), call(skip), response("g")]}),
            "answers no function call of the turn before it",
        ),
        (
            json!({"contents": [call(skip), response("f")]}),
            "function call turn comes immediately after a user turn",
        ),
        (
            json!({"contents": [text(), call("c2ln"), response("f")]}),
            "Thought signature is not valid.",
        ),
        (
            json!({"contents": [text(), unsigned, response("f")]}),
            "missing a thought_signature in functionCall parts",
        ),
        (
            json!({"contents": [text(), {"role": "model", "parts": [{"text": "x"}]}]}),
            "end with a user role",
        ),
        (json!({"tools": functions(json!([{"name": "1f"}]))}), "Invalid function name"),
        (
            json!({"tools": functions(json!([{"name": "f"}, {"name": "f"}]))}),
            "Duplicate function declaration found: f",
        ),
        (
            json!({"tools": functions(json!([{"name": "f", "parameters": {"type": "OBJECT", "additionalProperties": false}}]))}),
            "Unknown name \"additionalProperties\" at 'tools[0].functionDeclarations[0].parameters'",
        ),
        (
            json!({"tools": functions(json!([{"name": "f"}])), "toolConfig": calling(json!({"mode": "AUTO", "allowedFunctionNames": ["f"]}))}),
            "allowed_function_names should only be set when",
        ),
        (
            json!({"tools": functions(json!([{"name": "f"}])), "toolConfig": calling(json!({"mode": "ANY", "allowedFunctionNames": ["g"]}))}),
            "which is no declared function",
        ),
        (json!({"toolConfig": calling(json!({"mode": "ANY"}))}), "without function_declarations"),
        (json!({"generationConfig": {"maxOutputTokens": 0}}), "maxOutputTokens must be positive"),
        (json!({"generationConfig": {"temperature": 2.5}}), "must be in the range [0, 2]"),
        (
            json!({"generationConfig": {"responseSchema": {"type": "OBJECT"}}}),
            "only allowed with response_mime_type",
        ),
        (
            json!({"generationConfig": {"thinkingConfig": {"thinkingBudget": 1, "thinkingLevel": "LOW"}}}),
            "only one of thinking budget and thinking level",
        ),
    ] {
        let answer = server.gemini(members.clone()).await;
        refused(&answer, part, &members);
        assert_eq!(answer.json()["error"]["status"], "INVALID_ARGUMENT");
    }
    for members in [
        json!({"contents": [text(), call(skip), response("f")]}),
        // A turn that is over needs no signatures.
        json!({"contents": [text(), unsigned, response("f"), {"role": "model", "parts": [{"text": "x"}]}, text()]}),
        json!({"system_instruction": {"parts": [{"text": "Be brief."}]}, "generation_config": {"max_output_tokens": 7}}),
    ] {
        server.gemini(members).await.ok();
    }
    let older = json!({"contents": [text(), unsigned, response("f")]});
    server.post("/v1beta/models/gemini-2.5-pro:generateContent", &[], older).await.ok();
}

#[tokio::test]
async fn responses_requests() {
    let server = server().await;
    let call = json!({"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"});
    let output = json!({"type": "function_call_output", "call_id": "a", "output": "plum"});
    let thought =
        |content: &str| json!({"type": "reasoning", "summary": [], "encrypted_content": content});
    for (members, part) in [
        (json!({"model": null}), "Missing required parameter: 'model'."),
        (json!({"input": null}), "Missing required parameter: 'input'."),
        (json!({"messages": []}), "Unknown parameter: 'messages'."),
        (json!({"input": [1]}), "Invalid type for 'input[0]'"),
        (json!({"input": [{"content": "x"}]}), "Missing required parameter: 'input[0].type'."),
        (json!({"input": [{"role": "tool", "content": "x"}]}), "at 'input[0].role': 'tool'"),
        (json!({"input": [call]}), "No tool output found for function call a."),
        (json!({"input": [output]}), "No tool call found for function call output with call_id a."),
        (json!({"input": [output, call]}), "No tool call found"),
    ] {
        refused(&server.responses(members.clone()).await, part, &members);
    }
    server.responses(json!({"input": [call, output]})).await.ok();
    for (members, part) in [
        (json!({"input": [output], "previous_response_id": "resp_1"}), "'resp_1' not found"),
        (json!({"temperature": 9}), "between 0 and 2"),
        (json!({"top_p": -1}), "between 0 and 1"),
        (json!({"temperature": "hot"}), "temperature"),
        (json!({"max_output_tokens": 1}), ">= 16"),
        (json!({"max_output_tokens": -1}), ">= 16"),
        (json!({"input": [thought("wire:1:chat:p:m:e30")]}), "could not be verified"),
        (json!({"input": [thought("false:e")]}), "could not be verified"),
    ] {
        refused(&server.responses(members.clone()).await, part, &members);
    }
    // A response that was given is continued, and the call before an output may be its own.
    let kept = server.responses(json!({})).await.ok();
    let more = json!({"input": [output], "previous_response_id": kept["id"]});
    assert_eq!(server.responses(more).await.ok()["previous_response_id"], kept["id"]);
    let forgotten = server.responses(json!({"store": false})).await.ok();
    let more = json!({"input": [output], "previous_response_id": forgotten["id"]});
    refused(&server.responses(more.clone()).await, "not found", &more);
    for members in [
        json!({"temperature": 2, "top_p": 0.5, "max_output_tokens": 16}),
        json!({"input": [thought("e"), {"role": "user", "content": "x"}]}),
    ] {
        server.responses(members).await.ok();
    }
}
