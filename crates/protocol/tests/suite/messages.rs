//! Every message, driven by its schema: what the schema allows is read, and what is written is
//! what the schema allows.

use proptest::prelude::*;
use protocol::generate::{self, Validator};
use protocol::{CLIENT_NOTIFICATIONS, METHODS, MessageInfo, NOTIFICATIONS, SERVER_REQUESTS};
use serde_json::{Value, json};

fn names() -> Vec<&'static str> {
    let messages = NOTIFICATIONS.iter().chain(CLIENT_NOTIFICATIONS).chain(SERVER_REQUESTS);
    let messages = messages.map(|info: &MessageInfo| info.name);
    METHODS.iter().map(|info| info.name).chain(messages).collect()
}

#[test]
fn minimal_messages_round_trip_and_match_the_schema() {
    let validator = generate::validator(true);
    for name in names() {
        let params = generate::minimal_params(name).unwrap();
        validator.check_params(name, &params).unwrap();
        let written = generate::recode_params(name, &params).unwrap();
        validator.check_params(name, &written).unwrap();
        let Some(result) = generate::minimal_result(name) else { continue };
        validator.check_result(name, &result).unwrap();
        let written = generate::recode_result(name, &result).unwrap();
        validator.check_result(name, &written).unwrap();
    }
}

#[test]
fn the_schema_knows_the_older_spellings() {
    let validator = generate::validator(false);
    for policy in ["on-request", "onRequest", "untrusted", "never"] {
        validator.check_params("thread/start", &json!({"approvalPolicy": policy})).unwrap();
    }
    validator.check_params("thread/start", &json!({"sandbox": "workspace-write"})).unwrap();
    let wrong = validator
        .check_params("thread/start", &json!({"sandbox": "none"}))
        .unwrap_err()
        .to_string();
    assert!(wrong.starts_with("params.sandbox: "), "{wrong}");
    let wrong = validator.check_params("thread/read", &json!({})).unwrap_err().to_string();
    assert_eq!(wrong, "params: `threadId` is missing");
    assert!(validator.check_params("thread/goal/get", &json!({})).is_err(), "not stable");
}

/// Any JSON of moderate size.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
        prop::sample::select(names()).prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(member_name(), inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn member_name() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec!["type", "threadId", "input", "cwd", "granular", "limit", "env"])
            .prop_map(str::to_owned),
        "[a-z]{0,6}",
    ]
}

/// Parameters that are nearly right: the smallest ones, with members put in or taken out.
fn nearly_right() -> impl Strategy<Value = (&'static str, Value)> {
    let edits = prop::collection::vec((member_name(), prop::option::of(any_json())), 0..3);
    (prop::sample::select(names()), edits).prop_map(|(name, edits)| {
        let mut params = generate::minimal_params(name).unwrap();
        if let Value::Object(members) = &mut params {
            for (member, value) in edits {
                match value {
                    Some(value) => members.insert(member, value),
                    None => members.remove(&member),
                };
            }
        }
        (name, params)
    })
}

fn read_and_write(validator: &Validator, name: &str, params: &Value) {
    // Refusing is fine; what is read must be written as the schema says, and read back the same.
    let Ok(written) = generate::recode_params(name, params) else { return };
    validator.check_params(name, &written).unwrap();
    assert_eq!(generate::recode_params(name, &written).unwrap(), written, "{name}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn decoded_messages_encode_as_the_schema_requires((name, params) in nearly_right()) {
        read_and_write(&generate::validator(true), name, &params);
    }

    #[test]
    fn any_json_decodes_without_a_panic(name in prop::sample::select(names()), params in any_json()) {
        read_and_write(&generate::validator(true), name, &params);
    }
}
