//! Google Vertex AI: tokens of each kind of account, and the paths of both wires.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use model::{FailureKind, GoogleAuth, KeySource, Retry};
use ring::signature::{RSA_PKCS1_2048_8192_SHA256, RsaKeyPair, UnparsedPublicKey};

use super::*;

/// Made for this test.
const KEY: &str = include_str!("service-account.pem");
const CLAUDE: &str = "/v1/projects/p/locations/global/publishers/anthropic";

fn auth() -> GoogleAuth {
    GoogleAuth { file: None, default_file: None, metadata: "http://127.0.0.1:9".into() }
}

fn vertex(address: &str, wire: Wire, auth: GoogleAuth) -> Arc<Provider> {
    provider(Platform::Vertex, wire, address, KeySource::Google(Arc::new(auth)))
}

fn token(token: &str, seconds: u64) -> Vec<u8> {
    json_answer(&json!({"access_token": token, "expires_in": seconds, "token_type": "Bearer"}))
}

/// A file of a service account whose tokens are at `address`.
fn account(folder: &tempfile::TempDir, address: &str) -> GoogleAuth {
    let file = folder.path().join("account.json");
    let text = json!({
        "type": "service_account", "client_email": "agent@p.iam.gserviceaccount.com", "private_key": KEY,
        "private_key_id": "k1", "token_uri": format!("{address}/token"), "project_id": "p",
    });
    std::fs::write(&file, text.to_string()).unwrap();
    GoogleAuth { file: Some(file), ..auth() }
}

fn decoded(part: &str) -> Value {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
}

fn check_assertion(form: &str, address: &str) {
    let grant = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant%2Dtype%3Ajwt%2Dbearer&assertion=";
    let assertion = form.strip_prefix(grant).unwrap();
    let assertion = assertion.replace("%2E", ".").replace("%2D", "-").replace("%5F", "_");
    let (signed, signature) = assertion.rsplit_once('.').unwrap();
    let (header, claims) = signed.split_once('.').unwrap();
    assert_eq!(decoded(header), json!({"alg": "RS256", "typ": "JWT", "kid": "k1"}));
    let claims = decoded(claims);
    assert_eq!(claims["iss"], "agent@p.iam.gserviceaccount.com");
    assert_eq!(claims["aud"], format!("{address}/token"));
    assert_eq!(claims["exp"].as_u64().unwrap() - claims["iat"].as_u64().unwrap(), 3600);
    let der: String = KEY.lines().filter(|line| !line.starts_with('-')).collect();
    let der = base64::engine::general_purpose::STANDARD.decode(der).unwrap();
    let key = RsaKeyPair::from_pkcs8(&der).unwrap();
    let key = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, key.public().as_ref());
    key.verify(signed.as_bytes(), &URL_SAFE_NO_PAD.decode(signature).unwrap()).unwrap();
}

#[tokio::test]
async fn a_turn_of_claude_with_a_service_account() {
    let folder = tempfile::tempdir().unwrap();
    let (issuer, mut asked) = server(vec![token("ya29.one", 3600)]).await;
    let (address, mut requests) = server(vec![text_stream(MESSAGES), text_stream(MESSAGES)]).await;
    let provider = vertex(&format!("{address}{CLAUDE}"), Wire::Messages, account(&folder, &issuer));
    let arrived = turn(&provider, "claude-opus-4-6@20260205", &mut requests).await;
    for arrived in &arrived {
        let path = format!("{CLAUDE}/models/claude-opus-4-6@20260205:streamRawPredict");
        assert_eq!(arrived.line, format!("POST {path}"));
        assert_eq!(arrived.header("authorization"), "Bearer ya29.one");
        assert_eq!((arrived.header("x-api-key"), arrived.header("anthropic-version")), ("", ""));
        let body = arrived.json();
        assert!(body["model"].is_null(), "{body}");
        assert_eq!(
            (&body["anthropic_version"], &body["stream"]),
            (&json!("vertex-2023-10-16"), &json!(true))
        );
    }
    assert!(arrived[1].text().contains("\"signature\":\"c2ln\""));
    check_assertion(&asked.recv().await.unwrap().text(), &issuer);
}

#[tokio::test]
async fn a_turn_of_gemini_on_a_machine_with_an_account() {
    let (metadata, mut asked) = server(vec![token("ya29.machine", 3600)]).await;
    let (address, mut requests) = server(vec![text_stream(GEMINI), text_stream(GEMINI)]).await;
    let base = "/v1/projects/p/locations/global/publishers/google";
    let auth = GoogleAuth { metadata, ..auth() };
    let provider = vertex(&format!("{address}{base}"), Wire::Gemini, auth);
    let arrived = turn(&provider, "gemini-3-pro", &mut requests).await;
    for arrived in &arrived {
        let path = format!("{base}/models/gemini-3-pro:streamGenerateContent?alt=sse");
        assert_eq!(arrived.line, format!("POST {path}"));
        assert_eq!(arrived.header("authorization"), "Bearer ya29.machine");
        assert_eq!(arrived.header("x-goog-api-key"), "");
    }
    let sent = arrived[1].json();
    let parts =
        sent["contents"].as_array().unwrap().iter().flat_map(|it| it["parts"].as_array().unwrap());
    let calls: Vec<&Value> = parts.filter(|part| !part["functionResponse"].is_null()).collect();
    // Vertex refuses ids.
    assert!(
        !calls.is_empty() && calls.iter().all(|it| it["functionResponse"]["id"].is_null()),
        "{sent}"
    );
    let arrived = asked.recv().await.unwrap();
    let path = "/computeMetadata/v1/instance/service-accounts/default/token";
    assert_eq!(
        (&*arrived.line, arrived.header("metadata-flavor")),
        (&*format!("GET {path}"), "Google")
    );
}

#[tokio::test]
async fn a_login_of_gcloud_is_renewed_when_it_ends_or_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let answers = vec![token("one", 20), token("two", 3600), token("three", 3600)];
    let (issuer, mut asked) = server(answers).await;
    let unauthorized = || {
        answer(
            "401 Unauthorized",
            "",
            r#"{"error":{"code":401,"message":"no","status":"UNAUTHENTICATED"}}"#,
        )
    };
    let stream = || text_stream(MESSAGES);
    let (address, mut requests) = server(vec![stream(), stream(), unauthorized(), stream()]).await;
    let file = folder.path().join("adc.json");
    let text = json!({
        "type": "authorized_user", "client_id": "c", "client_secret": "s&1", "refresh_token": "1//r",
        "token_uri": format!("{issuer}/token"),
    });
    std::fs::write(&file, text.to_string()).unwrap();
    let auth = GoogleAuth { default_file: Some(file), ..auth() };
    let provider = vertex(&format!("{address}{CLAUDE}"), Wire::Messages, auth);
    let client = Client::new();
    for _ in 0..3 {
        completes(&client, &provider, "claude-opus-4-6").await;
    }
    // The first ends within seconds. The second is refused at the third request.
    for expect in ["one", "two", "two", "three"] {
        let arrived = requests.recv().await.unwrap();
        assert_eq!(arrived.header("authorization"), format!("Bearer {expect}"));
    }
    let form = asked.recv().await.unwrap().text();
    assert_eq!(
        form,
        "grant_type=refresh%5Ftoken&client_id=c&client_secret=s%261&refresh_token=1%2F%2Fr"
    );
}

#[tokio::test]
async fn missing_and_refused_credentials_name_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        GoogleAuth { file: Some(path), ..auth() }
    };
    let refused = answer(
        "400 Bad Request",
        "date: Sun, 06 Nov 1994 08:49:37 GMT\r\n",
        r#"{"error":"invalid_grant","error_description":"Token must be a short-lived token"}"#,
    );
    let (issuer, _asked) = server(vec![refused]).await;
    let absent = folder.path().join("absent.json");
    let external = r#"{"type":"external_account","private_key":"secret-key-text"}"#;
    let bad_key =
        json!({"type": "service_account", "client_email": "a", "private_key": "secret-key-text"});
    let leaking = json!({"type": "authorized_user", "client_id": "c", "client_secret": "s",
        "refresh_token": "secret-key-text", "token_uri": "http://example.com/token"});
    for (auth, parts) in [
        (
            GoogleAuth { file: Some(absent.clone()), ..auth() },
            vec!["absent.json", "google.credentials-file"],
        ),
        (file("a.json", external), vec!["a.json", "other types are not supported"]),
        (file("b.json", "no json"), vec!["b.json", "line 1"]),
        (file("c.json", &bad_key.to_string()), vec!["c.json", "`private_key`"]),
        (file("d.json", &leaking.to_string()), vec!["d.json", "`token_uri` has no https://"]),
        (
            account(&folder, &issuer),
            vec!["invalid_grant", "the clock of this machine is", "account.json"],
        ),
    ] {
        let provider = vertex("http://127.0.0.1:9/publishers/anthropic", Wire::Messages, auth);
        let failed = failure(&Client::new(), &provider, "claude-opus-4-6").await;
        assert_eq!(
            (failed.kind, failed.retry),
            (FailureKind::Unauthorized, Retry::Never),
            "{}",
            failed.message
        );
        assert!(!failed.message.contains("secret-key-text"), "{}", failed.message);
        for part in parts {
            assert!(failed.message.contains(part), "{part}: {}", failed.message);
        }
    }
    // Nothing answers at the metadata server's address.
    let auth = GoogleAuth { default_file: Some(absent), ..auth() };
    let provider = vertex("http://127.0.0.1:9/publishers/anthropic", Wire::Messages, auth);
    let failed = failure(&Client::new(), &provider, "claude-opus-4-6").await;
    assert_eq!(
        (failed.kind, failed.retry),
        (FailureKind::Unauthorized, Retry::Never),
        "{}",
        failed.message
    );
    for part in [
        "absent.json does not exist",
        "no service account",
        "gcloud auth application-default login",
    ] {
        assert!(failed.message.contains(part), "{part}: {}", failed.message);
    }
}
