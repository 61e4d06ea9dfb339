//! Answers of backends that are not as their wire has them: bounded, and named in the caller's wire.

use serde_json::{Value, json};
use wire::Wire;

use super::dialects::{
    Read, Reply, TEXT, answer, broken, data, document, events, path, read, request, send,
};
use super::{PRICE, cost, error_of, start};
use crate::common::gateway::{Answer, TestGateway};
use crate::common::upstream::{Script, Step, Upstream, event};

/// Another wire than the given one.
fn other(wire: Wire) -> Wire {
    if wire == Wire::Messages { Wire::Chat } else { Wire::Messages }
}

/// The answer to a streamed request of another wire than the backend's.
async fn streamed(backend: Wire, script: Script) -> (Answer, Read) {
    let upstream = Upstream::start().await;
    let gateway = start(&upstream, backend, "").await;
    let tenant = gateway.tenant("free").await;
    upstream.script([script]);
    let caller = other(backend);
    let answered = send(&gateway, &tenant, caller, true, &request(caller, true)).await;
    cost(&gateway, &tenant).await;
    let seen = match answered.status.as_u16() {
        200 => read(caller, &answered, true),
        _ => Read::default(),
    };
    (answered, seen)
}

#[tokio::test]
async fn an_error_inside_of_a_success_is_an_error() {
    for backend in Wire::ALL {
        let caller = other(backend);
        let upstream = Upstream::start().await;
        let gateway = start(&upstream, backend, "").await;
        let tenant = gateway.tenant("free").await;
        let error = match backend {
            Wire::Messages => {
                json!({ "type": "error", "error": { "type": "overloaded_error", "message": "Overloaded." } })
            }
            Wire::Gemini => {
                json!({ "error": { "code": 503, "message": "Overloaded.", "status": "UNAVAILABLE" } })
            }
            _ => {
                json!({ "error": { "message": "Overloaded.", "code": "server_is_overloaded", "type": "server_error" } })
            }
        };
        upstream.script([Script::json(&error)]);
        let failed = send(&gateway, &tenant, caller, false, &request(caller, false)).await;
        let expected = if caller == Wire::Messages { 529 } else { 503 };
        assert_eq!(failed.status.as_u16(), expected, "{backend}: {}", failed.text());
        assert!(!error_of(caller, &failed.json()).0.is_empty(), "{}", failed.text());
        assert!(failed.message().contains("Overloaded."), "{}", failed.text());
        assert_eq!(cost(&gateway, &tenant).await, 0, "{backend}");
        let (streamed, seen) = streamed(backend, Script::events([event(&error)])).await;
        let text = streamed.text();
        assert!(!seen.is_complete && text.contains("Overloaded."), "{backend}: {text}");
    }
}

#[tokio::test]
async fn a_stream_of_another_wire_is_an_error() {
    for backend in Wire::ALL {
        for mixed in Wire::ALL.into_iter().filter(|mixed| *mixed != backend) {
            let script = Script::events(events(mixed, Reply::Text));
            let (answered, seen) = streamed(backend, script).await;
            let context = format!("{mixed} from {backend}: {}", answered.text());
            assert!(!seen.is_complete, "{context}");
            assert!(answered.text().contains("error"), "{context}");
        }
        let script = Script::events(["data: {\"x\":\n\n", "data: []\n\n", "data: 7\n\n"]);
        let (answered, seen) = streamed(backend, script).await;
        assert!(!seen.is_complete && answered.text().contains("error"), "{}", answered.text());
    }
}

/// A whole body of another wire is no success.
#[tokio::test]
async fn a_body_of_another_wire_is_an_error() {
    for backend in Wire::ALL {
        let caller = other(backend);
        let upstream = Upstream::start().await;
        let gateway = start(&upstream, backend, "").await;
        let tenant = gateway.tenant("free").await;
        for mixed in Wire::ALL.into_iter().filter(|mixed| *mixed != backend) {
            upstream.script([answer(mixed, Reply::Text, false)]);
            let failed = send(&gateway, &tenant, caller, false, &request(caller, false)).await;
            let context = format!("{mixed} from {backend}: {}", failed.text());
            assert!(failed.status.is_server_error(), "{context}");
            assert!(!error_of(caller, &failed.json()).0.is_empty(), "{context}");
        }
        for script in [
            Script::new(200, "application/json", "{\"x\":"),
            Script::new(200, "application/json", "[]"),
            Script::new(200, "text/plain", "no"),
            Script::new(200, "application/octet-stream", "no"),
        ] {
            upstream.script([script]);
            let failed = send(&gateway, &tenant, caller, false, &request(caller, false)).await;
            assert!(failed.status.is_server_error(), "{backend}: {}", failed.text());
            assert!(!error_of(caller, &failed.json()).0.is_empty(), "{}", failed.text());
        }
    }
}

/// A stream where a body was asked for, and a body where a stream was.
#[tokio::test]
async fn the_form_of_an_answer_may_be_the_other_one() {
    for backend in Wire::ALL {
        let caller = other(backend);
        for stream in [false, true] {
            let upstream = Upstream::start().await;
            let gateway = start(&upstream, backend, "").await;
            let tenant = gateway.tenant("free").await;
            upstream.script([answer(backend, Reply::Text, !stream)]);
            let body = request(caller, stream);
            let answered = send(&gateway, &tenant, caller, stream, &body).await;
            let seen = read(caller, &answered, stream);
            assert_eq!(seen, Read::reply(Reply::Text), "{backend}: {}", answered.text());
            assert_eq!(cost(&gateway, &tenant).await, 120, "{backend}");
        }
    }
}

/// A connection that stays open after the end of an answer, and one that falls silent before.
#[tokio::test]
async fn a_stream_ends_with_its_silence() {
    for backend in Wire::ALL {
        let caller = other(backend);
        for is_whole in [false, true] {
            let upstream = Upstream::start().await;
            let patience = "idle_timeout_ms = 50\n";
            let setting = format!("wire = \"{backend}\"\n{patience}");
            let gateway = super::start_with(&upstream, &setting, backend, "").await;
            let tenant = gateway.tenant("free").await;
            let all = events(backend, Reply::Text);
            let kept = if is_whole { all.len() } else { all.len() - 2 };
            let kept = if backend == Wire::Gemini && !is_whole { 1 } else { kept };
            let steps = all[..kept].iter().map(|event| Step::Bytes(event.clone().into()));
            upstream.script([Script::stream(steps.chain([Step::Hang]).collect())]);
            let answered = send(&gateway, &tenant, caller, true, &request(caller, true)).await;
            let seen = read(caller, &answered, true);
            let context = format!("{backend}, whole: {is_whole}: {}", answered.text());
            assert!(seen.text.starts_with("Hello"), "{context}");
            // A chat tells the reason of its end before its last event.
            let has_end = is_whole || backend == Wire::Chat;
            assert_eq!(seen.is_complete, has_end, "{context}");
            assert_eq!(seen.error.is_null(), has_end, "{context}");
            assert!(cost(&gateway, &tenant).await > 0, "{context}");
        }
    }
}

/// Ids that are missing or repeat: each call has its own in the caller's wire.
#[tokio::test]
async fn calls_without_an_id_get_one() {
    let call = json!({ "functionCall": { "name": "weather", "args": {} } });
    let document = json!({ "candidates": [{ "finishReason": "STOP", "content": { "role": "model",
        "parts": [call, call] } }], "usageMetadata": { "promptTokenCount": 1, "candidatesTokenCount": 1 } });
    let upstream = Upstream::start().await;
    let gateway = start(&upstream, Wire::Gemini, "").await;
    let tenant = gateway.tenant("free").await;
    upstream.script([Script::json(&document)]);
    let body = request(Wire::Messages, false);
    let answered = send(&gateway, &tenant, Wire::Messages, false, &body).await.json();
    let blocks = answered["content"].as_array().unwrap();
    let ids: Vec<_> = blocks.iter().map(|block| block["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 2, "{answered}");
    assert!(ids[0] != ids[1] && ids.iter().all(|id| !id.is_empty()), "{ids:?}");
}

/// A backend that sends nothing but keep-alives, in amounts that no thinking model sends.
#[tokio::test]
async fn keep_alives_for_ever_end() {
    let upstream = Upstream::start().await;
    let gateway = start(&upstream, Wire::Messages, "").await;
    let tenant = gateway.tenant("free").await;
    let ping = "event: ping\ndata: {\"type\":\"ping\"}\n\n".repeat(2000);
    let begin = events(Wire::Messages, Reply::Text)[0].clone();
    let steps = [begin].into_iter().chain(vec![ping; 6]);
    let steps = steps.map(|text| Step::Bytes(text.into())).chain([Step::Hang]);
    upstream.script([Script::stream(steps.collect())]);
    let body = request(Wire::Chat, true);
    let mut streaming = gateway.stream_from(&tenant, path(Wire::Chat, true), &body).await;
    let (text, is_regular) = streaming.rest().await;
    assert!(is_regular && text.contains("stalled"), "{text}");
    assert!(!text.contains(TEXT));
}

/// The server took the gateway's key: the error is about the key of a server behind it.
#[tokio::test]
async fn refused_credentials_inside_of_a_success_put_no_key_aside() {
    for wire in Wire::ALL {
        let upstream = Upstream::start().await;
        let gateway = start(&upstream, wire, "").await;
        let tenant = gateway.tenant("free").await;
        for code in [401, 403] {
            let error = json!({ "code": code, "message": "Wrong key sk-behind.", "type": "authentication_error" });
            upstream.script([Script::json(&json!({ "error": error }))]);
            let failed = send(&gateway, &tenant, wire, false, &request(wire, false)).await;
            assert_eq!(failed.status, 502, "{wire}: {}", failed.text());
            assert!(!failed.text().contains("sk-behind"), "{wire}: {}", failed.text());
            assert!(!error_of(wire, &failed.json()).0.is_empty(), "{wire}: {}", failed.text());
        }
        let line = "gateway_upstream_failures_total{backend=\"main\",reason=\"server_error\"}";
        assert_eq!(gateway.metric(line).await, 2, "{wire}");
        assert!(!gateway.log().contains("refuses the key"), "{wire}: {}", gateway.log());
    }
}

/// An answer has begun, and is billed: no other backend gets the request.
#[tokio::test]
async fn an_answer_that_breaks_off_is_not_asked_for_twice() {
    for wire in [Wire::Responses, Wire::Chat, Wire::Messages] {
        let (first, second) = (Upstream::start().await, Upstream::start().await);
        let backend = |name: &str, upstream: &Upstream, priority: u32| {
            format!(
                "[[upstreams.main.backends]]\nname = \"{name}\"\npriority = {priority}\nbase_url = \"{}\"\n",
                upstream.url()
            )
        };
        let gateway = TestGateway::start(&format!(
            "[admin]\ntoken_file = \"token\"\n[upstreams.main]\nwire = \"{wire}\"\nenv_key = \"UPSTREAM_KEY\"\n\
             {}{}[models.big]\nupstream_model = \"up\"\n{PRICE}\n",
            backend("one", &first, 0),
            backend("two", &second, 1),
        ))
        .await;
        let tenant = gateway.tenant("free").await;
        let steps = vec![Step::Bytes("{\"id\":\"x\",\"te".into()), Step::Cut];
        first.script([Script::chunked("application/json").body(steps)]);
        let body = request(wire, false);
        let failed = send(&gateway, &tenant, wire, false, &body).await;
        assert_eq!(failed.status, 502, "{wire}: {}", failed.text());
        assert_eq!((first.count(), second.count()), (1, 0), "{wire}");
    }
}

/// Gemini signs its last text. Clients of Messages refuse a message that ends with thinking.
#[tokio::test]
async fn a_signature_after_the_last_text_does_not_end_a_message() {
    for stream in [false, true] {
        let upstream = Upstream::start().await;
        let gateway = start(&upstream, Wire::Gemini, "").await;
        let tenant = gateway.tenant("free").await;
        let mut whole = document(Wire::Gemini, Reply::Text);
        whole["candidates"][0]["content"]["parts"] =
            json!([{ "text": TEXT }, { "text": "", "thoughtSignature": "c2ln" }]);
        upstream.script([match stream {
            true => Script::events([event(&whole)]),
            false => Script::json(&whole),
        }]);
        let body = request(Wire::Messages, stream);
        let answered = send(&gateway, &tenant, Wire::Messages, stream, &body).await;
        let blocks: Vec<Value> = match stream {
            true => {
                data(&answered.text()).iter().map(|event| event["content_block"].clone()).collect()
            }
            false => answered.json()["content"].as_array().unwrap().clone(),
        };
        let kinds: Vec<&str> = blocks.iter().filter_map(|block| block["type"].as_str()).collect();
        assert_eq!(kinds, ["text"], "{}", answered.text());
    }
}

/// The official client of JavaScript hands each event out unread. It raises an error only for a rest that is no event.
#[tokio::test]
async fn every_client_of_gemini_sees_that_a_stream_broke_off() {
    for backend in [Wire::Gemini, Wire::Chat] {
        for is_whole in [false, true] {
            let upstream = Upstream::start().await;
            let gateway = start(&upstream, backend, "").await;
            let tenant = gateway.tenant("free").await;
            upstream.script([match is_whole {
                true => answer(backend, Reply::Text, true),
                false => broken(backend),
            }]);
            let body = request(Wire::Gemini, true);
            let answered = send(&gateway, &tenant, Wire::Gemini, true, &body).await;
            let text = answered.text().replace("\r\n", "\n");
            let rest = text.rsplit_once("\n\n").unwrap().1;
            let context = format!("{backend}, whole: {is_whole}: {text}");
            assert_eq!(rest.is_empty(), is_whole, "{context}");
            if !is_whole {
                let error: Value = serde_json::from_str(rest).unwrap();
                assert_eq!(error["error"], read(Wire::Gemini, &answered, true).error, "{context}");
                assert!(error["error"]["message"].is_string(), "{context}");
            }
        }
    }
}
