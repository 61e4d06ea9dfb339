//! Generates JSON Schema and TypeScript from the types and the tables. Built only with the feature
//! `schema`: the released program embeds the committed files (see `artifacts`).

mod bundle;
mod example;
mod shape;
mod surface;
mod typescript;
mod validate;

use serde_json::Value;

pub use crate::message_schema::{SchemaError, SchemaErrorKind};
pub use example::{example_of, minimal_example, minimal_params, minimal_result};
pub use shape::shape;
pub use validate::{Validator, validator};

/// A file to write: its name and its content.
pub type GeneratedFile = (&'static str, String);

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
