//! Routes a request, by its name and raw parameters, to its handler, and encodes the handler's
//! result. The server does the scheduling, the gating and the response's envelope.

use jsonrpc::ErrorObject;
use serde_json::value::RawValue;

use crate::handling::Reply;
use crate::registry::{self, AllMethods};

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

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use jsonrpc::code;

    use super::*;
    use crate::METHODS;
    use crate::handling::{Probe, unimplemented};
    use crate::table::{MethodInfo, Ordering};

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
