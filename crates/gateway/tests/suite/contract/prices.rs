//! Everything that is sold has its price: by what a request asks for and what its answer tells, at the moment of its
//! admission; and nothing is served without a price where spend is limited.

use gateway_store::records::spend::{self, Scope};
use hyper::Method;
use serde_json::{Value, json};

use super::start;
use crate::common::gateway::{Answer, START, Tenant, TestGateway, chat_with, config, settings};
use crate::common::upstream::{Script, Upstream, chat, event, usage};

const CHAT: &str = "/v1/chat/completions";
const IMAGES: &str = "/v1/images/generations";
const RESPONSES: &str = "/v1/responses";

const CANVAS: &str = "[models.big]\nprice = { input = 1, image = [{ usd = 0.04 }, \
    { size = \"1024x1024\", quality = \"high\", usd = 0.167 }, \
    { size = \"512x512\", usd = 0.02 }] }\n";

async fn cost_of(gateway: &TestGateway, tenant: &Tenant, path: &str, body: &Value) -> u64 {
    gateway.is_idle().await;
    let before = gateway.cost(&tenant.organization).await;
    let answer = gateway.post(tenant, path, body).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    gateway.is_idle().await;
    gateway.cost(&tenant.organization).await - before
}

fn lacks(answer: &Answer, param: &str, key: &str) {
    let expected = (400, "price_missing".to_owned(), param.to_owned());
    assert_eq!(answer.error(), expected, "{}", answer.text());
    assert!(answer.text().contains(key), "{key}: {}", answer.text());
}

fn form(fields: &[(&str, &str)]) -> String {
    let part = |(name, value): &(&str, &str)| {
        format!("--b\r\ncontent-disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
    };
    let file = "--b\r\ncontent-disposition: form-data; name=\"image\"; filename=\"a\"\r\n\r\nx\r\n";
    format!("{}{file}--b--\r\n", fields.iter().map(part).collect::<String>())
}

#[tokio::test]
async fn images_cost_by_size_and_quality() {
    let (gateway, upstream) = start(CANVAS).await;
    let tenant = gateway.tenant("free").await;
    let made = |count: usize, more: Value| {
        let mut answer = json!({ "data": vec![json!({ "url": "x" }); count] });
        for (name, value) in more.as_object().unwrap() {
            answer[name] = value.clone();
        }
        Script::json(&answer)
    };
    let high = json!({ "size": "1024x1024", "quality": "high" });
    for (asked, answered, expected) in [
        (
            json!({ "n": 2, "size": "1024x1024", "quality": "high" }),
            made(2, json!({})),
            2 * 167_000,
        ),
        (json!({ "n": 2, "size": "1024x1024", "quality": "low" }), made(2, json!({})), 2 * 40_000),
        (json!({ "size": "512x512", "quality": "high" }), made(1, json!({})), 20_000),
        // The server decides and tells what it decided.
        (json!({ "size": "auto" }), made(1, high.clone()), 167_000),
        (json!({}), made(1, json!({ "size": "512x512", "quality": "low" })), 20_000),
        (json!({ "size": null, "quality": null }), made(1, json!({})), 167_000),
        // It tells something else than was asked for, or nonsense.
        (json!({ "size": "512x512", "quality": "low" }), made(1, high), 20_000),
        (json!({ "size": "512x512" }), made(1, json!({ "quality": -5, "size": {} })), 20_000),
        // Fewer than asked for, and more.
        (json!({ "n": 3, "size": "512x512" }), made(1, json!({})), 20_000),
        (json!({ "n": 3, "size": "512x512" }), made(500, json!({})), 3 * 20_000),
    ] {
        let mut body = json!({ "model": "big", "prompt": "x" });
        for (name, value) in asked.as_object().unwrap() {
            body[name] = value.clone();
        }
        upstream.script([answered]);
        assert_eq!(cost_of(&gateway, &tenant, IMAGES, &body).await, expected + 1, "{asked}");
    }
    // In a form.
    upstream.script([made(1, json!({}))]);
    let before = gateway.cost(&tenant.organization).await;
    let body = form(&[("model", "big"), ("prompt", "x"), ("size", "512x512"), ("quality", "low")]);
    let headers = [("content-type", "multipart/form-data; boundary=b")];
    let edits = "/v1/images/edits";
    let answer = gateway.with(&tenant, Method::POST, edits, &headers, body).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    gateway.is_idle().await;
    assert_eq!(gateway.cost(&tenant.organization).await - before, 20_001);
    // What is reserved is the price of all of them.
    gateway.hard_limit(&tenant, true, 50).await;
    let three =
        json!({ "model": "big", "prompt": "x", "n": 12, "size": "1024x1024", "quality": "low" });
    let refused = gateway.post(&tenant, IMAGES, &three).await;
    assert_eq!(refused.error().1, "project_spend_limit_exceeded", "{}", refused.text());
    assert!(refused.text().contains("may cost up to $0.49"), "{}", refused.text());
    // A model of images alone makes no text.
    lacks(&gateway.chat(&tenant).await, "model", "`output`");
}

#[tokio::test]
async fn audio_costs_by_the_minute_and_requests_by_themselves() {
    let model = "[models.big]\nprice = { audio_minute = 0.006, request = 0.000007 }\n";
    let (gateway, upstream) = start(model).await;
    let tenant = gateway.tenant("free").await;
    let cost = async |answer: Value| {
        upstream.script([Script::json(&answer)]);
        gateway.is_idle().await;
        let before = gateway.cost(&tenant.organization).await;
        let answer = super::refusals::transcribe(&gateway, &tenant, 30).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        gateway.is_idle().await;
        gateway.cost(&tenant.organization).await - before
    };
    for (answer, expected) in [
        (json!({ "text": "x", "duration": 20.0 }), 2000),
        (json!({ "text": "x", "usage": { "type": "duration", "seconds": 40 } }), 4000),
        (json!({ "text": "x" }), 3000),
        // An upstream that lies: negative, huge, a text.
        (json!({ "text": "x", "duration": -20.0 }), 3000),
        (json!({ "text": "x", "duration": 900_000 }), 3000),
        (json!({ "text": "x", "duration": "long" }), 3000),
    ] {
        assert_eq!(cost(answer.clone()).await, expected + 7, "{answer}");
    }
    // A price of requests alone covers every kind of them.
    assert_eq!(cost_of(&gateway, &tenant, CHAT, &chat_with(json!({}))).await, 7);
}

#[tokio::test]
async fn tokens_of_audio_have_their_price() {
    let model =
        "[models.big]\nprice = { input = 1, output = 10, input_audio = 40, output_audio = 80 }\n";
    let (gateway, upstream) = start(model).await;
    let tenant = gateway.tenant("free").await;
    let details = |audio: Value, spoken: Value| {
        json!({
            "prompt_tokens": 100, "completion_tokens": 10,
            "prompt_tokens_details": { "audio_tokens": audio },
            "completion_tokens_details": { "audio_tokens": spoken },
        })
    };
    for (reported, expected) in [
        (details(json!(50), json!(4)), 50 + 50 * 40 + 6 * 10 + 4 * 80),
        (details(Value::Null, json!(0)), 100 + 100),
        // More than there is in all.
        (details(json!(5000), json!(5000)), 100 * 40 + 10 * 80),
        // Not believed: the text counts, and the estimated input.
        (details(json!(-5), json!(1)), 1 + 2 * 10),
        (details(json!("5"), json!(1)), 1 + 2 * 10),
        (details(json!(1e300), json!(1)), 1 + 2 * 10),
    ] {
        upstream.script([Script::json(&chat(&reported))]);
        assert_eq!(
            cost_of(&gateway, &tenant, CHAT, &chat_with(json!({}))).await,
            expected,
            "{reported}"
        );
    }
}

#[tokio::test]
async fn the_service_tier_and_the_long_context_of_the_answer_are_charged() {
    let model = "[models.big]\nlong_context_tokens = 1000\nprice = { input = 1, output = 10, \
                 long_context = { input = 2, output = 15 }, \
                 service_tiers = { priority = 2, flex = 0.5 } }\n";
    let (gateway, upstream) = start(model).await;
    let tenant = gateway.tenant("free").await;
    let answered = |tier: Value, input: u64| {
        let mut answer = chat(&usage(input, 10));
        answer["service_tier"] = tier;
        Script::json(&answer)
    };
    for (asked, said, input, expected) in [
        (json!({}), Value::Null, 1000, 1000 + 100),
        // The real input decides, not the estimate.
        (json!({}), Value::Null, 1001, 2002 + 150),
        (json!({ "max_tokens": 5000 }), Value::Null, 1000, 1000 + 100),
        (json!({}), json!("flex"), 1000, 550),
        (json!({}), json!("priority"), 1001, 4004 + 300),
        (json!({ "service_tier": "priority" }), json!("default"), 10, 110),
        (json!({ "service_tier": "priority" }), Value::Null, 10, 220),
        (json!({ "service_tier": "flex" }), json!("priority"), 10, 110),
        (json!({ "service_tier": "flex" }), json!(5), 10, 55),
    ] {
        upstream.script([answered(said.clone(), input)]);
        let cost = cost_of(&gateway, &tenant, CHAT, &chat_with(asked.clone())).await;
        assert_eq!(cost, expected, "{asked} {said}");
    }
    let before = upstream.count();
    let refused = gateway.post(&tenant, CHAT, &chat_with(json!({ "service_tier": "scale" }))).await;
    lacks(&refused, "service_tier", "service_tiers.scale");
    assert_eq!(upstream.count(), before);
}

#[tokio::test]
async fn calls_of_the_servers_tools_cost() {
    let model = "[models.big]\nprice = { input = 1, output = 10, \
                 tool_calls = { web_search = 0.01, code_interpreter = \"free\" } }\n";
    let (gateway, upstream) = start(model).await;
    let tenant = gateway.tenant("free").await;
    let call = json!({ "type": "web_search_call", "id": "ws" });
    let reports = json!({ "input_tokens": 100, "output_tokens": 0 });
    let answered = json!({
        "id": "resp_1", "status": "completed", "output": [call, call], "usage": reports,
    });
    let ask = |more: Value| {
        let mut body = json!({ "model": "big", "input": "x", "max_output_tokens": 16 });
        for (name, value) in more.as_object().unwrap() {
            body[name] = value.clone();
        }
        body
    };
    let searches = ask(
        json!({ "tools": [{ "type": "web_search_preview" }, { "type": "function", "name": "f" }] }),
    );
    upstream.script([Script::json(&answered)]);
    assert_eq!(cost_of(&gateway, &tenant, RESPONSES, &searches).await, 100 + 20_000);
    // The same as events, whose last one repeats the calls.
    let done = json!({ "type": "response.output_item.done", "item": call });
    let last = json!({ "type": "response.completed", "response": answered });
    upstream.script([Script::events([event(&done), event(&done), event(&last)])]);
    let streamed = ask(json!({ "stream": true, "tools": [{ "type": "web_search" }] }));
    assert_eq!(cost_of(&gateway, &tenant, RESPONSES, &streamed).await, 100 + 20_000);
    // A chat that searches by itself.
    upstream.script([Script::json(&json!({ "id": "c", "choices": [], "usage": usage(1, 0) }))]);
    let chats = chat_with(json!({ "web_search_options": {} }));
    assert_eq!(cost_of(&gateway, &tenant, CHAT, &chats).await, 1 + 10_000);
    // Free by name, and without any price.
    upstream.script([Script::json(&json!({ "id": "r", "status": "completed", "usage": reports }))]);
    let free =
        ask(json!({ "tools": [{ "type": "code_interpreter", "container": { "type": "auto" } }] }));
    assert_eq!(cost_of(&gateway, &tenant, RESPONSES, &free).await, 100);
    let files = ask(json!({ "tools": [{ "type": "file_search" }] }));
    lacks(&gateway.post(&tenant, RESPONSES, &files).await, "tools", "tool_calls.file_search");
    // Under a hard limit their number has a maximum, which is reserved.
    gateway.hard_limit(&tenant, false, 30).await;
    let endless = gateway.post(&tenant, RESPONSES, &searches).await;
    assert_eq!(
        endless.error(),
        (400, "invalid_value".into(), "tools".into()),
        "{}",
        endless.text()
    );
    let mut bounded = searches.clone();
    bounded["max_tool_calls"] = json!(100);
    let refused = gateway.post(&tenant, RESPONSES, &bounded).await;
    assert_eq!(refused.error().1, "organization_spend_limit_exceeded", "{}", refused.text());
    bounded["max_tool_calls"] = json!(5);
    upstream.script([Script::json(&answered)]);
    assert_eq!(gateway.post(&tenant, RESPONSES, &bounded).await.status, 200);
}

/// A price holds from its date on; a request keeps the one with which it began.
#[tokio::test]
async fn prices_hold_from_their_dates_on() {
    // The tests begin on 2026-11-10.
    let model = "[models.big]\nprices = [{ from = \"2026-11-11\", input = 1, output = 10 }, \
                 { from = \"2026-11-12\", input = 2, output = 20 }]\n";
    let (gateway, upstream) = start(model).await;
    let tenant = gateway.tenant("free").await;
    lacks(&gateway.chat(&tenant).await, "model", "at this time");
    assert_eq!(upstream.count(), 0);
    let midnight = START - START % ratelimit::DAY;
    let day = async |days: u64| {
        gateway.clock.set(midnight + days * ratelimit::DAY);
        cost_of(&gateway, &tenant, CHAT, &chat_with(json!({}))).await
    };
    assert_eq!(day(1).await, 3 + 20);
    assert_eq!(day(2).await, 6 + 40);
    gateway.clock.set(midnight + 2 * ratelimit::DAY - 1);
    assert_eq!(cost_of(&gateway, &tenant, CHAT, &chat_with(json!({}))).await, 23);
}

#[tokio::test]
async fn a_hard_limit_needs_prices() {
    let (gateway, upstream) = start("[models.big]\n[models.other]\nfree = true\n").await;
    let tenant = gateway.tenant("free").await;
    // Without prices in the file, money does not count.
    assert_eq!(gateway.chat(&tenant).await.status, 200);
    gateway.is_idle().await;
    assert_eq!(gateway.cost(&tenant.organization).await, 0);
    let project = format!("/v1/organization/projects/{}/spend_limit", tenant.project);
    for path in ["/v1/organization/spend_limit", &project] {
        let body = json!({ "currency": "USD", "interval": "month", "threshold_amount": 5 });
        let of = &tenant.organization;
        let answer = gateway.try_admin(of, Method::POST, path, body).await;
        lacks(&answer, "threshold_amount", "`big`");
    }
    // One that was set before the price was taken out of the file: requests without a price are refused.
    let (database, act) = (gateway.gateway.database(), gateway.gateway.act());
    let scope = Scope::Project(&tenant.project);
    spend::set_hard(database, scope, Some(100), act).await.unwrap().unwrap();
    gateway.gateway.directory().catch_up().await.unwrap();
    let refused = gateway.chat(&tenant).await;
    lacks(&refused, "model", "`big` has no price");
    assert_eq!(refused.header("x-request-id").len(), 36);
    let other = chat_with(json!({ "model": "other" }));
    assert_eq!(gateway.post(&tenant, CHAT, &other).await.status, 200);
    let count = json!({ "model": "big", "input": "x" });
    assert_eq!(gateway.post(&tenant, "/v1/responses/input_tokens", &count).await.status, 200);
    assert_eq!(upstream.count(), 3);
    // A start and a reload refuse the file.
    let folder = std::sync::Arc::clone(&gateway.folder);
    let without = config(&upstream, "[models.big]\n");
    let read = settings(&without, folder.path()).unwrap();
    let error = gateway.gateway.check(&read).await.unwrap_err();
    assert!(error.to_string().contains(&tenant.project), "{error}");
    let error = TestGateway::try_open_in(&folder, &without).await.err().unwrap();
    assert!(
        error.is_configuration() && error.to_string().contains("models.big: has no price"),
        "{error}"
    );
    // With a price it is served.
    gateway.reload(&config(&upstream, "[models.big]\nprice = { input = 1, output = 1 }\n"));
    assert_eq!(gateway.chat(&tenant).await.status, 200);
}

#[tokio::test]
async fn a_reload_without_a_price_is_refused() {
    let upstream = Upstream::start().await;
    let folder = tempfile::tempdir().unwrap();
    let read = |models: &str| settings(&config(&upstream, models), folder.path()).map(drop);
    let priced = "[models.big]\nprice = { input = 1, output = 1 }\n";
    let error = read(&format!("{priced}[models.other]\n")).unwrap_err();
    assert!(error.contains("models.other: has no price"), "{error}");
    read(&format!("{priced}[models.other]\nfree = true\n")).unwrap();
}

/// Requests that name no model have no price.
#[tokio::test]
async fn a_video_without_a_model_is_refused_where_money_counts() {
    let (gateway, upstream) = start("[models.big]\nprice = { video_second = 0.1 }\n").await;
    let tenant = gateway.tenant("free").await;
    for path in ["/v1/videos", "/v1/videos/edits"] {
        lacks(&gateway.post(&tenant, path, &json!({ "prompt": "x" })).await, "model", "`*`");
    }
    let remix = gateway.post(&tenant, "/v1/videos/v/remix", &json!({ "prompt": "x" })).await;
    assert_eq!(remix.error().1, "path_not_open", "{}", remix.text());
    assert_eq!(upstream.count(), 0);
}

/// A form with these parts: name, file name, content.
fn form_of(parts: &[(&str, &str, &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    for (name, file, content) in parts {
        let file = if file.is_empty() { String::new() } else { format!("; filename=\"{file}\"") };
        let head = format!("--b\r\nContent-Disposition: form-data; name=\"{name}\"{file}\r\n\r\n");
        body.extend_from_slice(head.as_bytes());
        body.extend_from_slice(content);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(b"--b--\r\n");
    body
}

/// The route decides what a form is charged for. Names of fields are the client's, and headers of files, too.
#[tokio::test]
async fn no_form_hides_its_audio_or_its_images() {
    let models = "[models.scribe]\nprice = { audio_minute = 0.06 }\n\
                  [models.canvas]\nprice = { input = \"free\", image = [{ usd = 0.01 }] }\n";
    let (gateway, upstream) = start(models).await;
    let tenant = gateway.tenant("free").await;
    let minute = vec![7; 60 * 16_000];
    // Compressed audio in a WAV file, whose byte rate no decoder reads.
    let mut fake =
        b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x55\0\x01\0\x80\x3e\0\0\0\x28\x6b\xee\x01\0\0\0data"
            .to_vec();
    fake.extend_from_slice(&960_000_u32.to_le_bytes());
    fake.extend_from_slice(&minute);
    let (audio, images) = ("/v1/audio/transcriptions", "/v1/images/edits");
    let kind = [("content-type", "multipart/form-data; boundary=b")];
    let mut before = 0;
    for (path, parts, cost) in [
        (audio, &[("file", "a.mp3", &*minute)][..], 60_000),
        (audio, &[("file", "a.mp3", &minute), ("image", "a.png", b"x")], 61_000),
        (audio, &[("file", "", &minute)], 60_000),
        (audio, &[("file", "a.wav", &fake)], 60_003),
        (images, &[("n", "", b"3"), ("image", "a.png", b"x")], 30_000),
        (images, &[("n", "", b"3"), ("picture", "a.png", b"x")], 30_000),
        (images, &[("n", "", b"3"), ("image", "", b"x")], 30_000),
    ] {
        let model: &[u8] = if path == audio { b"scribe" } else { b"canvas" };
        let parts = [&[("model", "", model)], parts].concat();
        let entry = json!({ "url": "x" });
        upstream.script([Script::json(&json!({ "text": "", "data": [entry, entry, entry] }))]);
        let answer = gateway.with(&tenant, Method::POST, path, &kind, form_of(&parts)).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        gateway.is_idle().await;
        let now = gateway.cost(&tenant.organization).await;
        let names: Vec<_> = parts.iter().map(|(name, file, _)| (name, file)).collect();
        assert_eq!(now - before, cost, "{names:?}");
        before = now;
    }
    let empty = form_of(&[("model", "", b"scribe"), ("audio", "", &minute)]);
    let refused = gateway.with(&tenant, Method::POST, audio, &kind, empty).await;
    assert_eq!(refused.error(), (400, "missing_required_parameter".into(), "file".into()));
}
