//! One script on four wires: the agent's own client gets the same items over each, and strict checks refuse what a
//! provider refuses. Over real loopback HTTP.

mod faults;
mod refused;
mod refused_others;
mod replays;
mod support;

use model::{Event, FailureKind, Item, Retry, Wire};
use serde_json::{Value, json};

use support::{Server, items, prompt, text_of, user};

const MODELS: [(Wire, &str); 4] = [
    (Wire::Responses, "gpt-5"),
    (Wire::Messages, "claude-opus-4-6"),
    (Wire::Chat, "deepseek"),
    (Wire::Gemini, "gemini-3-pro"),
];

/// What a user of the client sees of items: reasoning without a text holds signatures alone.
fn shown(items: Vec<Item>) -> Vec<Item> {
    let is_shown = |item: &Item| match item {
        Item::Reasoning { summary, content } => !summary.is_empty() || !content.is_empty(),
        _ => true,
    };
    let plain = |item: Item| match item {
        Item::Message { text, .. } => Item::Message { text, phase: None },
        // Whether reasoning is a summary is a word of its wire.
        Item::Reasoning { summary, content } => {
            let summary = vec![summary.into_iter().chain(content).collect::<Vec<_>>().join("\n\n")];
            Item::Reasoning { summary, content: Vec::new() }
        }
        other => other,
    };
    items.into_iter().filter(is_shown).map(plain).collect()
}

#[tokio::test]
async fn a_turn_with_tools_is_the_same_on_every_wire() {
    let script = json!({"responses": [
        {"expect": {"user_text_contains": "Look"}, "steps": [
            {"reasoning": {"summary": ["First I look.", "Then I read."], "encrypted_content": "b3BhcXVl"}},
            {"message": {"text": "I \"look\".\n", "chunk_chars": 3}},
            {"function_call": {"name": "read", "arguments": {"path": "a"}, "call_id": "call_1"}},
            {"function_call": {"name": "read", "arguments": {"path": "b"}, "call_id": "call_2"}},
            {"custom_tool_call": {"name": "apply_patch", "input": "*** \"Begin\"", "call_id": "call_3"}},
            {"usage": {"input_tokens": 1200, "cached_input_tokens": 1000, "cache_write_input_tokens": 100,
                "output_tokens": 40, "reasoning_output_tokens": 30}}]},
        {"expect": {"tool_output_contains": ["plum", "done"]}, "steps": [
            {"reasoning": "Good."}, {"message": "Found."}]},
        {"expect": {"user_text_contains": "Again"}, "steps": [{"message": "You said {{last_user_text}}"}]}]});
    let mut first_wire: Option<Vec<Vec<Item>>> = None;
    for (wire, model) in MODELS {
        let server = Server::start(&script).await;
        let provider = server.provider(wire);
        let mut history = vec![user("Look at it.")];
        let mut seen = Vec::new();
        for turn in 0..3 {
            let events = support::ask(&provider, &prompt(model, &history)).await;
            let Some(Event::Completed { usage, .. }) = events.last() else {
                panic!("{wire}: {events:?}")
            };
            if turn == 0 {
                let counts =
                    (usage.input, usage.cached_input, usage.output, usage.reasoning_output);
                assert_eq!(counts, (1200, 1000, 40, 30), "{wire}");
                assert!(usage.cache_write == 100 || wire == Wire::Gemini, "{wire}: {usage:?}");
            }
            // Outputs follow all calls of their answer.
            let mut outputs = Vec::new();
            for (raw, item) in items(&events) {
                let id = raw["call_id"].clone();
                history.push(raw);
                match item {
                    Item::FunctionCall { .. } => outputs.push(
                        json!({"type": "function_call_output", "call_id": id, "output": "plum"}),
                    ),
                    Item::CustomToolCall { .. } => outputs.push(
                        json!({"type": "custom_tool_call_output", "call_id": id, "output": "done"}),
                    ),
                    _ => {}
                }
            }
            history.extend(outputs);
            seen.push(shown(items(&events).into_iter().map(|(_, item)| item).collect()));
            if turn == 1 {
                history.push(user("Again."));
            }
        }
        assert!(
            matches!(
                &seen[0][..],
                [
                    Item::Reasoning { .. },
                    Item::Message { .. },
                    Item::FunctionCall { .. },
                    Item::FunctionCall { .. },
                    Item::CustomToolCall { .. }
                ]
            ),
            "{wire}: {seen:?}"
        );
        match &first_wire {
            Some(first) => assert_eq!(&seen, first, "{wire}"),
            None => first_wire = Some(seen),
        }
    }
}

#[tokio::test]
async fn failures_have_the_same_meaning_on_every_wire() {
    use FailureKind::*;
    let error = |status: u16, code: &str, message: &str| {
        json!([{"error": {"status": status, "code": code, "message": message,
            "headers": {"retry-after-ms": "7", "x-ratelimit-remaining-tokens": "0"}}}])
    };
    for (steps, kind, retry) in [
        (
            error(429, "rate_limit_exceeded", "Slow down."),
            ResponseTooManyFailedAttempts,
            Retry::Request,
        ),
        (error(503, "server_is_overloaded", "Busy."), ServerOverloaded, Retry::Request),
        (error(529, "overloaded_error", "Busy."), ServerOverloaded, Retry::Request),
        (error(400, "context_length_exceeded", "Too long."), ContextWindowExceeded, Retry::Never),
        (error(401, "invalid_api_key", "Wrong key."), Unauthorized, Retry::Never),
        (error(429, "insufficient_quota", "No money."), UsageLimitExceeded, Retry::Never),
        (
            json!([{"message": "So"}, {"cut": "data: {\"ty"}]),
            ResponseStreamDisconnected,
            Retry::Stream,
        ),
        (json!([{"message": "So"}, "idle"]), ResponseStreamDisconnected, Retry::Stream),
        (
            json!([{"message": "So"}, {"error": {"code": "server_is_overloaded", "message": "Busy."}}]),
            ServerOverloaded,
            Retry::Stream,
        ),
        (
            json!([{"error": {"code": "context_length_exceeded", "message": "Too long."}}]),
            ContextWindowExceeded,
            Retry::Never,
        ),
    ] {
        for (wire, model) in MODELS {
            let step = &steps[0]["error"];
            // 529 is a status of Messages alone, and Gemini's quota is also that of a minute.
            if (wire == Wire::Responses && step["status"] == 529)
                || (wire == Wire::Gemini && step["code"] == "insufficient_quota")
            {
                continue;
            }
            let server = Server::start(&json!({"responses": [{"steps": steps}]})).await;
            let mut provider = server.provider(wire);
            std::sync::Arc::get_mut(&mut provider).unwrap().stream_idle_timeout =
                std::time::Duration::from_millis(300);
            let events = support::ask(&provider, &prompt(model, &[user("x")])).await;
            let Some(Event::Failed(failure)) = events.last() else { panic!("{wire}: {events:?}") };
            assert_eq!((failure.kind, failure.retry), (kind, retry), "{wire} {steps}: {failure:?}");
        }
    }
}

/// The answer to a refused request has the headers of its provider.
#[tokio::test]
async fn limits_have_the_names_of_the_wire() {
    let headers = json!({"retry-after": "3", "x-ratelimit-remaining-tokens": "0"});
    let error = json!({"status": 429, "code": "rate_limit_exceeded", "message": "Slow.", "headers": headers});
    let script =
        json!({"on_exhausted": "repeat_last", "responses": [{"steps": [{"error": error}]}]});
    let server = Server::start(&script).await;
    let (messages, chat) = (server.messages(json!({})).await, server.chat(json!({})).await);
    let gemini = server.gemini(json!({})).await;
    for (answer, header) in [
        (&messages, "anthropic-ratelimit-tokens-remaining: 0"),
        (&chat, "x-ratelimit-remaining-tokens: 0"),
        (&gemini, "content-type: application/json"),
    ] {
        assert!(answer.status == 429 && answer.head.contains(header), "{}", answer.head);
    }
    // Gemini says it in the body alone.
    assert!(
        !gemini.head.contains("retry") && !gemini.head.contains("ratelimit"),
        "{}",
        gemini.head
    );
    assert_eq!(messages.json()["error"]["type"], "rate_limit_error");
    assert_eq!(chat.json()["error"]["code"], "rate_limit_exceeded");
    assert_eq!(gemini.json()["error"]["details"][0]["retryDelay"], "3s");
}

#[tokio::test]
async fn incomplete_answers_keep_what_came() {
    for (reason, part) in [("max_output_tokens", "output"), ("content_filter", "filter")] {
        let steps = json!([{"message": "So far"}, {"error": {"incomplete": reason}}]);
        for (wire, model) in MODELS {
            let server = Server::start(&json!({"responses": [{"steps": steps}]})).await;
            let events = support::ask(&server.provider(wire), &prompt(model, &[user("x")])).await;
            assert_eq!(text_of(&events), "So far", "{wire}");
            let Some(Event::Failed(failure)) = events.last() else { panic!("{wire}: {events:?}") };
            assert!(failure.message.contains(part), "{wire}: {failure:?}");
        }
    }
}

/// A whole answer, a stream, and Gemini's stream as an array say the same.
#[tokio::test]
async fn answers_without_a_stream() {
    let script = json!({"on_exhausted": "repeat_last", "responses": [{"steps": [
        {"reasoning": "Hm."}, {"message": "Hello."},
        {"function_call": {"name": "read", "arguments": {"path": "a"}, "call_id": "c1"}},
        {"usage": {"input_tokens": 10, "cached_input_tokens": 4, "output_tokens": 5, "reasoning_output_tokens": 2}}]}]});
    let server = Server::start(&script).await;
    let messages = server.messages(json!({"thinking": {"type": "adaptive"}})).await.ok();
    let kinds: Vec<_> =
        messages["content"].as_array().unwrap().iter().map(|it| &it["type"]).collect();
    assert_eq!(kinds, ["thinking", "text", "tool_use"]);
    assert_eq!(
        (&messages["stop_reason"], &messages["content"][2]["input"]),
        (&json!("tool_use"), &json!({"path": "a"}))
    );
    let counts = ["input_tokens", "cache_read_input_tokens", "output_tokens"]
        .map(|name| messages["usage"][name].clone());
    assert_eq!(counts, [json!(6), json!(4), json!(5)]);
    let chat = server.chat(json!({})).await.ok();
    let choice = &chat["choices"][0];
    assert_eq!(
        (&choice["finish_reason"], &choice["message"]["content"]),
        (&json!("tool_calls"), &json!("Hello."))
    );
    assert_eq!(choice["message"]["reasoning_content"], "Hm.");
    let thoughts = json!({"thinkingConfig": {"includeThoughts": true}});
    let gemini = server.gemini(json!({"generationConfig": thoughts})).await.ok();
    let parts = gemini["candidates"][0]["content"]["parts"].as_array().unwrap();
    assert_eq!((&parts[0]["thought"], &parts[1]["text"]), (&json!(true), &json!("Hello.")));
    assert_eq!(
        parts[2]["functionCall"],
        json!({"id": "c1", "name": "read", "args": {"path": "a"}})
    );
    assert!(parts[2]["thoughtSignature"].is_string());
    let counts = ["promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount"]
        .map(|name| gemini["usageMetadata"][name].clone());
    assert_eq!(counts, [json!(10), json!(3), json!(2)]);
    let body = json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]});
    let path = "/v1beta/models/gemini-3-pro:streamGenerateContent";
    let mut array = server.post(path, &[], body.clone()).await.ok();
    let mut events = server.post(&format!("{path}?alt=sse"), &[], body).await.events();
    for chunk in array.as_array_mut().unwrap().iter_mut().chain(&mut events) {
        // It depends on the number of the answer.
        assert!(chunk["responseId"].take().is_string());
    }
    assert_eq!(array.as_array().unwrap(), &events);
    assert_eq!(events.last().unwrap()["candidates"][0]["finishReason"], "STOP");
    let failed = json!({"responses": [{"steps": [{"message": "So"}, {"error": {"code": "server_error", "message": "It broke."}}]}]});
    let server = Server::start(&failed).await;
    let answer = server.messages(json!({})).await;
    assert_eq!((answer.status, answer.json()["error"]["type"].clone()), (500, json!("api_error")));
}

/// Claude and Gemini show no thinking that was not asked for; Gemini signs its calls all the same.
#[tokio::test]
async fn thinking_is_shown_where_it_is_asked_for() {
    let script = json!({"on_exhausted": "repeat_last", "responses": [{"steps": [
        {"reasoning": "Hm."}, {"function_call": {"name": "read", "arguments": {}, "call_id": "c1"}}]}]});
    let server = Server::start(&script).await;
    for (members, kinds) in [
        (json!({}), json!(["tool_use"])),
        (json!({"thinking": {"type": "disabled"}}), json!(["tool_use"])),
        (json!({"thinking": {"type": "adaptive"}}), json!(["thinking", "tool_use"])),
        (json!({"model": "glm-5"}), json!(["thinking", "tool_use"])),
    ] {
        let answer = server.messages(members.clone()).await.ok();
        let content = answer["content"].as_array().unwrap();
        let found: Vec<&Value> = content.iter().map(|block| &block["type"]).collect();
        assert_eq!(json!(found), kinds, "{members}");
    }
    for (asks, expect) in [(false, 1), (true, 2)] {
        let config = json!({"thinkingConfig": {"includeThoughts": asks}});
        let answer = server.gemini(json!({"generationConfig": config})).await.ok();
        let parts = answer["candidates"][0]["content"]["parts"].as_array().unwrap();
        assert_eq!(parts.len(), expect, "{parts:?}");
        assert!(parts[expect - 1]["thoughtSignature"].is_string(), "{parts:?}");
    }
}

/// `{{last_user_text}}` is what the user said, although some wires merge it with what stands before it.
#[tokio::test]
async fn the_text_of_the_user_is_the_same_on_every_wire() {
    let script = json!({"on_exhausted": "repeat_last", "responses": [
        {"expect": {"user_text_contains": "hi"}, "steps": [{"message": "Said: {{last_user_text}}"}]}]});
    let server = Server::start(&script).await;
    for (wire, model) in MODELS {
        let note = json!({"type": "message", "role": "developer",
            "content": [{"type": "input_text", "text": "Mind the gap."}]});
        let history =
            [user("<environment_context>x</environment_context>"), user("hi there"), note];
        let events = support::ask(&server.provider(wire), &prompt(model, &history)).await;
        assert_eq!(text_of(&events), "Said: hi there", "{wire}");
    }
}

/// Each thread has a script of its own: the client says which one asks, on wires without a member for it.
#[tokio::test]
async fn threads_run_a_script_independently_on_every_wire() {
    let script =
        json!({"responses": [{"steps": [{"message": "one"}]}, {"steps": [{"message": "two"}]}]});
    for (wire, model) in MODELS {
        let server = Server::start(&script).await;
        for (thread, text) in [("a", "one"), ("b", "one"), ("a", "two"), ("b", "two")] {
            let prompt =
                model::Prompt { cache_key: Some(thread.into()), ..prompt(model, &[user("x")]) };
            let events = support::ask(&server.provider(wire), &prompt).await;
            assert_eq!(text_of(&events), text, "{wire} {thread}: {events:?}");
        }
    }
}

#[tokio::test]
async fn a_step_that_a_wire_cannot_carry_is_refused() {
    for (step, refused) in [
        (json!({"fault": "false_signature"}), [false, true, false]),
        (json!({"image_generation": "aGk="}), [true, true, false]),
        (json!({"web_search": "rust"}), [false, true, false]),
    ] {
        let server = Server::start(
            &json!({"on_exhausted": "repeat_last", "responses": [{"steps": [step]}]}),
        )
        .await;
        let answers = [
            server.messages(json!({})).await,
            server.chat(json!({})).await,
            server.gemini(json!({})).await,
        ];
        for (answer, is_refused) in answers.iter().zip(refused) {
            assert_eq!(
                answer.status,
                if is_refused { 400 } else { 200 },
                "{step}: {}",
                answer.text()
            );
            assert!(
                !is_refused || answer.text().contains("of the script has"),
                "{}",
                answer.text()
            );
        }
    }
}

#[tokio::test]
async fn expectations_and_conversations_hold_on_every_wire() {
    let script = json!({"responses": [
        {"expect": {"equals": {"/model": "claude"}, "header": {"anthropic-version": "2023"}}, "steps": [{"message": "one"}]},
        {"steps": [{"message": "two"}]}]});
    let server = Server::start(&script).await;
    let ask = |user: &'static str| {
        server.messages(json!({"model": "claude", "metadata": {"user_id": user}}))
    };
    for (user, text) in [("a", "one"), ("b", "one"), ("a", "two")] {
        assert_eq!(ask(user).await.ok()["content"][0]["text"], text);
    }
    let exhausted = ask("a").await;
    assert_eq!(exhausted.status, 400);
    let error = exhausted.json()["error"].clone();
    assert_eq!(error["type"], "invalid_request_error");
    assert!(error["message"].as_str().unwrap().contains("all were given"), "{error}");
    // Gemini has no model in its body.
    let refused = server.gemini(json!({})).await;
    assert_eq!(
        (refused.status, refused.json()["error"]["status"].clone()),
        (400, json!("INVALID_ARGUMENT"))
    );
    assert!(refused.text().contains("expectation of response 1"), "{}", refused.text());
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "x"}]});
    let header = [("x-conversation", "c")];
    let refused = server.post("/v1/chat/completions", &header, body).await;
    assert!(refused.text().contains("expectation of response 1"), "{}", refused.text());
}

#[tokio::test]
async fn tokens_are_counted_and_models_listed() {
    let script =
        json!({"on_exhausted": "repeat_last", "responses": [{"steps": [{"message": "x"}]}]});
    for server in [Server::start(&script).await, Server::offline().await] {
        let version = [("anthropic-version", "2023-06-01")];
        let body =
            json!({"model": "m", "messages": [{"role": "user", "content": "x".repeat(4000)}]});
        let counted = server.post("/v1/messages/count_tokens", &version, body).await.ok();
        assert!((1000..1100).contains(&counted["input_tokens"].as_u64().unwrap()), "{counted}");
        let contents = json!([{"parts": [{"text": "x".repeat(4000)}]}]);
        for body in [
            json!({"contents": contents}),
            json!({"generateContentRequest": {"contents": contents}}),
        ] {
            let counted = server.post("/v1beta/models/m:countTokens", &[], body).await.ok();
            assert!((1000..1100).contains(&counted["totalTokens"].as_u64().unwrap()), "{counted}");
        }
        let listed = server.get("/v1/models", &version).await.ok();
        assert_eq!(
            (&listed["data"][0]["type"], &listed["has_more"]),
            (&json!("model"), &json!(false))
        );
        assert_eq!(server.get("/v1/models/claude", &version).await.ok()["id"], "claude");
        let listed = server.get("/v1beta/models", &[]).await.ok();
        assert_eq!(listed["models"][0]["name"], "models/offline");
        assert_eq!(server.get("/v1/models", &[]).await.ok()["object"], "list");
        for wire in Wire::ALL {
            let listed = model::Client::new().models(&server.provider(wire), None).await.unwrap();
            let model::ModelsAnswer::Listed { models, .. } = listed else { panic!("{listed:?}") };
            assert_eq!(&*models[0].id, "offline", "{wire}");
        }
    }
}

#[tokio::test]
async fn the_offline_model_speaks_every_wire() {
    let server = Server::offline().await;
    for (wire, model) in MODELS {
        let events = support::ask(&server.provider(wire), &prompt(model, &[user("plums")])).await;
        assert!(matches!(events.last(), Some(Event::Completed { .. })), "{wire}: {events:?}");
        let text = text_of(&events);
        assert!(text.contains("offline model") && text.ends_with("plums"), "{wire}: {text}");
    }
    let tools = json!([{"name": "look", "input_schema": {"type": "object"}}]);
    let called =
        server.messages(json!({"tools": tools, "tool_choice": {"type": "any"}})).await.ok();
    assert_eq!(
        (&called["stop_reason"], &called["content"][0]["name"]),
        (&json!("tool_use"), &json!("look"))
    );
    let short = server.messages(json!({"max_tokens": 2})).await.ok();
    assert_eq!(
        (&short["stop_reason"], &short["usage"]["output_tokens"]),
        (&json!("max_tokens"), &json!(2))
    );
    let schema =
        json!({"responseMimeType": "application/json", "responseJsonSchema": {"type": "object"}});
    let refused = server.gemini(json!({"generationConfig": schema})).await;
    assert_eq!(refused.status, 400);
    assert!(refused.text().contains("cannot follow a JSON schema"), "{}", refused.text());
}

/// The usage of a scripted provider shows what marks of the cache save.
#[tokio::test]
async fn marks_of_the_cache_are_counted() {
    let script =
        json!({"on_exhausted": "repeat_last", "responses": [{"steps": [{"message": "x"}]}]});
    let server = Server::start(&script).await;
    let mark = json!({"type": "ephemeral"});
    let system = json!([{"type": "text", "text": "word ".repeat(2000), "cache_control": mark}]);
    let counts = async || {
        let usage = server.messages(json!({"system": system})).await.ok()["usage"].clone();
        let of = |name: &str| usage[name].as_u64().unwrap();
        (of("cache_creation_input_tokens"), of("cache_read_input_tokens"), of("input_tokens"))
    };
    let (written, read, rest) = counts().await;
    assert!(written > 2000 && read == 0 && rest < 100, "{written} {read} {rest}");
    assert_eq!(counts().await, (0, written, rest));
    // The agent's own marks work, too.
    let provider = server.provider(Wire::Messages);
    let mut history = vec![user(&"words ".repeat(4000))];
    let mut cached = Vec::new();
    for _ in 0..3 {
        let events = support::ask(&provider, &prompt("claude-sonnet-5", &history)).await;
        let Some(Event::Completed { usage, .. }) = events.last() else { panic!("{events:?}") };
        cached.push(usage.cached_input);
        history.extend(items(&events).into_iter().map(|(raw, _)| raw));
        history.push(user("More."));
    }
    assert!(cached[0] == 0 && cached[1] > 5000 && cached[2] >= cached[1], "{cached:?}");
}

/// Values of any kind in the place of a body.
#[tokio::test]
async fn bad_input_is_an_error_in_the_wires_own_form() {
    let server = Server::start(&json!({"responses": [{"steps": [{"message": "x"}]}]})).await;
    let version = [("anthropic-version", "2023-06-01")];
    let deep = format!("{}1{}", "[".repeat(500), "]".repeat(500));
    for body in [
        "",
        "{",
        "null",
        "[]",
        "\"x\"",
        "{}",
        "{\"messages\":{}}",
        "{\"contents\":[[]]}",
        &deep,
        "{\"model\":1}",
    ] {
        for (path, pointer) in [
            ("/v1/messages", "/error/type"),
            ("/v1/chat/completions", "/error/code"),
            ("/v1beta/models/m:generateContent", "/error/status"),
            ("/v1beta/models/m:streamGenerateContent?alt=sse", "/error/status"),
            ("/v1/responses", "/error/code"),
            ("/v1/messages/count_tokens", "/error/type"),
            ("/v1beta/models/m:countTokens", "/error/status"),
        ] {
            let answer = server.send("POST", path, &version, body.as_bytes()).await;
            assert_eq!(answer.status, 400, "{path} {body}: {}", answer.text());
            let error: Value = answer.json();
            assert!(error.pointer(pointer).is_some_and(Value::is_string), "{path} {body}: {error}");
            assert!(
                error.pointer("/error/message").is_some_and(|it| it != ""),
                "{path} {body}: {error}"
            );
        }
    }
    // None of them counted.
    assert_eq!(server.messages(json!({})).await.ok()["content"][0]["text"], "x");
}
