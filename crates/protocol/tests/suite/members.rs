//! Members that are null, unknown or spelled otherwise, in every message that a client sends. The
//! cases are made from the generated schema, so that a new member is judged too.

use std::cell::RefCell;
use std::collections::BTreeSet;

use protocol::generate::{self, SchemaError, example_of};
use protocol::{METHODS, SERVER_REQUESTS};
use serde_json::{Map, Value, json};

/// Members whose null is no absence, as their documentation says.
const MEANINGFUL_NULLS: &[&str] = &[
    "ThreadGoalSetParams.tokenBudget",
    "ThreadMetadataGitInfoUpdate.branch",
    "ThreadMetadataGitInfoUpdate.originUrl",
    "ThreadMetadataGitInfoUpdate.sha",
    "TurnStartParams.serviceTier",
];

/// Types that decide what may be done.
const AUTHORITY: &[&str] = &[
    "AdditionalPermissionProfile",
    "ApprovalsReviewer",
    "AskForApproval",
    "CollaborationMode",
    "NetworkPolicyAmendment",
    "PermissionProfile",
    "PermissionProfileSelectionParams",
    "SandboxMode",
    "SandboxPolicy",
];

/// Methods that act by themselves: what they pass over, they would do.
const ACTING: &[&str] = &[
    "command/exec",
    "command/exec/resize",
    "command/exec/terminate",
    "command/exec/write",
    "config/batchWrite",
    "config/value/write",
    "experimentalFeature/enablement/set",
    "feedback/upload",
    "fs/copy",
    "fs/createDirectory",
    "fs/remove",
    "fs/writeFile",
    "process/kill",
    "process/resizePty",
    "process/spawn",
    "process/writeStdin",
    "review/start",
    "thread/goal/set",
    "thread/shellCommand",
    "turn/steer",
];

/// What such parameters carry and grants nothing: content, for the model or for people.
const CONTENT: &[&str] =
    &["ByteRange", "DynamicToolSpec", "ResponseItem", "TextElement", "UserInput"];

fn definitions() -> Map<String, Value> {
    let files = generate::json_schema(true);
    let (_, bundle) = files.iter().find(|(name, _)| *name == "agentd.schema.json").unwrap();
    let mut bundle: Value = serde_json::from_str(bundle).unwrap();
    match bundle["$defs"].take() {
        Value::Object(definitions) => definitions,
        other => panic!("{other}"),
    }
}

/// The table of the schema's messages: method and definition of its parameters or its result.
fn sent_by_client() -> Vec<(String, bool, String)> {
    let files = generate::json_schema(true);
    let (_, table) = files.iter().find(|(name, _)| *name == "methods.json").unwrap();
    let table: Value = serde_json::from_str(table).unwrap();
    let rows = |list: &str, part: &str, is_result: bool| -> Vec<(String, bool, String)> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let rows = table[list].as_array().unwrap().iter();
        rows.map(|row| (text(&row["method"]), is_result, text(&row[part]))).collect()
    };
    let mut all = rows("clientRequests", "params", false);
    all.extend(rows("serverRequests", "result", true));
    assert_eq!(all.len(), METHODS.len() + SERVER_REQUESTS.len());
    all
}

/// An object of some type inside a message: the message around it, and what is to be tried.
struct Case {
    /// Type and member.
    what: String,
    /// The message with the object changed.
    changed: Value,
    /// An equivalent message, or nothing if none exists.
    same_as: Option<Value>,
}

/// Of an object's type, its schema and its smallest value: what is to be tried.
type MakeCases<'c> = dyn Fn(&str, &Map<String, Value>, &Value) -> Vec<Case> + 'c;

/// Reads a message as the server does, and writes it again.
type Read<'r> = dyn Fn(&Value) -> Result<Value, SchemaError> + 'r;

/// Makes cases of each object of a schema.
struct Walk<'d> {
    definitions: &'d Map<String, Value>,
    cases: &'d MakeCases<'d>,
}

impl Walk<'_> {
    /// `within` are the types around this schema.
    fn walk(&self, schema: &Value, within: &mut Vec<String>) -> Vec<Case> {
        let Some(schema) = schema.as_object() else { return Vec::new() };
        let mut found = Vec::new();
        let whole = |keyword: &str| {
            let mut own = schema.clone();
            own.retain(|name, _| name != keyword);
            example_of(&Value::Object(own)).unwrap_or(Value::Null)
        };
        if let Some(name) = schema.get("$ref").and_then(Value::as_str) {
            let name = name.trim_start_matches("#/$defs/").to_owned();
            if !within.contains(&name) {
                within.push(name.clone());
                let inner = self.walk(&self.definitions[&name], within);
                within.pop();
                found.extend(
                    inner.into_iter().map(|case| around(case, |v| merged(&whole("$ref"), v))),
                );
            }
        }
        for keyword in ["oneOf", "anyOf"] {
            for variant in schema.get(keyword).and_then(Value::as_array).into_iter().flatten() {
                let inner = self.walk(variant, within);
                found.extend(
                    inner.into_iter().map(|case| around(case, |v| merged(&whole(keyword), v))),
                );
            }
        }
        if let Some(items) = schema.get("items") {
            found.extend(
                self.walk(items, within).into_iter().map(|case| around(case, |v| json!([v]))),
            );
        }
        if schema.contains_key("properties") || schema.get("type") == Some(&json!("object")) {
            found.extend(self.object(schema, within));
        }
        found
    }

    fn object(&self, schema: &Map<String, Value>, within: &mut Vec<String>) -> Vec<Case> {
        let base = example_of(&Value::Object(schema.clone())).unwrap();
        let owner = within.last().cloned().unwrap_or_default();
        let mut found = (self.cases)(&owner, schema, &base);
        for (name, property) in
            schema.get("properties").and_then(Value::as_object).into_iter().flatten()
        {
            let inner = self.walk(property, within);
            found.extend(inner.into_iter().map(|case| around(case, |v| with(&base, name, v))));
        }
        found
    }
}

fn around(case: Case, wrap: impl Fn(Value) -> Value) -> Case {
    Case { what: case.what, changed: wrap(case.changed), same_as: case.same_as.map(wrap) }
}

fn merged(base: &Value, value: Value) -> Value {
    match (base, value) {
        (Value::Object(base), Value::Object(value)) => {
            Value::Object(base.clone().into_iter().chain(value).collect())
        }
        (_, value) => value,
    }
}

fn with(object: &Value, member: &str, value: Value) -> Value {
    merged(object, json!({ member: value }))
}

fn is_required(schema: &Map<String, Value>, member: &str) -> bool {
    let required = schema.get("required").and_then(Value::as_array);
    required.is_some_and(|names| names.iter().any(|name| name == member))
}

fn is_strict(schema: &Map<String, Value>) -> bool {
    schema.get("additionalProperties") == Some(&Value::Bool(false))
}

/// Runs every case of every message that a client sends; gives their number.
fn run(cases: &MakeCases<'_>, check: &dyn Fn(&str, &Case, &Read<'_>)) -> usize {
    let definitions = definitions();
    let walk = Walk { definitions: &definitions, cases };
    let mut number = 0;
    for (method, is_result, name) in sent_by_client() {
        let read = |value: &Value| match is_result {
            false => generate::recode_params(&method, value),
            true => generate::recode_result(&method, value),
        };
        let reference = json!({ "$ref": format!("#/$defs/{name}") });
        for case in walk.walk(&reference, &mut Vec::new()) {
            check(&method, &case, &read);
            number += 1;
        }
    }
    number
}

#[test]
fn null_members_are_omitted() {
    let cases = |owner: &str, schema: &Map<String, Value>, base: &Value| {
        let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
        let optional = properties.filter(|(name, _)| !is_required(schema, name));
        optional
            .map(|(name, _)| Case {
                what: format!("{owner}.{name}"),
                changed: with(base, name, Value::Null),
                same_as: Some(base.clone()),
            })
            .filter(|case| !MEANINGFUL_NULLS.contains(&case.what.as_str()))
            .collect()
    };
    let refused = RefCell::new(BTreeSet::new());
    let number = run(&cases, &|method, case, read| {
        let what = &case.what;
        let absent = read(case.same_as.as_ref().unwrap()).unwrap_or_else(|why| {
            panic!("{method}, {what} absent: {why}: {:?}", case.same_as);
        });
        let null = read(&case.changed);
        if null.as_ref() != Ok(&absent) {
            refused.borrow_mut().insert(format!("{what}: {null:?}"));
        }
    });
    assert_eq!(refused.into_inner(), BTreeSet::new());
    assert!(number > 250, "{number}");
}

/// Enumerations with names that have members, as `granular` does: one more name beside it is an
/// error with another text.
const NAMES_WITH_MEMBERS: &[&str] =
    &["AskForApproval", "CommandExecutionApprovalDecision", "ReviewDecision"];

#[test]
fn strict_types_refuse_unknown_members() {
    let cases = |owner: &str, schema: &Map<String, Value>, base: &Value| {
        let changed = with(base, "surelyUnknown", json!(1));
        let case = Case { what: owner.to_owned(), changed, same_as: None };
        if is_strict(schema) { vec![case] } else { Vec::new() }
    };
    let number = run(&cases, &|method, case, read| {
        let why = read(&case.changed).expect_err(&format!("{method}, {}", case.what));
        let is_reported = why.to_string().contains("unknown member `surelyUnknown`");
        let is_name = NAMES_WITH_MEMBERS.contains(&case.what.as_str());
        assert!(is_reported || is_name, "{method}, {}: {why}", case.what);
    });
    assert!(number > 60, "{number}");
}

#[test]
fn strict_types_understand_other_spellings() {
    let spelled = |name: &str, separator: char| -> String {
        name.chars().fold(String::new(), |mut spelled, c| {
            if c.is_ascii_uppercase() || c == '_' {
                spelled.push(separator);
            }
            if c != '_' {
                spelled.push(c.to_ascii_lowercase());
            }
            spelled
        })
    };
    let cases = |owner: &str, schema: &Map<String, Value>, base: &Value| {
        let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
        let mut cases = Vec::new();
        for (name, property) in properties.filter(|_| is_strict(schema)) {
            for other in [spelled(name, '_'), spelled(name, '-')] {
                if other == *name {
                    continue;
                }
                let value = example_of(property).unwrap();
                let same_as = with(base, name, value.clone());
                let mut changed = with(base, &other, value);
                changed.as_object_mut().unwrap().remove(name);
                let what = format!("{owner}.{other}");
                cases.push(Case { what, changed, same_as: Some(same_as) });
            }
        }
        cases
    };
    let number = run(&cases, &|method, case, read| {
        let what = &case.what;
        let expect = read(case.same_as.as_ref().unwrap()).unwrap();
        let found = read(&case.changed).unwrap_or_else(|why| panic!("{method}, {what}: {why}"));
        assert_eq!(found, expect, "{method}, {what}");
    });
    assert!(number > 150, "{number}");
}

/// Names of the types that a schema reaches, itself included, but not through `stop`.
fn reached(definitions: &Map<String, Value>, name: &str, stop: &[&str]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open = vec![json!({ "$ref": format!("#/$defs/{name}") })];
    while let Some(value) = open.pop() {
        match value {
            Value::Object(members) => {
                if let Some(name) = members.get("$ref").and_then(Value::as_str) {
                    let name = name.trim_start_matches("#/$defs/");
                    if !stop.contains(&name) && found.insert(name.to_owned()) {
                        open.push(definitions[name].clone());
                    }
                }
                open.extend(members.into_iter().map(|(_, value)| value));
            }
            Value::Array(values) => open.extend(values),
            _ => {}
        }
    }
    found
}

/// Every object in a schema, references not followed.
fn objects(schema: &Value) -> Vec<&Map<String, Value>> {
    let mut found = Vec::new();
    if let Some(members) = schema.as_object() {
        if members.contains_key("properties") {
            found.push(members);
        }
        for keyword in ["oneOf", "anyOf"] {
            let variants = members.get(keyword).and_then(Value::as_array).into_iter().flatten();
            found.extend(variants.flat_map(objects));
        }
    }
    found
}

#[test]
fn every_type_that_decides_permissions_is_strict() {
    let definitions = definitions();
    let mut strict = BTreeSet::new();
    for (method, is_result, name) in sent_by_client() {
        let all = reached(&definitions, &name, CONTENT);
        let decides = all.iter().any(|name| AUTHORITY.contains(&name.as_str()));
        match is_result {
            false if decides || ACTING.contains(&method.as_str()) => strict.extend(all),
            // An answer is read leniently around what it grants.
            true => {
                let grants = all.iter().filter(|name| AUTHORITY.contains(&name.as_str()));
                strict.extend(grants.flat_map(|name| reached(&definitions, name, CONTENT)));
            }
            false => {}
        }
    }
    strict.insert("PermissionsRequestApprovalResponse".to_owned());
    assert!(strict.len() > 40, "{strict:?}");
    for name in &strict {
        for object in objects(&definitions[name]) {
            // A name with its members beside it is an object of one member.
            let is_name = name.starts_with("AskForApproval");
            assert!(is_strict(object) || is_name, "{name} passes over members: {object:?}");
        }
    }
    for method in ACTING {
        assert!(protocol::lookup(method).is_some(), "{method}");
    }
}

#[test]
fn the_overrides_of_a_turn_are_listed() {
    let definitions = definitions();
    let members = |name: &str| -> BTreeSet<String> {
        definitions[name]["properties"].as_object().unwrap().keys().cloned().collect()
    };
    let steer = members("TurnSteerParams");
    let overrides = members("TurnStartParams").into_iter().filter(|name| !steer.contains(name));
    let listed = protocol::TURN_OVERRIDES.iter().map(|name| (*name).to_owned());
    assert_eq!(overrides.collect::<BTreeSet<_>>(), listed.collect());
}
