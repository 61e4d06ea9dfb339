//! Compresses the committed schema files, so that the program carries 50 KB in place of half a megabyte.
#![allow(clippy::disallowed_methods, reason = "cargo passes its values to build scripts this way")]

use std::path::Path;
use std::{env, fs};

use miniz_oxide::deflate::compress_to_vec;

const SCHEMA: &str = "../../schema";
/// DEFLATE's best compression, which these sizes can afford.
const LEVEL: u8 = 9;

fn main() {
    let out = env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    for file in ["agentd.schema.json", "methods.json"] {
        let path = Path::new(SCHEMA).join(file);
        // Not the whole folder: the examples in it are no part of the program.
        println!("cargo:rerun-if-changed={}", path.display());
        let text = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let name = format!("{file}.deflate");
        let compressed = compress_to_vec(&text, LEVEL);
        let written = fs::write(Path::new(&out).join(&name), compressed);
        written.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}
