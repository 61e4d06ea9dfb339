//! Messages to a webhook: their signature as in Standard Webhooks, and the waits between attempts.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use gateway_policy::settings::Webhook;
use gateway_store::records::outbox::Message;
use hmac::{Hmac, Mac};
use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue, InvalidHeaderValue};
use sha2::Sha256;

/// Wait after the first failed attempt; each further one is three times as long.
const FIRST: Duration = Duration::from_secs(5);
/// Longest wait.
const LONGEST: Duration = Duration::from_hours(6);

/// The headers of an attempt at that moment, in Unix seconds.
///
/// # Errors
/// The id of the message cannot be sent.
pub(crate) fn headers(
    webhook: &Webhook,
    message: &Message,
    at: i64,
) -> Result<HeaderMap, InvalidHeaderValue> {
    let signature = sign(&webhook.key(), &message.id, at, &message.body);
    let mut headers = HeaderMap::new();
    for (name, value) in [
        ("webhook-id", message.id.to_string()),
        ("webhook-timestamp", at.to_string()),
        ("webhook-signature", signature),
    ] {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_str(&value)?);
    }
    Ok(headers)
}

/// `v1,` and the base64 of the HMAC-SHA256 of id, time and body.
fn sign(key: &[u8], id: &str, at: i64, body: &str) -> String {
    let mac = Hmac::<Sha256>::new_from_slice(key).expect("a key of any length will do");
    let signed = mac.chain_update(format!("{id}.{at}.{body}")).finalize().into_bytes();
    format!("v1,{}", STANDARD.encode(signed))
}

/// The wait after so many failed attempts.
pub(crate) fn wait(attempts: u32) -> Duration {
    let factor = 3_u32.saturating_pow(attempts.saturating_sub(1));
    FIRST.saturating_mul(factor).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the specification of Standard Webhooks.
    #[test]
    fn signatures_are_those_of_standard_webhooks() {
        let key = STANDARD.decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let id = "msg_p5jXN8AQM9LWM0D4loKWxJek";
        let signature = sign(&key, id, 1_614_265_330, r#"{"test": 2432232314}"#);
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn waits_grow_up_to_six_hours() {
        let waits: Vec<u64> = (0..9).map(|attempts| wait(attempts).as_secs()).collect();
        assert_eq!(waits, [5, 5, 15, 45, 135, 405, 1215, 3645, 10_935]);
        assert_eq!(wait(9), LONGEST);
        assert_eq!(wait(u32::MAX), LONGEST);
    }
}
