//! The published JSON Schemas of both versions of the protocol as a check of messages.

use std::collections::HashMap;
use std::sync::{Mutex, OnceLock};

use jsonschema::Validator;
use serde_json::{Value, json};

/// Compiled parts of the schema, by the name of the definition.
pub(crate) struct Schema {
    definitions: Value,
    compiled: Mutex<HashMap<String, &'static Validator>>,
}

/// What of a method is checked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Params,
    Result,
}

impl Schema {
    /// The schema of a version of the protocol.
    pub(crate) fn published(version: u16) -> &'static Self {
        static FIRST: OnceLock<Schema> = OnceLock::new();
        static SECOND: OnceLock<Schema> = OnceLock::new();
        let (place, text) = match version {
            1 => (&FIRST, include_str!("../schema/v1.json")),
            2 => (&SECOND, include_str!("../schema/v2.json")),
            _ => panic!("there is no version {version}"),
        };
        place.get_or_init(|| {
            let mut schema: Value = serde_json::from_str(text).unwrap();
            Self { definitions: schema["$defs"].take(), compiled: Mutex::default() }
        })
    }

    /// # Panics
    /// If the value does not fit, or the schema does not have the method.
    #[track_caller]
    pub(crate) fn check(&self, method: &str, part: Part, value: &Value) {
        let name = self.definition(method, part);
        let validator = self.compiled(&name);
        let faults: Vec<String> = validator
            .iter_errors(value)
            .map(|fault| format!("{}: {fault}", fault.instance_path()))
            .collect();
        assert!(faults.is_empty(), "{method} does not fit {name}: {faults:#?}\n{value:#}");
    }

    fn definition(&self, method: &str, part: Part) -> String {
        let definitions = self.definitions.as_object().unwrap();
        let of_method = definitions.iter().filter(|(_, it)| it["x-method"] == method);
        let mut names = of_method
            .map(|(name, _)| name)
            .filter(|name| (part == Part::Result) == name.ends_with("Response"));
        names.next().unwrap_or_else(|| panic!("the schema has no method {method}")).clone()
    }

    fn compiled(&self, name: &str) -> &'static Validator {
        let mut compiled = self.compiled.lock().unwrap();
        compiled.entry(name.to_owned()).or_insert_with(|| {
            let schema = json!({ "$ref": format!("#/$defs/{name}"), "$defs": self.definitions });
            Box::leak(Box::new(jsonschema::draft202012::new(&schema).unwrap()))
        })
    }
}

#[test]
fn the_check_finds_faults() {
    let found = std::panic::catch_unwind(|| {
        let wrong = json!({ "sessionId": "s", "update": { "sessionUpdate": "plan" } });
        Schema::published(1).check("session/update", Part::Params, &wrong);
    });
    assert!(found.is_err());
    let right = json!({ "sessionId": "s", "update": { "sessionUpdate": "plan", "entries": [] } });
    Schema::published(1).check("session/update", Part::Params, &right);
}
