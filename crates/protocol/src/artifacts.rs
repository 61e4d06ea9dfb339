//! The committed schema of the protocol, embedded in the released program in compressed form, and what is
//! derived from it: its stable part, and TypeScript. `cargo xtask generate` writes the schema; a test
//! checks that it is current.

use std::sync::OnceLock;

use miniz_oxide::inflate::decompress_to_vec;

use crate::generate::document::{Document, METHODS, SCHEMA};
use crate::generate::{json_files, typescript_files};

/// A file for clients: its name and its content.
pub type Artifact = (&'static str, String);

/// A file that the build script compressed.
macro_rules! embedded {
    ($name:literal) => {
        include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".deflate")).as_slice()
    };
}

/// JSON Schema of the messages, and the table of methods.
#[must_use]
pub fn json_schema(experimental: bool) -> Vec<Artifact> {
    if experimental { committed().into() } else { json_files(&read().into_stable()) }
}

/// TypeScript declarations of the messages.
#[must_use]
pub fn typescript(experimental: bool) -> Vec<Artifact> {
    let whole = read();
    typescript_files(&if experimental { whole } else { whole.into_stable() })
}

/// One surface as data, read once per process.
pub(crate) fn document(experimental: bool) -> &'static Document {
    static SURFACES: [OnceLock<Document>; 2] = [const { OnceLock::new() }; 2];
    SURFACES[usize::from(experimental)]
        .get_or_init(|| if experimental { read() } else { read().into_stable() })
}

fn read() -> Document {
    let [(_, schema), (_, methods)] = committed();
    Document::parse(&schema, &methods).expect("a test reads the committed schema")
}

fn committed() -> [Artifact; 2] {
    [
        (SCHEMA, inflate(embedded!("agentd.schema.json"))),
        (METHODS, inflate(embedded!("methods.json"))),
    ]
}

fn inflate(compressed: &[u8]) -> String {
    let bytes = decompress_to_vec(compressed).expect("the build script compressed it");
    String::from_utf8(bytes).expect("the generated files are text")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate;

    #[test]
    fn embedded_files_equal_the_committed_ones() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schema");
        for (name, content) in json_schema(true) {
            assert!(std::fs::read_to_string(root.join(name)).unwrap() == content, "{name}");
        }
    }

    #[test]
    fn what_is_derived_equals_what_the_types_generate() {
        for experimental in [false, true] {
            assert!(json_schema(experimental) == generate::json_schema(experimental));
            assert!(typescript(experimental) == generate::typescript(experimental));
        }
    }
}
