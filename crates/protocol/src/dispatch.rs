//! Routes a request, by its name and raw parameters, to its handler, and encodes the handler's
//! result. The server does the scheduling, the gating and the response's envelope.

use std::pin::Pin;

use bytes::Bytes;
use jsonrpc::ErrorObject;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::registry::{self, AllMethods};
use crate::turn::TURN_OVERRIDES;

/// A running request, which resolves to the serialized `result` member or to the error.
pub type Reply<'a> = Pin<Box<dyn Future<Output = Result<Bytes, ErrorObject>> + Send + 'a>>;

/// The part of a server that all resources share.
pub trait Handlers {
    /// The error of its handlers; the conversion determines code and data on the wire.
    type Error: Into<ErrorObject> + Send;
}

/// Decodes the parameters and calls the handler. Absent and null parameters decode as `{}`, so a
/// client can omit them if all members are optional. The parameters are decoded before this
/// returns; the future borrows only the server.
///
/// # Errors
/// The future resolves to -32601 for an unknown method, to -32602 with the name of the member for
/// parameters that do not fit, and otherwise to the handler's error.
pub fn dispatch<'a, S, Cx>(
    server: &'a S,
    cx: Cx,
    method: &str,
    params: Option<&RawValue>,
) -> Reply<'a>
where
    S: AllMethods<Cx>,
    Cx: 'a,
{
    let params = params.filter(|raw| raw.get() != "null");
    let called = match registry::lookup(method) {
        Some(info) => registry::route(info.resource, server, cx, method, params),
        None => Err(ErrorObject::method_not_found(method)),
    };
    called.unwrap_or_else(|error| Box::pin(std::future::ready(Err(error))))
}

/// The error for a method, or a part of one, that this version does not support: -32601 with
/// `data.reason` = `notImplemented`. A method that the specification reserves is never supported.
#[must_use]
pub fn unimplemented(what: &str) -> ErrorObject {
    if what == "thread/turns/items/list" {
        let message = format!("{what} is not supported; read the items with thread/turns/list");
        return ErrorObject::new(jsonrpc::code::METHOD_NOT_FOUND, message);
    }
    let message = format!("`{what}` is not implemented yet");
    ErrorObject::new(jsonrpc::code::METHOD_NOT_FOUND, message)
        .with_data(serde_json::json!({ "reason": "notImplemented" }))
}

/// Decodes the parameters of a method.
pub(crate) fn params<T: DeserializeOwned>(
    method: &str,
    params: Option<&RawValue>,
) -> Result<T, ErrorObject> {
    jsonrpc::read_params(params).map_err(|why| {
        let reason = why.unknown_member().and_then(|member| misplaced(method, member));
        let reason = reason.unwrap_or_else(|| format!("Invalid params: {why}"));
        ErrorObject::invalid_params(reason)
    })
}

/// Explains why a member of another method does not belong in this one.
fn misplaced(method: &str, member: &str) -> Option<String> {
    let is = |known: &&&str| jsonrpc::same_name(member, known);
    match method {
        "turn/steer" => TURN_OVERRIDES.iter().find(is).map(|known| {
            format!(
                "`turn/steer` takes no `{known}`: a running turn keeps the settings that it was \
                 started with; set `{known}` with the next `turn/start`"
            )
        }),
        "thread/start" | "thread/resume" | "thread/fork" if is(&&"sandboxPolicy") => Some(format!(
            "`{method}` takes no `sandboxPolicy`: choose the mode with `sandbox`, or give the \
             policy to `turn/start`"
        )),
        "turn/start" if is(&&"sandbox") => {
            Some("`turn/start` takes no `sandbox`: give a `sandboxPolicy`".to_owned())
        }
        _ => None,
    }
}

/// Boxes a handler's future and encodes its result.
pub(crate) fn reply<'a, R, E>(call: impl Future<Output = Result<R, E>> + Send + 'a) -> Reply<'a>
where
    R: Serialize,
    E: Into<ErrorObject>,
{
    Box::pin(async move {
        match call.await {
            Ok(result) => encode(&result),
            Err(error) => Err(error.into()),
        }
    })
}

fn encode(result: &impl Serialize) -> Result<Bytes, ErrorObject> {
    serde_json::to_vec(result)
        .map(Bytes::from)
        .map_err(|why| ErrorObject::internal(format!("the result could not be encoded: {why}")))
}

#[cfg(test)]
pub(crate) mod tests {
    use std::task::{Context, Poll, Waker};

    use jsonrpc::code;

    use super::*;
    use crate::METHODS;
    use crate::table::{MethodInfo, Ordering};

    /// A server that returns for every request an error with the name of the handler reached.
    pub(crate) struct Probe;

    impl Handlers for Probe {
        type Error = ErrorObject;
    }

    fn answer(method: &str, params: Option<&str>) -> ErrorObject {
        let params = params.map(|json| RawValue::from_string(json.to_owned()).unwrap());
        let mut reply = dispatch(&Probe, (), method, params.as_deref());
        match reply.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Err(error)) => error,
            other => panic!("{method}: {other:?}"),
        }
    }

    fn check(method: &str, params: Option<&str>, expect_code: i64, expect: &str) {
        let error = answer(method, params);
        assert_eq!((error.code, error.message.as_str()), (expect_code, expect));
    }

    #[test]
    fn parameters_may_be_absent_where_all_are_optional() {
        for params in [None, Some("null"), Some("{}"), Some(r#"{"unknown":null}"#)] {
            check("thread/start", params, code::INTERNAL_ERROR, "reached thread/start");
            check("model/list", params, code::INTERNAL_ERROR, "reached model/list");
        }
    }

    #[test]
    fn a_wrong_member_is_named() {
        let (bad, absent) = (code::INVALID_PARAMS, "Invalid params: missing field `threadId`");
        check("thread/read", None, bad, absent);
        check("thread/read", Some("null"), bad, absent);
        check(
            "thread/read",
            Some(r#"{"threadId":3}"#),
            bad,
            "Invalid params: `threadId`: invalid type: integer `3`, expected a string",
        );
        check(
            "turn/start",
            Some(r#"{"threadId":"t","input":[{"type":"text","text":"a"},{"type":"text"}]}"#),
            bad,
            "Invalid params: `input[1]`: missing field `text`",
        );
    }

    #[test]
    fn types_that_decide_permissions_refuse_unknown_members() {
        let bad = code::INVALID_PARAMS;
        check(
            "thread/start",
            Some(r#"{"sandBox":"readOnly"}"#),
            bad,
            "Invalid params: unknown member `sandBox`; did you mean `sandbox`?",
        );
        check(
            "thread/start",
            Some(r#"{"sandbox_policy":{"type":"readOnly"}}"#),
            bad,
            "`thread/start` takes no `sandboxPolicy`: choose the mode with `sandbox`, or give the \
             policy to `turn/start`",
        );
        check(
            "turn/start",
            Some(
                r#"{"threadId":"t","input":[],"sandboxPolicy":{"type":"readOnly","write":["/"]}}"#,
            ),
            bad,
            "Invalid params: `sandboxPolicy`: unknown member `write`, expected one of `access`, \
             `networkAccess`",
        );
        check("model/list", Some(r#"{"unknown":1}"#), code::INTERNAL_ERROR, "reached model/list");
    }

    #[test]
    fn steering_takes_no_overrides() {
        for member in ["model", "approvalPolicy", "approval_policy"] {
            let params =
                format!(r#"{{"threadId":"t","input":[],"expectedTurnId":"u","{member}":"x"}}"#);
            let error = answer("turn/steer", Some(&params));
            assert_eq!(error.code, code::INVALID_PARAMS);
            assert!(error.message.contains("with the next `turn/start`"), "{error}");
        }
        let null = r#"{"threadId":"t","input":[],"expectedTurnId":"u","model":null}"#;
        check("turn/steer", Some(null), code::INTERNAL_ERROR, "reached turn/steer");
    }

    #[test]
    fn a_reserved_method_is_unsupported_whatever_its_parameters() {
        let expect =
            "thread/turns/items/list is not supported; read the items with thread/turns/list";
        for params in [None, Some("null"), Some("{}"), Some("[1]"), Some(r#"{"threadId":5}"#)] {
            check("thread/turns/items/list", params, code::METHOD_NOT_FOUND, expect);
        }
    }

    #[test]
    fn an_unknown_method_is_named() {
        check("thread/star", None, code::METHOD_NOT_FOUND, "Method not found: thread/star");
        check("", None, code::METHOD_NOT_FOUND, "Method not found: ");
    }

    #[test]
    fn a_method_without_a_handler_reads_no_parameters() {
        let missing = METHODS.iter().filter(|info| info.ordering == Ordering::Unimplemented);
        for info in missing {
            for params in [None, Some("[]"), Some(r#"{"threadId":3}"#)] {
                check(info.name, params, code::METHOD_NOT_FOUND, &expected(info));
            }
        }
    }

    fn expected(info: &MethodInfo) -> String {
        match info.ordering {
            Ordering::Unimplemented => unimplemented(info.name).message,
            _ => format!("reached {}", info.name),
        }
    }

    /// The decoder's error for `{}` differs between methods; the test checks that the right decoder
    /// is used.
    #[test]
    fn every_method_reaches_its_handler() {
        for info in METHODS {
            let error = answer(info.name, None);
            let reached = error.message == expected(info);
            assert!(reached || error.code == code::INVALID_PARAMS, "{}: {error}", info.name);
        }
    }

    #[test]
    fn minimal_parameters_reach_every_handler() {
        for info in METHODS {
            let params = crate::generate::minimal_params(info.name).unwrap().to_string();
            let error = answer(info.name, Some(&params));
            assert_eq!(error.message, expected(info));
        }
    }
}
