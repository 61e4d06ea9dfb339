//! Where caller and backend speak one wire: bytes pass unchanged, and what is no answer of that wire becomes an error of
//! it, before or after it has begun.

use bytes::Bytes;
use serde_json::{Value, json};
use wire::Wire;

use super::dialects::{Read, Reply, TEXT, answer, document, events, path, read, request, send};
use super::{PRICE, cost, error_of, start, start_with};
use crate::common::gateway::{Answer, TestGateway};
use crate::common::upstream::{Gate, Script, Step, Upstream, event};

fn error_body(wire: Wire) -> Value {
    match wire {
        Wire::Messages => {
            json!({ "type": "error", "error": { "type": "overloaded_error", "message": "Overloaded." } })
        }
        Wire::Gemini => {
            json!({ "error": { "code": 503, "message": "Overloaded.", "status": "UNAVAILABLE" } })
        }
        _ => {
            json!({ "error": { "message": "Overloaded.", "code": "server_is_overloaded", "type": "server_error" } })
        }
    }
}

/// The answer to a streamed request of the backend's own wire.
async fn streamed(wire: Wire, script: Script) -> (Answer, Read) {
    let upstream = Upstream::start().await;
    let gateway = start(&upstream, wire, "").await;
    let tenant = gateway.tenant("free").await;
    upstream.script([script]);
    let answered = send(&gateway, &tenant, wire, true, &request(wire, true)).await;
    cost(&gateway, &tenant).await;
    let seen = match answered.status.as_u16() {
        200 => read(wire, &answered, true),
        _ => Read::default(),
    };
    (answered, seen)
}

#[tokio::test]
async fn what_is_no_answer_becomes_an_error() {
    for wire in Wire::ALL {
        let upstream = Upstream::start().await;
        let gateway = start(&upstream, wire, "").await;
        let tenant = gateway.tenant("free").await;
        let overloaded = if wire == Wire::Messages { 529 } else { 503 };
        let page = "<html><body>Please log in.</body></html>";
        let json = |body: &str| Script::new(200, "application/json", body.to_owned());
        for (script, stream, status) in [
            (json(page), false, 502),
            (json(page), true, 502),
            (Script::new(200, "text/event-stream", page), true, 502),
            (answer(wire, Reply::Text, true), false, 502),
            (json(&events(wire, Reply::Text).concat()), false, 502),
            (json(""), false, 502),
            (Script::events::<&str>([]), true, 502),
            (Script::json(&error_body(wire)), false, overloaded),
            (Script::json(&error_body(wire)), true, overloaded),
        ] {
            let context = format!("{wire}, stream: {stream}: {script:?}");
            upstream.script([script]);
            let body = request(wire, stream);
            let failed = send(&gateway, &tenant, wire, stream, &body).await;
            assert_eq!(failed.status.as_u16(), status, "{context}: {}", failed.text());
            assert!(!error_of(wire, &failed.json()).0.is_empty(), "{context}: {}", failed.text());
        }
        assert_eq!(cost(&gateway, &tenant).await, 0, "{wire}");
    }
}

/// The error that is inside of a success passes in its own words.
#[tokio::test]
async fn an_error_inside_of_a_success_keeps_its_words() {
    for wire in Wire::ALL {
        let upstream = Upstream::start().await;
        let gateway = start(&upstream, wire, "").await;
        let tenant = gateway.tenant("free").await;
        let text = error_body(wire).to_string();
        let (begin, end) = text.split_at(text.len() / 2);
        let pieces = [begin, end].map(|piece| Step::Bytes(piece.to_owned().into()));
        upstream.script([Script::chunked("application/json").body(pieces.to_vec())]);
        let failed = send(&gateway, &tenant, wire, false, &request(wire, false)).await;
        assert!(failed.status.is_server_error(), "{wire}: {}", failed.text());
        assert_eq!(failed.message(), "Overloaded.", "{wire}: {}", failed.text());
        // The first event of a stream has the caller's form already.
        let name = if wire == Wire::Messages { "event: error\n" } else { "" };
        let first = format!("{name}{}", event(&error_body(wire)));
        let (answered, seen) = streamed(wire, Script::events([&first])).await;
        assert!(!seen.is_complete, "{wire}");
        assert_eq!(answered.text(), first, "{wire}");
    }
}

/// Another backend serves what one has answered with an error inside of a success, or with nothing.
#[tokio::test]
async fn another_backend_serves_it() {
    for wire in Wire::ALL {
        let empty = || Script::events::<&str>([]);
        for (script, stream) in [(Script::json(&error_body(wire)), false), (empty(), true)] {
            let (first, second) = (Upstream::start().await, Upstream::start().await);
            let version = if wire == Wire::Gemini { "v1beta" } else { "v1" };
            let backend = |name: &str, upstream: &Upstream, priority: u32| {
                format!(
                    "[[upstreams.main.backends]]\nname = \"{name}\"\npriority = {priority}\n\
                     base_url = \"http://{}/{version}\"\n",
                    upstream.address
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
            first.script([script]);
            second.script([answer(wire, Reply::Text, stream)]);
            let body = request(wire, stream);
            let served = send(&gateway, &tenant, wire, stream, &body).await;
            assert_eq!(served.status, 200, "{wire}: {}", served.text());
            assert_eq!(read(wire, &served, stream), Read::reply(Reply::Text), "{wire}");
            assert_eq!((first.count(), second.count()), (1, 1), "{wire}");
        }
    }
}

#[tokio::test]
async fn a_stream_of_another_wire_ends_with_an_error() {
    for wire in Wire::ALL {
        for mixed in Wire::ALL.into_iter().filter(|mixed| *mixed != wire) {
            let (answered, seen) = streamed(wire, Script::events(events(mixed, Reply::Text))).await;
            let context = format!("{mixed} from {wire}: {}", answered.text());
            assert!(!seen.is_complete && seen.text.is_empty(), "{context}");
            let message = seen.error["message"].as_str().unwrap_or_default();
            assert!(message.contains(&format!("`{mixed}`")), "{context}");
            // Also in the middle.
            let begun = events(wire, Reply::Text)[..1].to_vec();
            let all = begun.into_iter().chain(events(mixed, Reply::Text));
            let (answered, seen) = streamed(wire, Script::events(all)).await;
            let context = format!("{mixed} within {wire}: {}", answered.text());
            assert!(!seen.is_complete && !seen.error.is_null(), "{context}");
        }
    }
}

/// A stream that ends early, by its server or by its connection, within an event or after one.
#[tokio::test]
async fn a_stream_that_is_cut_off_ends_with_an_error() {
    for wire in Wire::ALL {
        let all = events(wire, Reply::Text);
        let text = all.iter().position(|event| event.contains("Hello")).unwrap();
        let whole = all[..=text].concat();
        let partial = format!("{whole}{}", &all[text + 1][..20]);
        for body in [&whole, &partial] {
            for is_cut in [false, true] {
                let mut steps = vec![Step::Bytes(body.clone().into())];
                steps.extend(is_cut.then_some(Step::Cut));
                let (answered, seen) = streamed(wire, Script::stream(steps)).await;
                let context = format!("{wire}, cut: {is_cut}: {}", answered.text());
                assert!(!seen.is_complete && seen.text.starts_with("Hello"), "{context}");
                let message = seen.error["message"].as_str().unwrap_or_default();
                assert!(message.contains("before the response was complete"), "{context}");
                assert!(answered.text().starts_with(&whole), "{context}: what came passes");
                if wire == Wire::Responses {
                    assert!(answered.text().contains("\"resp_9\""), "{context}");
                }
            }
        }
        // Without the blank line after the last event, it is complete.
        let bare = all.concat().trim_end().to_owned();
        let (answered, seen) = streamed(wire, Script::events([&bare])).await;
        assert_eq!(answered.text(), bare, "{wire}");
        assert!(seen.error.is_null(), "{wire}");
    }
}

/// A server that says only that it is alive, for longer than six times the longest silence.
#[tokio::test]
async fn keep_alives_for_ever_are_bounded_in_time() {
    for (caller, backend) in
        [(Wire::Messages, Wire::Messages), (Wire::Chat, Wire::Chat), (Wire::Chat, Wire::Messages)]
    {
        let upstream = Upstream::start().await;
        let setting = format!("wire = \"{backend}\"\nidle_timeout_ms = 300\n");
        let gateway = start_with(&upstream, &setting, backend, "").await;
        let tenant = gateway.tenant("free").await;
        let ping = ":\n\n";
        let gate = Gate::closed();
        let begin = events(backend, Reply::Text)[0].clone();
        let mut steps = vec![Step::Bytes(begin.into())];
        for _ in 0..200_000 {
            steps.extend([Step::Wait(gate.clone()), Step::Bytes(ping.into())]);
        }
        upstream.script([Script::stream(steps)]);
        let body = request(caller, true);
        let mut streaming = gateway.stream_from(&tenant, path(caller, true), &body).await;
        // Another ping whenever one has come: it is the gateway that ends them.
        let mut text = String::new();
        gate.open(1);
        let began = std::time::Instant::now();
        while let Some(piece) = streaming.next().await {
            text += std::str::from_utf8(&piece.expect("a regular end")).unwrap();
            gate.open(1);
        }
        let context = format!("{caller} to {backend}: {text}");
        assert!(text.contains("only keeps the connection alive"), "{context}");
        assert!(began.elapsed().as_millis() >= 1800, "{context}");
        assert!(!text.contains(TEXT), "{context}");
        let sign = if caller == backend { ping } else { ": keep-alive\n\n" };
        assert!(text.matches(sign).count() > 3, "the caller is kept alive: {context}");
        gateway.is_idle().await;
    }
}

/// While its client takes nothing, the gateway reads nothing: that is no silence of the server.
#[tokio::test]
async fn a_slow_client_is_not_taken_for_a_silent_server() {
    let upstream = Upstream::start().await;
    let setting = "wire = \"messages\"\nidle_timeout_ms = 300\n";
    let gateway = start_with(&upstream, setting, Wire::Messages, "").await;
    let tenant = gateway.tenant("free").await;
    // More than all buffers on the way hold.
    let ping = json!({ "type": "ping", "pad": "x".repeat(60_000) });
    let ping = Bytes::from(format!("event: ping\ndata: {ping}\n\n"));
    let all = events(Wire::Messages, Reply::Text);
    let bytes = |event: &String| Step::Bytes(event.clone().into());
    let mut steps = vec![bytes(&all[0])];
    steps.extend((0..500).map(|_| Step::Bytes(ping.clone())));
    steps.extend(all[1..].iter().map(bytes));
    upstream.script([Script::stream(steps)]);
    let body = request(Wire::Messages, true);
    let mut streaming = gateway.stream_from(&tenant, path(Wire::Messages, true), &body).await;
    // Longer than keep-alives alone may keep an answer open.
    tokio::time::sleep(std::time::Duration::from_millis(2200)).await; // tidy: sleep as a client that reads late
    let (text, is_regular) = streaming.rest().await;
    let end = &text[text.len().saturating_sub(300)..];
    assert!(is_regular && end.contains("message_stop"), "{end}");
}

/// Gemini's only hint for a retry is in the body of its errors.
#[tokio::test]
async fn the_wait_that_a_gemini_server_asks_for_reaches_every_caller() {
    let error = |delay: &str| {
        json!({ "error": { "code": 429, "message": "Quota.", "status": "RESOURCE_EXHAUSTED", "details": [
            { "@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay }] } })
    };
    for caller in Wire::ALL {
        for (delay, seconds) in [("3s", "3"), ("86400s", "86400"), ("0.5s", "1")] {
            let upstream = Upstream::start().await;
            let gateway = start(&upstream, Wire::Gemini, "").await;
            let tenant = gateway.tenant("free").await;
            upstream.script([Script::error(429, &error(delay))]);
            let failed = send(&gateway, &tenant, caller, false, &request(caller, false)).await;
            assert_eq!(failed.status, 429, "{caller}");
            assert_eq!(failed.header("retry-after"), seconds, "{caller}");
            if caller == Wire::Gemini {
                let details = failed.json()["error"]["details"].clone();
                let expected = format!("{seconds}s");
                let has_wait = |one: &Value| one["retryDelay"] == json!(expected);
                assert!(details.as_array().unwrap().iter().any(has_wait), "{details}");
            }
        }
    }
}

/// Answers of one piece and of many pass unchanged, whatever their text says.
#[tokio::test]
async fn answers_that_speak_of_errors_pass() {
    for wire in Wire::ALL {
        let upstream = Upstream::start().await;
        let gateway = start(&upstream, wire, "").await;
        let tenant = gateway.tenant("free").await;
        let text = document(wire, Reply::Text).to_string();
        let text = text.replace(TEXT, r#"It said {\"error\":{\"message\":\"no\"}}."#);
        let (begin, end) = text.split_at(30);
        let whole = Script::new(200, "application/json", text.clone());
        let pieces = [begin, end].map(|piece| Step::Bytes(piece.to_owned().into()));
        let split = Script::chunked("application/json").body(pieces.to_vec());
        for script in [whole, split] {
            upstream.script([script]);
            let answered = send(&gateway, &tenant, wire, false, &request(wire, false)).await;
            assert_eq!((answered.status.as_u16(), answered.text()), (200, text.clone()), "{wire}");
        }
    }
}
