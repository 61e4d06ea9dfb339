//! Edited bodies are equal but for the edits.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{Kind, scan, scan::tests::value};

fn edited(body: &str, edit: impl Fn(&mut Edits, &Scanned)) -> String {
    let body = Bytes::copy_from_slice(body.as_bytes());
    let scanned = scan(&body, Kind::Chat).unwrap();
    let mut edits = Edits::new();
    edit(&mut edits, &scanned);
    let Edited { pieces, length } = edits.apply(&body);
    assert!(pieces.iter().all(|piece| !piece.is_empty()));
    let whole = pieces.concat();
    assert_eq!(whole.len(), length);
    String::from_utf8(whole).unwrap()
}

#[test]
fn members_are_set_in_place() {
    let check = |body: &str, expect: &str| {
        let edit = |edits: &mut Edits, scanned: &Scanned| {
            edits.include_usage(scanned);
            edits.set_prompt_cache_retention(scanned, "24h");
        };
        assert_eq!(edited(body, edit), expect);
    };
    let added = r#""stream_options":{"include_usage":true},"prompt_cache_retention":"24h"}"#;
    check("{}", &format!("{{{added}"));
    check(" { } \n", &format!(" {{ {added} \n"));
    check(r#"{"a":1 }"#, &format!(r#"{{"a":1 ,{added}"#));
    check(
        r#"{"stream_options":null,"prompt_cache_retention":null}"#,
        r#"{"stream_options":{"include_usage":true},"prompt_cache_retention":"24h"}"#,
    );
    check(
        r#"{"stream_options":{},"prompt_cache_retention":"x"}"#,
        r#"{"stream_options":{"include_usage":true},"prompt_cache_retention":"24h"}"#,
    );
    check(
        r#"{"prompt_cache_retention":"x","stream_options": {"o":false }}"#,
        r#"{"prompt_cache_retention":"24h","stream_options": {"o":false ,"include_usage":true}}"#,
    );
    check(
        r#"{"prompt_cache_retention":"x","stream_options":{"include_usage" : false}}"#,
        r#"{"prompt_cache_retention":"24h","stream_options":{"include_usage" : true}}"#,
    );
    check(
        r#"{"prompt_cache_retention":"x","stream_options":{"include_usage":true}}"#,
        r#"{"prompt_cache_retention":"24h","stream_options":{"include_usage":true}}"#,
    );
}

#[test]
fn strings_are_escaped() {
    let body = r#"{"model":"a","service_tier":"priority"}"#;
    let edit = |edits: &mut Edits, scanned: &Scanned| {
        edits.set_text(scanned.service_tier.unwrap(), "fast");
        edits.set_text(scanned.model.unwrap(), "b\"\n");
    };
    assert_eq!(edited(body, edit), r#"{"model":"b\"\n","service_tier":"fast"}"#);
}

#[test]
fn an_unchanged_body_is_not_copied() {
    let body = Bytes::from_static(b"{\"model\":\"a\"}");
    let edits = Edits::new();
    assert!(edits.is_empty());
    let edited = edits.apply(&body);
    assert_eq!(edited.pieces.concat(), body);
    assert_eq!(edited.pieces[0].as_ptr(), body.as_ptr());
}

#[test]
fn a_change_within_a_removed_member_is_dropped() {
    let body = r#"{"model":"a","messages":[{"x":1}],"top":2}"#;
    let edit = |edits: &mut Edits, scanned: &Scanned| {
        let start = body.find("{\"x\"").unwrap();
        edits.set_raw(Span { start, end: start + 7 }, "{}");
        edits.remove_members(scanned, body.as_bytes(), |name| name == "messages");
    };
    assert_eq!(edited(body, edit), r#"{"model":"a","top":2}"#);
}

#[test]
fn spans_of_another_body_do_not_panic() {
    let scanned = scan(br#"{"model":"long enough"}"#, Kind::Chat).unwrap();
    let mut edits = Edits::new();
    edits.set_text(scanned.model.unwrap(), "x");
    edits.set_max_tokens(&scanned, 7);
    edits.apply(&Bytes::from_static(b"{}"));
}

proptest! {
    #[test]
    fn other_members_stay_unchanged(
        rest in prop::collection::btree_map("[a-z]{1,4}x", value(), 0..6),
        options in prop::sample::select(vec![
            None, Some(json!(null)), Some(json!({})), Some(json!({"include_usage": true})),
            Some(json!({"include_usage": null, "o": 1})), Some(json!({"o": [true]})),
        ]),
        limits in prop::sample::select(vec![None, Some(json!(null)), Some(json!(5))]),
        retention in prop::sample::select(vec![None, Some(json!(null)), Some(json!("in_memory"))]),
        name in ".{0,8}",
        pretty in any::<bool>(),
    ) {
        let mut body: serde_json::Map<String, Value> = rest.into_iter().collect();
        body.insert("model".to_owned(), json!("alias"));
        let given = [("stream_options", options), ("max_completion_tokens", limits),
            ("prompt_cache_retention", retention)];
        for (key, value) in given {
            if let Some(value) = value {
                body.insert(key.to_owned(), value);
            }
        }
        let text = if pretty { serde_json::to_string_pretty(&body) } else { serde_json::to_string(&body) };
        let text = text.unwrap();
        // Parsing a double may change its last digit.
        let mut expect: serde_json::Map<String, Value> = serde_json::from_str(&text).unwrap();
        let after = edited(&text, |edits, scanned| {
            edits.set_text(scanned.model.unwrap(), &name);
            edits.include_usage(scanned);
            edits.set_prompt_cache_retention(scanned, "24h");
            edits.set_max_completion_tokens(scanned, 77);
        });
        expect["model"] = json!(name);
        expect.insert("prompt_cache_retention".to_owned(), json!("24h"));
        expect.insert("max_completion_tokens".to_owned(), json!(77));
        let options = expect.entry("stream_options").or_insert(Value::Null);
        if options.is_null() {
            *options = json!({});
        }
        options["include_usage"] = json!(true);
        let after: Value = serde_json::from_str(&after).unwrap();
        prop_assert_eq!(after, Value::Object(expect));
    }

    #[test]
    fn members_are_removed_wherever_they_stand(
        members in prop::collection::hash_map("[a-h]", value(), 0..8),
        removed in "[a-h]{0,8}",
        adds in any::<bool>(),
        pretty in any::<bool>(),
    ) {
        let body: serde_json::Map<String, Value> = members.into_iter().collect();
        let text = if pretty { serde_json::to_string_pretty(&body) } else { serde_json::to_string(&body) };
        let text = text.unwrap();
        let mut expect: serde_json::Map<String, Value> = serde_json::from_str(&text).unwrap();
        expect.retain(|name, _| !removed.contains(name.as_str()));
        let after = edited(&text, |edits, scanned| {
            edits.remove_members(scanned, text.as_bytes(), |name| removed.contains(name));
            if adds {
                edits.set_max_tokens(scanned, 7);
            }
        });
        if adds {
            expect.insert("max_tokens".to_owned(), json!(7));
        }
        prop_assert_eq!(serde_json::from_str::<Value>(&after).unwrap(), Value::Object(expect));
    }
}
