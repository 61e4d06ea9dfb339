//! Accounts of clouds under load and in the hands of callers: what a caller cannot choose there, keys that are refused or
//! come late, and requests of the gateway itself.

use hyper::Method;
use serde_json::{Value, json};
use wire::Wire;

use super::super::dialects::path;
use super::*;
use crate::common::background::Background;
use crate::contract::later::{ask, until};

/// Headers with which a client would choose who pays, and how much.
const CHOICES: [(&str, &str); 9] = [
    ("x-amzn-bedrock-service-tier", "priority"),
    ("x-amzn-bedrock-performanceconfig-latency", "optimized"),
    ("x-amzn-bedrock-guardrailidentifier", "g"),
    ("x-amz-target", "x"),
    ("x-vertex-ai-llm-shared-request-type", "priority"),
    ("x-vertex-ai-llm-request-type", "shared"),
    ("x-goog-user-project", "other"),
    ("x-goog-fieldmask", "candidates"),
    ("x-http-method-override", "GET"),
];

async fn send_with(
    gateway: &TestGateway,
    tenant: &Tenant,
    caller: Wire,
    more: &[(&str, &str)],
    body: &Value,
) -> crate::common::gateway::Answer {
    let bearer = format!("Bearer {}", tenant.key);
    let mut headers = vec![("content-type", "application/json")];
    headers.push(match caller {
        Wire::Gemini => ("x-goog-api-key", &*tenant.key),
        _ => ("authorization", &*bearer),
    });
    headers.extend(more);
    gateway.send(Method::POST, path(caller, false), &headers, body.to_string()).await
}

#[tokio::test]
async fn callers_choose_no_price_and_no_payer() {
    for place in ["bedrock", "anthropic", "google"] {
        let backend = if place == "google" { Wire::Gemini } else { Wire::Messages };
        let upstream = Upstream::start().await;
        let (gateway, _tokens, _folder) = at(&upstream, place).await;
        let tenant = gateway.tenant("free").await;
        for caller in Wire::ALL {
            upstream.script([answer(backend, Reply::Text, false)]);
            let mut more = CHOICES.to_vec();
            more.push(("user-agent", "mine"));
            let body = request(caller, false);
            let answered = send_with(&gateway, &tenant, caller, &more, &body).await;
            assert_eq!(answered.status, 200, "{place}, {caller}: {}", answered.text());
            let got = upstream.last().headers;
            for (name, _) in CHOICES {
                assert!(!got.contains_key(name), "{place}, {caller}: {name}");
            }
            assert_eq!(got["user-agent"], "mine", "{place}, {caller}");
        }
    }
}

/// A gateway in front of Bedrock, or of a publisher at Vertex AI with its service of tokens.
async fn at(upstream: &Upstream, place: &str) -> (TestGateway, Option<Upstream>, TempDir) {
    if place == "bedrock" {
        let (gateway, folder) = bedrock(upstream).await;
        return (gateway, None, folder);
    }
    let (gateway, tokens, folder) = vertex(upstream, place).await;
    (gateway, Some(tokens), folder)
}

/// Clients name betas in several headers, and clients of clouds in the body.
#[tokio::test]
async fn betas_of_headers_and_of_the_body_are_one_list() {
    for place in ["bedrock", "anthropic"] {
        let upstream = Upstream::start().await;
        let (gateway, _tokens, _folder) = at(&upstream, place).await;
        let tenant = gateway.tenant("free").await;
        let lines = [("anthropic-beta", "a, b"), ("anthropic-beta", "c")];
        let mut body = request(Wire::Messages, false);
        for (more, in_body, expected) in [
            (&lines[..], json!(["b", "d"]), "a,b,c,d"),
            (&lines[..], Value::Null, "a,b,c"),
            (&lines[..0], json!(["d"]), "d"),
        ] {
            body["anthropic_beta"] = in_body;
            upstream.script([Script::json(&document(Wire::Messages, Reply::Text))]);
            let answered = send_with(&gateway, &tenant, Wire::Messages, more, &body).await;
            assert_eq!(answered.status, 200, "{place}: {}", answered.text());
            let received = upstream.last();
            let names: Vec<&str> = expected.split(',').collect();
            if place == "bedrock" {
                assert_eq!(received.json()["anthropic_beta"], json!(names));
            } else {
                assert_eq!(received.headers["anthropic-beta"], expected);
                assert!(received.json()["anthropic_beta"].is_null());
            }
        }
        body["anthropic_beta"] = json!({ "a": 1 });
        let refused = send_with(&gateway, &tenant, Wire::Messages, &[], &body).await;
        assert_eq!(refused.status, 400, "{place}: {}", refused.text());
    }
}

/// Amazon forbids a model or a guardrail with 403, and Google a project: another token would not help.
#[tokio::test]
async fn what_is_forbidden_renews_no_token() {
    let upstream = Upstream::start().await;
    let (gateway, tokens, _folder) = vertex(&upstream, "google").await;
    let tenant = gateway.tenant("free").await;
    let refusal = |code: u16, status: &str| {
        Script::error(
            code,
            &json!({ "error": { "code": code, "message": "No.", "status": status } }),
        )
    };
    let body = request(Wire::Chat, false);
    for _ in 0..3 {
        upstream.script([refusal(403, "PERMISSION_DENIED")]);
        let failed = send(&gateway, &tenant, Wire::Chat, false, &body).await;
        assert_eq!(failed.status, 502, "{}", failed.text());
    }
    assert_eq!((tokens.count(), upstream.count()), (1, 3));
    // A token that is refused is renewed, and the next one not again at once.
    let next = json!({ "access_token": "ya29.next", "expires_in": 3600 });
    tokens.script([Script::json(&next)]);
    upstream.script((0..4).map(|_| refusal(401, "UNAUTHENTICATED")));
    for _ in 0..3 {
        let failed = send(&gateway, &tenant, Wire::Chat, false, &body).await;
        assert_eq!(failed.status, 502, "{}", failed.text());
    }
    // The first request was sent twice.
    assert_eq!(upstream.count(), 3 + 4);
    assert_eq!(tokens.count(), 2);
}

/// All requests share one question, and none waits beyond its own time.
#[tokio::test]
async fn a_service_of_tokens_that_hangs_takes_no_longer_than_the_request() {
    let upstream = Upstream::start().await;
    let (gateway, tokens, _folder) = vertex_with(&upstream, "google", "timeout_ms = 300\n").await;
    let tenant = gateway.tenant("free").await;
    tokens.script([Script::json(&json!({})).before(Step::Hang)]);
    let body = request(Wire::Chat, false);
    let began = std::time::Instant::now();
    let ask = || send(&gateway, &tenant, Wire::Chat, false, &body);
    let (one, two, three) = tokio::join!(ask(), ask(), ask());
    for failed in [one, two, three] {
        assert_eq!(failed.status, 502, "{}", failed.text());
        assert!(failed.message().contains("no credentials"), "{}", failed.text());
    }
    // The service itself is given 15 s.
    assert!(began.elapsed().as_secs() < 10, "{:?}", began.elapsed());
    assert_eq!((tokens.count(), upstream.count()), (1, 0));
}

/// The gateway asks how far a response is with the credentials of the account, as it created it.
#[tokio::test]
async fn responses_in_the_background_are_polled_with_the_account() {
    let background = Background::start().await;
    let folder = tempfile::tempdir().unwrap();
    let credentials = folder.path().join("credentials");
    let profile = format!("[work]\naws_access_key_id = AKID\naws_secret_access_key = {SECRET}\n");
    std::fs::write(&credentials, profile).unwrap();
    let gateway = TestGateway::start_with_variables(
        &format!(
            "[admin]\ntoken_file = \"token\"\n[upstreams.main]\nbase_url = \"{}\"\nauth = \"aws-sigv4\"\n\
             aws = {{ region = \"us-east-1\", profile = \"work\" }}\n[models.big]\nupstream_model = \"up\"\n{PRICE}\n",
            background.upstream.url()
        ),
        &[("AWS_SHARED_CREDENTIALS_FILE", credentials.to_str().unwrap())],
    )
    .await;
    let tenant = gateway.tenant("free").await;
    let created = gateway.post(&tenant, "/v1/responses", &ask()).await;
    assert_eq!(created.status, 200, "{}", created.text());
    gateway.is_idle().await;
    gateway.clock.advance(120 * 1_000_000);
    let looked = async || (background.looks("resp_1") > 0).then_some(());
    until("a look at the response", looked).await;
    for received in background.upstream.received() {
        let authorization = received.headers["authorization"].to_str().unwrap();
        assert!(authorization.contains("Credential=AKID/"), "{authorization}");
    }
}

/// A file that a client uploads is held until it is there: each request is signed as a whole.
#[tokio::test]
async fn uploads_to_an_account_are_signed() {
    let upstream = Upstream::answering(|_| Script::json(&json!({ "id": "file-1" }))).await;
    let (gateway, _folder) = bedrock(&upstream).await;
    let tenant = gateway.tenant("free").await;
    let body = "--x\r\ncontent-disposition: form-data; name=\"purpose\"\r\n\r\nassistants\r\n\
                --x\r\ncontent-disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\nabc\r\n--x--\r\n";
    let bearer = format!("Bearer {}", tenant.key);
    let headers =
        [("authorization", &*bearer), ("content-type", "multipart/form-data; boundary=x")];
    let uploaded = gateway.send(Method::POST, "/v1/files", &headers, body).await;
    assert_eq!(uploaded.status, 200, "{}", uploaded.text());
    let received = upstream.last();
    assert_eq!(received.body, body.as_bytes());
    let authorization = received.headers["authorization"].to_str().unwrap();
    let found = authorization.split_once("Signature=").unwrap().1;
    assert_eq!(found, signature(&received, authorization));
}

/// What came before a frame that is broken has been answered, and is charged.
#[tokio::test]
async fn events_before_a_broken_frame_count() {
    for caller in [Wire::Messages, Wire::Chat] {
        let upstream = Upstream::start().await;
        let (gateway, _folder) = bedrock(&upstream).await;
        let tenant = gateway.tenant("free").await;
        let mut bytes = frames(Reply::Text)[..5].concat();
        let broken = bytes.len() + 20;
        bytes.extend(frames(Reply::Text)[5].clone());
        bytes[broken] ^= 1;
        upstream.script([binary(vec![bytes])]);
        let answered = send(&gateway, &tenant, caller, true, &request(caller, true)).await;
        let seen = read(caller, &answered, true);
        assert!(seen.text.starts_with("Hello") && !seen.is_complete, "{}", answered.text());
        assert!(!seen.error.is_null(), "{caller}: {}", answered.text());
        assert!(cost(&gateway, &tenant).await > 0, "{caller}");
        assert_eq!(upstream.count(), 1);
    }
}
