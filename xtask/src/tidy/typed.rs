//! Clients speak the protocol through its types: no method is named by a string, and in the terminal no message
//! is read by an index into JSON. An exception gives its reason in `// tidy: untyped …`.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use super::finding::Finding;
use super::scan::{Scan, scan};

/// Crates that send and receive messages of the protocol as a client.
const CLIENTS: [&str; 4] =
    ["crates/acp/src", "crates/cli/src", "crates/mcp-server/src", "crates/tui/src"];
/// The crate that reads no JSON by index.
const TERMINAL: &str = "crates/tui/src";
/// The tables of the protocol, as they are generated.
const METHODS: &str = "schema/methods.json";

/// The rule, with the names that it knows.
pub(crate) struct Typed {
    names: BTreeSet<String>,
}

impl Typed {
    /// Reads the protocol's names of requests and notifications. Names that are one lower-case word, such as
    /// `error` and `initialize`, are left out: other texts have these words, too.
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let path = root.join(METHODS);
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let tables: Value = serde_json::from_str(&text).context(METHODS)?;
        let rows = tables.as_object().into_iter().flat_map(|tables| tables.values());
        let rows = rows.filter_map(Value::as_array).flatten();
        let names = rows.filter_map(|row| row.get("method")?.as_str());
        Ok(Self::new(names))
    }

    fn new<'n>(names: impl Iterator<Item = &'n str>) -> Self {
        let is_word = |name: &&str| name.chars().all(|c| c.is_ascii_lowercase());
        Self { names: names.filter(|name| !is_word(name)).map(str::to_owned).collect() }
    }

    /// Every finding in one file.
    pub(crate) fn check(&self, file: &Path, text: &str) -> Vec<Finding> {
        let in_tests = file.iter().any(|folder| folder == "tests");
        let is_tests = in_tests || file.to_string_lossy().ends_with("tests.rs");
        if !CLIENTS.iter().any(|client| file.starts_with(client)) || is_tests {
            return Vec::new();
        }
        let scan = scan(text);
        let tests = scan.tests_start();
        let mut findings = Vec::new();
        for (line, literal) in scan.literals.iter().filter(|(line, _)| *line < tests) {
            if self.names.contains(literal) && !scan.explained(*line, EXCEPTION) {
                let message = format!(
                    "\"{literal}\" is a method of the protocol: call it by its type, or write `protocol::…::NAME`"
                );
                findings.push(Finding::error(file, line + 1, "typed-method", message));
            }
        }
        if file.starts_with(TERMINAL) {
            let lines = (0..tests).filter(|line| has_index(&scan, *line));
            let message =
                "read the message through its type in `protocol`, not by an index into JSON";
            findings.extend(
                lines
                    .filter(|line| !scan.explained(*line, EXCEPTION))
                    .map(|line| Finding::error(file, line + 1, "typed-json", message)),
            );
        }
        findings
    }
}

/// The beginning of an exception's comment.
const EXCEPTION: &str = "tidy: untyped";

/// Returns whether the line has an index that is a string literal, which only JSON is read with.
fn has_index(scan: &Scan, line: usize) -> bool {
    let code = &scan.code[line];
    let is_value = |c: char| c.is_alphanumeric() || matches!(c, '_' | ')' | ']' | '?');
    code.match_indices("[\"\"]").any(|(at, _)| code[..at].chars().next_back().is_some_and(is_value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(file: &str, text: &str) -> Vec<(usize, &'static str)> {
        let typed = Typed::new(["turn/start", "configWarning", "error"].into_iter());
        let findings = typed.check(Path::new(file), text);
        findings.into_iter().map(|it| (it.line, it.rule)).collect()
    }

    #[test]
    fn a_client_names_methods_by_their_types() {
        let tui = "crates/tui/src/a.rs";
        assert_eq!(found(tui, "call(\"turn/start\")"), [(1, "typed-method")]);
        assert_eq!(found(tui, "\n\"configWarning\" => 1,"), [(2, "typed-method")]);
        assert_eq!(found("crates/server/src/a.rs", "call(\"turn/start\")"), []);
        for text in [
            "call::<TurnStart>()",
            "// \"turn/start\"",
            "f(\"`turn/start` failed\", \"error\")",
            "// tidy: untyped because it is the other protocol's\nf(\"turn/start\")",
            "#[cfg(test)]\nmod tests {\n    f(\"turn/start\");\n}",
        ] {
            assert_eq!(found(tui, text), [], "{text}");
        }
        assert_eq!(found("crates/acp/src/map/a_tests.rs", "call(\"turn/start\")"), []);
    }

    #[test]
    fn the_terminal_reads_no_json_by_index() {
        let tui = "crates/tui/src/a.rs";
        for text in ["v[\"a\"]", "f()[\"a\"]", "v[0][\"a\"]", "v?[\"a\"]"] {
            assert_eq!(found(tui, text), [(1, "typed-json")], "{text}");
        }
        assert_eq!(found("crates/cli/src/a.rs", "v[\"a\"]"), []);
        for text in ["f(&[\"a\"])", "let a = [\"a\"];", "vec![\"a\"]", "v.get(\"a\")", "v[0]"] {
            assert_eq!(found(tui, text), [], "{text}");
        }
    }
}
