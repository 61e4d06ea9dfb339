//! Signed tokens: no text is one, and of two signed texts in a row, divided by a NUL
//! character, none is taken that does not say what it must.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac};
use serde_json::Value;
use sha2::Sha256;
use transport::{Claims, verify};

use crate::input::text;

const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";
const NOW: i64 = 1_700_000_000;

fn sign(header: &str, payload: &str) -> String {
    let [header, payload] = [header, payload].map(|part| URL_SAFE_NO_PAD.encode(part));
    let text = format!("{header}.{payload}");
    let mut mac = Hmac::<Sha256>::new_from_slice(SECRET).expect("keys of all lengths are good");
    mac.update(text.as_bytes());
    format!("{text}.{}", URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes()))
}

/// Checks one input.
pub fn run(bytes: &[u8]) {
    let text = text(bytes);
    let claims = Claims {
        issuer: Some("editor".to_owned()),
        audience: Some("agentd".to_owned()),
        max_clock_skew: 30,
    };
    assert!(verify(text, SECRET, &claims, NOW).is_err(), "not signed with the secret");
    let Some((header, payload)) = text.split_once('\0') else { return };
    if verify(&sign(header, payload), SECRET, &claims, NOW).is_err() {
        return;
    }
    // Ignored members may be deeper, or greater, than what is read here.
    let read = serde_json::from_str::<Value>;
    let (Ok(header), Ok(payload)) = (read(header), read(payload)) else { return };
    assert_eq!(header["alg"], "HS256");
    assert!(header.get("crit").is_none() && header.get("b64").is_none());
    assert!(payload["exp"].as_f64().expect("a number") > (NOW - 30) as f64);
    assert!(payload["nbf"].as_f64().is_none_or(|begin| begin <= (NOW + 30) as f64));
    assert_eq!(payload["iss"], "editor");
    let audience = &payload["aud"];
    let among = audience.as_array().is_some_and(|many| many.contains(&"agentd".into()));
    assert!(audience == "agentd" || among);
}
