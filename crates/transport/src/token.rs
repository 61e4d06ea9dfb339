//! Signed bearer tokens: JWTs with HS256 and nothing else (RFC 7515, 7519; specification:
//! Authentication). The key decides the algorithm, never the token.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use sha2::Sha256;

use crate::Error;
use crate::error::TokenFault;

/// The claims that a token must have.
#[derive(Clone, Debug, Default)]
pub struct Claims {
    /// `iss` must be this.
    pub issuer: Option<String>,
    /// `aud` must be or hold this.
    pub audience: Option<String>,
    /// Tolerated difference between the clocks of signer and server, in seconds.
    pub max_clock_skew: u64,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    /// True if the member is present, with any value.
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
/// The first check that fails. For logs and tests: the client only gets a 401.
pub fn verify(token: &str, secret: &[u8], claims: &Claims, now: i64) -> Result<(), Error> {
    find_fault(token, secret, claims, now).map_err(Error::token)
}

fn find_fault(token: &str, secret: &[u8], claims: &Claims, now: i64) -> Result<(), TokenFault> {
    let (signed, signature) = token.rsplit_once('.').ok_or(TokenFault::Malformed)?;
    let (header, payload) = signed.split_once('.').ok_or(TokenFault::Malformed)?;
    if payload.contains('.') {
        return Err(TokenFault::Malformed);
    }
    let header: Header = read(header)?;
    if header.alg != "HS256" || header.crit || header.b64 {
        return Err(TokenFault::Algorithm);
    }
    let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| TokenFault::Malformed)?;
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).map_err(|_| TokenFault::Signature)?;
    mac.update(signed.as_bytes());
    mac.verify_slice(&signature).map_err(|_| TokenFault::Signature)?;
    let payload: Payload = read(payload)?;
    let (now, skew) = (now as f64, claims.max_clock_skew as f64);
    if !payload.exp.is_some_and(|exp| exp + skew > now) {
        return Err(TokenFault::Expired);
    }
    if payload.nbf.is_some_and(|nbf| nbf > now + skew) {
        return Err(TokenFault::NotYet);
    }
    if claims.issuer.is_some() && claims.issuer != payload.iss {
        return Err(TokenFault::Issuer);
    }
    let is_for = |audience: &String| match &payload.aud {
        Some(Audience::One(one)) => one == audience,
        Some(Audience::Many(many)) => many.contains(audience),
        None => false,
    };
    if !claims.audience.as_ref().is_none_or(is_for) {
        return Err(TokenFault::Audience);
    }
    Ok(())
}

fn present<'a, D: Deserializer<'a>>(value: D) -> Result<bool, D::Error> {
    IgnoredAny::deserialize(value).map(|_| true)
}

/// Refuses duplicate members: choosing one of them would be a guess.
fn read<T: for<'a> Deserialize<'a>>(part: &str) -> Result<T, TokenFault> {
    let json = URL_SAFE_NO_PAD.decode(part).map_err(|_| TokenFault::Malformed)?;
    // serde would read an array as the members in order of declaration.
    if !json.trim_ascii_start().starts_with(b"{") {
        return Err(TokenFault::Malformed);
    }
    serde_json::from_slice(&json).map_err(|_| TokenFault::Malformed)
}
