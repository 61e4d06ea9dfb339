//! Amazon Bedrock: a server that checks signatures on its own and answers in frames.

use aws_smithy_eventstream::frame::write_message_to;
use aws_smithy_types::event_stream::{Header, HeaderValue, Message};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::{AwsAuth, AwsContainer, AwsKeys, FailureKind, KeySource, Retry, Secret};
use ring::{digest, hmac};

use super::*;

const MODEL: &str = "us.anthropic.claude-opus-4-6-v1:0";
const KEY: &str = "wJalrXUtnFEMI/K7MDENG";

fn frame(headers: &[(&'static str, &'static str)], payload: &str) -> Vec<u8> {
    let mut message = Message::new(payload.to_owned().into_bytes());
    for (name, value) in headers {
        message = message.add_header(Header::new(*name, HeaderValue::String((*value).into())));
    }
    let mut out = Vec::new();
    write_message_to(&message, &mut out).unwrap();
    out
}

fn frames() -> Vec<Vec<u8>> {
    let headers = [
        (":message-type", "event"),
        (":event-type", "chunk"),
        (":content-type", "application/json"),
    ];
    let chunk =
        |event| frame(&headers, &json!({"bytes": STANDARD.encode(event), "p": "abc"}).to_string());
    recorded(MESSAGES).map(chunk).collect()
}

fn binary(frames: &[Vec<u8>]) -> Vec<u8> {
    let kind = "content-type: application/vnd.amazon.eventstream\r\nx-amzn-requestid: aws-7\r\n";
    answer("200 OK", kind, frames.concat())
}

fn refusal(status: &str, kind: &str, message: &str) -> Vec<u8> {
    let headers =
        format!("content-type: application/json\r\nx-amzn-errortype: {kind}:http://internal/\r\n");
    answer(status, &headers, json!({ "message": message }).to_string())
}

fn keys(id: &str) -> AwsKeys {
    AwsKeys { id: id.into(), secret: Secret::new(KEY), session_token: None }
}

fn auth() -> AwsAuth {
    AwsAuth {
        region: "us-east-1".into(),
        service: "bedrock",
        keys: None,
        profile: "default".into(),
        profile_is_named: false,
        profile_files: Vec::new(),
        web_identity: false,
        container: None,
        metadata: None,
    }
}

fn bedrock(address: &str, auth: AwsAuth) -> Arc<Provider> {
    provider(Platform::Bedrock, Wire::Messages, address, KeySource::Aws(Arc::new(auth)))
}

fn with_keys(address: &str) -> Arc<Provider> {
    bedrock(address, AwsAuth { keys: Some(keys("AKID")), ..auth() })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The signature of a request by the rules of Signature Version 4, from what arrived.
fn expected(arrived: &Arrived) -> String {
    let sha = |text: &[u8]| hex(digest::digest(&digest::SHA256, text).as_ref());
    let mac = |key: &[u8], text: &str| {
        hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes()).as_ref().to_vec()
    };
    let authorization = arrived.header("authorization");
    let part = |name: &str| {
        authorization.split_once(name).unwrap().1.split(',').next().unwrap().to_owned()
    };
    let (signed, scope) = (part("SignedHeaders="), part("Credential="));
    let scope: Vec<&str> = scope.split_once('/').unwrap().1.split('/').collect();
    let (method, path) = arrived.line.split_once(' ').unwrap();
    // The path is encoded once more than it is sent.
    let path = path.replace('%', "%25");
    let headers: String =
        signed.split(';').map(|name| format!("{name}:{}\n", arrived.header(name))).collect();
    let canonical = format!("{method}\n{path}\n\n{headers}\n{signed}\n{}", sha(&arrived.body));
    let date = arrived.header("x-amz-date");
    let text =
        format!("AWS4-HMAC-SHA256\n{date}\n{}\n{}", scope.join("/"), sha(canonical.as_bytes()));
    let seed = mac(format!("AWS4{KEY}").as_bytes(), scope[0]);
    let key = scope[1..].iter().fold(seed, |key, part| mac(&key, part));
    hex(&mac(&key, &text))
}

#[track_caller]
fn check_signature(arrived: &Arrived, id: &str) {
    let authorization = arrived.header("authorization");
    assert!(authorization.contains(&format!("Credential={id}/")), "{authorization}");
    assert!(authorization.contains("/us-east-1/bedrock/aws4_request"), "{authorization}");
    assert!(authorization.contains("host;"), "{authorization}");
    let signature = authorization.split_once("Signature=").unwrap().1;
    assert_eq!(signature, expected(arrived));
}

#[tokio::test]
async fn a_signed_turn_with_a_call() {
    let (address, mut requests) = server(vec![binary(&frames()), binary(&frames())]).await;
    let session = AwsKeys { session_token: Some(Secret::new("session-7")), ..keys("AKID") };
    let provider = bedrock(&address, AwsAuth { keys: Some(session), ..auth() });
    let [first, second] = turn(&provider, MODEL, &mut requests).await;
    for arrived in [&first, &second] {
        let path = "/model/us.anthropic.claude-opus-4-6-v1%3A0/invoke-with-response-stream";
        assert_eq!(arrived.line, format!("POST {path}"));
        assert_eq!(arrived.header("x-amz-security-token"), "session-7");
        assert_eq!((arrived.header("x-api-key"), arrived.header("anthropic-version")), ("", ""));
        check_signature(arrived, "AKID");
        let body = arrived.json();
        assert!(body["model"].is_null() && body["stream"].is_null(), "{body}");
        assert_eq!(body["anthropic_version"], "bedrock-2023-05-31");
        assert_eq!(body["tools"][0]["name"], "read");
    }
    let sent = second.text();
    assert!(sent.contains("plum") && sent.contains("\"signature\":\"c2ln\""), "{sent}");
}

#[tokio::test]
async fn a_bearer_key_needs_no_signature() {
    let (address, mut requests) = server(vec![binary(&frames())]).await;
    let key = KeySource::Value(Secret::new("bedrock-api-key-1"));
    let provider = provider(Platform::Bedrock, Wire::Messages, &address, key);
    completes(&Client::new(), &provider, MODEL).await;
    let sent = requests.recv().await.unwrap();
    assert_eq!(sent.header("authorization"), "Bearer bedrock-api-key-1");
    assert_eq!((sent.header("x-amz-date"), sent.header("x-api-key")), ("", ""));
}

#[tokio::test]
async fn refusals_of_amazon_have_their_meaning() {
    for (status, name, message, kind, again, says) in [
        (
            "429 Too Many Requests",
            "ThrottlingException",
            "Too many tokens, please wait before trying again.",
            FailureKind::ResponseTooManyFailedAttempts,
            true,
            "ThrottlingException",
        ),
        (
            "503 Service Unavailable",
            "ServiceUnavailableException",
            "busy",
            FailureKind::ServerOverloaded,
            true,
            "busy",
        ),
        (
            "400 Bad Request",
            "ValidationException",
            "Input is too long for requested model.",
            FailureKind::ContextWindowExceeded,
            false,
            "too long",
        ),
        (
            "403 Forbidden",
            "ExpiredTokenException",
            "The security token included in the request is expired",
            FailureKind::Unauthorized,
            false,
            "check the AWS credentials of model provider `cloud`",
        ),
        (
            "403 Forbidden",
            "AccessDeniedException",
            "no access to the model",
            FailureKind::HttpConnectionFailed,
            false,
            "bedrock:InvokeModelWithResponseStream",
        ),
    ] {
        let (address, mut requests) = server(vec![refusal(status, name, message)]).await;
        let failed = failure(&Client::new(), &with_keys(&address), MODEL).await;
        assert_eq!(failed.kind, kind, "{name}: {}", failed.message);
        assert_eq!(failed.retry == Retry::Request, again, "{name}");
        assert!(failed.message.contains(says), "{}", failed.message);
        assert!(!failed.message.contains(KEY), "{}", failed.message);
        requests.recv().await.unwrap();
        // The same keys are not tried again.
        assert!(requests.try_recv().is_err(), "{name}");
    }
}

#[tokio::test]
async fn a_wrong_clock_is_named() {
    let headers =
        "x-amzn-errortype: InvalidSignatureException\r\ndate: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
    let refused = answer("403 Forbidden", headers, r#"{"message":"Signature not yet current"}"#);
    let (address, _requests) = server(vec![refused]).await;
    let failed = failure(&Client::new(), &with_keys(&address), MODEL).await;
    assert_eq!(failed.kind, FailureKind::Unauthorized);
    assert!(failed.message.contains("the clock of this machine is"), "{}", failed.message);
    assert!(failed.message.contains("s fast, by the server's"), "{}", failed.message);
}

#[tokio::test]
async fn broken_streams_are_retried() {
    let exception = [(":message-type", "exception"), (":exception-type", "throttlingException")];
    let exception = frame(&exception, r#"{"message":"Too many requests"}"#);
    let mut wrong = frames();
    *wrong[3].last_mut().unwrap() ^= 1;
    let mut cut = frames()[..5].concat();
    cut.truncate(cut.len() - 3);
    let mut giant = frames()[..2].to_vec();
    giant.push(u32::MAX.to_be_bytes().to_vec());
    let begun = frames()[..3].to_vec();
    for (stream, kind, says) in [
        (
            [begun, vec![exception]].concat(),
            FailureKind::ResponseTooManyFailedAttempts,
            "Too many requests",
        ),
        (wrong, FailureKind::ResponseStreamDisconnected, "broken frame"),
        (
            vec![cut],
            FailureKind::InternalServerError,
            "closed the stream before the response was complete",
        ),
        (giant, FailureKind::ResponseStreamDisconnected, "4294967295 bytes"),
    ] {
        let (address, _requests) = server(vec![binary(&stream)]).await;
        let failed = failure(&Client::new(), &with_keys(&address), MODEL).await;
        assert_eq!(failed.kind, kind, "{}", failed.message);
        assert_eq!(failed.retry, Retry::Stream, "{}", failed.message);
        assert!(failed.message.contains(says), "{}", failed.message);
        assert!(failed.details.is_some_and(|it| it.contains("aws-7")));
    }
}

#[tokio::test]
async fn keys_that_were_replaced_in_the_profile_are_used_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("credentials");
    let write = |id: &str| {
        let text = format!("[work]\naws_access_key_id = {id}\naws_secret_access_key = {KEY}\n");
        std::fs::write(&file, text).unwrap();
    };
    write("OLD");
    let expired = || refusal("403 Forbidden", "ExpiredTokenException", "expired");
    let answers = vec![binary(&frames()), expired(), binary(&frames()), expired()];
    let (address, mut requests) = server(answers).await;
    let (profile, profile_files) =
        ("work".to_owned(), vec![folder.path().join("none"), file.clone()]);
    let provider =
        bedrock(&address, AwsAuth { profile, profile_is_named: true, profile_files, ..auth() });
    let client = Client::new();
    completes(&client, &provider, MODEL).await;
    check_signature(&requests.recv().await.unwrap(), "OLD");
    write("NEW");
    completes(&client, &provider, MODEL).await;
    check_signature(&requests.recv().await.unwrap(), "OLD");
    check_signature(&requests.recv().await.unwrap(), "NEW");
    // No other keys are there now.
    assert_eq!(failure(&client, &provider, MODEL).await.kind, FailureKind::Unauthorized);
}

fn temporary(id: &str, ends: &str) -> Vec<u8> {
    json_answer(
        &json!({"Code": "Success", "AccessKeyId": id, "SecretAccessKey": KEY, "Token": "t", "Expiration": ends}),
    )
}

#[tokio::test]
async fn the_role_of_an_instance_is_asked_once() {
    let text = |text: &str| answer("200 OK", "", text);
    let answers =
        vec![text("session"), text("my-role\n"), temporary("ROLE", "2999-01-01T00:00:00Z")];
    let (metadata, mut asked) = server(answers).await;
    let (address, mut requests) = server(vec![binary(&frames()), binary(&frames())]).await;
    let provider = bedrock(&address, AwsAuth { metadata: Some(metadata), ..auth() });
    let client = Client::new();
    completes(&client, &provider, MODEL).await;
    completes(&client, &provider, MODEL).await;
    check_signature(&requests.recv().await.unwrap(), "ROLE");
    check_signature(&requests.recv().await.unwrap(), "ROLE");
    let session = asked.recv().await.unwrap();
    assert_eq!(session.line, "PUT /latest/api/token");
    for path in ["", "my-role"] {
        let arrived = asked.recv().await.unwrap();
        assert_eq!(arrived.line, format!("GET /latest/meta-data/iam/security-credentials/{path}"));
        assert_eq!(arrived.header("x-aws-ec2-metadata-token"), "session");
    }
}

#[tokio::test]
async fn the_role_of_a_container_is_renewed_before_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "pod-token\n").unwrap();
    let ends = "2000-01-01T00:00:00Z";
    let (url, mut asked) = server(vec![temporary("FIRST", ends), temporary("SECOND", ends)]).await;
    let (address, mut requests) = server(vec![binary(&frames()), binary(&frames())]).await;
    let container =
        AwsContainer { url: format!("{url}/v1/credentials"), token: None, token_file: Some(file) };
    let provider = bedrock(&address, AwsAuth { container: Some(container), ..auth() });
    let client = Client::new();
    for id in ["FIRST", "SECOND"] {
        completes(&client, &provider, MODEL).await;
        check_signature(&requests.recv().await.unwrap(), id);
        let arrived = asked.recv().await.unwrap();
        assert_eq!(
            (&*arrived.line, arrived.header("authorization")),
            ("GET /v1/credentials", "pod-token")
        );
    }
}

#[tokio::test]
async fn missing_credentials_say_where_they_were_looked_up() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config");
    std::fs::write(&config, "[profile sso]\nsso_session = x\nregion = eu-west-1\n").unwrap();
    let profile_files = vec![config];
    let named = |profile: &str| AwsAuth {
        profile: profile.into(),
        profile_is_named: true,
        profile_files: profile_files.clone(),
        ..auth()
    };
    let container = |url: &str| {
        let container = AwsContainer { url: url.into(), token: None, token_file: None };
        AwsAuth { container: Some(container), ..auth() }
    };
    let (metadata, _asked) = server(vec![answer("404 Not Found", "", "")]).await;
    for (auth, parts) in [
        (
            AwsAuth { profile_files: profile_files.clone(), ..auth() },
            vec![
                "AWS_ACCESS_KEY_ID",
                "no profile `default`",
                "AWS_EC2_METADATA_DISABLED",
                "aws.profile",
            ],
        ),
        (AwsAuth { metadata: Some(metadata), ..auth() }, vec!["no instance with a role", "404"]),
        (named("absent"), vec!["no profile `absent`", "config"]),
        (named("sso"), vec!["`sso_session`", "export-credentials --profile sso"]),
        (
            AwsAuth { web_identity: true, ..auth() },
            vec!["AWS_WEB_IDENTITY_TOKEN_FILE", "EKS Pod Identity"],
        ),
        (container("http://example.com/x"), vec!["AWS_CONTAINER_CREDENTIALS_FULL_URI", "https://"]),
    ] {
        let failed = failure(&Client::new(), &bedrock("http://127.0.0.1:9", auth), MODEL).await;
        assert_eq!((failed.kind, failed.retry), (FailureKind::Unauthorized, Retry::Never));
        for part in parts {
            assert!(failed.message.contains(part), "{part}: {}", failed.message);
        }
    }
}

/// An address with the plain paths, as `bedrock-mantle` has, takes signatures too, and lists its models.
#[tokio::test]
async fn plain_paths_are_signed() {
    let list = json_answer(&json!({"data": [{"id": "anthropic.claude-opus-4-6"}]}));
    let (address, mut requests) = server(vec![text_stream(MESSAGES), list]).await;
    let key = KeySource::Aws(Arc::new(AwsAuth { keys: Some(keys("AKID")), ..auth() }));
    let provider = provider(Platform::Direct, Wire::Messages, &format!("{address}/anthropic"), key);
    completes(&Client::new(), &provider, "anthropic.claude-opus-4-6").await;
    let arrived = requests.recv().await.unwrap();
    assert_eq!(arrived.line, "POST /anthropic/v1/messages");
    assert_eq!(arrived.json()["model"], "anthropic.claude-opus-4-6");
    check_signature(&arrived, "AKID");
    assert!(provider.lists_models());
    Client::new().models(&provider, None).await.unwrap();
    assert!(requests.recv().await.unwrap().header("authorization").contains("Credential=AKID/"));
}
