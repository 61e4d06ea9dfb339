//! Signed bearer tokens: JWTs with HS256 and nothing else (RFC 7515, 7519; specification:
//! Authentication). The key decides the algorithm, never the token.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use sha2::Sha256;

/// What a token must claim.
#[derive(Clone, Debug, Default)]
pub struct Claims {
    /// `iss` must be this.
    pub issuer: Option<String>,
    /// `aud` must be or hold this.
    pub audience: Option<String>,
    /// Tolerated difference between the clocks of signer and server, in seconds.
    pub max_clock_skew: u64,
}

/// Why a token is refused. For logs and tests: the client only gets a 401.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// Not three parts of base64url, or not the JSON that belongs there.
    #[error("the token is not a signed JWT")]
    Malformed,
    /// An algorithm other than HS256, or an extension that must be understood.
    #[error("the token is not signed with HS256")]
    Algorithm,
    /// The signature is not of this key.
    #[error("the signature of the token is wrong")]
    Signature,
    /// `exp` is missing or past.
    #[error("the token has expired, or has no `exp`")]
    Expired,
    /// `nbf` is in the future.
    #[error("the token is not valid yet")]
    NotYet,
    /// `iss` is missing or another one.
    #[error("the token has another issuer")]
    Issuer,
    /// `aud` is missing or names others.
    #[error("the token is for another audience")]
    Audience,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    /// Whether the member is present, with any value.
    #[serde(default, deserialize_with = "present")]
    crit: bool,
    #[serde(default, deserialize_with = "present")]
    b64: bool,
}

#[derive(Deserialize)]
struct Payload {
    exp: Option<f64>,
    nbf: Option<f64>,
    iss: Option<String>,
    aud: Option<Audience>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Many(Vec<String>),
}

/// Checks a token at the time `now`, in seconds since 1970. The signature is checked before the
/// claims: of an unsigned token, only the algorithm is read.
///
/// # Errors
/// The first check that fails.
pub fn verify(token: &str, secret: &[u8], claims: &Claims, now: i64) -> Result<(), TokenError> {
    let (signed, signature) = token.rsplit_once('.').ok_or(TokenError::Malformed)?;
    let (header, payload) = signed.split_once('.').ok_or(TokenError::Malformed)?;
    if payload.contains('.') {
        return Err(TokenError::Malformed);
    }
    let header: Header = read(header)?;
    if header.alg != "HS256" || header.crit || header.b64 {
        return Err(TokenError::Algorithm);
    }
    let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| TokenError::Malformed)?;
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).map_err(|_| TokenError::Signature)?;
    mac.update(signed.as_bytes());
    mac.verify_slice(&signature).map_err(|_| TokenError::Signature)?;
    let payload: Payload = read(payload)?;
    let (now, skew) = (now as f64, claims.max_clock_skew as f64);
    if !payload.exp.is_some_and(|exp| exp + skew > now) {
        return Err(TokenError::Expired);
    }
    if payload.nbf.is_some_and(|nbf| nbf > now + skew) {
        return Err(TokenError::NotYet);
    }
    if claims.issuer.is_some() && claims.issuer != payload.iss {
        return Err(TokenError::Issuer);
    }
    let is_for = |audience: &String| match &payload.aud {
        Some(Audience::One(one)) => one == audience,
        Some(Audience::Many(many)) => many.contains(audience),
        None => false,
    };
    if !claims.audience.as_ref().is_none_or(is_for) {
        return Err(TokenError::Audience);
    }
    Ok(())
}

fn present<'a, D: Deserializer<'a>>(value: D) -> Result<bool, D::Error> {
    IgnoredAny::deserialize(value).map(|_| true)
}

/// Refuses duplicate members: choosing one of them would be a guess.
fn read<T: for<'a> Deserialize<'a>>(part: &str) -> Result<T, TokenError> {
    let json = URL_SAFE_NO_PAD.decode(part).map_err(|_| TokenError::Malformed)?;
    // serde would read an array as the members in order of declaration.
    if !json.trim_ascii_start().starts_with(b"{") {
        return Err(TokenError::Malformed);
    }
    serde_json::from_slice(&json).map_err(|_| TokenError::Malformed)
}
