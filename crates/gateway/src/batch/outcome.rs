//! The lines of a batch's output and error files: one line of JSON for each line of the batch.

use serde::Serialize;
use serde_json::value::RawValue;

/// The line for a response with any status.
pub(super) fn answered(
    id: &str,
    custom_id: &str,
    request_id: &str,
    status_code: u16,
    body: &[u8],
) -> Box<str> {
    // Newlines in JSON are white space between tokens.
    let space = |byte: &u8| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte };
    let text = String::from_utf8(body.iter().map(space).collect());
    let text = text.unwrap_or_else(|bad| String::from_utf8_lossy(bad.as_bytes()).into_owned());
    let body: Box<RawValue> = serde_json::from_str(&text).unwrap_or_else(|_| quoted(&text));
    let response = Some(Response { status_code, request_id, body: &body });
    written(&Line { id, custom_id, response, error: None })
}

/// The line for a request without a response.
pub(super) fn refused(id: &str, custom_id: &str, code: &str, message: &str) -> Box<str> {
    written(&Line { id, custom_id, response: None, error: Some(Error { code, message }) })
}

#[derive(Serialize)]
struct Line<'a> {
    id: &'a str,
    custom_id: &'a str,
    response: Option<Response<'a>>,
    error: Option<Error<'a>>,
}

#[derive(Serialize)]
struct Response<'a> {
    status_code: u16,
    request_id: &'a str,
    body: &'a RawValue,
}

#[derive(Serialize)]
struct Error<'a> {
    code: &'a str,
    message: &'a str,
}

fn written(line: &Line<'_>) -> Box<str> {
    serde_json::to_string(line).expect("texts and raw JSON can be written").into()
}

fn quoted(text: &str) -> Box<RawValue> {
    let quoted = serde_json::Value::from(text).to_string();
    RawValue::from_string(quoted).expect("a quoted text is JSON")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_response_becomes_one_line() {
        let check = |body: &str, expected: &str| {
            let line = answered("batch_req_1", "a\"b", "req_1", 200, body.as_bytes());
            let expected = format!(
                "{{\"id\":\"batch_req_1\",\"custom_id\":\"a\\\"b\",\"response\":{{\"status_code\":\
                 200,\"request_id\":\"req_1\",\"body\":{expected}}},\"error\":null}}"
            );
            assert_eq!(*line, *expected);
        };
        check(
            r#"{"n":1.10,"big":123456789012345678901}"#,
            r#"{"n":1.10,"big":123456789012345678901}"#,
        );
        check("{\r\n  \"a\": 1\n}", "{    \"a\": 1 }");
        check("no JSON\nat all", "\"no JSON at all\"");
        check("", "\"\"");
    }

    proptest! {
        #[test]
        fn any_outcome_is_one_line_of_json(body in any::<Vec<u8>>(), name in any::<String>()) {
            let line = answered("i", &name, "r", 500, &body);
            prop_assert!(!line.contains(['\n', '\r']));
            let value: serde_json::Value = serde_json::from_str(&line).unwrap();
            prop_assert_eq!(value["custom_id"].as_str(), Some(&*name));
        }
    }
}
