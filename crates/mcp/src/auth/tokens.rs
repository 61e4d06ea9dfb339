//! Answers of token endpoints: numbers that are written as text are read, and tokens that no header can
//! contain are refused.

use serde_json::{Map, Value};

/// The body of an answer to a request for tokens as the protocol's library reads it.
///
/// # Errors
/// A token in it cannot be used; the message is for the user.
pub(super) fn readable(body: Vec<u8>) -> Result<Vec<u8>, String> {
    // What is not an object is reported by the library.
    let Ok(mut answer) = serde_json::from_slice::<Map<String, Value>>(&body) else {
        return Ok(body);
    };
    for name in ["access_token", "refresh_token"] {
        let token = answer.get(name).and_then(Value::as_str);
        if token.is_some_and(|token| !token.bytes().all(|byte| byte.is_ascii_graphic())) {
            return Err(format!(
                "the login service returned an `{name}` with characters that no header can contain \
                 (line breaks, spaces, or others outside of visible ASCII); it is not used"
            ));
        }
    }
    let Some(seconds) = answer.get("expires_in").and_then(seconds) else { return Ok(body) };
    answer.insert("expires_in".to_owned(), seconds.into());
    serde_json::to_vec(&answer).map_err(|error| error.to_string())
}

/// A time that is not written as the integer that the protocol demands.
fn seconds(value: &Value) -> Option<u64> {
    let number = match value {
        Value::String(text) => text.trim().parse::<f64>().ok()?,
        Value::Number(number) if !number.is_u64() => number.as_f64()?,
        _ => return None,
    };
    // A time in the past is one that is over now. The conversion saturates.
    number.is_finite().then(|| number.max(0.0) as u64)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    #[test]
    fn the_life_of_a_token_is_read_in_any_notation() {
        let check = |given: Value, expect: Value| {
            let body = json!({ "access_token": "a", "expires_in": given }).to_string();
            let found: Value =
                serde_json::from_slice(&readable(body.into_bytes()).unwrap()).unwrap();
            assert_eq!(found["expires_in"], expect);
        };
        check(json!(3600), json!(3600));
        check(json!("3600"), json!(3600));
        check(json!(" 60 "), json!(60));
        check(json!(59.9), json!(59));
        check(json!(-1), json!(0));
        // The library reports these.
        for unreadable in [json!("soon"), json!("NaN"), json!(null), json!([])] {
            check(unreadable.clone(), unreadable);
        }
        assert_eq!(readable(b"no JSON".to_vec()).unwrap(), b"no JSON");
    }

    #[test]
    fn a_token_that_no_header_can_contain_is_refused() {
        for name in ["access_token", "refresh_token"] {
            for token in ["a\r\nx-admin: 1", "a\nb", "a b", "a\0", "ä", "\u{202e}a"] {
                let body = json!({ "access_token": "a", name: token }).to_string();
                let error = readable(body.into_bytes()).unwrap_err();
                assert!(error.contains(name) && !error.contains(token), "{error}");
            }
        }
    }
}
