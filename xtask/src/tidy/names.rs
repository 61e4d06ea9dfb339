//! Names of packages: manifests, SDKs, the registry entry, documents and messages have those of `packaging/names.toml`,
//! and no command names a package that is neither ours nor listed there. A command that is copied from a page would
//! else install the program of a stranger who has the name. Asks no registry.

mod commands;
mod manifests;

use std::path::Path;

use anyhow::Result;

use super::finding::Finding;
use super::scan::scan;
use super::source::is_test_file;
use xtask::files::all_files;
use xtask::names::{FILE, Names};

const RULE: &str = "package-names";
/// The files that people read or copy from.
const EXTENSIONS: [&str; 14] = [
    "cjs", "html", "js", "json", "lua", "md", "mjs", "py", "rs", "sh", "toml", "ts", "yaml", "yml",
];
/// Data of tests in these folders is of people and agents who use other packages.
const WITH_FOREIGN_DATA: [&str; 4] = ["crates", "fuzz", "tools", "xtask"];

pub(crate) fn check(root: &Path) -> Result<Vec<Finding>> {
    let names = Names::read(root)?;
    let mut findings = manifests::check(root, &names)?;
    for file in &all_files(root)? {
        if !is_read(file) {
            continue;
        }
        let Ok(text) = std::fs::read_to_string(root.join(file)) else { continue };
        findings.extend(check_text(file, &text, &names));
    }
    Ok(findings)
}

fn is_read(file: &Path) -> bool {
    let extension = file.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    let is_locked = file.ends_with("package-lock.json");
    let is_data = WITH_FOREIGN_DATA.iter().any(|folder| file.starts_with(folder))
        && (is_test_file(file) || file.starts_with("fuzz"));
    EXTENSIONS.contains(&extension) && !is_locked && !is_data
}

fn check_text(file: &Path, text: &str, names: &Names) -> Vec<Finding> {
    let is_rust = file.extension().is_some_and(|extension| extension == "rs");
    let mut findings = Vec::new();
    for (line, text) in text.lines().enumerate() {
        let mut add = |message| findings.push(Finding::error(file, line + 1, RULE, message));
        for (registry, name) in commands::packages(text, is_rust) {
            if !names.may_be_named(registry, &name) {
                add(format!(
                    "the command names the package `{name}`, which is not ours: take a name of {FILE}; for a \
                     package of others that is meant, add it to `others` there; write a placeholder in \
                     capitals; and put a command in a sentence between backticks"
                ));
            }
        }
        mentions(text, names).into_iter().for_each(&mut add);
    }
    if is_rust && !findings.is_empty() {
        let tests = scan(text).tests_start();
        findings.retain(|finding| finding.line <= tests);
    }
    findings
}

/// Imports and scopes that look like ours and are not.
fn mentions(line: &str, names: &Names) -> Vec<String> {
    const PROGRAM: &str = "agentd";
    let mut messages = Vec::new();
    if !line.contains(PROGRAM) {
        return messages;
    }
    let imports = [&names.pypi_sdk, &names.crates_sdk].map(|name| name.replace('-', "_"));
    for start in ["from ", "import ", "use "] {
        for (at, _) in line.match_indices(start) {
            let name = leading(&line[at + start.len()..], |c| c.is_alphanumeric() || c == '_');
            let is_similar = name.strip_prefix(PROGRAM).is_some_and(|rest| rest.starts_with('_'));
            if is_similar && !imports.iter().any(|import| import == name) {
                messages.push(format!("`{name}` is no import of ours: it is `{}`", imports[0]));
            }
        }
    }
    for (at, _) in line.match_indices("@agentd") {
        let part = |c: char| c.is_alphanumeric() || c == '-';
        let scope = leading(&line[at + 1..], part);
        let Some(rest) = line[at + 1 + scope.len()..].strip_prefix('/') else { continue };
        let scope = format!("@{scope}");
        let name = format!("{scope}/{}", leading(rest, part));
        // Without a name after it, a variable follows.
        let is_scope =
            leading(rest, part).is_empty() && names.npm_sdk.starts_with(&format!("{scope}/"));
        let is_ours =
            names.is_ours(xtask::names::Registry::Npm, &name) || name == names.npm_platform;
        if !is_scope && !is_ours {
            messages.push(format!("the package `{name}` is not ours: take a name of {FILE}"));
        }
    }
    messages
}

fn leading(text: &str, part: impl Fn(char) -> bool) -> &str {
    &text[..text.find(|c| !part(c)).unwrap_or(text.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        Names::read(&xtask::workspace_root()).unwrap()
    }

    #[test]
    fn foreign_names_are_found_where_people_read_them() {
        let names = names();
        let (pypi, npm) = (&names.pypi_sdk, &names.npm_sdk);
        let import = pypi.replace('-', "_");
        for (file, text, expected) in [
            ("docs/a.md", format!("```sh\npip install {pypi}\n```"), vec![]),
            ("docs/a.md", "```sh\npip install agentd\n```".to_owned(), vec![2]),
            ("docs/a.md", format!("`npm install {npm}`, then\n`npx agentd acp`."), vec![2]),
            ("docs/a.md", "`cargo add agentd-sdk`".to_owned(), vec![1]),
            ("sdk/a.py", "hint = 'pip install agentd'".to_owned(), vec![1]),
            ("sdk/a.py", format!("from {import} import Agent"), vec![]),
            ("sdk/a.py", "from agentd_sdk import Agent\nimport agentd_sdk".to_owned(), vec![1, 2]),
            ("sdk/a.ts", format!("import {{ Agent }} from \"{npm}/browser\";"), vec![]),
            ("sdk/a.ts", "import { Agent } from \"@agentd/sdk\";".to_owned(), vec![1]),
            (
                "sdk/a.ts",
                "`@agentd-embed/${platform}`, `@agentd-embe/${platform}`".to_owned(),
                vec![1],
            ),
            (
                "crates/a/src/b.rs",
                "//! `pipx run agentd`\n#[cfg(test)]\nmod tests {\n// npx agentd\n}".to_owned(),
                vec![1],
            ),
        ] {
            let found: Vec<usize> =
                check_text(Path::new(file), &text, &names).iter().map(|it| it.line).collect();
            assert_eq!(found, expected, "{file}: {text}");
        }
    }

    #[test]
    fn data_of_tests_and_lock_files_are_not_read() {
        for (file, expected) in [
            ("docs/a.md", true),
            ("sdk/python/tests/a.py", true),
            ("packaging/tests/a.py", true),
            ("sdk/python/src/a.bin", false),
            ("crates/sandbox/src/rules/tests/a.md", false),
            ("fuzz/seeds/a.json", false),
            ("sdk/typescript/package-lock.json", false),
        ] {
            assert_eq!(is_read(Path::new(file)), expected, "{file}");
        }
    }
}
