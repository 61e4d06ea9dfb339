//! Which crate may depend on which: the table of ARCHITECTURE.md, compared with every Cargo.toml.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use toml::{Table, Value};

use super::finding::Finding;

const RULE: &str = "crate-arrows";

/// The dependencies that a crate may have.
enum May {
    Only(&'static [&'static str]),
    EverythingBut(&'static [&'static str]),
}

use May::{EverythingBut, Only};

/// Only `services`, `threads`, `server`, `cli` and `testkit` know both `protocol` and `session`.
const TABLE: &[(&str, May)] = &[
    ("files", Only(&[])),
    ("filesystem", Only(&["files"])),
    ("policy", Only(&[])),
    ("undo", Only(&[])),
    ("tui", Only(&["files", "images", "jsonrpc", "policy", "protocol", "visible"])),
    ("redact", Only(&[])),
    ("file-watch", Only(&[])),
    ("file-search", Only(&["files"])),
    ("visible", Only(&[])),
    ("logging", Only(&["files"])),
    ("jsonrpc", Only(&[])),
    ("protocol", Only(&["jsonrpc", "visible"])),
    ("transport", Only(&["files", "http-client", "jsonrpc"])),
    ("agentd-embed", Only(&["json-schema", "jsonrpc", "protocol", "transport"])),
    ("config", Only(&["files", "visible", "hooks", "policy"])),
    ("http-client", Only(&["files"])),
    ("account", Only(&["files", "http-client", "visible"])),
    ("telemetry", Only(&["http-client"])),
    ("updates", Only(&["http-client"])),
    ("mcp", Only(&["files", "http-client", "visible"])),
    ("hooks", Only(&["visible"])),
    ("session", Only(&["visible", "http-client", "hooks", "policy"])),
    ("json-schema", Only(&[])),
    ("cloud", Only(&["files", "http-client", "visible"])),
    ("model", Only(&["cloud", "files", "http-client", "json-schema", "visible", "wire"])),
    ("realtime", Only(&["model"])),
    ("model-server", Only(&["files", "http-client", "json-schema", "model", "wire"])),
    ("sandbox", Only(&["files", "visible", "policy"])),
    ("store", Only(&["files"])),
    ("patch", Only(&[])),
    ("images", Only(&[])),
    ("skills", Only(&["files", "hooks", "visible"])),
    ("plugins", Only(&["files", "hooks", "visible", "sandbox", "policy"])),
    ("migration", Only(&["config", "files", "hooks", "redact", "skills", "visible"])),
    (
        "services",
        Only(&[
            "account",
            "config",
            "file-search",
            "file-watch",
            "files",
            "filesystem",
            "hooks",
            "http-client",
            "images",
            "json-schema",
            "jsonrpc",
            "logging",
            "mcp",
            "model",
            "patch",
            "plugins",
            "policy",
            "protocol",
            "redact",
            "sandbox",
            "session",
            "skills",
            "store",
            "telemetry",
            "undo",
            "updates",
            "visible",
        ]),
    ),
    (
        "threads",
        Only(&[
            "config",
            "files",
            "hooks",
            "http-client",
            "images",
            "json-schema",
            "jsonrpc",
            "mcp",
            "model",
            "patch",
            "policy",
            "protocol",
            "sandbox",
            "services",
            "session",
            "skills",
            "store",
            "telemetry",
            "undo",
            "visible",
        ]),
    ),
    (
        "server",
        Only(&[
            "account",
            "config",
            "file-search",
            "file-watch",
            "files",
            "filesystem",
            "hooks",
            "http-client",
            "images",
            "json-schema",
            "jsonrpc",
            "mcp",
            "migration",
            "model",
            "model-server",
            "plugins",
            "policy",
            "protocol",
            "realtime",
            "redact",
            "sandbox",
            "services",
            "session",
            "skills",
            "store",
            "telemetry",
            "threads",
            "visible",
        ]),
    ),
    ("mcp-server", Only(&["visible", "jsonrpc", "protocol", "transport", "server"])),
    ("acp", Only(&["visible", "jsonrpc", "policy", "protocol"])),
    ("web", Only(&["transport"])),
    ("ratelimit", Only(&[])),
    ("wire", Only(&[])),
    ("gateway-body", Only(&["http-client"])),
    ("gateway-policy", Only(&["cloud", "files", "http-client", "ratelimit", "wire"])),
    ("gateway-store", Only(&["files", "http-client", "ratelimit", "gateway-policy"])),
    ("gateway-admin", Only(&["ratelimit", "gateway-policy", "gateway-store"])),
    (
        "gateway",
        Only(&[
            "cloud",
            "files",
            "http-client",
            "ratelimit",
            "gateway-body",
            "gateway-policy",
            "gateway-store",
            "gateway-admin",
            "wire",
        ]),
    ),
    ("fuzz-targets", EverythingBut(&["cli", "tools", "xtask"])),
    ("cli", EverythingBut(&["tools", "xtask"])),
    ("testkit", EverythingBut(&["cli", "tools", "xtask"])),
    ("tools", Only(&["protocol", "config", "model", "store", "patch", "xtask"])),
    // Every task begins with a build of it.
    ("xtask", Only(&[])),
];

/// Crates whose tests may use `testkit`, which itself depends on all the others.
const TESTED_WITH_TESTKIT: &[&str] = &["acp", "services", "server", "cli", "tui", "gateway"];
/// Crates that a pure `session` cannot use.
const IMPURE: &[&str] = &["tokio", "rand", "getrandom", "rusqlite", "rustix", "libc", "jiff"];

pub(crate) fn check(root: &Path) -> Result<Vec<Finding>> {
    let mut manifests = ["tools/Cargo.toml", "xtask/Cargo.toml"].map(PathBuf::from).to_vec();
    for entry in std::fs::read_dir(root.join("crates")).context("crates/")? {
        manifests.push(Path::new("crates").join(entry?.file_name()).join("Cargo.toml"));
    }
    let mut findings = Vec::new();
    for manifest in manifests.iter().filter(|manifest| root.join(manifest).is_file()) {
        let text = std::fs::read_to_string(root.join(manifest))?;
        findings.extend(check_manifest(manifest, &text)?);
    }
    Ok(findings)
}

fn check_manifest(file: &Path, text: &str) -> Result<Vec<Finding>> {
    let manifest: Table = text.parse().with_context(|| file.display().to_string())?;
    let name = manifest
        .get("package")
        .and_then(|package| package.get("name"))
        .and_then(Value::as_str)
        .with_context(|| format!("{}: no package.name", file.display()))?;
    let folder = file.parent().and_then(Path::file_name);
    let mut findings = Vec::new();
    if folder.is_none_or(|folder| folder != name) {
        let message = format!("the folder's name differs from the crate's, `{name}`: rename one");
        findings.push(Finding::error(file, 0, RULE, message));
    }
    let Some((_, may)) = TABLE.iter().find(|(known, _)| *known == name) else {
        let message =
            format!("`{name}` is not in the map: add it to ARCHITECTURE.md and to {}", file!());
        findings.push(Finding::error(file, 0, RULE, message));
        return Ok(findings);
    };
    for (dependency, dev) in dependencies(&manifest) {
        if let Some(message) = breach(name, may, dependency, dev) {
            findings.push(Finding::error(file, line_of(text, dependency), RULE, message));
        }
    }
    Ok(findings)
}

fn breach(name: &str, may: &May, dependency: &str, dev: bool) -> Option<String> {
    if name == "session" && !dev && IMPURE.contains(&dependency) {
        return Some(format!(
            "`session` performs no I/O: `{dependency}` belongs behind one of its ports"
        ));
    }
    // A crate's tests may turn on a feature of its own by naming it.
    if dev && dependency == name || !TABLE.iter().any(|(known, _)| *known == dependency) {
        return None;
    }
    let allowed = match may {
        Only(allowed) => allowed.contains(&dependency),
        EverythingBut(refused) => !refused.contains(&dependency),
    };
    // Tests read the log that the program would write.
    let for_tests = match dependency {
        "logging" => dev,
        "testkit" => dev && TESTED_WITH_TESTKIT.contains(&name),
        _ => false,
    };
    if allowed || for_tests {
        return None;
    }
    Some(format!(
        "`{name}` must not depend on `{dependency}` (see the map in ARCHITECTURE.md): pass what it needs through a trait or a plain type"
    ))
}

/// The names in every dependency table, and whether the table is for tests only.
fn dependencies(manifest: &Table) -> Vec<(&str, bool)> {
    let targets = manifest.get("target").and_then(Value::as_table);
    let of_targets = targets.into_iter().flat_map(|t| t.values()).filter_map(Value::as_table);
    let mut found = Vec::new();
    for table in std::iter::once(manifest).chain(of_targets) {
        for (key, dev) in
            [("dependencies", false), ("build-dependencies", false), ("dev-dependencies", true)]
        {
            let entries = table.get(key).and_then(Value::as_table);
            found.extend(
                entries.into_iter().flat_map(|e| e.keys()).map(|name| (name.as_str(), dev)),
            );
        }
    }
    found
}

fn line_of(text: &str, dependency: &str) -> usize {
    let names = |line: &str| {
        line.strip_prefix(dependency).is_some_and(|rest| rest.starts_with(['.', ' ', '=']))
    };
    text.lines().position(names).map_or(0, |at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, tables: &str) -> Vec<String> {
        let text = format!("[package]\nname = \"{name}\"\n{tables}");
        let file = PathBuf::from(format!("crates/{name}/Cargo.toml"));
        let findings = check_manifest(&file, &text).expect("valid TOML");
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn arrows_follow_the_table() {
        for (name, tables, expected) in [
            ("protocol", "[dependencies]\njsonrpc.workspace = true", None),
            (
                "jsonrpc",
                "[dependencies]\nprotocol.workspace = true",
                Some("Cargo.toml:4: error: crate-arrows: `jsonrpc` must not depend on `protocol`"),
            ),
            ("session", "[dependencies]\nserde.workspace = true", None),
            ("session", "[dependencies]\ntokio = \"1\"", Some("`session` performs no I/O")),
            (
                "session",
                "[dev-dependencies]\nprotocol.workspace = true",
                Some("`session` must not depend on `protocol`"),
            ),
            (
                "model",
                "[target.'cfg(unix)'.dependencies]\nsandbox.workspace = true",
                Some("`model` must not depend on `sandbox`"),
            ),
            (
                "server",
                "[dependencies]\nthreads.workspace = true\n[dev-dependencies]\ntestkit.workspace = true",
                None,
            ),
            (
                "server",
                "[dependencies]\ntestkit.workspace = true",
                Some("`server` must not depend on `testkit`"),
            ),
            ("testkit", "[dependencies]\nserver.workspace = true", None),
            (
                "testkit",
                "[dependencies]\ncli.workspace = true",
                Some("`testkit` must not depend on `cli`"),
            ),
            ("util", "", Some("`util` is not in the map")),
        ] {
            let findings = check(name, tables);
            match expected {
                None => assert!(findings.is_empty(), "{name}: {findings:?}"),
                Some(text) => assert!(
                    findings.len() == 1 && findings[0].contains(text),
                    "{name}: {findings:?}"
                ),
            }
        }
    }
}
