//! The table against the schema, and the translation of messages in both directions.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

use bytes::Bytes;
use jsonrpc::{Outgoing, RequestId, encode_notification, encode_request};
use proptest::prelude::*;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::table::{Names, Table};
use super::{Dialect, TABLES, Translator, bundle, method_of};

fn codex() -> &'static Translator {
    static CODEX: LazyLock<Translator> =
        LazyLock::new(|| Dialect::named("codex").unwrap().translator(Path::new("/here")));
    &CODEX
}

fn raw(value: &Value) -> Box<RawValue> {
    RawValue::from_string(value.to_string()).unwrap()
}

/// A notification as the client reads it.
fn notified(dialect: &Translator, method: &str, params: &Value) -> Value {
    let message = encode_notification(method, params).unwrap();
    let Outgoing::Whole(bytes) = dialect.message(Outgoing::Whole(message)) else { panic!() };
    serde_json::from_slice::<Value>(&bytes).unwrap()["params"].take()
}

fn result(dialect: &Translator, method: &str, result: &Value) -> Value {
    let bytes = dialect.result(method, Bytes::from(result.to_string()));
    serde_json::from_slice(&bytes).unwrap()
}

fn params(dialect: &Translator, method: &str, params: &Value) -> Value {
    let raw = raw(params);
    let read = dialect.params(method, &raw).map_or(raw, |translated| translated.params);
    serde_json::from_str(read.get()).unwrap()
}

/// Every name in the type's own schema: members, then values.
fn names_of<'a>(schema: &'a Value, members: &mut Vec<&'a str>, values: &mut Vec<&'a str>) {
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        members.extend(properties.keys().map(String::as_str));
        properties.values().for_each(|schema| names_of(schema, members, values));
    }
    let listed = schema.get("enum").and_then(Value::as_array).into_iter().flatten();
    values.extend(listed.chain(schema.get("const")).filter_map(Value::as_str));
    for keyword in ["anyOf", "oneOf", "allOf"] {
        let list = schema.get(keyword).and_then(Value::as_array).into_iter().flatten();
        list.for_each(|schema| names_of(schema, members, values));
    }
    for keyword in ["items", "additionalProperties"] {
        schema.get(keyword).into_iter().for_each(|schema| names_of(schema, members, values));
    }
}

#[test]
fn every_name_of_a_table_is_one_of_ours() {
    let (schema, _) = bundle(true);
    for Table { types, methods, .. } in TABLES {
        for entry in *types {
            let (mut members, mut values) = (Vec::new(), Vec::new());
            let found = schema["$defs"].get(entry.name);
            let found = found.unwrap_or_else(|| panic!("the schema has no type {}", entry.name));
            names_of(found, &mut members, &mut values);
            let check = |names: &[Names], known: &[&str]| {
                for (ours, _) in names {
                    assert!(known.contains(ours), "{} has no `{ours}`", entry.name);
                }
            };
            check(entry.values, &values);
            check(entry.members, &members);
            check(entry.also, &values);
            for name in entry.left_out {
                assert!(!members.contains(name), "{} has `{name}` by now", entry.name);
            }
            for name in entry.relative {
                assert!(members.contains(name), "{} has no `{name}`", entry.name);
            }
            let itself = entry.members.iter().find(|(_, theirs)| members.contains(theirs));
            assert_eq!(itself, None, "{} has the other name itself", entry.name);
        }
        for (ours, theirs) in *methods {
            let is_known = |name: &str| {
                crate::lookup(name).is_some()
                    || crate::lookup_server_request(name).is_some()
                    || crate::lookup_notification(name).is_some()
            };
            assert!(is_known(ours) && !is_known(theirs), "{ours}");
        }
    }
}

#[test]
fn messages_of_the_server_get_the_other_names() {
    let dialect = codex();
    let initialized = json!({ "userAgent": "x", "agentHome": "/h" });
    assert_eq!(
        result(dialect, "initialize", &initialized),
        json!({ "userAgent": "x", "codexHome": "/h" })
    );
    let thread = |source: Value, policy: &str, error: Value| {
        json!({ "approvalPolicy": policy, "model": "editor", "thread": { "source": source,
            "name": "editor", "turns": [{ "id": "t", "error": error, "items": [] }] } })
    };
    let error = |member: &str, info: Value| json!({ "message": "Other", member: info });
    let other = json!({ "custom": "editor" });
    for (ours, theirs) in [
        (
            thread(json!("editor"), "onRequest", error("agentErrorInfo", json!("BadRequest"))),
            thread(json!("vscode"), "on-request", error("codexErrorInfo", json!("badRequest"))),
        ),
        (
            thread(
                other.clone(),
                "unlessTrusted",
                error(
                    "agentErrorInfo",
                    json!({ "HttpConnectionFailed": { "httpStatusCode": 500 } }),
                ),
            ),
            thread(
                other,
                "untrusted",
                error(
                    "codexErrorInfo",
                    json!({ "httpConnectionFailed": { "httpStatusCode": 500 } }),
                ),
            ),
        ),
        (thread(json!("exec"), "never", json!(null)), thread(json!("exec"), "never", json!(null))),
    ] {
        for method in ["thread/start", "thread/resume", "thread/fork"] {
            assert_eq!(result(dialect, method, &ours), theirs, "{method}");
        }
    }
    let account =
        json!({ "account": { "type": "hosted", "email": "hosted" }, "requiresDefaultAuth": true });
    assert_eq!(
        result(dialect, "account/read", &account),
        json!({ "account": { "type": "chatgpt", "email": "hosted" }, "requiresOpenaiAuth": true })
    );
}

#[test]
fn calls_between_agents_get_the_other_name() {
    let item = |kind: &str| {
        let states = json!({ "r": { "status": "running", "message": "collabToolCall" } });
        json!({ "threadId": "t", "item": { "type": kind, "id": "1", "prompt": "collabToolCall",
            "receiverThreadIds": ["r"], "agentsStates": states } })
    };
    for method in ["item/started", "item/completed"] {
        let sent = notified(codex(), method, &item("collabToolCall"));
        assert_eq!(sent, item("collabAgentToolCall"), "{method}");
        let message = json!({ "item": { "type": "agentMessage", "text": "collabToolCall" } });
        assert_eq!(notified(codex(), method, &message), message);
    }
}

#[test]
fn a_request_of_the_server_can_have_another_name() {
    let dialect = codex();
    let method = "account/hostedAuthTokens/refresh";
    let params = json!({ "reason": "unauthorized" });
    let message = encode_request(&RequestId::Integer(7), method, &params).unwrap();
    let Outgoing::Whole(bytes) = dialect.message(Outgoing::Whole(message)) else { panic!() };
    assert_eq!(
        serde_json::from_slice::<Value>(&bytes).unwrap(),
        json!({ "id": 7, "method": "account/chatgptAuthTokens/refresh", "params": params })
    );
    let answer = raw(&json!({ "accessToken": "t", "chatgptAccountId": "a" }));
    let read = dialect.answer(method, &answer).unwrap();
    assert_eq!(read.get(), r#"{"accessToken":"t","hostedAccountId":"a"}"#);
}

#[test]
fn messages_of_the_client_may_use_either_name() {
    let dialect = codex();
    let check = |method: &str, theirs: Value, ours: Value| {
        assert_eq!(params(dialect, method, &theirs), ours);
        assert_eq!(params(dialect, method, &ours), ours);
    };
    check(
        "thread/list",
        json!({ "sourceKinds": ["vscode", "cli"], "searchTerm": "vscode" }),
        json!({ "sourceKinds": ["editor", "cli"], "searchTerm": "vscode" }),
    );
    check(
        "thread/start",
        json!({ "approvalPolicy": "on-request", "sandbox": "read-only",
            "config": { "approvalPolicy": "on-request" } }),
        json!({ "approvalPolicy": "onRequest", "sandbox": "readOnly",
            "config": { "approvalPolicy": "on-request" } }),
    );
    check(
        "account/login/start",
        json!({ "chatgptAccountId": "a", "type": "chatgptAuthTokens" }),
        json!({ "hostedAccountId": "a", "type": "hostedAuthTokens" }),
    );
    assert_eq!(
        dialect.method("account/chatgptAuthTokens/refresh"),
        "account/hostedAuthTokens/refresh"
    );
    assert_eq!(dialect.method("thread/start"), "thread/start");
    let odd = RawValue::from_string(r#"{"sou\u0072ceKinds":[ "v\u0073code" ]}"#.into()).unwrap();
    let read = dialect.params("thread/list", &odd).unwrap().params;
    assert_eq!(read.get(), r#"{"sou\u0072ceKinds":[ "editor" ]}"#);
}

#[test]
fn members_and_values_of_newer_clients_are_left_out_or_read() {
    let dialect = codex();
    for (sent, read, names) in [
        (r#"{"historyMode":"paginated"}"#, "{}", vec!["historyMode"]),
        (r#"{ "historyMode" : 1 , "cwd":"/w" }"#, r#"{ "cwd":"/w" }"#, vec!["historyMode"]),
        (r#"{"cwd":"/w", "projectId":null}"#, r#"{"cwd":"/w"}"#, vec!["projectId"]),
        (
            r#"{"historyMode":"a","projectId":{"a":[1,2]},"cwd":"/w","multiAgentMode":"x","model":"m"}"#,
            r#"{"cwd":"/w","model":"m"}"#,
            vec!["historyMode", "projectId", "multiAgentMode"],
        ),
        (
            r#"{"historyMode":"a","sandbox":"read-only","projectId":1}"#,
            r#"{"sandbox":"readOnly"}"#,
            vec!["historyMode", "projectId"],
        ),
    ] {
        let raw = RawValue::from_string(sent.to_owned()).unwrap();
        let translated = dialect.params("thread/start", &raw).unwrap();
        assert_eq!(
            (translated.params.get(), translated.left_out),
            (read, names.iter().map(|name| (*name).to_owned()).collect())
        );
    }
    // Others stay, so that one that could decide a permission is refused.
    let other = raw(&json!({ "toolOutput": {}, "sandboxPolicy2": 1 }));
    assert!(dialect.params("turn/start", &other).is_none());
    for newer in ["recency_at", "section_position"] {
        let sent = json!({ "sortKey": newer });
        assert_eq!(params(dialect, "thread/list", &sent), json!({ "sortKey": "updated_at" }));
    }
    for (sent, read) in [(".", "/here"), ("a/../b", "/here/a/../b"), ("/w", "/w")] {
        let expected = json!({ "cwd": read, "includeLayers": true });
        let sent = json!({ "cwd": sent, "includeLayers": true });
        assert_eq!(params(dialect, "config/read", &sent), expected);
    }
}

#[test]
fn errors_get_the_other_names_in_their_data() {
    let error = jsonrpc::ErrorObject::invalid_request("x");
    let info = json!({ "ActiveTurnNotSteerable": { "turnKind": "review" } });
    let ours = json!({ "message": "agentErrorInfo", "agentErrorInfo": info });
    let read = codex().error(error.clone().with_data(ours)).data.unwrap();
    let info = json!({ "activeTurnNotSteerable": { "turnKind": "review" } });
    assert_eq!(read, json!({ "message": "agentErrorInfo", "codexErrorInfo": info }));
    for data in [json!({ "reason": "notImplemented" }), json!("BadRequest"), json!(null)] {
        assert_eq!(codex().error(error.clone().with_data(data.clone())).data.unwrap(), data);
    }
    assert_eq!(codex().error(error).data, None);
}

#[test]
fn what_has_the_same_names_is_passed_on_untouched() {
    let dialect = codex();
    for method in ["item/agentMessage/delta", "item/commandExecution/outputDelta", "thread/closed"]
    {
        assert!(!dialect.messages.contains_key(method), "{method}");
        let message = encode_notification(method, &json!({ "delta": "vscode" })).unwrap();
        let Outgoing::Whole(passed) = dialect.message(message.clone().into()) else { panic!() };
        assert_eq!((passed.as_ptr(), passed.len()), (message.as_ptr(), message.len()));
    }
    for method in ["turn/interrupt", "fs/readFile", "command/exec"] {
        assert!(!dialect.results.contains_key(method), "{method}");
    }
}

#[test]
fn the_method_of_a_message_is_found() {
    let check = |message: &[u8], expected: Option<&str>| assert_eq!(method_of(message), expected);
    let params = json!({ "method": "no" });
    check(&encode_notification("a/b", &params).unwrap(), Some("a/b"));
    check(&encode_request(&RequestId::Integer(12), "a/b", &params).unwrap(), Some("a/b"));
    for odd in ["", "{", r#"{"id":1"#, r#"{"id":1,"result":{}}"#, r#"{"method":"a"#] {
        check(odd.as_bytes(), None);
    }
}

#[test]
fn the_folder_has_the_files_that_clients_read() {
    let files: BTreeMap<String, String> =
        Dialect::named("codex").unwrap().schema_folder(true).into_iter().collect();
    let read = |name: &str| -> Value { serde_json::from_str(&files[name]).unwrap() };
    for (name, member) in [
        ("v2/TurnStartParams.json", "outputSchema"),
        ("v2/ThreadResumeParams.json", "excludeTurns"),
        ("v2/ThreadForkParams.json", "excludeTurns"),
        ("v2/InitializeResponse.json", "codexHome"),
    ] {
        assert!(read(name)["properties"][member].is_object(), "{name}");
    }
    let listed = read("v2/ThreadListParams.json");
    assert!(listed["$defs"]["ThreadSourceKind"].to_string().contains("\"vscode\""), "{listed}");
    let required = &read("v2/InitializeResponse.json")["required"];
    assert!(
        required.to_string().contains("codexHome") && !required.to_string().contains("agentHome")
    );
    let stable: BTreeMap<String, String> =
        Dialect::named("codex").unwrap().schema_folder(false).into_iter().collect();
    assert!(!stable["v2/ThreadResumeParams.json"].contains("excludeTurns"));
}

/// Any JSON made of names of the table.
fn any_data() -> impl Strategy<Value = Value> {
    let words: Vec<&'static str> = TABLES
        .iter()
        .flat_map(|table| table.types)
        .flat_map(|entry| [entry.members, entry.values])
        .flat_map(|names| names.iter().flat_map(|(ours, theirs)| [*ours, *theirs]))
        .chain(
            TABLES.iter().flat_map(|table| table.types).flat_map(|entry| entry.left_out).copied(),
        )
        .chain(["type", "kind", "params", "item", "items", "turns", "source", "\"\\", "\u{e4}"])
        .collect();
    let word = prop::sample::select(words);
    let leaf = prop_oneof![
        word.clone().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        Just(json!(1.0e300)),
        Just(Value::Null),
    ];
    leaf.prop_recursive(4, 32, 4, move |inner| {
        let key = word.clone().prop_map(str::to_owned);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(key, inner, 0..4)
                .prop_map(|all| Value::Object(all.into_iter().collect())),
        ]
    })
}

/// The text of a part of a message, byte for byte.
fn part<'a>(message: &'a str, path: &[&str]) -> &'a str {
    path.iter().fold(message, |text, name| {
        let members: BTreeMap<String, &RawValue> = serde_json::from_str(text).unwrap();
        members[*name].get()
    })
}

proptest! {
    #[test]
    fn data_of_users_is_identical_afterwards(data in any_data(), odd in any_data()) {
        let dialect = codex();
        // Spaces, numbers and escapes that a serializer would write in another way.
        let data = format!("{{ \"n\" : 1.50E+2 , \"\\u0061\": {data:#} }}").replace('\n', "\t");
        let text = Value::from(odd.to_string()).to_string();
        let item = format!(
            r#"{{"arguments":{data},"type":"mcpToolCall","result":{{"content":[],"structuredContent":{data}}},"server":{text}}}"#
        );
        let message = format!(r#"{{"method":"item/completed","params":{{"threadId":{text},"item":{item}}}}}"#);
        let Outgoing::Whole(sent) = dialect.message(Bytes::from(message.clone()).into()) else { panic!() };
        prop_assert_eq!(&sent[..], message.as_bytes());

        let command = format!(
            r#"{{"type":"commandExecution","command":{text},"aggregatedOutput":{text}}}"#
        );
        let turn = format!(
            r#"{{"error":{{"agentErrorInfo":"Other","message":{text}}},"items":[{command},{item}]}}"#
        );
        let thread = format!(r#"{{"thread":{{"source":"editor","preview":{text},"turns":[{turn}]}}}}"#);
        let sent = dialect.result("thread/read", Bytes::from(thread.clone()));
        let expected = thread
            .replacen(r#"{"agentErrorInfo":"Other""#, r#"{"codexErrorInfo":"other""#, 1)
            .replacen(r#""source":"editor""#, r#""source":"vscode""#, 1);
        prop_assert_eq!(std::str::from_utf8(&sent).unwrap(), expected);

        let start = format!(
            r#"{{"approvalPolicy":"on-request","outputSchema":{data},"input":[{{"type":"text","text":{text}}}]}}"#
        );
        let start = RawValue::from_string(start).unwrap();
        let read = dialect.params("turn/start", &start).unwrap().params;
        prop_assert_eq!(part(read.get(), &["outputSchema"]), data.as_str());
        prop_assert_eq!(part(read.get(), &["input"]), part(start.get(), &["input"]));
        prop_assert_eq!(part(read.get(), &["approvalPolicy"]), "\"onRequest\"");
        let start = format!(r#"{{"config":{data},"baseInstructions":{text}}}"#);
        let start = RawValue::from_string(start).unwrap();
        prop_assert!(dialect.params("thread/start", &start).is_none());
    }

    #[test]
    fn any_json_stays_json(data in any_data()) {
        let dialect = codex();
        for method in dialect.params.keys() {
            if let Some(read) = dialect.params(method, &raw(&data)) {
                prop_assert!(serde_json::from_str::<Value>(read.params.get()).is_ok());
            }
        }
        for method in dialect.results.keys() {
            let sent = dialect.result(method, Bytes::from(data.to_string()));
            prop_assert!(serde_json::from_slice::<Value>(&sent).is_ok());
        }
        for method in dialect.messages.keys() {
            let Outgoing::Whole(sent) =
                dialect.message(encode_notification(method, &data).unwrap().into()) else { panic!() };
            prop_assert!(serde_json::from_slice::<Value>(&sent).is_ok());
        }
    }
}
