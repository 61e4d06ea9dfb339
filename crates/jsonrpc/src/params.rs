//! From raw JSON to typed parameters and results, with errors that name the member and what was
//! expected there. Values are checked by the crates above.

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::ErrorObject;
use crate::json_path;

/// Reads the parameters of a method. Absent parameters are read as `{}`, so that a method whose
/// members are all optional needs none; `()` takes `{}`.
///
/// # Errors
/// -32602; the message names the member and what was expected.
pub fn decode_params<T: DeserializeOwned>(params: Option<&RawValue>) -> Result<T, ErrorObject> {
    let json = params.map_or("{}", RawValue::get);
    // Derived structs would also read an array by position; the specification has objects only.
    if !json.starts_with('{') {
        return Err(ErrorObject::invalid_params("Invalid params: `params` must be an object"));
    }
    decode(json).map_err(|why| ErrorObject::invalid_params(format!("Invalid params: {why}")))
}

/// Reads the result of a call; `()` takes `{}` and `null`.
///
/// # Errors
/// A sentence that names the member and what was expected.
pub fn decode_result<T: DeserializeOwned>(result: &RawValue) -> Result<T, String> {
    decode(result.get())
}

fn decode<T: DeserializeOwned>(json: &str) -> Result<T, String> {
    serde_json::from_str(json).or_else(|error| {
        if is_empty_object(json)
            && let Ok(unit) = serde_json::from_str("null")
        {
            return Ok(unit);
        }
        Err(describe(json, &error, &|json| serde_json::from_str::<T>(json).err()))
    })
}

fn is_empty_object(json: &str) -> bool {
    json.strip_prefix('{')
        .and_then(|rest| rest.strip_suffix('}'))
        .is_some_and(|inside| inside.trim_ascii().is_empty())
}

fn describe(
    json: &str,
    error: &serde_json::Error,
    decode: &dyn Fn(&str) -> Option<serde_json::Error>,
) -> String {
    let what = json_path::message(error);
    match json_path::path_of(json, error, decode) {
        Some(path) => format!("`{path}`: {what}"),
        None => what,
    }
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
            Err("Invalid params: `input[1].size`: invalid value: integer `300`, expected u8"),
        );
        check::<Needs>(
            Some(r#"{"threadId":"a","threadId":"b"}"#),
            Err("Invalid params: duplicate field `threadId`"),
        );
        for not_an_object in [r#"["a",[]]"#, "5", r#""a""#, "true"] {
            check::<Needs>(Some(not_an_object), Err("Invalid params: `params` must be an object"));
        }
    }

    #[test]
    fn absent_parameters_are_an_empty_object() {
        check(None, Ok(AllOptional::default()));
        check(Some("{}"), Ok(AllOptional::default()));
        check(Some(r#"{"limit":3,"unknown":[]}"#), Ok(AllOptional { limit: Some(3) }));
        check(None, Ok(()));
        check(Some("{ }"), Ok(()));
        assert_eq!(decode_result::<()>(&raw("null")), Ok(()));
        assert_eq!(decode_result::<()>(&raw("{}")), Ok(()));
        assert_eq!(decode_result::<u8>(&raw("7")), Ok(7));
    }

    #[test]
    fn deep_nesting_is_an_error_and_no_crash() {
        let deep = format!(r#"{{"a":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
        let error = decode_params::<serde_json::Value>(Some(&raw(&deep))).unwrap_err();
        assert!(error.message.contains("recursion limit exceeded"), "{error}");
    }
}
