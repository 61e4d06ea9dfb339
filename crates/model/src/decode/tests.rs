use super::*;
use crate::{FailureKind, Item, ItemKind, Phase, Retry, Usage};
use proptest::prelude::*;
use serde_json::{Value, json};

fn decode_all(text: &str) -> Vec<Event> {
    let mut decoder = Decoder::new();
    let mut out = Vec::new();
    decoder.feed(text.as_bytes(), &mut out);
    out
}

fn one(event: &Value) -> Event {
    let mut events = decode_all(&format!("data: {event}\n\n"));
    assert_eq!(events.len(), 1, "{event}");
    events.remove(0)
}

#[test]
fn deltas() {
    let check = |json: Value, expect: Event| assert_eq!(one(&json), expect);
    check(
        json!({"type": "response.output_text.delta", "item_id": "m", "output_index": 2,
            "content_index": 0, "delta": "a\n\"é", "sequence_number": 4, "logprobs": []}),
        Event::TextDelta { index: 2, text: "a\n\"é".into() },
    );
    check(
        json!({"type": "response.reasoning_summary_text.delta", "output_index": 0,
            "summary_index": 1, "delta": "s"}),
        Event::SummaryDelta { index: 0, summary_index: 1, text: "s".into() },
    );
    check(
        json!({"type": "response.reasoning_text.delta", "output_index": 0, "content_index": 3,
            "delta": "r"}),
        Event::ReasoningDelta { index: 0, content_index: 3, text: "r".into() },
    );
    check(
        json!({"type": "response.function_call_arguments.delta", "output_index": 1,
            "delta": "{"}),
        Event::ArgumentsDelta { index: 1, text: "{".into() },
    );
    check(
        json!({"type": "response.custom_tool_call_input.delta", "output_index": 1, "delta": "*"}),
        Event::CustomInputDelta { index: 1, text: "*".into() },
    );
    check(
        json!({"type": "response.reasoning_summary_part.added", "output_index": 1,
            "summary_index": 2, "part": {"type": "summary_text", "text": ""}}),
        Event::SummaryPartAdded { index: 1, summary_index: 2 },
    );
}

#[test]
fn item_starts_are_decoded() {
    let check = |item: Value, kind: ItemKind| {
        let event = json!({"type": "response.output_item.added", "output_index": 1, "item": item});
        assert_eq!(one(&event), Event::ItemAdded { index: 1, id: "i".into(), kind });
    };
    check(
        json!({"type": "message", "id": "i", "phase": "commentary", "content": []}),
        ItemKind::Message { phase: Some(Phase::Commentary) },
    );
    check(json!({"type": "reasoning", "id": "i", "summary": []}), ItemKind::Reasoning);
    check(
        json!({"type": "function_call", "id": "i", "call_id": "c", "name": "f"}),
        ItemKind::FunctionCall { call_id: "c".into(), name: "f".into() },
    );
    check(
        json!({"type": "custom_tool_call", "id": "i", "call_id": "c", "name": "f"}),
        ItemKind::CustomToolCall { call_id: "c".into(), name: "f".into() },
    );
    let search = |query: &str| ItemKind::WebSearch { query: query.into() };
    check(json!({"type": "web_search_call", "id": "i"}), search(""));
    let action = json!({"type": "search", "query": "q"});
    check(json!({"type": "web_search_call", "id": "i", "action": action}), search("q"));
    check(json!({"type": "image_generation_call", "id": "i"}), ItemKind::ImageGeneration);
    check(json!({"type": "new", "id": "i"}), ItemKind::Other { kind: "new".into() });
}

#[test]
fn whole_items_are_parsed_and_kept_as_received() {
    let check = |raw: &str, expect_raw: &str, expect: Item| {
        let text = format!(
            "data: {{\"type\":\"response.output_item.done\",\"output_index\":3,\"item\":{raw}}}\n\n"
        );
        let expect = Event::ItemDone { index: 3, raw: expect_raw.into(), item: expect };
        assert_eq!(decode_all(&text), [expect]);
    };
    let message = r#"{"id":"m", "type":"message","status":"completed","phase":"final_answer","content":[{"type":"output_text","text":"a"},{"type":"refusal","refusal":"b"}],"x":1}"#;
    let parsed = Item::Message { text: "ab".into(), phase: Some(Phase::FinalAnswer) };
    check(message, message, parsed);
    let call = r#"{"type":"function_call","call_id":"c","name":"f","arguments":"{\"a\":1}"}"#;
    let parsed = Item::FunctionCall {
        call_id: "c".into(),
        name: "f".into(),
        arguments: r#"{"a":1}"#.into(),
    };
    check(call, call, parsed);
    let custom = r#"{"type":"custom_tool_call","call_id":"c","name":"f","input":"x\ny"}"#;
    let parsed =
        Item::CustomToolCall { call_id: "c".into(), name: "f".into(), input: "x\ny".into() };
    check(custom, custom, parsed);
    let search =
        r#"{"type":"web_search_call","status":"completed","action":{"type":"search","query":"q"}}"#;
    let action = json!({"type": "search", "query": "q"});
    check(search, search, Item::WebSearch { query: "q".into(), action, failed: false });
    let search = r#"{"type":"web_search_call","status":"failed"}"#;
    let parsed = Item::WebSearch { query: String::new(), action: Value::Null, failed: true };
    check(search, search, parsed);
    let image = |status: Option<&str>, result: &str, prompt: Option<&str>| Item::ImageGeneration {
        status: status.map(str::to_owned),
        result: result.to_owned(),
        revised_prompt: prompt.map(str::to_owned),
    };
    let whole = r#"{"result":"AAAA","type":"image_generation_call", "id":"ig","status":"generating","revised_prompt":"a cat","quality":"high"}"#;
    check(whole, whole, image(Some("generating"), "AAAA", Some("a cat")));
    let failed = r#"{"type":"image_generation_call","id":"ig","status":"failed","result":null}"#;
    check(failed, failed, image(Some("failed"), "", None));
    let bare = r#"{"type":"image_generation_call"}"#;
    check(bare, bare, image(None, "", None));
    check(
        r#"{"type":"new"}"#,
        r#"{"type":"new"}"#,
        Item::Other { kind: "new".into(), call_id: None },
    );
    let local = r#"{"type":"local_shell_call","call_id":"c","action":{}}"#;
    let call_id = Some("c".into());
    check(local, local, Item::Other { kind: "local_shell_call".into(), call_id });
    let odd = r#"{"type":"new","call_id":7}"#;
    check(odd, odd, Item::Other { kind: "new".into(), call_id: None });
}

#[test]
fn calls_without_an_id_are_read() {
    for id in [json!({}), json!({ "call_id": null }), json!({ "call_id": "" })] {
        let call = |kind: &str, input: &str| {
            let mut call = json!({ "type": kind, "name": "f" });
            call[input] = "x".into();
            call.as_object_mut().unwrap().extend(id.as_object().unwrap().clone());
            call
        };
        let done = |item: Value| match one(
            &json!({ "type": "response.output_item.done", "item": item }),
        ) {
            Event::ItemDone { item, .. } => item,
            other => panic!("{other:?}"),
        };
        let (call_id, name) = (String::new(), "f".to_owned());
        let (function, custom) =
            (call("function_call", "arguments"), call("custom_tool_call", "input"));
        one(&json!({ "type": "response.output_item.added", "item": function }));
        let expect = Item::FunctionCall {
            call_id: call_id.clone(),
            name: name.clone(),
            arguments: "x".into(),
        };
        assert_eq!(done(function), expect);
        assert_eq!(done(custom), Item::CustomToolCall { call_id, name, input: "x".into() });
    }
}

#[test]
fn reasoning_drops_members_that_providers_refuse() {
    let check = |raw: &str, expect: &str| {
        let event = format!(r#"{{"type":"response.output_item.done","item":{raw}}}"#);
        let events = decode_all(&format!("data: {event}\n\n"));
        let Event::ItemDone { raw, item, .. } = &events[0] else { panic!("{events:?}") };
        assert_eq!(&**raw, expect);
        let Item::Reasoning { summary, .. } = item else { panic!("{item:?}") };
        assert_eq!(summary, &["s"]);
    };
    check(
        r#"{"id":"r","type":"reasoning","status":null,"summary":[{"text":"s"}],"encrypted_content":"e"}"#,
        r#"{"id":"r","type":"reasoning","summary":[{"text":"s"}],"encrypted_content":"e"}"#,
    );
    check(
        r#"{"id":"r","type":"reasoning","summary":[{"text":"s"}],"encrypted_content":null}"#,
        r#"{"type":"reasoning","summary":[{"text":"s"}],"encrypted_content":null}"#,
    );
}

#[test]
fn the_end_is_reported_once() {
    let done = json!({"type": "response.completed", "response": {"id": "r", "service_tier": "flex", "usage": {
        "input_tokens": 10, "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 3, "cache_write_1h_tokens": 1}, "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 2}, "total_tokens": 15}}});
    let usage = Usage {
        input: 10,
        cached_input: 4,
        cache_write: 3,
        cache_write_1h: 1,
        output: 5,
        reasoning_output: 2,
        total: 15,
    };
    let text = format!("data: {done}\n\n").repeat(2);
    assert_eq!(
        decode_all(&text),
        [Event::Completed { usage, service_tier: Some("flex".to_owned()) }]
    );
    for kind in ["failed", "incomplete"] {
        let mut end = done.clone();
        end["type"] = format!("response.{kind}").into();
        let Event::Failed(failure) = one(&end) else { panic!("{kind}") };
        assert_eq!(failure.usage, Some(Box::new(usage)), "{kind}");
    }
    let bare = json!({"type": "response.completed", "response": {}});
    let nothing = Event::Completed { usage: Usage::default(), service_tier: None };
    assert_eq!(one(&bare), nothing);
    let odd = json!({"type": "response.completed", "response": {"service_tier": {"a": 1}}});
    assert_eq!(one(&odd), nothing);

    let mut decoder = Decoder::new();
    let mut out = Vec::new();
    decoder
        .feed(b"data: {\"type\":\"response.created\",\"response\":{\"id\":\"r\"}}\n\n", &mut out);
    decoder.finish(&mut out);
    decoder.finish(&mut out);
    assert_eq!(out.len(), 2);
    assert!(matches!(&out[1], Event::Failed(f)
        if f.kind == FailureKind::ResponseStreamDisconnected && f.retry == Retry::Stream));
}

#[test]
fn the_model_that_answers_and_verifications_are_read() {
    let created = |response: Value| {
        let Event::Created { model, .. } =
            one(&json!({"type": "response.created", "response": response}))
        else {
            panic!()
        };
        model
    };
    assert_eq!(created(json!({"id": "r", "model": "m"})).as_deref(), Some("m"));
    let header = json!({"model": "m", "headers": {"OpenAI-Model": ["n"]}});
    assert_eq!(created(header).as_deref(), Some("n"));
    let odd = [json!(1), json!(""), json!(null), json!("a\nb"), json!("x".repeat(300)), json!({})];
    for odd in odd {
        assert_eq!(created(json!({"model": odd, "headers": odd})), None, "{odd}");
    }
    let metadata = |members: Value| {
        let mut event = json!({"type": "response.metadata"});
        event.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        decode_all(&format!("data: {event}\n\n"))
    };
    let header = json!({"headers": {"x-openai-model": "n"}});
    assert_eq!(metadata(header), [Event::ServedBy { model: "n".to_owned() }]);
    let named = json!({"metadata": {"openai_verification_recommendation": ["a", 1, "b"]}});
    let names = vec!["a".to_owned(), "b".to_owned()];
    assert_eq!(metadata(named), [Event::VerificationRequested { names }]);
    for nothing in [json!({}), json!({"metadata": 5}), json!({"headers": [], "metadata": null})] {
        assert_eq!(metadata(nothing), []);
    }
}

#[test]
fn failures_inside_the_stream() {
    let check = |json: Value, kind: FailureKind, part: &str| {
        let Event::Failed(failure) = one(&json) else { panic!("{json}") };
        assert_eq!(failure.kind, kind);
        assert!(failure.message.contains(part), "{}", failure.message);
    };
    let failed = |code: &str| {
        json!({"type": "response.failed",
            "response": {"error": {"code": code, "message": "text"}}})
    };
    check(failed("context_length_exceeded"), FailureKind::ContextWindowExceeded, "text");
    check(failed("server_is_overloaded"), FailureKind::ServerOverloaded, "text");
    check(
        json!({"type": "response.failed", "response": {"error": null}}),
        FailureKind::Other,
        "no message",
    );
    check(
        json!({"type": "response.incomplete",
            "response": {"incomplete_details": {"reason": "max_output_tokens"}}}),
        FailureKind::Other,
        "output limit",
    );
    check(
        json!({"type": "error", "code": "insufficient_quota", "message": "m", "param": null}),
        FailureKind::UsageLimitExceeded,
        "m",
    );
    check(
        json!({"type": "error", "error": {"code": "invalid_prompt", "message": "m"}}),
        FailureKind::BadRequest,
        "m",
    );
}

#[test]
fn invalid_and_unknown_events_have_no_effect() {
    for bad in ["nonsense", "{\"type\":\"response.output_text.delta\""] {
        assert_eq!(decode_all(&format!("data: {bad}\n\n")), [], "{bad}");
    }
    for state in ["in_progress", "generating", "partial_image", "completed"] {
        let kind = format!("response.image_generation_call.{state}");
        let preview = json!({"type": kind, "output_index": 0, "partial_image_b64": "AAAA"});
        assert_eq!(decode_all(&format!("data: {preview}\n\n")), [], "{state}");
    }
    let unknown = ["{\"type\":\"response.in_progress\"}", "{\"a\":1,\"type\":\"x\"}"];
    let no_objects = ["{}", "{\"type\":7}", "[1]", "5", "null", "\"\\ud800\""];
    for fine in ["[DONE]", ""].into_iter().chain(unknown).chain(no_objects) {
        assert_eq!(decode_all(&format!("data: {fine}\n\n")), [], "{fine}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_decoded_without_a_panic(data in "(data: )?(\\{\"type\":\"(error|response\\.(created|failed|completed|output_item\\.(added|done)|output_text\\.delta))\")?[,:{}\\[\\]\"a-z0-9\\\\ ]{0,30}\n\n") {
        let events = decode_all(&data);
        prop_assert!(events.iter().filter(|event| event.is_terminal()).count() <= 1);
    }
}
