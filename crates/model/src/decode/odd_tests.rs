//! Responses of servers that leave out members, or write others than the API has.

use serde_json::{Value, json};

use super::*;
use crate::{FailureKind, Item, ItemKind, Retry};

/// The events of a response, with its end.
fn decode(events: &[Value]) -> Vec<Event> {
    let (mut decoder, mut out) = (Decoder::new(), Vec::new());
    for event in events {
        decoder.feed(format!("data: {event}\n\n").as_bytes(), &mut out);
    }
    decoder.finish(&mut out);
    out
}

/// The finished items, as their JSON and their texts; the response must end well.
fn items(events: &[Value]) -> Vec<(u32, Value, String)> {
    let mut decoded = decode(events);
    assert!(matches!(decoded.pop(), Some(Event::Completed { .. })), "{decoded:?}");
    let finished = decoded.into_iter().filter_map(|event| match event {
        Event::ItemDone { index, raw, item } => {
            let text = match item {
                Item::Message { text, .. } => text,
                Item::FunctionCall { arguments, .. } => arguments,
                Item::CustomToolCall { input, .. } => input,
                Item::ToolSearchCall { arguments, .. } => arguments,
                Item::Reasoning { summary, .. } => summary.concat(),
                other => format!("{other:?}"),
            };
            Some((index, serde_json::from_str(&raw).unwrap(), text))
        }
        _ => None,
    });
    finished.collect()
}

/// The text of the deltas, by index.
fn shown(events: &[Value]) -> Vec<(u32, String)> {
    let mut shown: Vec<(u32, String)> = Vec::new();
    for event in decode(events) {
        if let Event::TextDelta { index, text } = event {
            match shown.iter_mut().find(|(at, _)| *at == index) {
                Some((_, all)) => all.push_str(&text),
                None => shown.push((index, text)),
            }
        }
    }
    shown
}

fn event(kind: &str, members: Value) -> Value {
    let mut event = json!({ "type": format!("response.{kind}") });
    event.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    event
}

fn completed() -> Value {
    event("completed", json!({ "response": { "id": "r", "status": "completed", "output": [] } }))
}

fn call(arguments: Value) -> Value {
    let mut call = json!({ "type": "function_call", "id": "fc", "call_id": "c", "name": "f" });
    call["arguments"] = arguments;
    call
}

fn begun(index: Value, item: Value) -> Value {
    event("output_item.added", json!({ "output_index": index, "item": item }))
}

fn ended(index: Value, item: Value) -> Value {
    event("output_item.done", json!({ "output_index": index, "item": item }))
}

fn arguments(index: Value, delta: &str) -> Value {
    let members = json!({ "output_index": index, "item_id": "fc", "delta": delta });
    event("function_call_arguments.delta", members)
}

fn text(index: Value, id: &str, delta: &str) -> Value {
    event("output_text.delta", json!({ "output_index": index, "item_id": id, "delta": delta }))
}

fn said(id: &str, content: Value) -> Value {
    json!({ "type": "message", "id": id, "role": "assistant", "content": content })
}

fn parts(text: &str) -> Value {
    json!([{ "type": "output_text", "text": text, "annotations": [] }])
}

#[test]
fn arguments_are_found_wherever_they_came() {
    let streamed = || {
        let mut empty = call(json!(""));
        empty["status"] = "in_progress".into();
        vec![begun(json!(0), empty), arguments(json!(0), "{\"a\""), arguments(json!(0), ":1}")]
    };
    let whole = event(
        "function_call_arguments.done",
        json!({ "output_index": 0, "item_id": "fc", "arguments": "{\"a\":1}" }),
    );
    let mut absent = call(json!(null));
    absent.as_object_mut().unwrap().shift_remove("arguments");
    let bare = json!({ "type": "function_call" });
    let ends = [
        ended(json!(0), call(json!("{\"a\":1}"))),
        ended(json!(0), call(json!({ "a": 1 }))),
        ended(json!(0), call(json!(null))),
        ended(json!(0), call(json!(""))),
        ended(json!(0), absent.clone()),
        ended(json!(null), bare),
        ended(json!(-1), json!({})),
        event("output_item.done", json!({})),
        event("in_progress", json!({})),
    ];
    for end in ends {
        for with_whole in [false, true] {
            let mut events = streamed();
            events.extend(with_whole.then(|| whole.clone()));
            events.extend([end.clone(), completed()]);
            let items = items(&events);
            assert_eq!(items.len(), 1, "{end}");
            let (index, raw, text) = &items[0];
            assert_eq!((*index, &**text), (0, "{\"a\":1}"), "{end}");
            let found = ["type", "call_id", "name", "arguments"].map(|name| raw[name].as_str());
            let expected = ["function_call", "c", "f", "{\"a\":1}"].map(Some);
            assert_eq!(found, expected, "{end}");
        }
    }
    let only_whole =
        [begun(json!(0), call(json!(""))), whole, ended(json!(0), absent), completed()];
    assert_eq!(items(&only_whole)[0].2, "{\"a\":1}");
    for (value, expected) in
        [(json!({ "a": 1 }), "{\"a\":1}"), (json!(null), ""), (json!([1]), "[1]"), (json!(5), "5")]
    {
        let (_, raw, text) = &items(&[ended(json!(0), call(value)), completed()])[0];
        assert_eq!((&**text, raw["arguments"].as_str()), (expected, Some(expected)));
    }
}

#[test]
fn inputs_of_custom_tools_are_found_likewise() {
    let custom = |input: Value| json!({ "type": "custom_tool_call", "id": "x", "call_id": "c", "name": "f", "input": input });
    let delta = event("custom_tool_call_input.delta", json!({ "item_id": "x", "delta": "*** a" }));
    for input in [json!("*** a"), json!(""), json!(null), json!({ "input": "*** a" })] {
        let events =
            [begun(json!(0), custom(json!(""))), delta.clone(), ended(json!(0), custom(input))];
        let items = items(&[&events[..], &[completed()]].concat());
        assert_eq!((&*items[0].2, items[0].1["input"].as_str()), ("*** a", Some("*** a")));
    }
    let search = json!({ "type": "tool_search_call", "call_id": "c", "arguments": "{\"q\":1}" });
    let (_, raw, text) = &items(&[ended(json!(0), search), completed()])[0];
    assert_eq!((&**text, &raw["arguments"]), ("{\"q\":1}", &json!({ "q": 1 })));
}

#[test]
fn a_missing_index_is_inferred() {
    let odd = [json!(null), json!(-1), json!("x"), json!({}), json!([]), json!(true), json!(1.5)];
    for index in odd {
        let events = [
            begun(index.clone(), said("a", json!([]))),
            text(index.clone(), "a", "one"),
            ended(index.clone(), said("a", parts("one"))),
            begun(index.clone(), call(json!(""))),
            begun(index.clone(), said("b", json!([]))),
            arguments(index.clone(), "{}"),
            text(index.clone(), "b", "two"),
            ended(index.clone(), call(json!(null))),
            ended(index.clone(), said("b", parts("two"))),
            completed(),
        ];
        let items: Vec<(u32, String)> =
            items(&events).into_iter().map(|(index, _, text)| (index, text)).collect();
        let expected = [(0, "one"), (1, "{}"), (2, "two")];
        assert_eq!(items, expected.map(|(at, text)| (at, text.to_owned())), "{index}");
        assert_eq!(shown(&events), [(0, "one".to_owned()), (2, "two".to_owned())], "{index}");
    }
    let events = [text(json!("3"), "", "a"), text(json!(3.0), "", "b"), completed()];
    assert_eq!(shown(&events), [(3, "ab".to_owned())]);
}

#[test]
fn items_with_one_index_are_told_apart_by_their_ids() {
    let events = [
        begun(json!(0), said("a", json!([]))),
        begun(json!(0), call(json!(""))),
        text(json!(0), "a", "x"),
        arguments(json!(0), "{}"),
        text(json!(0), "a", "y"),
        ended(json!(0), call(json!(null))),
        ended(json!(0), said("a", parts("xy"))),
        completed(),
    ];
    let texts: Vec<String> = items(&events).into_iter().map(|(.., text)| text).collect();
    assert_eq!(texts, ["{}", "xy"]);
    assert_eq!(shown(&events), [(0, "xy".to_owned())]);
    // Reasoning and text without beginnings.
    let thought = event("reasoning_text.delta", json!({ "output_index": 0, "delta": "hm" }));
    let events = [thought, text(json!(0), "", "x"), completed()];
    assert_eq!(shown(&events), [(1, "x".to_owned())]);
    assert_eq!(items(&events)[0].2, "x");
}

#[test]
fn text_that_was_shown_is_kept_and_not_shown_again() {
    let streamed = [begun(json!(0), said("a", json!([]))), text(json!(0), "a", "hello")];
    let whole =
        event("output_text.done", json!({ "output_index": 0, "item_id": "a", "text": "hello" }));
    let output = |id: &str| {
        let response = json!({ "status": "completed", "output": [said(id, parts("hello"))] });
        event("completed", json!({ "response": response }))
    };
    let done = ended(json!(0), said("a", parts("hello")));
    let ends: [Vec<Value>; 9] = [
        vec![done.clone(), completed()],
        vec![done.clone(), output("a")],
        vec![done.clone(), output("other")],
        vec![done.clone(), done.clone(), completed()],
        vec![done, whole.clone(), completed()],
        vec![whole.clone(), completed()],
        vec![output("a")],
        vec![output("other")],
        vec![ended(json!(0), said("a", json!(null))), completed()],
    ];
    for end in ends {
        let events = [&streamed[..], &end].concat();
        let items = items(&events);
        assert_eq!(items.len(), 1, "{end:?}");
        assert_eq!((items[0].0, &*items[0].2), (0, "hello"), "{end:?}");
        assert_eq!(items[0].1["content"], parts("hello"), "{end:?}");
    }
    let only = [whole, completed()];
    assert_eq!(items(&only)[0].2, "hello");
}

#[test]
fn content_of_any_form_is_text() {
    let odd = [
        json!("hi"),
        json!(["hi"]),
        json!({ "type": "output_text", "text": "hi" }),
        json!([
            { "type": "output_text", "text": "hi" }, null, { "type": "output_text", "text": null }
        ]),
    ];
    for content in odd {
        let (_, raw, text) = &items(&[ended(json!(0), said("a", content)), completed()])[0];
        assert_eq!(text, "hi");
        let parts = raw["content"].as_array().unwrap();
        assert_eq!((parts.len(), &parts[0]["text"]), (1, &json!("hi")));
    }
    let thought = json!({ "type": "reasoning", "summary": "hm", "encrypted_content": "e" });
    let (_, raw, text) = &items(&[ended(json!(0), thought), completed()])[0];
    assert_eq!((&**text, &raw["summary"][0]["type"]), ("hm", &json!("summary_text")));
    for delta in [json!({ "text": "hi" }), json!([{ "text": "h" }, "i"])] {
        let delta = event("output_text.delta", json!({ "output_index": 0, "delta": delta }));
        assert_eq!(shown(&[delta, completed()]), [(0, "hi".to_owned())]);
    }
    let nothing = event("output_text.delta", json!({ "output_index": 0, "delta": null }));
    assert_eq!(items(&[nothing, completed()]), []);
}

#[test]
fn a_response_ends_in_several_ways() {
    let usage = json!({ "input_tokens": 1, "output_tokens": 2 });
    let response = json!({ "id": "r", "status": "completed", "usage": usage });
    let ends = [
        event("completed", json!({ "response": response })),
        event("done", json!({ "response": response })),
        event("completed", json!({ "usage": usage })),
        json!({ "response": response }),
    ];
    for end in ends {
        let events = decode(&[text(json!(0), "", "x"), end.clone()]);
        let Some(Event::Completed { usage, .. }) = events.last() else {
            panic!("{end}: {events:?}")
        };
        assert_eq!(usage.total, 3, "{end}");
    }
    for bare in [json!({}), json!({ "response": null }), json!({ "response": [] })] {
        let events = [text(json!(0), "", "x"), event("completed", bare)];
        assert_eq!(items(&events)[0].2, "x");
    }
    let failed =
        json!({ "response": { "status": "failed", "error": { "code": "insufficient_quota" } } });
    for kind in ["done", "completed", "failed"] {
        let events = decode(&[event(kind, failed.clone())]);
        let [Event::Failed(failure)] = &events[..] else { panic!("{events:?}") };
        assert_eq!(failure.kind, FailureKind::UsageLimitExceeded, "{kind}");
    }
}

#[test]
fn an_error_without_a_type_means_what_its_code_says() {
    let check = |error: Value, kind: FailureKind, retry: Retry| {
        let events = decode(&[text(json!(0), "", "x"), error.clone()]);
        let Some(Event::Failed(failure)) = events.last() else { panic!("{error}") };
        assert_eq!((failure.kind, failure.retry), (kind, retry), "{error}");
    };
    let error = |code: Value| json!({ "error": { "code": code, "message": "m" } });
    use FailureKind::*;
    check(error(json!("insufficient_quota")), UsageLimitExceeded, Retry::Never);
    check(error(json!("context_length_exceeded")), ContextWindowExceeded, Retry::Never);
    check(error(json!("rate_limit_exceeded")), ResponseTooManyFailedAttempts, Retry::Stream);
    check(error(json!(429)), ResponseTooManyFailedAttempts, Retry::Stream);
    check(error(json!("429")), ResponseTooManyFailedAttempts, Retry::Stream);
    check(error(json!(402)), UsageLimitExceeded, Retry::Never);
    check(error(json!(401)), Unauthorized, Retry::Never);
    check(error(json!(503)), ServerOverloaded, Retry::Stream);
    check(error(json!(null)), Other, Retry::Stream);
    check(json!({ "error": "it broke" }), Other, Retry::Stream);
    let named = json!({ "type": "rate_limit_error", "error": { "message": "m" } });
    check(named, Other, Retry::Stream);
    let object =
        json!({ "object": "error", "message": "maximum context length is 5", "code": 400 });
    check(object, ContextWindowExceeded, Retry::Never);
    check(json!({ "message": "m", "code": "invalid_prompt" }), BadRequest, Retry::Never);
    for no_error in [json!({ "error": null }), json!({ "error": {} }), json!({ "object": "chunk" })]
    {
        assert_eq!(items(&[no_error, completed()]), []);
    }
}

#[test]
fn a_call_runs_once_wherever_it_is_repeated() {
    let whole = call(json!("{}"));
    let response = json!({ "status": "completed", "output": [whole] });
    let end = event("completed", json!({ "response": response }));
    for before in [vec![], vec![begun(json!(0), call(json!("")))], vec![ended(json!(0), whole)]] {
        assert_eq!(
            items(&[&before[..], std::slice::from_ref(&end)].concat()).len(),
            1,
            "{before:?}"
        );
    }
    // A message was ended, and the call is only at the end.
    let events = [ended(json!(0), said("a", parts("x"))), end];
    assert_eq!(items(&events).len(), 2);
    // Without a name it is no call.
    let kind = ItemKind::FunctionCall { call_id: "c".into(), name: String::new() };
    let nameless = json!({ "type": "function_call", "call_id": "c" });
    let events = decode(&[begun(json!(0), nameless)]);
    assert!(matches!(&events[0], Event::ItemAdded { kind: found, .. } if *found == kind));
}

#[test]
fn the_marker_of_the_end_ends_a_response_that_has_items() {
    let done = |events: &[Value]| {
        let (mut decoder, mut out) = (Decoder::new(), Vec::new());
        for event in events {
            decoder.feed(format!("data: {event}\n\n").as_bytes(), &mut out);
        }
        decoder.feed(b"data: [DONE]\n\n", &mut out);
        decoder.finish(&mut out);
        out
    };
    let message = json!({ "type": "message", "id": "m", "role": "assistant",
        "content": [{ "type": "output_text", "text": "hi" }] });
    let finished = event("output_item.done", json!({ "output_index": 0, "item": message }));
    for events in [
        vec![text(json!(0), "", "hi"), finished.clone()],
        vec![finished],
        vec![text(json!(0), "", "hi")],
    ] {
        let decoded = done(&events);
        assert!(matches!(decoded.last(), Some(Event::Completed { .. })), "{decoded:?}");
        let items = decoded.iter().filter(|event| matches!(event, Event::ItemDone { .. }));
        assert_eq!(items.count(), 1, "{decoded:?}");
    }
    for events in [vec![], vec![event("created", json!({ "response": { "id": "r" } }))]] {
        assert!(matches!(done(&events).last(), Some(Event::Failed(_))), "{events:?}");
    }
}

#[test]
fn a_response_that_is_whole_needs_no_end() {
    let message = |phase: Value| {
        let mut message = said("m", parts("hi"));
        message["phase"] = phase;
        ended(json!(0), message)
    };
    let thought = ended(json!(0), json!({ "type": "reasoning", "id": "rs", "summary": [] }));
    let whole = |events: &[Value]| matches!(decode(events).last(), Some(Event::Completed { .. }));
    assert!(whole(&[text(json!(0), "m", "hi"), message(json!(null))]));
    assert!(whole(&[thought.clone(), message(json!("final_answer"))]));
    assert!(whole(&[message(json!("commentary")), ended(json!(1), call(json!("{}")))]));
    // Something may be missing.
    assert!(!whole(&[]));
    assert!(!whole(&[text(json!(0), "m", "hi")]));
    assert!(!whole(&[message(json!("commentary"))]));
    assert!(!whole(&[thought]));
    assert!(!whole(&[message(json!(null)), text(json!(1), "n", "more")]));
}

#[test]
fn an_event_that_cannot_be_read_costs_itself() {
    let decode = |lines: &[&str]| {
        let (mut decoder, mut out) = (Decoder::new(), Vec::new());
        for line in lines {
            decoder.feed(format!("data: {line}\n\n").as_bytes(), &mut out);
        }
        decoder.finish(&mut out);
        out
    };
    let (delta, end) = (text(json!(0), "m", "hi").to_string(), completed().to_string());
    for broken in
        ["oops", "{\"type\":\"response.output_text.delta\",", "<html>", "{]", "{\"type\":1}"]
    {
        let decoded = decode(&[broken, &delta, broken, &end]);
        assert!(matches!(decoded.last(), Some(Event::Completed { .. })), "{broken}: {decoded:?}");
        let deltas = decoded.iter().filter(|event| matches!(event, Event::TextDelta { .. }));
        assert_eq!(deltas.count(), 1, "{broken}");
    }
    // Nothing else came: the response failed, and the reason has the text.
    for lines in [&["Service unavailable"][..], &["Service unavailable", &end]] {
        let decoded = decode(lines);
        let Some(Event::Failed(failure)) = decoded.last() else { panic!("{decoded:?}") };
        assert!(failure.message.contains("Service unavailable"), "{failure:?}");
        assert_eq!(failure.retry, Retry::Stream);
    }
}

#[test]
fn what_a_server_says_before_it_hangs_up_is_the_reason() {
    for said in [
        json!({ "detail": "the model is loading" }),
        json!({ "message": "the model is loading" }),
        json!({ "errors": [{ "detail": "the model is loading" }] }),
    ] {
        let decoded = decode(&[said]);
        let Some(Event::Failed(failure)) = decoded.last() else { panic!("{decoded:?}") };
        assert!(failure.message.contains("the model is loading"), "{failure:?}");
    }
    // An event of a kind that is not known is not the end.
    let events = [json!({ "message": "ping" }), text(json!(0), "m", "hi"), completed()];
    assert!(matches!(decode(&events).last(), Some(Event::Completed { .. })));
}

#[test]
fn a_whole_response_in_place_of_a_stream_is_read() {
    let read = |document: &str| {
        let (mut decoder, mut out) = (Decoder::new(), Vec::new());
        assert!(is_response(document.as_bytes()), "{document}");
        decoder.feed_document(document.as_bytes(), &mut out);
        out
    };
    let usage = json!({ "input_tokens": 1, "output_tokens": 2 });
    let response = json!({ "id": "r", "object": "response", "status": "completed", "usage": usage,
        "output": [said("m", parts("hi")), call(json!("{}"))] });
    let stream = format!("event: response.completed\ndata: {{\"response\":{response}}}\n\n");
    let around = json!({ "response": response }).to_string();
    for document in [response.to_string(), around, stream] {
        let decoded = read(&document);
        let items = decoded.iter().filter(|event| matches!(event, Event::ItemDone { .. }));
        assert_eq!(items.count(), 2, "{document}: {decoded:?}");
        let Some(Event::Completed { usage, .. }) = decoded.last() else { panic!("{decoded:?}") };
        assert_eq!(usage.total, 3);
    }
    let mut failed = response;
    failed["status"] = "failed".into();
    failed["error"] = json!({ "code": "server_error", "message": "out of memory" });
    let decoded = read(&failed.to_string());
    let Some(Event::Failed(failure)) = decoded.last() else { panic!("{decoded:?}") };
    assert!(failure.message.contains("out of memory"), "{failure:?}");
    for document in
        ["", "{}", "[]", "ok", r#"{"status":"completed"}"#, r#"{"object":"list","data":[]}"#]
    {
        assert!(!is_response(document.as_bytes()), "{document}");
    }
}
