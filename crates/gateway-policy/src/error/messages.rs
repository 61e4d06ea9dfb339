//! Errors in the form of Messages:
//! `{"type":"error","error":{"type","message","details":{"error_code"}},"request_id"}`.

use hyper::StatusCode;
use serde_json::{Map, Value, json};

use super::ApiError;

impl ApiError {
    /// The same error in the form of Messages. `details` has our code, the parameter at fault and
    /// `resets_at`. An upstream's own error of this form keeps its members.
    #[must_use]
    pub fn for_messages(mut self, request_id: &str) -> Self {
        let error = match &self.0.passed {
            Some(body) => passed(self.status(), body),
            None => self.own(),
        };
        let body = json!({ "type": "error", "error": error, "request_id": request_id });
        self.0.passed = Some(body.to_string().into());
        self
    }

    fn own(&self) -> Value {
        let mut details = Map::new();
        if let Some(code) = self.0.code {
            details.insert("error_code".to_owned(), code.into());
        }
        if let Some(param) = &self.0.param {
            details.insert("param".to_owned(), (**param).into());
        }
        if let Some(moment) = self.0.resets_at {
            details.insert("resets_at".to_owned(), moment.into());
        }
        let kind = match self.0.code {
            Some("server_overloaded") => "overloaded_error",
            _ => kind_of(self.0.status),
        };
        json!({ "type": kind, "message": self.0.message, "details": details })
    }
}

/// The error in an upstream's body, whose form may be another one.
fn passed(status: StatusCode, body: &[u8]) -> Value {
    let body = serde_json::from_slice::<Value>(body).unwrap_or_default();
    let error = &body["error"];
    if error["type"].as_str().is_some_and(is_kind) && error["message"].is_string() {
        return error.clone();
    }
    let texts = [&error["message"], error, &body["message"], &body["detail"]];
    let message = texts.into_iter().find_map(Value::as_str);
    let message = message.unwrap_or("The model server answered with an error.");
    let mut shown = json!({ "type": kind_of(status), "message": message });
    if let Some(code) = error["code"].as_str() {
        shown["details"] = json!({ "error_code": code });
    }
    shown
}

/// The types of errors of Messages.
fn is_kind(kind: &str) -> bool {
    matches!(
        kind,
        "invalid_request_error"
            | "authentication_error"
            | "billing_error"
            | "permission_error"
            | "not_found_error"
            | "request_too_large"
            | "rate_limit_error"
            | "api_error"
            | "timeout_error"
            | "overloaded_error"
    )
}

/// The type that a status has.
fn kind_of(status: StatusCode) -> &'static str {
    match status.as_u16() {
        401 => "authentication_error",
        402 => "billing_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        504 => "timeout_error",
        529 => "overloaded_error",
        500.. => "api_error",
        _ => "invalid_request_error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(error: ApiError) -> Value {
        let body = error.for_messages("req_1").body();
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!((&body["type"], &body["request_id"]), (&json!("error"), &json!("req_1")));
        body["error"].clone()
    }

    #[test]
    fn own_errors_have_the_type_of_their_status_and_our_code() {
        for (status, kind) in [
            (400, "invalid_request_error"),
            (401, "authentication_error"),
            (403, "permission_error"),
            (404, "not_found_error"),
            (405, "invalid_request_error"),
            (413, "request_too_large"),
            (429, "rate_limit_error"),
            (502, "api_error"),
            (504, "timeout_error"),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            let error = shown(ApiError::new(status, "a_code", "Why.").param("tools"));
            let details = json!({ "error_code": "a_code", "param": "tools" });
            let expected = json!({ "type": kind, "message": "Why.", "details": details });
            assert_eq!(error, expected);
        }
        let overloaded = ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "server_overloaded", "");
        assert_eq!(shown(overloaded.resets_at(7))["type"], "overloaded_error");
    }

    #[test]
    fn errors_of_upstreams_are_kept_or_translated() {
        let own =
            || json!({ "type": "overloaded_error", "message": "Overloaded", "details": null });
        for (body, expected) in [
            (json!({ "type": "error", "error": own(), "request_id": "req_2" }), own()),
            (
                json!({ "error": { "type": "server_error", "message": "no", "code": "busy" } }),
                json!({ "type": "overloaded_error", "message": "no", "details": { "error_code": "busy" } }),
            ),
            (json!({ "error": "no" }), json!({ "type": "overloaded_error", "message": "no" })),
            (json!({ "detail": "no" }), json!({ "type": "overloaded_error", "message": "no" })),
            (
                json!([1]),
                json!({ "type": "overloaded_error", "message": "The model server answered with an error." }),
            ),
        ] {
            let status = StatusCode::from_u16(529).unwrap();
            assert_eq!(shown(ApiError::passed(status, body.to_string().into())), expected);
        }
    }
}
