//! Errors in the form of Gemini: `{"error":{"code","message","status","details"}}`.

use hyper::StatusCode;
use hyper::header::{self, HeaderName};
use serde_json::{Map, Value, json};

use super::ApiError;

impl ApiError {
    /// The same error in the form of Gemini. `details` has our code, the parameter at fault and `resets_at`, and the wait
    /// of `Retry-After`, which clients of Gemini read there. An upstream's own error of this form keeps its members.
    #[must_use]
    pub fn for_gemini(mut self) -> Self {
        let mut error = match &self.0.passed {
            Some(body) => passed(self.status(), body),
            None => self.own_of_gemini(),
        };
        if let Some(wait) = self.wait() {
            add_wait(&mut error, &wait);
        }
        self.0.passed = Some(json!({ "error": error }).to_string().into());
        self
    }

    fn own_of_gemini(&self) -> Value {
        let mut details = Vec::new();
        if let Some(code) = self.0.code {
            let mut metadata = Map::new();
            if let Some(param) = &self.0.param {
                metadata.insert("param".to_owned(), (**param).into());
            }
            if let Some(moment) = self.0.resets_at {
                metadata.insert("resets_at".to_owned(), moment.to_string().into());
            }
            details.push(json!({
                "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                "reason": code,
                "domain": "gateway",
                "metadata": metadata,
            }));
        }
        json!({
            "code": self.0.status.as_u16(),
            "message": self.0.message,
            "status": status_of(self.0.status),
            "details": details,
        })
    }

    /// The wait that its headers ask for, such as `1.5s`.
    fn wait(&self) -> Option<String> {
        let number = |name: HeaderName| {
            let text = self.find_header(name)?.to_str().ok()?;
            text.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0)
        };
        let exact = number(HeaderName::from_static("retry-after-ms")).map(|wait| wait / 1000.0);
        exact.or_else(|| number(header::RETRY_AFTER)).map(|seconds| format!("{seconds}s"))
    }
}

/// Adds the wait to the details of an error, unless they have one.
fn add_wait(error: &mut Value, wait: &str) {
    const KIND: &str = "type.googleapis.com/google.rpc.RetryInfo";
    let Some(error) = error.as_object_mut() else { return };
    let details = error.entry("details").or_insert_with(|| json!([]));
    let Some(details) = details.as_array_mut() else { return };
    if details.iter().all(|detail| detail["@type"] != KIND) {
        details.push(json!({ "@type": KIND, "retryDelay": wait }));
    }
}

/// The error in an upstream's body, whose form may be another one.
fn passed(status: StatusCode, body: &[u8]) -> Value {
    let body = serde_json::from_slice::<Value>(body).unwrap_or_default();
    // Some of its servers answer with an array of one error.
    let body = body.get(0).unwrap_or(&body);
    let error = &body["error"];
    if error["status"].is_string() && error["code"].is_number() && error["message"].is_string() {
        return error.clone();
    }
    let texts = [&error["message"], error, &body["message"], &body["detail"]];
    let message = texts.into_iter().find_map(Value::as_str);
    let message = message.unwrap_or("The model server answered with an error.");
    json!({ "code": status.as_u16(), "message": message, "status": status_of(status) })
}

/// The name that a status has.
fn status_of(status: StatusCode) -> &'static str {
    match status.as_u16() {
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        408 | 504 => "DEADLINE_EXCEEDED",
        409 => "ABORTED",
        429 => "RESOURCE_EXHAUSTED",
        499 => "CANCELLED",
        501 => "UNIMPLEMENTED",
        502 | 503 | 529 => "UNAVAILABLE",
        500.. => "INTERNAL",
        _ => "INVALID_ARGUMENT",
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn shown(error: ApiError) -> Value {
        let body: Value = serde_json::from_slice(&error.for_gemini().body()).unwrap();
        body["error"].clone()
    }

    #[test]
    fn own_errors_have_the_status_by_name_our_code_and_the_wait() {
        for (status, name) in [
            (400, "INVALID_ARGUMENT"),
            (401, "UNAUTHENTICATED"),
            (403, "PERMISSION_DENIED"),
            (404, "NOT_FOUND"),
            (413, "INVALID_ARGUMENT"),
            (429, "RESOURCE_EXHAUSTED"),
            (502, "UNAVAILABLE"),
            (504, "DEADLINE_EXCEEDED"),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            let error = ApiError::new(status, "a_code", "Why.").param("tools").resets_at(7);
            let error = shown(error.header(header::RETRY_AFTER, HeaderValue::from_static("3")));
            assert_eq!(
                (&error["code"], &error["message"], &error["status"]),
                (&json!(status.as_u16()), &json!("Why."), &json!(name))
            );
            let [info, retry] = &error["details"].as_array().unwrap()[..] else {
                panic!("{error}")
            };
            assert_eq!(info["reason"], "a_code");
            assert_eq!(info["metadata"], json!({ "param": "tools", "resets_at": "7" }));
            assert_eq!(retry["retryDelay"], "3s");
        }
    }

    #[test]
    fn waits_of_headers_are_in_the_details() {
        let ms = HeaderName::from_static("retry-after-ms");
        for (headers, expected) in [
            (vec![(header::RETRY_AFTER, "3")], Some("3s")),
            (vec![(header::RETRY_AFTER, "2"), (ms.clone(), "1500")], Some("1.5s")),
            (vec![(ms, "250")], Some("0.25s")),
            (vec![(header::RETRY_AFTER, "Wed, 21 Oct 2026 07:28:00 GMT")], None),
            (vec![], None),
        ] {
            let body =
                json!({ "error": { "code": 503, "message": "No.", "status": "UNAVAILABLE" } });
            let mut error =
                ApiError::passed(StatusCode::SERVICE_UNAVAILABLE, body.to_string().into());
            for (name, value) in headers {
                error = error.header(name, HeaderValue::from_static(value));
            }
            let found = shown(error)["details"][0]["retryDelay"].as_str().map(str::to_owned);
            assert_eq!(found.as_deref(), expected);
        }
        // An upstream's own wait stays the only one.
        let retry =
            json!([{ "@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "17s" }]);
        let body = json!({ "error": { "code": 429, "message": "No.", "status": "RESOURCE_EXHAUSTED",
            "details": retry } });
        let error = ApiError::passed(StatusCode::TOO_MANY_REQUESTS, body.to_string().into());
        let error = error.header(header::RETRY_AFTER, HeaderValue::from_static("17"));
        assert_eq!(shown(error)["details"], retry);
    }

    #[test]
    fn errors_of_upstreams_are_kept_or_translated() {
        let own = json!({ "code": 429, "message": "Quota.", "status": "RESOURCE_EXHAUSTED",
            "details": [{ "retryDelay": "17s" }] });
        for (body, expected) in [
            (json!({ "error": own }), own.clone()),
            (json!([{ "error": own }]), own),
            (
                json!({ "error": { "type": "server_error", "message": "no" } }),
                json!({ "code": 503, "message": "no", "status": "UNAVAILABLE" }),
            ),
            (
                json!([1]),
                json!({ "code": 503, "message": "The model server answered with an error.", "status": "UNAVAILABLE" }),
            ),
        ] {
            let status = StatusCode::SERVICE_UNAVAILABLE;
            assert_eq!(shown(ApiError::passed(status, body.to_string().into())), expected);
        }
    }
}
