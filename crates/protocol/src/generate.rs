//! Generates JSON Schema and TypeScript from the types and the tables. Built only with the feature
//! `schema`: the released program embeds the committed files (see `artifacts`).

mod bundle;
mod error;
mod example;
mod shape;
mod surface;
mod typescript;
mod validate;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::table::Stability;

pub use error::{SchemaError, SchemaErrorKind};
pub use example::{example_of, minimal_example, minimal_params, minimal_result};
pub use shape::shape;
pub use validate::{Validator, validator};

/// A file to write: its name and its content.
pub type GeneratedFile = (&'static str, String);

/// A message of the tables, with references to the definitions.
pub(crate) struct MessageSchema {
    pub(crate) method: &'static str,
    pub(crate) doc: &'static str,
    pub(crate) stability: Stability,
    pub(crate) params: Part,
    pub(crate) result: Option<Part>,
}

/// The parameters or the result of a message.
pub(crate) struct Part {
    /// Refers to the definitions.
    pub(crate) schema: Value,
    recode: fn(&str) -> Result<Value, SchemaError>,
}

impl Part {
    pub(crate) fn for_type<T>(generator: &mut schemars::SchemaGenerator) -> Self
    where
        T: schemars::JsonSchema + Serialize + DeserializeOwned,
    {
        Self {
            schema: generator.subschema_for::<T>().to_value(),
            // Decodes as the server does, including names in another case style.
            recode: |json| {
                let raw = RawValue::from_string(json.to_owned()).map_err(SchemaError::decode)?;
                let value = jsonrpc::read_result::<T>(&raw).map_err(SchemaError::decode)?;
                serde_json::to_value(value).map_err(SchemaError::decode)
            },
        }
    }
}

/// Returns the JSON Schema bundle and the table of methods; `experimental` adds the gated ones.
#[must_use]
pub fn json_schema(experimental: bool) -> Vec<GeneratedFile> {
    let surface = surface::Surface::cached(experimental);
    vec![
        ("agentd.schema.json", pretty(&bundle::schema(surface))),
        ("methods.json", pretty(&bundle::methods(surface))),
    ]
}

/// Returns the TypeScript declarations; `experimental` adds the gated ones.
#[must_use]
pub fn typescript(experimental: bool) -> Vec<GeneratedFile> {
    let surface = surface::Surface::cached(experimental);
    vec![("protocol.ts", typescript::render(surface))]
}

/// Returns every generated file for `cargo xtask generate` to write: its path below the `schema`
/// folder and its content.
#[must_use]
pub fn all_files() -> Vec<(String, String)> {
    let mut files = Vec::new();
    for (experimental, surface) in [(false, "stable"), (true, "experimental")] {
        for (name, content) in json_schema(experimental) {
            files.push((format!("json/{surface}/{name}"), content));
        }
        for (name, content) in typescript(experimental) {
            files.push((format!("typescript/{surface}/{name}"), content));
        }
    }
    files
}

/// Returns the name of the definition that a schema refers to.
pub(crate) fn definition_name(schema: &Value) -> Option<&str> {
    schema.get("$ref")?.as_str()?.strip_prefix("#/$defs/")
}

fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}
