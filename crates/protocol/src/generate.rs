//! JSON Schema and TypeScript, from the types and the tables. The released program does not generate
//! them: it derives them from the committed schema that it embeds (see `artifacts`).

mod bundle;
pub(crate) mod document;
mod example;
mod recode;
mod shape;
mod surface;
mod typescript;
mod validate;

use serde_json::Value;

pub use crate::message_schema::{SchemaError, SchemaErrorKind};
use document::Document;
pub use example::{example_of, minimal_example, minimal_params, minimal_result};
pub use recode::{recode_params, recode_result};
pub use shape::shape;
use surface::Surface;
pub use validate::{Validator, validator};

/// A file to write: its name and its content.
pub type GeneratedFile = (&'static str, String);

/// Returns the JSON Schema bundle and the table of methods; `experimental` adds the gated ones. Those of
/// the experimental surface are committed, and mark what needs the capability.
#[must_use]
pub fn json_schema(experimental: bool) -> Vec<GeneratedFile> {
    json_files(&document(experimental))
}

/// Returns the TypeScript declarations; `experimental` adds the gated ones.
#[must_use]
pub fn typescript(experimental: bool) -> Vec<GeneratedFile> {
    typescript_files(&document(experimental))
}

fn document(experimental: bool) -> Document {
    let whole = Surface::cached().document();
    if experimental { whole } else { whole.into_stable() }
}

/// The JSON files of a surface.
pub(crate) fn json_files(document: &Document) -> Vec<GeneratedFile> {
    let pretty = |value: &Value| format!("{value:#}\n");
    let methods = serde_json::json!(document.messages);
    vec![
        (document::SCHEMA, pretty(&bundle::schema(document))),
        (document::METHODS, pretty(&methods)),
    ]
}

/// The TypeScript of a surface.
pub(crate) fn typescript_files(document: &Document) -> Vec<GeneratedFile> {
    vec![("protocol.ts", typescript::render(document))]
}
