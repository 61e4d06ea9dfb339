//! Decoding and encoding as seen from outside: which bytes are which message, and which are none.

use bytes::Bytes;
use jsonrpc::{
    DeltaFrame, ErrorObject, Malformed, Message, Outgoing, RequestId, code, decode, encode_error,
    encode_notification, encode_request, encode_response, escape,
};
use proptest::prelude::*;
use serde_json::value::RawValue;
use serde_json::{Value, json};

fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).unwrap()
}

fn request(id: impl Into<RequestId>, method: &str, params: Option<&str>) -> Message {
    Message::Request { id: id.into(), method: method.into(), params: params.map(raw), trace: None }
}

fn notification(method: &str, params: Option<&str>) -> Message {
    Message::Notification { method: method.into(), params: params.map(raw), cursor: None }
}

fn result(id: impl Into<RequestId>, result: &str) -> Message {
    Message::Response { id: Some(id.into()), outcome: Ok(raw(result)) }
}

#[test]
fn messages() {
    let check = |line: &str, expect: Message| assert_eq!(decode(line.as_bytes()), Ok(expect));
    check(r#"{"id":1,"method":"a/b","params":{"x":1}}"#, request(1, "a/b", Some(r#"{"x":1}"#)));
    check(r#"{"method":"m","id":"x"}"#, request("x", "m", None));
    check(r#" { "method" : "m" , "id" : -9 } "#, request(-9, "m", None));
    check(r#"{"jsonrpc":"2.0","id":1,"method":"m","trace":[1,{}]}"#, request(1, "m", None));
    check(r#"{"id":1,"method":"m","params":null}"#, request(1, "m", None));
    check(r#"{"id":"","method":""}"#, request("", "", None));
    check(r#"{"id":9223372036854775807,"method":"m"}"#, request(i64::MAX, "m", None));
    check(r#"{"id":-9223372036854775808,"method":"m"}"#, request(i64::MIN, "m", None));
    check(r#"{"\u0069d":"\u0041\"","method":"\ud83d\ude00"}"#, request("A\"", "😀", None));
    check(r#"{"method":"m","params":{"é":"ü"}}"#, notification("m", Some(r#"{"é":"ü"}"#)));
    check(r#"{"method":"m","params":[ ]}"#, notification("m", Some("[ ]")));
    check(r#"{"id":1,"result":null}"#, result(1, "null"));
    check(r#"{"id":1,"result":{"a":[]},"error":null}"#, result(1, r#"{"a":[]}"#));
    let error = ErrorObject { code: -5, message: "no".into(), data: Some(json!([1])) };
    check(
        r#"{"id":"q","result":null,"error":{"code":-5,"message":"no","data":[1],"more":0}}"#,
        Message::Response { id: Some("q".into()), outcome: Err(error) },
    );
    check(
        r#"{"id":null,"error":{"code":-32700,"message":"Parse error"}}"#,
        Message::Response {
            id: None,
            outcome: Err(ErrorObject::new(code::PARSE_ERROR, "Parse error")),
        },
    );
}

#[test]
fn a_notification_has_its_cursor_and_one_that_is_no_text_is_none() {
    for (member, expect) in [
        (r#","eventCursor":"a.7""#, Some("a.7")),
        (r#","eventCursor":"\u0061""#, Some("a")),
        (r#","eventCursor":7"#, None),
        (r#","eventCursor":null"#, None),
        (r#","eventCursor":{"x":["y"]}"#, None),
        ("", None),
    ] {
        let line = format!(r#"{{"method":"m","params":{{}}{member}}}"#);
        let cursor = expect.map(ToOwned::to_owned);
        let expect = Message::Notification { method: "m".into(), params: Some(raw("{}")), cursor };
        assert_eq!(decode(line.as_bytes()), Ok(expect), "{line}");
    }
}

#[track_caller]
fn refused(line: &[u8], code: i64, id: Option<RequestId>, says: &str) {
    let Malformed { id: read, error, .. } = decode(line).unwrap_err();
    assert_eq!((error.code, read), (code, id), "{}", String::from_utf8_lossy(line));
    assert!(error.message.contains(says), "{error} does not say {says:?}");
}

#[test]
fn invalid_json_is_a_parse_error() {
    for line in [
        "",
        "{",
        "}",
        "nonsense",
        r#"{"id":1,"method":"m""#,
        r#"{"id":1,"method":"m"} x"#,
        "[1,2",
        r#"{"id":1 "method":"m"}"#,
        r#"{"id":01,"method":"m"}"#,
        r#"{'id':1}"#,
        r#"{"a":"	"}"#,
        "\u{feff}{}",
        r#"{"id":1,"method":"m"}{"id":2,"method":"m"}"#,
        r#"{"id":1,"method":nul}"#,
    ] {
        refused(line.as_bytes(), code::PARSE_ERROR, None, "not JSON");
    }
    for line in [
        &b"{\"id\":1,\"method\":\"\xff\"}"[..],
        b"{\"id\":1,\"method\":\"m\",\"unknown\":\"\xc3\"}",
        b"\x80",
    ] {
        refused(line, code::PARSE_ERROR, None, "not UTF-8");
    }
}

#[test]
fn json_that_is_no_message_is_an_invalid_request() {
    let check = |line: &str, id: Option<RequestId>, says| {
        refused(line.as_bytes(), code::INVALID_REQUEST, id, says);
    };
    check("[]", None, "batches");
    check(r#"[{"id":1,"method":"m"}]"#, None, "batches");
    for scalar in ["1", "null", "true", r#""text""#] {
        check(scalar, None, "JSON object");
    }
    check("{}", None, "`method` is missing");
    check(r#"{"id":7}"#, Some(7.into()), "`method` is missing");
    check(r#"{"id":7,"method":5}"#, Some(7.into()), "`method` must be a string");
    check(r#"{"method":{},"id":"x"}"#, Some("x".into()), "`method` must be a string");
    check(r#"{"id":7,"method":"\ud800"}"#, Some(7.into()), "`method` must be a string");
    for id in ["null", "1.5", "1e3", "true", "{}", "[1]", "9223372036854775808", r#""\ud800""#] {
        check(&format!(r#"{{"id":{id},"method":"m"}}"#), None, "`id` must be");
    }
    check(r#"{"id":1,"id":2,"method":"m"}"#, None, "`id` is given twice");
    check(r#"{"id":1,"method":"m","method":"n"}"#, Some(1.into()), "`method` is given twice");
    check(r#"{"params":{},"params":{},"id":1,"method":"m"}"#, Some(1.into()), "`params` is given");
}

#[test]
fn an_invalid_response_is_refused_without_an_id() {
    for line in [
        r#"{"id":1,"result":1,"error":{"code":1,"message":"m"}}"#,
        r#"{"id":1,"error":"text"}"#,
        r#"{"id":1,"error":{"code":1}}"#,
        r#"{"result":1}"#,
        r#"{"id":null,"result":1}"#,
    ] {
        refused(line.as_bytes(), code::INVALID_REQUEST, None, "Invalid request: ");
    }
}

#[test]
fn an_error_response_is_never_answered_with_an_error() {
    let complaint = encode_error(None, &decode(b"nonsense").unwrap_err().error);
    assert!(matches!(decode(&complaint), Ok(Message::Response { id: None, outcome: Err(_) })));
}

#[test]
fn nesting_does_not_recurse() {
    let deep = "[".repeat(1 << 20) + &"]".repeat(1 << 20);
    for member in ["id", "method", "params", "unknown"] {
        let line = format!(r#"{{"method":"m","{member}":{deep}}}"#);
        assert_eq!(decode(line.as_bytes()).is_ok(), member != "id" && member != "method");
    }
    refused(deep.as_bytes(), code::INVALID_REQUEST, None, "batches");
    refused("[".repeat(1 << 20).as_bytes(), code::PARSE_ERROR, None, "not JSON");
    let open = r#"{"a":"#.repeat(1 << 18);
    refused(open.as_bytes(), code::PARSE_ERROR, None, "not JSON");
}

#[test]
fn encoded_messages() {
    let check = |bytes: Bytes, expect: &str| assert_eq!(bytes, expect.as_bytes());
    check(encode_response(&1.into(), &json!({"a": 1})), r#"{"id":1,"result":{"a":1}}"#);
    check(encode_response(&"x".into(), &()), r#"{"id":"x","result":null}"#);
    check(
        encode_error(None, &ErrorObject::overloaded()),
        r#"{"id":null,"error":{"code":-32001,"message":"Server overloaded; retry later."}}"#,
    );
    check(encode_notification("a/b", &json!({})).unwrap(), r#"{"method":"a/b","params":{}}"#);
    check(encode_notification("a/b", &()).unwrap(), r#"{"method":"a/b"}"#);
    check(encode_notification("q\"", &Value::Null).unwrap(), r#"{"method":"q\""}"#);
    check(
        encode_request(&0.into(), "m", &[1, 2]).unwrap(),
        r#"{"id":0,"method":"m","params":[1,2]}"#,
    );
}

#[test]
fn raw_json_over_several_lines_stays_on_one() {
    let pretty = raw("{\n  \"a\": \"x\\ny\"\n}");
    let line = encode_notification("m", &pretty).unwrap();
    assert_eq!(line, r#"{"method":"m","params":{   "a": "x\ny" }}"#.as_bytes());
}

#[test]
fn values_without_a_json_form_are_reported() {
    let keys = std::collections::HashMap::from([(vec![1], 1)]);
    let error = encode_notification("a/b", &keys).unwrap_err();
    assert!(error.to_string().contains("`a/b`"), "{error}");
    let answer = encode_response(&4.into(), &keys);
    let Ok(Message::Response { id, outcome: Err(error) }) = decode(&answer) else {
        panic!("{answer:?} is no error response");
    };
    assert_eq!((id, error.code), (Some(4.into()), code::INTERNAL_ERROR));
}

fn joined(delta: &Outgoing) -> Vec<u8> {
    match delta {
        Outgoing::Whole(message) => message.to_vec(),
        Outgoing::Delta { head, text, tail } => [&head[..], text, tail].concat(),
    }
}

#[test]
fn a_delta_frame_encodes_its_notification() {
    for (params, text) in [(json!({"a": "b", "n": 1}), "plain"), (json!({}), "\"\n\u{1}é\\")] {
        let frame = DeltaFrame::new("a/b", &params, "delta").unwrap();
        let mut whole = params;
        whole["delta"] = text.into();
        let Ok(Message::Notification { method, params: Some(read), .. }) =
            decode(&joined(&frame.delta(text)))
        else {
            panic!("no notification");
        };
        assert_eq!(method, "a/b");
        assert_eq!(serde_json::from_str::<Value>(read.get()).unwrap(), whole);
    }
    for wrong in [json!(null), json!([{}]), json!("}"), json!(1)] {
        DeltaFrame::new("a/b", &wrong, "delta").unwrap_err();
    }
}

fn any_id() -> impl Strategy<Value = RequestId> {
    prop_oneof![any::<i64>().prop_map(RequestId::from), any::<String>().prop_map(RequestId::from)]
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(any::<String>(), inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn any_message() -> impl Strategy<Value = Message> {
    let params = || {
        prop::option::of(any_json())
            .prop_map(|json| json.filter(|json| !json.is_null()).map(|json| raw(&json.to_string())))
    };
    let error = (any::<i64>(), any::<String>(), prop::option::of(any_json())).prop_map(
        // `"data": null` reads as no data.
        |(code, message, data)| ErrorObject { code, message, data: data.filter(|d| !d.is_null()) },
    );
    prop_oneof![
        (any_id(), any::<String>(), params()).prop_map(|(id, method, params)| Message::Request {
            id,
            method,
            params,
            trace: None,
        }),
        (any::<String>(), params()).prop_map(|(method, params)| Message::Notification {
            method,
            params,
            cursor: None
        }),
        (any_id(), any_json()).prop_map(|(id, json)| Message::Response {
            id: Some(id),
            outcome: Ok(raw(&json.to_string())),
        }),
        (prop::option::of(any_id()), error)
            .prop_map(|(id, error)| Message::Response { id, outcome: Err(error) }),
    ]
}

fn encode(message: &Message) -> Bytes {
    match message {
        Message::Request { id, method, params, .. } => encode_request(id, method, params).unwrap(),
        Message::Notification { method, params, .. } => {
            encode_notification(method, params).unwrap()
        }
        Message::Response { id, outcome: Ok(result) } => {
            encode_response(id.as_ref().unwrap(), result)
        }
        Message::Response { id, outcome: Err(error) } => encode_error(id.as_ref(), error),
    }
}

proptest! {
    #[test]
    fn messages_round_trip(message in any_message()) {
        let line = encode(&message);
        prop_assert!(!line.contains(&b'\n'));
        prop_assert_eq!(decode(&line), Ok(message));
    }

    #[test]
    fn any_bytes_are_a_message_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let _ = decode(&bytes);
    }

    #[test]
    fn damaged_messages_are_messages_or_errors(
        message in any_message(), at in any::<prop::sample::Index>(), byte in any::<u8>(),
    ) {
        let mut line = encode(&message).to_vec();
        let at = at.index(line.len());
        line[at] = byte;
        let _ = decode(&line);
        let _ = decode(&line[..at]);
    }

    #[test]
    fn escaped_text_is_valid_string_content(text in any::<String>()) {
        let quoted = format!("\"{}\"", std::str::from_utf8(&escape(&text)).unwrap());
        prop_assert_eq!(serde_json::from_str::<String>(&quoted).unwrap(), text);
    }
}

#[test]
fn a_response_that_cannot_be_decoded_names_its_request() {
    for (line, answers) in [
        (r#"{"id":7,"error":"no"}"#, Some(7.into())),
        (r#"{"id":"7","error":{}}"#, Some("7".into())),
        (r#"{"id":7,"error":{"message":"x"}}"#, Some(7.into())),
        (r#"{"id":7,"error":null}"#, Some(7.into())),
        (r#"{"id":7,"result":1,"error":{"code":1,"message":""}}"#, Some(7.into())),
        (r#"{"id":7,"result":1,"result":2}"#, Some(7.into())),
        (r#"{"id":7}"#, Some(7.into())),
        (r#"{"id":7,"answer":1}"#, Some(7.into())),
        (r#"{"error":"no"}"#, None),
        (r#"{"id":7,"id":8,"result":1}"#, None),
        (r#"{"id":7,"method":5}"#, None),
        (r#"{"id":7,"method":"m","method":"m"}"#, None),
    ] {
        let malformed = decode(line.as_bytes()).unwrap_err();
        // Only a line that is no response at all may be a request of the peer's.
        let is_response = line.contains("result") || line.contains("error");
        assert_eq!(malformed.id.is_some(), !is_response, "{line}");
        let read = malformed.answers.map(|answer| {
            assert_eq!(answer.text, line);
            answer.id
        });
        assert_eq!(read, answers, "{line}");
    }
}
