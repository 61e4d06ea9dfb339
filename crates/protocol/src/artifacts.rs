//! The committed JSON Schema and TypeScript files, embedded in the released program in compressed
//! form. `cargo xtask generate` generates them; a test checks that they are current.

use miniz_oxide::inflate::decompress_to_vec;

/// A generated file: its name and its content.
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
    let (schema, methods) = if experimental {
        (
            embedded!("json-experimental-agentd.schema.json"),
            embedded!("json-experimental-methods.json"),
        )
    } else {
        (embedded!("json-stable-agentd.schema.json"), embedded!("json-stable-methods.json"))
    };
    vec![("agentd.schema.json", inflate(schema)), ("methods.json", inflate(methods))]
}

/// TypeScript declarations of the messages.
#[must_use]
pub fn typescript(experimental: bool) -> Vec<Artifact> {
    let file = if experimental {
        embedded!("typescript-experimental-protocol.ts")
    } else {
        embedded!("typescript-stable-protocol.ts")
    };
    vec![("protocol.ts", inflate(file))]
}

fn inflate(compressed: &[u8]) -> String {
    let bytes = decompress_to_vec(compressed).expect("the build script compressed it");
    String::from_utf8(bytes).expect("the generated files are text")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embedded_files_equal_the_committed_ones() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schema");
        for (experimental, kind) in [(false, "stable"), (true, "experimental")] {
            let check = |folder: &str, files: Vec<Artifact>| {
                for (name, content) in files {
                    let path = root.join(folder).join(kind).join(name);
                    assert!(std::fs::read_to_string(&path).unwrap() == content, "{path:?}");
                }
            };
            check("json", json_schema(experimental));
            check("typescript", typescript(experimental));
        }
    }
}
