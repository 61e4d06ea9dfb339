//! Backends at Amazon Bedrock and at Vertex AI, which check what arrives on their own: signatures and tokens, paths, and
//! what of a request is in the path; answers in frames.

mod accounts;

use aws_smithy_eventstream::frame::write_message_to;
use aws_smithy_types::event_stream::{Header, HeaderValue, Message};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tempfile::TempDir;
use wire::Wire;

use super::dialects::{Read, Reply, TOKENS, answer, document, events, read, request, send};
use super::{PRICE, cost, error_of};
use crate::common::gateway::{Tenant, TestGateway};
use crate::common::upstream::{Received, Script, Step, Upstream};

const MODEL: &str = "us.anthropic.claude-opus-4-6-v1:0";
/// The secret of the key `AKID`.
const SECRET: &str = "wJalrXUtnFEMI/K7MDENG";

fn frame(kind: &'static str, names: &[(&'static str, &'static str)], payload: String) -> Vec<u8> {
    let mut message = Message::new(payload.into_bytes())
        .add_header(Header::new(":message-type", HeaderValue::String(kind.into())));
    for (name, value) in names {
        message = message.add_header(Header::new(*name, HeaderValue::String((*value).into())));
    }
    let mut out = Vec::new();
    write_message_to(&message, &mut out).unwrap();
    out
}

/// A stream as Bedrock sends it, in frames.
fn frames(reply: Reply) -> Vec<Vec<u8>> {
    let of = |event: &String| event.split_once("data: ").unwrap().1.trim().to_owned();
    let chunk = |event: String| {
        let payload = json!({ "bytes": STANDARD.encode(event), "p": "abc" }).to_string();
        frame("event", &[(":event-type", "chunk")], payload)
    };
    events(Wire::Messages, reply).iter().map(of).map(chunk).collect()
}

fn binary(frames: Vec<Vec<u8>>) -> Script {
    let steps = frames.into_iter().map(|frame| Step::Bytes(frame.into()));
    Script::chunked("application/vnd.amazon.eventstream").body(steps.collect())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The signature of a request by the rules of Signature Version 4, from what arrived.
fn signature(received: &Received, authorization: &str) -> String {
    let sha = |text: &[u8]| hex(&Sha256::digest(text));
    let mac = |key: &[u8], text: &str| {
        let mac = Hmac::<Sha256>::new_from_slice(key).unwrap().chain_update(text);
        mac.finalize().into_bytes().to_vec()
    };
    let part = |name: &str| {
        authorization.split_once(name).unwrap().1.split(',').next().unwrap().to_owned()
    };
    let header = |name: &str| received.headers[name].to_str().unwrap().to_owned();
    let (signed, scope) = (part("SignedHeaders="), part("Credential="));
    let scope: Vec<&str> = scope.split_once('/').unwrap().1.split('/').collect();
    // The path is encoded once more than it is sent.
    let path = received.path.replace('%', "%25");
    let headers: String =
        signed.split(';').map(|name| format!("{name}:{}\n", header(name))).collect();
    let canonical = format!("POST\n{path}\n\n{headers}\n{signed}\n{}", sha(&received.body));
    let date = header("x-amz-date");
    let text =
        format!("AWS4-HMAC-SHA256\n{date}\n{}\n{}", scope.join("/"), sha(canonical.as_bytes()));
    let seed = mac(format!("AWS4{SECRET}").as_bytes(), scope[0]);
    let key = scope[1..].iter().fold(seed, |key, part| mac(&key, part));
    hex(&mac(&key, &text))
}

#[track_caller]
fn check_signature(received: &Received, tenant: &Tenant) {
    let authorization = received.headers["authorization"].to_str().unwrap();
    assert!(authorization.contains("Credential=AKID/"), "{authorization}");
    assert!(authorization.contains("/us-east-1/bedrock/aws4_request"), "{authorization}");
    assert!(authorization.contains("host;"), "{authorization}");
    let found = authorization.split_once("Signature=").unwrap().1;
    assert_eq!(found, signature(received, authorization));
    for name in ["x-api-key", "anthropic-version", "anthropic-beta"] {
        assert!(!received.headers.contains_key(name), "{name}");
    }
    let all = format!("{received:?}");
    assert!(!all.contains(&tenant.key) && !all.contains(SECRET), "{all}");
}

/// A gateway whose backend is Bedrock, with the keys of a profile.
async fn bedrock(upstream: &Upstream) -> (TestGateway, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let profile = format!("[work]\naws_access_key_id = AKID\naws_secret_access_key = {SECRET}\n");
    let credentials = folder.path().join("credentials");
    std::fs::write(&credentials, profile).unwrap();
    let gateway = TestGateway::start_with_variables(
        &format!(
            "[admin]\ntoken_file = \"token\"\n[upstreams.main]\nbase_url = \"http://{}\"\nplatform = \"bedrock\"\n\
             auth = \"aws-sigv4\"\naws = {{ region = \"us-east-1\", profile = \"work\" }}\n[models.big]\n\
             upstream_model = \"{MODEL}\"\n{PRICE}\n",
            upstream.address
        ),
        &[("AWS_SHARED_CREDENTIALS_FILE", credentials.to_str().unwrap())],
    )
    .await;
    (gateway, folder)
}

#[tokio::test]
async fn every_route_is_served_by_bedrock() {
    for caller in Wire::ALL {
        let upstream = Upstream::start().await;
        let (gateway, _folder) = bedrock(&upstream).await;
        let tenant = gateway.tenant("free").await;
        let mut spent = 0;
        for (stream, reply) in
            [(false, Reply::Text), (true, Reply::Text), (false, Reply::Call), (true, Reply::Call)]
        {
            let context = format!("{caller}, {reply:?}, stream: {stream}");
            upstream.script([match stream {
                true => binary(frames(reply)),
                false => Script::json(&document(Wire::Messages, reply)),
            }]);
            let body = request(caller, stream);
            let answered = send(&gateway, &tenant, caller, stream, &body).await;
            assert_eq!(answered.status, 200, "{context}: {}", answered.text());
            let seen = read(caller, &answered, stream);
            assert_eq!(seen, Read::reply(reply), "{context}: {}", answered.text());
            spent += TOKENS.0 + 10 * TOKENS.1;
            assert_eq!(cost(&gateway, &tenant).await, spent, "{context}");
            let received = upstream.last();
            let verb = if stream { "invoke-with-response-stream" } else { "invoke" };
            let path = format!("/model/us.anthropic.claude-opus-4-6-v1%3A0/{verb}");
            assert_eq!(received.path, path, "{context}");
            check_signature(&received, &tenant);
            let got = received.json();
            assert!(got["model"].is_null() && got["stream"].is_null(), "{context}: {got}");
            assert_eq!(got["anthropic_version"], "bedrock-2023-05-31", "{context}");
            assert_eq!(got["tools"][0]["name"], "weather", "{context}");
        }
    }
}

/// What a client of Messages sends in headers is in the body; its own members pass unchanged.
#[tokio::test]
async fn bedrock_gets_betas_in_the_body() {
    let upstream = Upstream::start().await;
    let (gateway, _folder) = bedrock(&upstream).await;
    let tenant = gateway.tenant("free").await;
    upstream.script([Script::json(&document(Wire::Messages, Reply::Text))]);
    let mut body = request(Wire::Messages, false);
    body["model"] = json!("big");
    body["system"] =
        json!([{ "type": "text", "text": "Be brief.", "cache_control": { "type": "ephemeral" } }]);
    let headers = [
        ("x-api-key", &*tenant.key),
        ("content-type", "application/json"),
        ("anthropic-version", "2023-06-01"),
        ("anthropic-beta", "context-1m-2025-08-07, interleaved-thinking-2025-05-14"),
    ];
    let text = body.to_string();
    let answered = gateway.send(hyper::Method::POST, "/v1/messages", &headers, text).await;
    assert_eq!(answered.status, 200, "{}", answered.text());
    let received = upstream.last();
    check_signature(&received, &tenant);
    let got = received.json();
    let betas = json!(["context-1m-2025-08-07", "interleaved-thinking-2025-05-14"]);
    assert_eq!(got["anthropic_beta"], betas);
    assert_eq!((&got["system"], &got["messages"]), (&body["system"], &body["messages"]));
}

/// A refusal in Amazon's form comes in the wire of the caller; one of the signature gets other keys, if there are any.
#[tokio::test]
async fn errors_of_bedrock_come_in_the_wire_of_the_caller() {
    for caller in Wire::ALL {
        let upstream = Upstream::start().await;
        let (gateway, _folder) = bedrock(&upstream).await;
        let tenant = gateway.tenant("free").await;
        let overloaded = if caller == Wire::Messages { 529 } else { 503 };
        for (status, kind, expected) in [
            (429, "ThrottlingException", 429),
            (400, "ValidationException", 400),
            (503, "ServiceUnavailableException", overloaded),
            (403, "ExpiredTokenException", 502),
        ] {
            let error = json!({ "message": "Why it is so." });
            upstream.script([Script::error(status, &error).header("x-amzn-errortype", kind)]);
            let failed = send(&gateway, &tenant, caller, false, &request(caller, false)).await;
            let context = format!("{caller}, {kind}: {}", failed.text());
            // In its own wire, an overload keeps the status of the server.
            let is_own = caller == Wire::Messages && status == 503;
            let expected = if is_own { 503 } else { expected };
            assert_eq!(failed.status.as_u16(), expected, "{context}");
            assert!(!error_of(caller, &failed.json()).0.is_empty(), "{context}");
            assert_eq!(failed.message().contains("Why it is so."), status != 403, "{context}");
        }
        // An exception in the middle of a stream.
        let mut broken = frames(Reply::Text);
        broken.truncate(4);
        let exception = [(":exception-type", "modelStreamErrorException")];
        broken.push(frame("exception", &exception, json!({ "message": "It broke." }).to_string()));
        upstream.script([binary(broken)]);
        let answered = send(&gateway, &tenant, caller, true, &request(caller, true)).await;
        let seen = read(caller, &answered, true);
        assert!(!seen.is_complete && answered.text().contains("It broke."), "{}", answered.text());
        // A frame that is broken, and one that is cut before the answer has ended.
        let mut whole = frames(Reply::Text);
        whole.truncate(whole.len() - 2);
        let whole = whole.concat();
        let broken = [&whole[..40], b"xxxxxxxx", &whole[48..]].concat();
        for bytes in [broken, whole[..whole.len() - 9].to_vec()] {
            upstream.script([binary(vec![bytes])]);
            let answered = send(&gateway, &tenant, caller, true, &request(caller, true)).await;
            let is_error = answered.status == 502 || answered.text().contains("error");
            assert!(is_error, "{caller}: {}", answered.text());
        }
    }
}

/// Requests that only count tokens are estimated: Bedrock has another interface for them.
#[tokio::test]
async fn tokens_are_estimated() {
    let upstream = Upstream::start().await;
    let (gateway, _folder) = bedrock(&upstream).await;
    let tenant = gateway.tenant("free").await;
    let body = json!({ "model": "big", "messages": [{ "role": "user", "content": "abcdefgh" }] });
    let counted = gateway.post(&tenant, "/v1/messages/count_tokens", &body).await;
    assert_eq!(counted.json(), json!({ "input_tokens": 2 }));
    assert_eq!(upstream.count(), 0);
}

#[tokio::test]
async fn an_account_without_credentials_is_the_operators_fault() {
    let upstream = Upstream::start().await;
    let gateway = TestGateway::start_with_variables(
        &format!(
            "[admin]\ntoken_file = \"token\"\n[upstreams.main]\nbase_url = \"http://{}\"\nplatform = \"bedrock\"\n\
             auth = \"aws-sigv4\"\naws = {{ region = \"us-east-1\", profile = \"absent\" }}\n[models.big]\n{PRICE}\n",
            upstream.address
        ),
        &[("HOME", "/nonexistent")],
    )
    .await;
    let tenant = gateway.tenant("free").await;
    let body = request(Wire::Chat, false);
    let failed = send(&gateway, &tenant, Wire::Chat, false, &body).await;
    assert_eq!(failed.status, 502, "{}", failed.text());
    assert!(failed.message().contains("no credentials"), "{}", failed.text());
    assert!(gateway.log().contains("there is no profile `absent`"), "{}", gateway.log());
    assert_eq!((upstream.count(), cost(&gateway, &tenant).await), (0, 0));
}

/// The key of a service account, for tests alone.
const PRIVATE_KEY: &str = include_str!("../../../../model/tests/suite/cloud/service-account.pem");

/// A gateway whose backend is Vertex AI, and the service that gives its tokens.
async fn vertex(upstream: &Upstream, publisher: &str) -> (TestGateway, Upstream, TempDir) {
    vertex_with(upstream, publisher, "").await
}

/// The same, with further settings of the upstream.
async fn vertex_with(
    upstream: &Upstream,
    publisher: &str,
    settings: &str,
) -> (TestGateway, Upstream, TempDir) {
    let tokens = Upstream::answering(|_| {
        Script::json(&json!({ "access_token": "ya29.token-1", "expires_in": 3600 }))
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let account = json!({
        "type": "service_account", "client_email": "robot@p.iam.gserviceaccount.com", "private_key": PRIVATE_KEY,
        "private_key_id": "k1", "token_uri": format!("http://{}/token", tokens.address),
    });
    let file = folder.path().join("account.json");
    std::fs::write(&file, account.to_string()).unwrap();
    let gateway = TestGateway::start_with_variables(
        &format!(
            "[admin]\ntoken_file = \"token\"\n[upstreams.main]\n\
             base_url = \"http://{}/v1/projects/p/locations/global/publishers/{publisher}\"\nplatform = \"vertex\"\n\
             {settings}auth = \"google\"\ngoogle = {{ credentials_file = \"{}\" }}\n[models.big]\nupstream_model = \"up\"\n{PRICE}\n",
            upstream.address,
            file.display()
        ),
        &[],
    )
    .await;
    (gateway, tokens, folder)
}

#[tokio::test]
async fn every_route_is_served_by_vertex() {
    for (backend, publisher) in [(Wire::Messages, "anthropic"), (Wire::Gemini, "google")] {
        for caller in Wire::ALL {
            let upstream = Upstream::start().await;
            let (gateway, tokens, _folder) = vertex(&upstream, publisher).await;
            let tenant = gateway.tenant("free").await;
            for stream in [false, true] {
                let context = format!("{caller} to {backend}, stream: {stream}");
                upstream.script([answer(backend, Reply::Text, stream)]);
                let body = request(caller, stream);
                let answered = send(&gateway, &tenant, caller, stream, &body).await;
                assert_eq!(answered.status, 200, "{context}: {}", answered.text());
                assert_eq!(read(caller, &answered, stream), Read::reply(Reply::Text), "{context}");
                let received = upstream.last();
                let verb = match (backend, stream) {
                    (Wire::Gemini, true) => "streamGenerateContent?alt=sse",
                    (Wire::Gemini, false) => "generateContent",
                    (_, true) => "streamRawPredict",
                    (_, false) => "rawPredict",
                };
                let base = format!("/v1/projects/p/locations/global/publishers/{publisher}");
                assert_eq!(received.path, format!("{base}/models/up:{verb}"), "{context}");
                assert_eq!(received.headers["authorization"], "Bearer ya29.token-1", "{context}");
                let got = received.json();
                assert!(got["model"].is_null(), "{context}: {got}");
                if backend == Wire::Messages {
                    assert_eq!(got["anthropic_version"], "vertex-2023-10-16", "{context}");
                    assert_eq!(got["stream"].as_bool().unwrap_or(false), stream, "{context}");
                    assert!(!received.headers.contains_key("anthropic-version"), "{context}");
                }
            }
            assert_eq!(tokens.count(), 1, "{caller}: one token for both");
            let form = String::from_utf8(tokens.last().body.to_vec()).unwrap();
            assert!(form.starts_with("grant_type=urn") && form.contains("assertion="), "{form}");
        }
    }
}

/// A token that is refused is fetched again, once.
#[tokio::test]
async fn a_refused_token_is_renewed() {
    let upstream = Upstream::start().await;
    let (gateway, tokens, _folder) = vertex(&upstream, "google").await;
    let tenant = gateway.tenant("free").await;
    let error =
        json!({ "error": { "code": 401, "message": "Expired.", "status": "UNAUTHENTICATED" } });
    tokens.script([Script::json(&json!({ "access_token": "ya29.token-0", "expires_in": 3600 }))]);
    upstream.script([Script::error(401, &error), answer(Wire::Gemini, Reply::Text, false)]);
    let body = request(Wire::Chat, false);
    let answered = send(&gateway, &tenant, Wire::Chat, false, &body).await;
    assert_eq!(answered.status, 200, "{}", answered.text());
    let sent: Vec<Value> = upstream
        .received()
        .iter()
        .map(|received| json!(received.headers["authorization"].to_str().unwrap()))
        .collect();
    assert_eq!(json!(sent), json!(["Bearer ya29.token-0", "Bearer ya29.token-1"]));
    assert!(!gateway.log().contains("ya29"), "{}", gateway.log());
}
