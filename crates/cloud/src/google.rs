//! Google access tokens: for a service account, for a user's login with `gcloud`, or from the metadata server of the
//! machine.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use hyper::{Method, StatusCode};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use serde::Deserialize;
use serde_json::json;

use crate::account::GoogleAuth;
use crate::account::Key;
use crate::connections::Connections;
use crate::fetch::{self, Answer, Call, METADATA_TIMEOUT, TOKEN_TIMEOUT};
use crate::fetched::{CloudError, Fetched};
use http_client::Secret;

const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";
const TOKEN_URL: &str = "https://oauth2.googleapis.com/token";
/// Lifetime of an assertion, in seconds: the longest that is accepted.
const ASSERTION_SECONDS: u64 = 3600;
/// Path of a token below the metadata server's address.
const METADATA_TOKEN: &str = "computeMetadata/v1/instance/service-accounts/default/token";

/// A file of credentials.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum File {
    ServiceAccount {
        client_email: String,
        private_key: String,
        private_key_id: Option<String>,
        token_uri: Option<String>,
    },
    AuthorizedUser {
        client_id: String,
        client_secret: String,
        refresh_token: String,
        token_uri: Option<String>,
    },
}

#[derive(Deserialize)]
struct Token {
    access_token: String,
    expires_in: u64,
}

/// Fetches a token from the first source that exists.
///
/// # Errors
/// No source exists, or it refuses.
pub(crate) async fn fetch(
    auth: &GoogleAuth,
    connections: &Connections,
    now: SystemTime,
) -> Result<Fetched, CloudError> {
    let mut looked = Vec::new();
    for (path, is_named) in [(&auth.file, true), (&auth.default_file, false)] {
        let Some(path) = path else { continue };
        match fetch::read_file(connections.files(), path).await? {
            Some(text) => return of_file(&text, path, connections, now).await,
            None if is_named => {
                let message = format!(
                    "the credentials file {} does not exist; correct `google.credentials-file`, or \
                     GOOGLE_APPLICATION_CREDENTIALS",
                    path.display()
                );
                return Err(CloudError::permanent(message));
            }
            None => looked.push(format!("{} does not exist", path.display())),
        }
    }
    of_machine(&auth.metadata, connections, now).await.map_err(|error| {
        looked.push(format!("this machine has no service account ({})", error.message));
        CloudError {
            message: format!(
                "there are no Google credentials: {}; set `google.credentials-file`, or run `gcloud auth \
                 application-default login`",
                looked.join("; ")
            ),
            passes: error.passes,
        }
    })
}

async fn of_file(
    text: &str,
    path: &Path,
    connections: &Connections,
    now: SystemTime,
) -> Result<Fetched, CloudError> {
    let path = path.display();
    // The text of the error may quote the key, its place does not.
    let file: File = serde_json::from_str(text).map_err(|error| {
        CloudError::permanent(format!(
            "{path} is not a file of credentials of the type `service_account` or `authorized_user` (line {}, column \
             {}); other types are not supported",
            error.line(), error.column()
        ))
    })?;
    let (url, form) = match &file {
        File::ServiceAccount { client_email, private_key, private_key_id, token_uri } => {
            let url = token_uri.as_deref().unwrap_or(TOKEN_URL);
            let assertion =
                assertion(client_email, private_key, private_key_id.as_deref(), url, now)
                    .map_err(|problem| CloudError::permanent(format!("{path}: {problem}")))?;
            (
                url,
                form(&[
                    ("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"),
                    ("assertion", &assertion),
                ]),
            )
        }
        File::AuthorizedUser { client_id, client_secret, refresh_token, token_uri } => {
            let members = [
                ("grant_type", "refresh_token"),
                ("client_id", client_id),
                ("client_secret", client_secret),
                ("refresh_token", refresh_token),
            ];
            (token_uri.as_deref().unwrap_or(TOKEN_URL), form(&members))
        }
    };
    if !fetch::is_safe(url) {
        return Err(CloudError::permanent(format!("{path}: its `token_uri` has no https://")));
    }
    let http = connections.of_tokens().await?;
    let headers = vec![("content-type", "application/x-www-form-urlencoded".to_owned())];
    let call = Call { method: Method::POST, url, headers, body: form, within: TOKEN_TIMEOUT };
    let answer = fetch::call(&http, call).await?;
    token_of(&answer, &format!("{url} refuses the credentials of {path}"), now)
}

async fn of_machine(
    address: &str,
    connections: &Connections,
    now: SystemTime,
) -> Result<Fetched, CloudError> {
    let url = format!("{}/{METADATA_TOKEN}", address.trim_end_matches('/'));
    let headers = vec![("metadata-flavor", "Google".to_owned())];
    let (method, body) = (Method::GET, String::new());
    let call = Call { method, url: &url, headers, body, within: METADATA_TIMEOUT };
    let answer = fetch::call(connections.direct()?, call).await;
    // A machine of another cloud has no such server, and will have none.
    let answer = answer.map_err(|error| CloudError { passes: false, ..error })?;
    token_of(&answer, "the metadata server refuses a token", now)
}

fn token_of(answer: &Answer, refused: &str, now: SystemTime) -> Result<Fetched, CloudError> {
    if answer.status != StatusCode::OK {
        let body = answer.json();
        let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
        let why =
            crate::excerpt::excerpt(&format!("{} {}", text("error"), text("error_description")));
        let clock = crate::refusal::clock(&answer.headers, now).unwrap_or_default();
        let status = answer.status;
        let passes = status.is_server_error() || status.as_u16() == 429;
        return Err(CloudError { message: format!("{refused}: {status} {why}{clock}"), passes });
    }
    let token: Token = serde_json::from_slice(&answer.body)
        .map_err(|_| CloudError::permanent(format!("{refused}: the answer is not a token")))?;
    let lifetime = Duration::from_secs(token.expires_in);
    let ends = now.checked_add(lifetime);
    Ok(Fetched { key: Key::Bearer(Secret::new(token.access_token)), ends })
}

fn form(members: &[(&str, &str)]) -> String {
    let encoded = members
        .iter()
        .map(|(name, value)| format!("{name}={}", utf8_percent_encode(value, NON_ALPHANUMERIC)));
    encoded.collect::<Vec<_>>().join("&")
}

/// A JWT that the key of a service account signs (RFC 7523).
fn assertion(
    email: &str,
    key: &str,
    key_id: Option<&str>,
    audience: &str,
    now: SystemTime,
) -> Result<String, String> {
    let der = der(key).ok_or("its `private_key` is not a PEM file of the type PRIVATE KEY")?;
    let key = RsaKeyPair::from_pkcs8(&der)
        .map_err(|error| format!("its `private_key` is not a usable RSA key: {error}"))?;
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let header = json!({ "alg": "RS256", "typ": "JWT", "kid": key_id });
    let claims = json!({
        "iss": email, "scope": SCOPE, "aud": audience, "iat": now, "exp": now + ASSERTION_SECONDS,
    });
    let encode = |value: &serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = format!("{}.{}", encode(&header), encode(&claims));
    let mut signature = vec![0; key.public().modulus_len()];
    key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), signed.as_bytes(), &mut signature)
        .map_err(|_| "its `private_key` cannot sign".to_owned())?;
    Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
}

fn der(pem: &str) -> Option<Vec<u8>> {
    let (_, rest) = pem.split_once("-----BEGIN PRIVATE KEY-----")?;
    let (body, _) = rest.split_once("-----END PRIVATE KEY-----")?;
    let body: String = body.split_whitespace().collect();
    STANDARD.decode(body).ok()
}
