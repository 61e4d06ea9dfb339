//! Faults that a script gives an answer, on each wire: in the bytes that are sent, and as the agent's client reads them.

use model::{Event, FailureKind, Retry, Wire};
use serde_json::{Value, json};

use super::support::{Server, ask, items, prompt, user};

/// A script with reasoning, a message, two calls and a fault.
fn script(fault: &str) -> Value {
    let call = |id: &str| json!({"function_call": {"name": "read", "arguments": {"path": "some/long/path"}, "call_id": id}});
    json!({"on_exhausted": "repeat_last", "responses": [{"steps": [{"fault": fault},
        {"reasoning": {"summary": ["Hm."], "encrypted_content": "b3BhcXVl"}}, {"message": "I read."},
        call("call_1"), call("call_2"), {"usage": {"input_tokens": 50, "output_tokens": 20}}]}]})
}

/// The events of an answer to a client of the wire, and all of their text.
async fn stream(fault: &str, wire: Wire) -> (Vec<Value>, String) {
    let server = Server::start(&script(fault)).await;
    let said = json!([{"role": "user", "content": "hi"}]);
    let answer = match wire {
        Wire::Messages => {
            let thinking = json!({"type": "adaptive"});
            server.messages(json!({"stream": true, "thinking": thinking})).await
        }
        Wire::Chat => server.chat(json!({"stream": true, "messages": said})).await,
        Wire::Responses => server.responses(json!({"stream": true})).await,
        Wire::Gemini => {
            let path = "/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse";
            let body = json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]});
            server.post(path, &[], body).await
        }
    };
    (answer.events(), answer.text())
}

/// What the agent's client makes of an answer.
async fn read(fault: &str, (wire, model): (Wire, &str)) -> Vec<Event> {
    let server = Server::start(&script(fault)).await;
    ask(&server.provider(wire), &prompt(model, &[user("x")])).await
}

fn left_out(events: &[Event]) -> Vec<&str> {
    let texts = events.iter().filter_map(|event| match event {
        Event::LeftOut(what) => Some(what.as_str()),
        _ => None,
    });
    texts.collect()
}

#[tokio::test]
async fn each_fault_is_in_the_bytes_of_each_wire() {
    for wire in Wire::ALL {
        let (events, text) = stream("other_model", wire).await;
        assert!(text.contains("another-model"), "{wire}: {text}");
        assert!(!events.is_empty());

        let (_, text) = stream("missing_id", wire).await;
        let name = if wire == Wire::Responses { "\"call_id\"" } else { "\"call_1\"" };
        assert!(!text.contains(name) && text.contains("\"read\""), "{wire}: {text}");

        let (_, text) = stream("missing_end", wire).await;
        for end in
            ["message_stop", "[DONE]", "\"finish_reason\":\"", "finishReason", "response.completed"]
        {
            assert!(!text.contains(end), "{wire} {end}: {text}");
        }

        let (events, _) = stream("shrinking_usage", wire).await;
        let first = events[0].to_string();
        assert!(
            first.contains("100000") || events[1].to_string().contains("100000"),
            "{wire}: {first}"
        );
        assert!(!events.last().unwrap().to_string().contains("100000"), "{wire}");

        let (_, text) = stream("cut_arguments", wire).await;
        assert!(!text.contains("long/path"), "{wire}: {text}");
        assert_eq!(text.contains("MALFORMED_FUNCTION_CALL"), wire == Wire::Gemini, "{text}");
        if wire != Wire::Gemini {
            let (events, _) = stream("repeated_index", wire).await;
            let indexes = events.iter().filter_map(|event| {
                let own = event.get("index").or(event.get("output_index"));
                own.or(event.pointer("/choices/0/delta/tool_calls/0/index")).and_then(Value::as_u64)
            });
            let indexes: Vec<u64> = indexes.collect();
            assert!(
                indexes.len() > 3 && indexes.iter().all(|index| *index == 0),
                "{wire}: {indexes:?}"
            );
        }
    }
}

/// What was changed is refused when it comes back, as each provider refuses it.
#[tokio::test]
async fn false_signatures_are_refused_when_they_come_back() {
    for (wire, model) in super::MODELS {
        if wire == Wire::Chat {
            continue;
        }
        let server = Server::start(&script("false_signature")).await;
        let mut history = vec![user("Look.")];
        let events = ask(&server.provider(wire), &prompt(model, &history)).await;
        assert!(matches!(events.last(), Some(Event::Completed { .. })), "{wire}: {events:?}");
        let mut outputs = Vec::new();
        for (raw, _) in items(&events) {
            if let Some(id) = raw["call_id"].as_str() {
                outputs.push(json!({"type": "function_call_output", "call_id": id, "output": "x"}));
            }
            history.push(raw);
        }
        history.extend(outputs);
        let events = ask(&server.provider(wire), &prompt(model, &history)).await;
        let Some(Event::Failed(failure)) = events.last() else { panic!("{wire}: {events:?}") };
        assert_eq!(failure.kind, FailureKind::BadRequest, "{wire}: {failure:?}");
        let words = ["signature", "could not be verified"];
        let message = failure.message.to_lowercase();
        assert!(words.iter().any(|words| message.contains(words)), "{wire}: {failure:?}");
    }
}

/// The agent's client names each fault, or is not harmed by it.
#[tokio::test]
async fn the_agents_client_reads_answers_with_faults() {
    for of in super::MODELS {
        let wire = of.0;
        let events = read("missing_end", of).await;
        match events.last() {
            // A stream of whole items is complete without its last event there.
            Some(Event::Completed { .. }) if wire == Wire::Responses => {}
            Some(Event::Failed(failure)) => {
                assert_eq!(failure.retry, Retry::Stream, "{wire}: {failure:?}");
                assert!(failure.message.contains("closed the stream"), "{wire}: {failure:?}");
            }
            _ => panic!("{wire}: {events:?}"),
        }

        let events = read("shrinking_usage", of).await;
        let Some(Event::Completed { usage, .. }) = events.last() else {
            panic!("{wire}: {events:?}")
        };
        if wire == Wire::Responses {
            // It has one usage, that of the end.
            assert_eq!(usage.output, 20);
        } else {
            assert_eq!(usage.output, 100_000, "{wire}: {usage:?}");
            assert!(
                left_out(&events).iter().any(|what| what.contains("shrinks")),
                "{wire}: {events:?}"
            );
        }

        let events = read("missing_id", of).await;
        let calls = items(&events).into_iter().filter(|(raw, _)| raw["type"] == "function_call");
        let ids: Vec<Value> = calls.map(|(raw, _)| raw["call_id"].clone()).collect();
        if wire != Wire::Responses {
            assert!(ids.len() == 2 && ids[0] != ids[1] && ids[0].is_string(), "{wire}: {ids:?}");
        }
    }
}

#[tokio::test]
async fn answers_without_a_stream_have_faults_too() {
    let asks = async |fault: &str| {
        let server = Server::start(&script(fault)).await;
        [
            server.messages(json!({})).await,
            server.chat(json!({})).await,
            server.gemini(json!({})).await,
        ]
    };
    for answer in asks("other_model").await {
        assert!(answer.text().contains("another-model"), "{}", answer.text());
    }
    for answer in asks("missing_id").await {
        assert!(!answer.text().contains("call_1"), "{}", answer.text());
    }
    for answer in asks("missing_end").await {
        let text = answer.text();
        assert!(!text.contains("tool_use\",\"stop") && !text.contains("finishReason"), "{text}");
    }
    for answer in asks("cut_arguments").await {
        assert!(!answer.text().contains("long/path"), "{}", answer.text());
    }
    let server = Server::start(&script("repeated_index")).await;
    let refused = server.gemini(json!({})).await;
    assert!(refused.text().contains("of the script has a repeated index"), "{}", refused.text());
    for answer in asks("shrinking_usage").await {
        assert_eq!(answer.status, 400);
        assert!(answer.text().contains("only a stream of events"), "{}", answer.text());
    }
}
