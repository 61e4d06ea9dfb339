//! The token endpoint: its answers, and the claims of the ID tokens in them.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http_client::Secret;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::endpoint::{Answer, Endpoint, Http};
use super::metadata::Metadata;
use crate::credentials::{HostedLogin, Profile};
use crate::error::Error;
use crate::settings::start_of;

/// Most characters of a description of the service that are quoted.
const MAX_DESCRIPTION: usize = 200;

/// A successful answer.
#[derive(Debug)]
pub(crate) struct Tokens {
    access_token: Secret,
    refresh_token: Option<Secret>,
    id_token: Option<Secret>,
    lifetime_ms: Option<i64>,
}

#[derive(Deserialize)]
struct Document {
    access_token: String,
    token_type: Option<String>,
    refresh_token: Option<String>,
    id_token: Option<String>,
    expires_in: Option<Value>,
}

#[derive(Deserialize)]
struct ErrorDocument {
    error: String,
    error_description: Option<String>,
}

/// Sends a request to the token endpoint. No value of `members` appears in an error.
pub(crate) async fn request(
    http: &Http,
    endpoint: &Endpoint,
    members: &[(&str, &str)],
) -> Result<Tokens, Error> {
    let answer = http.post_form(endpoint, members).await?;
    if !answer.status.is_success() {
        return Err(refusal(&answer, members));
    }
    let document: Document = answer.json()?;
    if document.token_type.is_some_and(|kind| !kind.eq_ignore_ascii_case("bearer")) {
        return Err(answer.bad("issued tokens that are not bearer tokens"));
    }
    if !is_token(&document.access_token) || !document.refresh_token.as_deref().is_none_or(is_token)
    {
        return Err(answer.bad("issued a token that is empty or that no header can carry"));
    }
    Ok(Tokens {
        access_token: Secret::new(document.access_token),
        refresh_token: document.refresh_token.map(Secret::new),
        id_token: document.id_token.map(Secret::new),
        lifetime_ms: document.expires_in.as_ref().and_then(milliseconds),
    })
}

/// Exchanges what the user granted for a login. The request is sent at `now_ms`.
pub(crate) async fn log_in(
    http: &Http,
    metadata: &Metadata,
    members: &[(&str, &str)],
    expected: Expected<'_>,
    now_ms: i64,
) -> Result<HostedLogin, Error> {
    let tokens = request(http, &metadata.token, members).await?;
    tokens.into_login(http, metadata, expected, now_ms).await
}

/// Returns whether a header can carry it.
pub(crate) fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// `expires_in`, in seconds. Some services send it as text.
fn milliseconds(seconds: &Value) -> Option<i64> {
    let seconds = match seconds {
        Value::Number(number) => number.as_f64()?,
        Value::String(text) => text.parse().ok()?,
        _ => return None,
    };
    // The conversion saturates.
    seconds.is_finite().then_some((seconds.max(0.0) * 1000.0) as i64)
}

/// The error of an answer with an error status.
pub(crate) fn refusal(answer: &Answer, members: &[(&str, &str)]) -> Error {
    let endpoint = answer.label.clone();
    match answer.json::<ErrorDocument>() {
        Ok(document) => Error::Refused {
            endpoint,
            code: shown(&document.error, members),
            description: document.error_description.map(|text| shown(&text, members)),
        },
        Err(_) if answer.status.is_server_error() || answer.status.as_u16() == 429 => {
            let problem = format!("it answered {}", answer.status.as_u16());
            Error::Unreachable { endpoint, problem }
        }
        Err(error) => error,
    }
}

/// Text of the service, bounded, and without what was sent to it.
fn shown(text: &str, members: &[(&str, &str)]) -> String {
    const SECRETS: [&str; 4] = ["code", "code_verifier", "refresh_token", "device_code"];
    let secrets = members.iter().filter(|(name, _)| SECRETS.contains(name));
    let text = secrets.fold(text.to_owned(), |text, (_, value)| text.replace(value, "***"));
    let shown = text.chars().take(MAX_DESCRIPTION);
    shown.map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// The values that an ID token must agree with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expected<'e> {
    pub(crate) client_id: &'e str,
    pub(crate) nonce: Option<&'e str>,
}

impl Tokens {
    /// The login that these tokens begin. Asks the service who logged in when the ID token does not
    /// state it.
    async fn into_login(
        self,
        http: &Http,
        metadata: &Metadata,
        expected: Expected<'_>,
        obtained_at_ms: i64,
    ) -> Result<HostedLogin, Error> {
        let mut profile = self.profile(&metadata.issuer, expected)?.unwrap_or_default();
        if let Some(userinfo) = &metadata.userinfo
            && (profile.email.is_none() || profile.account_id.is_none())
        {
            let asked = userinfo_profile(http, userinfo, self.access_token.expose()).await;
            match asked {
                // Another user's answer is not used (OpenID Connect Core 5.3.2).
                Ok(asked) if profile.subject.is_none() || asked.subject == profile.subject => {
                    profile = profile.or(asked);
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(target: "account", "the account has no description: {error}");
                }
            }
        }
        Ok(HostedLogin {
            issuer: metadata.issuer.trim_end_matches('/').to_owned(),
            client_id: expected.client_id.to_owned(),
            access_token: self.access_token,
            refresh_token: self.refresh_token,
            obtained_at_ms,
            lifetime_ms: self.lifetime_ms,
            profile,
        })
    }

    /// `login` with these tokens in place of its own. A service that rotates no refresh tokens sends
    /// none.
    pub(crate) fn renew(
        self,
        login: &HostedLogin,
        obtained_at_ms: i64,
    ) -> Result<HostedLogin, Error> {
        let expected = Expected { client_id: &login.client_id, nonce: None };
        let profile = self.profile(&login.issuer, expected)?;
        let old = &login.profile;
        if let Some(new) = &profile
            && let (Some(new), Some(old)) = (&new.subject, &old.subject)
            && new != old
        {
            return Err(Error::LoginFailed("the tokens are of another user".to_owned()));
        }
        Ok(HostedLogin {
            access_token: self.access_token,
            refresh_token: self.refresh_token.or_else(|| login.refresh_token.clone()),
            obtained_at_ms,
            lifetime_ms: self.lifetime_ms,
            profile: profile.unwrap_or_default().or(old.clone()),
            issuer: login.issuer.clone(),
            client_id: login.client_id.clone(),
        })
    }

    /// The claims of the ID token. Its signature is not checked: it came from the token endpoint itself,
    /// over TLS (OpenID Connect Core 3.1.3.7). Neither are its times: the clock may be wrong.
    fn profile(&self, issuer: &str, expected: Expected<'_>) -> Result<Option<Profile>, Error> {
        let Some(token) = &self.id_token else { return Ok(None) };
        let claims = claims(token.expose())
            .ok_or_else(|| Error::LoginFailed("the ID token is not a JWT".to_owned()))?;
        let text = |name: &str| claims.get(name).and_then(Value::as_str);
        let is_ours = match claims.get("aud") {
            Some(Value::String(audience)) => audience == expected.client_id,
            Some(Value::Array(all)) => all.iter().any(|one| one == expected.client_id),
            _ => false,
        };
        let problem = if text("iss").map(|iss| iss.trim_end_matches('/'))
            != Some(issuer.trim_end_matches('/'))
        {
            "the ID token is of another issuer"
        } else if !is_ours {
            "the ID token is for another client"
        } else if expected.nonce.is_some() && text("nonce") != expected.nonce {
            "the ID token is of another login"
        } else {
            return Ok(Some(profile_of(&claims)));
        };
        Err(Error::LoginFailed(problem.to_owned()))
    }
}

async fn userinfo_profile(http: &Http, endpoint: &Endpoint, token: &str) -> Result<Profile, Error> {
    let answer = http.get(endpoint, Some(token)).await?;
    if !answer.status.is_success() {
        return Err(answer.bad(&format!("answered {}", answer.status.as_u16())));
    }
    Ok(profile_of(&answer.json()?))
}

/// The payload of a JWT.
fn claims(token: &str) -> Option<Map<String, Value>> {
    let mut parts = token.split('.');
    let (_, payload, _, None) = (parts.next()?, parts.next()?, parts.next()?, parts.next()) else {
        return None;
    };
    let payload = URL_SAFE_NO_PAD.decode(payload.trim_end_matches('=')).ok()?;
    serde_json::from_slice(&payload).ok()
}

fn profile_of(claims: &Map<String, Value>) -> Profile {
    let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(start_of);
    Profile {
        subject: claims.get("sub").and_then(text),
        email: claims.get("email").and_then(text),
        plan: claim(claims, "plan_type").map(start_of),
        account_id: claim(claims, "account_id").filter(|id| is_token(id)).map(start_of),
    }
}

/// A claim that services put at the top or in an object with the name of a URL, under this name or with
/// a prefix, as in `hosted_account_id`.
fn claim<'c>(claims: &'c Map<String, Value>, name: &str) -> Option<&'c str> {
    let is_named = |key: &str| {
        key.strip_suffix(name).is_some_and(|prefix| prefix.is_empty() || prefix.ends_with('_'))
    };
    let namespaces = claims.iter().filter(|(key, _)| key.starts_with("https://"));
    let objects = namespaces.filter_map(|(_, value)| value.as_object());
    std::iter::once(claims)
        .chain(objects)
        .flat_map(|object| object.iter())
        .filter(|(key, _)| is_named(key))
        .find_map(|(_, value)| value.as_str().filter(|text| !text.is_empty()))
}

impl Profile {
    /// This profile, with what it lacks from `other`.
    fn or(self, other: Self) -> Self {
        Self {
            subject: self.subject.or(other.subject),
            email: self.email.or(other.email),
            plan: self.plan.or(other.plan),
            account_id: self.account_id.or(other.account_id),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tokens(claims: &Value) -> Tokens {
        let payload = URL_SAFE_NO_PAD.encode(claims.to_string());
        Tokens {
            access_token: Secret::new("a"),
            refresh_token: None,
            id_token: Some(Secret::new(format!("e30.{payload}.sig"))),
            lifetime_ms: None,
        }
    }

    #[test]
    fn claims_are_found_at_the_top_and_in_a_namespace() {
        let expected = Expected { client_id: "c", nonce: Some("n") };
        let check = |more: Value, plan: Option<&str>, account: Option<&str>| {
            let mut claims = json!({ "iss": "https://h/", "aud": ["x", "c"], "nonce": "n" });
            claims.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let profile = tokens(&claims).profile("https://h", expected).unwrap().unwrap();
            assert_eq!((profile.plan.as_deref(), profile.account_id.as_deref()), (plan, account));
        };
        check(json!({}), None, None);
        check(json!({ "plan_type": "pro", "account_id": "w1" }), Some("pro"), Some("w1"));
        check(json!({ "hosted_account_id": "w1" }), None, Some("w1"));
        check(
            json!({ "https://h/auth": { "x_plan_type": "team", "x_account_id": "w2" } }),
            Some("team"),
            Some("w2"),
        );
        check(json!({ "myaccount_idx": "w", "account_id": 5, "plan_type": null }), None, None);
        // No header could carry it.
        check(json!({ "account_id": "a\nb" }), None, None);
    }

    #[test]
    fn id_tokens_of_others_are_refused() {
        let expected = Expected { client_id: "c", nonce: Some("n") };
        let check = |claims: Value, problem: &str| {
            let error = tokens(&claims).profile("https://h", expected).unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
        };
        check(json!({}), "issuer");
        check(json!({ "iss": "https://evil", "aud": "c", "nonce": "n" }), "issuer");
        check(json!({ "iss": "https://h", "aud": "d", "nonce": "n" }), "client");
        check(json!({ "iss": "https://h", "aud": "c", "nonce": "other" }), "another login");
        check(json!({ "iss": "https://h", "aud": "c" }), "another login");
        let mut broken = tokens(&json!({}));
        broken.id_token = Some(Secret::new("no.jwt"));
        assert!(broken.profile("https://h", expected).is_err());
    }

    #[test]
    fn lifetimes_of_any_form_are_read() {
        let check = |value: Value, expected| assert_eq!(milliseconds(&value), expected, "{value}");
        check(json!(3600), Some(3_600_000));
        check(json!("3600"), Some(3_600_000));
        check(json!(0.5), Some(500));
        check(json!(-5), Some(0));
        check(json!(1e300), Some(i64::MAX));
        check(json!("soon"), None);
        check(json!(null), None);
        check(json!([]), None);
    }
}
