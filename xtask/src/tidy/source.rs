//! Rules that are checked line by line in one file: module docs, sizes, sleeps, `unsafe`, the purity
//! of `session`, leftovers.

use std::path::Path;

use super::finding::Finding;
use super::scan::{Scan, has_word, scan};

/// Lines of a file, without its tests, from which on its module docs say why it is one file: a type with a
/// long `impl` may be easier to read in one place. Others have a second idea to split off.
const FILE_WITH_REASON: usize = 600;
const FILE_ERROR: usize = 800;
/// Begins the line of the module docs with that reason.
const REASON: &str = "//! One file, because ";
/// Where `unsafe` may be: confinement, and the one file that is shared with memory.
const UNSAFE: [&str; 3] =
    ["crates/sandbox", "crates/ratelimit/src/mapped.rs", "crates/store/src/sqlite/log_writes.rs"];
const FUNCTION_WARNING: usize = 80;
const FUNCTION_ERROR: usize = 100;

/// Names that `session` does not use: it is replayed in tests, so the world reaches it through
/// ports.
const IMPURE: [&str; 9] = [
    "std::fs",
    "std::net",
    "std::env",
    "std::process",
    "Instant::now",
    "SystemTime::now",
    "tokio",
    "rand",
    "thread::spawn",
];

/// Crates that handle what clients, the model and workspaces name.
const READERS: [&str; 19] = [
    "account",
    "cli",
    "config",
    "file-search",
    "gateway",
    "gateway-admin",
    "gateway-policy",
    "gateway-store",
    "model",
    "model-server",
    "patch",
    "plugins",
    "sandbox",
    "server",
    "services",
    "session",
    "skills",
    "threads",
    "transport",
];
/// Ways to open a file that may wait for its creator.
const OPENS: [&str; 5] =
    ["File::open(", "fs::read(", "fs::read_to_string(", "OpenOptions::new()", "File::options()"];

/// First segments of the protocol's method names.
const METHOD_GROUPS: [&str; 29] = [
    "account",
    "app",
    "collaborationMode",
    "command",
    "config",
    "configRequirements",
    "error",
    "experimentalFeature",
    "externalAgentConfig",
    "feedback",
    "fs",
    "fuzzyFileSearch",
    "hooks",
    "item",
    "marketplace",
    "mcpServer",
    "mcpServerStatus",
    "model",
    "modelProvider",
    "plugin",
    "process",
    "review",
    "serverRequest",
    "skills",
    "thread",
    "tool",
    "turn",
    "windows",
    "windowsSandbox",
];

/// One file with what the rules need to know of it.
struct Source<'s> {
    file: &'s Path,
    scan: Scan,
    /// The line (from 0) where unit tests begin; 0 for a file that is all tests.
    tests_from: usize,
    findings: Vec<Finding>,
}

/// Every finding in one file; `root` is the checkout's own path, which no file may hold.
pub(crate) fn check(file: &Path, text: &str, root: &Path) -> Vec<Finding> {
    let mut findings = leftovers(file, text, root);
    if file.extension().is_none_or(|e| e != "rs") {
        return findings;
    }
    let scan = scan(text);
    let tests_from = if is_test_file(file) { 0 } else { scan.tests_start() };
    let mut source = Source { file, scan, tests_from, findings: Vec::new() };
    source.module_file();
    source.module_docs(text);
    source.sizes(text);
    source.functions();
    source.unsafe_code();
    source.sleeps();
    source.methods_in_jsonrpc();
    source.purity_of_session();
    source.opened_files();
    findings.append(&mut source.findings);
    findings
}

/// Marks that say "unfinished", and paths of one developer's machine; in every kind of text.
fn leftovers(file: &Path, text: &str, root: &Path) -> Vec<Finding> {
    // Put together here so that this file does not find itself.
    let marks = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];
    let machine = [
        root.display().to_string(),
        concat!("/Us", "ers/").to_owned(),
        concat!(".cargo/reg", "istry/src").to_owned(),
        concat!(".rustup/tool", "chains").to_owned(),
    ];
    let mut findings = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        if let Some(mark) = marks.iter().find(|mark| has_word(line, mark)) {
            let message = format!("`{mark}`: do it now, or file an issue");
            findings.push(Finding::error(file, number, "leftovers", message));
        }
        if let Some(path) = machine.iter().find(|path| path.len() > 2 && line.contains(*path)) {
            let message = format!("`{path}` exists on one machine only: use a relative path");
            findings.push(Finding::error(file, number, "machine-path", message));
        }
    }
    findings
}

impl Source<'_> {
    fn error(&mut self, line: usize, rule: &'static str, message: impl Into<String>) {
        self.findings.push(Finding::error(self.file, line + 1, rule, message));
    }

    /// Modules shared between test programs have no other place than a `mod.rs`.
    fn module_file(&mut self) {
        if self.file.ends_with("mod.rs") && !is_test_file(self.file) {
            let message =
                "a module with a folder is `name.rs` next to `name/`: move this file there";
            self.findings.push(Finding::error(self.file, 0, "module-file", message));
        }
    }

    fn module_docs(&mut self, text: &str) {
        if is_test_file(self.file) {
            return;
        }
        let first = text.lines().find(|line| !line.trim().is_empty() && !line.starts_with("#!["));
        if !first.is_some_and(|line| line.starts_with("//!")) {
            let message = "start the module with `//!`: one or two sentences on what it is for and what it does not do";
            self.error(0, "module-docs", message);
        }
    }

    fn sizes(&mut self, text: &str) {
        let lines = self.tests_from;
        if lines > FILE_ERROR {
            let message = format!(
                "{lines} lines without tests, at most {FILE_ERROR}: split the file by its second idea"
            );
            self.findings.push(Finding::error(self.file, 0, "file-size", message));
        } else if lines > FILE_WITH_REASON && !text.lines().any(|line| line.starts_with(REASON)) {
            let message = format!(
                "{lines} lines without tests: split the file by its second idea, or give the reason \
                 against it in its module docs (`{REASON}…`)"
            );
            self.findings.push(Finding::error(self.file, 0, "file-size", message));
        }
    }

    fn functions(&mut self) {
        for (start, lines) in functions(&self.scan.code[..self.tests_from]) {
            if lines > FUNCTION_ERROR {
                let message =
                    format!("{lines} lines (at most {FUNCTION_ERROR}): extract a named function");
                self.error(start, "function-size", message);
            } else if lines > FUNCTION_WARNING {
                let message = format!("{lines} lines: look for a part to extract");
                self.findings.push(Finding::warning(
                    self.file,
                    start + 1,
                    "function-size",
                    message,
                ));
            }
        }
    }

    fn unsafe_code(&mut self) {
        let allowed = UNSAFE.iter().any(|place| self.file.starts_with(place));
        for line in 0..self.scan.code.len() {
            if !has_word(&self.scan.code[line], "unsafe") {
                continue;
            }
            if !allowed {
                self.error(
                    line,
                    "unsafe",
                    "`unsafe` is for crates/sandbox, one mapped file and one file system of SQLite: use a safe wrapper, as rustix has",
                );
            } else if !self.explained(line, "SAFETY:") && !self.explained(line, "# Safety") {
                self.error(
                    line,
                    "unsafe",
                    "say why this is sound in a `// SAFETY:` comment right above (an `unsafe fn` says what it asks of callers under `# Safety`)",
                );
            }
        }
    }

    fn sleeps(&mut self) {
        for line in self.tests_from..self.scan.code.len() {
            let code = &self.scan.code[line];
            let sleeps = ["thread::sleep", "time::sleep"].iter().any(|call| code.contains(call));
            if sleeps && !self.explained(line, "tidy: sleep") {
                let message = "a test does not sleep to be right: wait for an event or inject the clock, \
                               or give the reason in `// tidy: sleep …`";
                self.error(line, "sleep", message);
            }
        }
    }

    fn methods_in_jsonrpc(&mut self) {
        if !self.file.starts_with("crates/jsonrpc/src") {
            return;
        }
        let named: Vec<(usize, String)> = self
            .scan
            .literals
            .iter()
            .filter(|(line, text)| *line < self.tests_from && is_method(text))
            .cloned()
            .collect();
        for (line, text) in named {
            let message =
                format!("`jsonrpc` must not name the method \"{text}\": move it to `protocol`");
            self.error(line, "jsonrpc-methods", message);
        }
    }

    fn purity_of_session(&mut self) {
        if !self.file.starts_with("crates/session/src") {
            return;
        }
        for line in 0..self.tests_from {
            let code = &self.scan.code[line];
            if let Some(found) = IMPURE.iter().find(|name| has_word(code, name)) {
                let message = format!(
                    "`session` is pure and must not use `{found}`: use a port (Model, Commands, Tools, Log, Clock, Ids)"
                );
                self.error(line, "session-purity", message);
            }
        }
    }

    /// Files are opened by the crate `files`, which never waits for a FIFO. A file that is ours alone
    /// says so.
    fn opened_files(&mut self) {
        let source = |name: &&str| self.file.starts_with(format!("crates/{name}/src"));
        if !READERS.iter().any(source) {
            return;
        }
        for line in 0..self.tests_from {
            let code = &self.scan.code[line];
            let found = OPENS.iter().find(|open| code.contains(*open));
            if let Some(found) = found.filter(|_| !self.explained(line, "tidy: open")) {
                let message = format!(
                    "`{found}` may block forever on a FIFO: read with the crate `files`, or say why \
                     no other program controls this file in `// tidy: open …`"
                );
                self.error(line, "opened-files", message);
            }
        }
    }

    fn explained(&self, line: usize, mark: &str) -> bool {
        self.scan.explained(line, mark)
    }
}

pub(super) fn is_test_file(file: &Path) -> bool {
    let part = |name: &str| file.components().any(|c| c.as_os_str() == name);
    part("tests") || part("benches") || file.ends_with("tests.rs")
}

/// Where each function with a body starts (from 0) and how many lines it has, by counting braces.
fn functions(code: &[String]) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    for (start, line) in code.iter().enumerate().filter(|(_, line)| has_word(line, "fn")) {
        let named = line
            .split("fn ")
            .nth(1)
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_alphabetic() || c == '_'));
        if let Some(end) = named.then(|| body_end(&code[start..])).flatten() {
            found.push((start, end + 1));
        }
    }
    found
}

/// The line, counted from a function's first, where its body closes; `None` without a body.
fn body_end(code: &[String]) -> Option<usize> {
    let (mut braces, mut others) = (0i64, 0i64);
    for (at, line) in code.iter().enumerate() {
        for c in line.chars() {
            match c {
                '{' => braces += 1,
                '}' => braces -= 1,
                '(' | '[' => others += 1,
                ')' | ']' => others -= 1,
                ';' if braces == 0 && others == 0 => return None,
                _ => {}
            }
            if c == '}' && braces == 0 && others == 0 {
                return Some(at);
            }
        }
    }
    None
}

fn is_method(literal: &str) -> bool {
    literal == "initialize"
        || literal == "initialized"
        || literal.split_once('/').is_some_and(|(group, name)| {
            METHOD_GROUPS.contains(&group)
                && name.starts_with(|c: char| c.is_ascii_lowercase())
                && name.chars().all(|c| c.is_ascii_alphanumeric() || "/_".contains(c))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(file: &str, text: &str) -> Vec<(&'static str, usize)> {
        let findings = check(Path::new(file), text, Path::new("/some/checkout"));
        findings.iter().map(|f| (f.rule, f.line)).collect()
    }

    #[test]
    fn each_rule_finds_only_its_own_violation() {
        let lib = "crates/model/src/lib.rs";
        let long_function = format!("//! D.\nfn f() {{\n{}}}\n", "    a();\n".repeat(120));
        let noticed_function = format!("//! D.\nfn f() {{\n{}}}\n", "    a();\n".repeat(85));
        let long_file = format!("//! D.\n{}", "const A: u8 = 1;\n".repeat(1000));
        let one_type = format!("//! D.\n{}", "const A: u8 = 1;\n".repeat(700));
        let tested_file =
            format!("//! D.\n#[cfg(test)]\nmod tests {{\n{}}}", "a();\n".repeat(1000));
        for (file, text, expected) in [
            (lib, "//! Doc.\nfn f() {}\n", vec![]),
            (lib, "fn f() {}\n", vec![("module-docs", 1)]),
            ("crates/model/tests/a.rs", "#![allow(x)]\n", vec![]),
            ("crates/model/src/a/mod.rs", "//! D.\n", vec![("module-file", 0)]),
            ("crates/model/tests/common/mod.rs", "//! D.\n", vec![]),
            (lib, &*long_function, vec![("function-size", 2)]),
            (lib, &noticed_function, vec![("function-size", 2)]),
            (lib, &long_file, vec![("file-size", 0)]),
            (lib, &one_type, vec![("file-size", 0)]),
            (
                lib,
                &one_type.replace("//! D.", &format!("//! D.\n{REASON}it is read whole.")),
                vec![],
            ),
            (lib, &tested_file, vec![]),
            (lib, "//! D.\nunsafe fn f() {}", vec![("unsafe", 2)]),
            (lib, "//! D. unsafe\n// unsafe\nconst A: &str = \"unsafe\";", vec![]),
            (
                "crates/sandbox/src/a.rs",
                "//! D.\n// SAFETY: fine.\nlet x =\n    unsafe { f() };",
                vec![],
            ),
            (
                "crates/sandbox/src/a.rs",
                "//! D.\n/// # Safety\n/// No threads.\nunsafe fn f();",
                vec![],
            ),
            ("crates/sandbox/src/a.rs", "//! D.\n// fine\nunsafe { f() };", vec![("unsafe", 3)]),
            (
                "crates/sandbox/src/a.rs",
                "//! D.\n// SAFETY: fine.\n\nf();\nunsafe { f() };",
                vec![("unsafe", 5)],
            ),
            (lib, "//! D.\nstd::thread::sleep(d);", vec![]),
            (
                lib,
                "//! D.\n#[cfg(test)]\nmod tests {\ntokio::time::sleep(d);\n}",
                vec![("sleep", 4)],
            ),
            (
                lib,
                "//! D.\n#[cfg(test)]\nmod tests {\n// tidy: sleep the kernel's clock is under test\nthread::sleep(d);\n}",
                vec![],
            ),
            (
                "crates/jsonrpc/src/a.rs",
                "//! thread/start\nf(\"thread/start\");\ng(\"/readyz\");",
                vec![("jsonrpc-methods", 2)],
            ),
            (
                "crates/jsonrpc/src/a.rs",
                "//! D.\n#[cfg(test)]\nmod tests {\nf(\"thread/start\");\n}",
                vec![],
            ),
            ("crates/protocol/src/a.rs", "//! D.\nf(\"thread/start\");", vec![]),
            (
                "crates/session/src/a.rs",
                "//! D.\nuse std::fs::File;\nlet operand = 1;",
                vec![("session-purity", 2)],
            ),
            (
                "crates/session/src/a.rs",
                "//! D.\nlet t = Instant::now();",
                vec![("session-purity", 2)],
            ),
            (lib, "//! D.\nlet f = File::open(path)?;", vec![("opened-files", 2)]),
            (lib, "//! D.\nlet f = fs::read_to_string(path)?;", vec![("opened-files", 2)]),
            (lib, "//! D.\n// tidy: open the kernel's own file\nlet f = fs::read(p)?;", vec![]),
            (lib, "//! D.\nlet f = files::read(path, 10)?;", vec![]),
            ("crates/store/src/a.rs", "//! D.\nlet f = File::open(path)?;", vec![]),
            (lib, concat!("//! D.\n// TO", "DO later"), vec![("leftovers", 2)]),
            ("docs/a.md", concat!("FIX", "ME"), vec![("leftovers", 1)]),
            ("docs/a.md", "cd /some/checkout", vec![("machine-path", 1)]),
            (".ci/run", "mktemp -d a.XXXXXX", vec![]),
        ] {
            assert_eq!(rules(file, text), expected, "{file}: {text:.200}");
        }
    }

    #[test]
    fn functions_are_measured_by_braces() {
        for (text, expected) in [
            ("fn a() {}", vec![(0, 1)]),
            ("fn a(\n  x: u8,\n) -> [u8; 2] {\n  b();\n}\n", vec![(0, 5)]),
            ("trait T {\n  fn a();\n  fn b() {\n  }\n}", vec![(2, 2)]),
            ("let f: fn(u8) = g;", vec![]),
            ("fn a() { let s = '{'; }\nfn b() {\n}", vec![(0, 1), (1, 2)]),
        ] {
            assert_eq!(functions(&scan(text).code), expected, "{text}");
        }
    }
}
