//! Decodes raw JSON into typed parameters and results. Errors name the member and what was
//! expected. The crates above check whether values make sense.

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::ErrorObject;
use crate::decode_error::DecodeError;
use crate::respell::respelled;

/// Decodes the parameters of a method. Absent parameters decode as `{}`, so they may be left
/// out if all members are optional; `()` decodes from `{}`.
///
/// # Errors
/// -32602; the message names the member and what was expected.
pub fn decode_params<T: DeserializeOwned>(params: Option<&RawValue>) -> Result<T, ErrorObject> {
    read_params(params).map_err(|why| ErrorObject::invalid_params(format!("Invalid params: {why}")))
}

/// Like [`decode_params`], for callers with their own error type.
///
/// # Errors
/// When the parameters do not fit the type.
pub fn read_params<T: DeserializeOwned>(params: Option<&RawValue>) -> Result<T, DecodeError> {
    let json = params.map_or("{}", RawValue::get);
    // A derived struct also decodes from an array; the specification allows objects only.
    if !json.starts_with('{') {
        return Err(DecodeError::other("`params` must be an object".to_owned()));
    }
    decode(json)
}

/// Decodes the result of a call; `()` decodes from `{}` and `null`.
///
/// # Errors
/// When the result does not fit the type.
pub fn read_result<T: DeserializeOwned>(result: &RawValue) -> Result<T, DecodeError> {
    decode(result.get())
}

fn decode<T: DeserializeOwned>(json: &str) -> Result<T, DecodeError> {
    serde_json::from_str(json).or_else(|error| {
        if is_empty_object(json)
            && let Ok(unit) = serde_json::from_str("null")
        {
            return Ok(unit);
        }
        let respelled = respelled(json, error, &|json| serde_json::from_str::<T>(json).err())?;
        serde_json::from_str(&respelled).map_err(|error| DecodeError::other(error.to_string()))
    })
}

fn is_empty_object(json: &str) -> bool {
    json.strip_prefix('{')
        .and_then(|rest| rest.strip_suffix('}'))
        .is_some_and(|inside| inside.trim_ascii().is_empty())
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Needs {
        thread_id: String,
        #[serde(default)]
        input: Vec<Part>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Part {
        size: u8,
    }

    #[derive(Debug, Default, PartialEq, Deserialize)]
    struct AllOptional {
        limit: Option<u32>,
    }

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    fn check<T: DeserializeOwned + PartialEq + std::fmt::Debug>(
        params: Option<&str>,
        expect: Result<T, &str>,
    ) {
        let params = params.map(raw);
        let read = decode_params::<T>(params.as_deref());
        assert_eq!(read, expect.map_err(ErrorObject::invalid_params), "{params:?}");
    }

    #[test]
    fn a_wrong_member_is_named_with_what_was_expected() {
        check::<Needs>(Some("{}"), Err("Invalid params: missing field `threadId`"));
        check::<Needs>(None, Err("Invalid params: missing field `threadId`"));
        check::<Needs>(
            Some(r#"{"threadId":5}"#),
            Err("Invalid params: `threadId`: invalid type: integer `5`, expected a string"),
        );
        check::<Needs>(
            Some(r#"{"threadId":"a","input":[{"size":1},{"size":300}]}"#),
            Err("Invalid params: `input[1].size`: invalid value: integer `300`, expected a whole \
                 number from 0 to 255"),
        );
        check::<Needs>(
            Some(r#"{"threadId":"a","threadId":"b"}"#),
            Err("Invalid params: duplicate field `threadId`"),
        );
        for not_an_object in [r#"["a",[]]"#, "5", r#""a""#, "true"] {
            check::<Needs>(Some(not_an_object), Err("Invalid params: `params` must be an object"));
        }
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "camelCase", deny_unknown_fields)]
    struct Strict {
        writable_roots: Option<Vec<String>>,
        policy: Option<Policy>,
        mode: Option<Mode>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
    #[serde(deny_unknown_fields)]
    enum Policy {
        ReadOnly { network_access: Option<bool>, inner_access: Option<Inner> },
        FullAccess {},
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Inner {
        all_roots: Option<u8>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
    enum Mode {
        OnRequest,
        AsGiven { all_rules: bool },
    }

    fn strict(policy: Option<Policy>, mode: Option<Mode>) -> Strict {
        Strict { writable_roots: None, policy, mode }
    }

    #[test]
    fn strict_types_understand_other_spellings() {
        for spelling in ["writableRoots", "writable_roots", "writable-roots"] {
            let expect =
                Strict { writable_roots: Some(vec!["/a".to_owned()]), ..strict(None, None) };
            check(Some(&format!(r#"{{"{spelling}":["/a"],"later":null}}"#)), Ok(expect));
        }
        let inner = Inner { all_roots: Some(1) };
        let read_only = Policy::ReadOnly { network_access: Some(true), inner_access: Some(inner) };
        check(
            Some(
                r#"{"policy":{"type":"read-only","network_access":true,"inner-access":{"allRoots":1}}}"#,
            ),
            Ok(strict(Some(read_only), None)),
        );
        check(Some(r#"{"mode":"on_request"}"#), Ok(strict(None, Some(Mode::OnRequest))));
        check(
            Some(r#"{"mode":{"as-given":{"all_rules":true}}}"#),
            Ok(strict(None, Some(Mode::AsGiven { all_rules: true }))),
        );
    }

    #[test]
    fn strict_types_refuse_what_they_do_not_know() {
        check::<Strict>(
            Some(r#"{"writableRoot":[]}"#),
            Err("Invalid params: unknown member `writableRoot`; did you mean `writableRoots`?"),
        );
        check::<Strict>(
            Some(r#"{"colour":[]}"#),
            Err("Invalid params: unknown member `colour`, expected one of `writableRoots`, \
                 `policy`, `mode`"),
        );
        check::<Strict>(
            Some(r#"{"writableRoots":[],"writable_roots":["/"]}"#),
            Err(
                "Invalid params: `writable_roots` and `writableRoots` are the same member: give one",
            ),
        );
        check::<Strict>(
            Some(r#"{"policy":{"type":"readOnly","innerAccess":{"every":1}}}"#),
            Err(
                "Invalid params: `policy.innerAccess`: unknown member `every`, expected `all_roots`",
            ),
        );
        check::<Strict>(
            Some(r#"{"policy":{"type":"fullAccess","except":[]}}"#),
            Err("Invalid params: `policy`: unknown member `except`, expected none"),
        );
        check::<Strict>(
            Some(r#"{"writable_roots":["/a"],"mode":"onRequest","mode":"onRequest"}"#),
            Err("Invalid params: duplicate field `mode`"),
        );
        check::<Strict>(
            Some(r#"{"mode":"asGiven"}"#),
            Err("Invalid params: `mode`: invalid type: string, expected an object with this one \
                 member"),
        );
        check::<Strict>(
            Some(r#"{"policy":[]}"#),
            Err("Invalid params: `policy`: invalid type: array, expected an object"),
        );
        check::<Strict>(
            Some(r#"{"policy":"readOnly"}"#),
            Err("Invalid params: `policy`: invalid type: string \"readOnly\", expected an object"),
        );
        check::<Strict>(
            Some(r#"{"mode":"always"}"#),
            Err("Invalid params: `mode`: unknown variant `always`, expected one of `onRequest`, \
                 `asGiven`"),
        );
    }

    #[test]
    fn absent_parameters_are_an_empty_object() {
        check(None, Ok(AllOptional::default()));
        check(Some("{}"), Ok(AllOptional::default()));
        check(Some(r#"{"limit":3,"unknown":[]}"#), Ok(AllOptional { limit: Some(3) }));
        check(None, Ok(()));
        check(Some("{ }"), Ok(()));
        assert!(read_result::<()>(&raw("null")).is_ok());
        assert!(read_result::<()>(&raw("{}")).is_ok());
        assert_eq!(read_result::<u8>(&raw("7")).unwrap(), 7);
    }

    #[test]
    fn deep_nesting_is_an_error() {
        let deep = format!(r#"{{"a":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
        let error = decode_params::<serde_json::Value>(Some(&raw(&deep))).unwrap_err();
        assert!(error.message.contains("recursion limit exceeded"), "{error}");
    }
}
