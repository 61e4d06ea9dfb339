//! JSON Schema and TypeScript, made from the types and the tables. Only built with the feature
//! `schema`: the released program carries the committed files (see `artifacts`).

mod bundle;
mod example;
mod surface;
mod typescript;
mod validate;

use std::path::Path;
use std::{fs, io};

use serde_json::Value;

use crate::table::Stability;

pub use example::minimal_example;
pub use validate::{Validator, validator};

/// A file to write: its name and its content.
pub type GeneratedFile = (&'static str, String);

/// What a table entry says of a message, with references into the definitions.
pub(crate) struct MessageSchema {
    pub(crate) method: &'static str,
    pub(crate) doc: &'static str,
    pub(crate) stability: Stability,
    pub(crate) params: Value,
    pub(crate) result: Option<Value>,
}

/// The JSON Schema bundle and the table of methods; `experimental` adds what is gated.
#[must_use]
pub fn json_schema(experimental: bool) -> Vec<GeneratedFile> {
    let surface = surface::Surface::new(experimental);
    vec![
        ("agentd.schema.json", pretty(&bundle::schema(&surface))),
        ("methods.json", pretty(&bundle::methods(&surface))),
    ]
}

/// The TypeScript declarations; `experimental` adds what is gated.
#[must_use]
pub fn typescript(experimental: bool) -> Vec<GeneratedFile> {
    let surface = surface::Surface::new(experimental);
    vec![("protocol.ts", typescript::render(&surface))]
}

/// Writes every generated file below `root`, the project's `schema` folder.
///
/// # Errors
/// When a folder or a file cannot be written.
pub fn write_all(root: &Path) -> io::Result<()> {
    for (path, content) in all_files() {
        let path = root.join(path);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(path, content)?;
    }
    Ok(())
}

/// Every generated file: its path below the `schema` folder, and its content.
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

/// Name of the definition that a schema refers to.
pub(crate) fn definition_name(schema: &Value) -> Option<&str> {
    schema.get("$ref")?.as_str()?.strip_prefix("#/$defs/")
}

fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}
