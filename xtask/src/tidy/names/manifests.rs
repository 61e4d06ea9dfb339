//! Manifests and the constants of the SDKs: each has the names, the version and the keywords that it must have.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value as Json;
use toml::{Table, Value};

use super::RULE;
use crate::tidy::finding::Finding;
use xtask::files::all_files;
use xtask::names::{FILE, Names, Registry};

const PYTHON: &str = "sdk/python/pyproject.toml";
const TYPESCRIPT: &str = "sdk/typescript/package.json";
const REGISTRY_ENTRY: &str = "crates/acp/registry/agent.json";

pub(super) fn check(root: &Path, names: &Names) -> Result<Vec<Finding>> {
    let read =
        |file: &str| std::fs::read_to_string(root.join(file)).with_context(|| file.to_owned());
    let workspace: Table = read("Cargo.toml")?.parse().context("Cargo.toml")?;
    let version = workspace["workspace"]["package"]["version"].as_str().context("no version")?;
    let mut findings = Vec::new();
    let mut add = |file: &str, messages: Vec<String>| {
        let finding = |message| Finding::error(Path::new(file), 0, RULE, message);
        findings.extend(messages.into_iter().map(finding));
    };
    add("Cargo.toml", publishing(&workspace["workspace"]["package"]));
    add(PYTHON, python(&read(PYTHON)?.parse().context(PYTHON)?, names, version));
    add(
        TYPESCRIPT,
        typescript(&serde_json::from_str(&read(TYPESCRIPT)?).context(TYPESCRIPT)?, names, version),
    );
    let crate_manifest = format!("crates/{}/Cargo.toml", names.crates_sdk);
    let of_crate: Table = read(&crate_manifest)?.parse().context(crate_manifest.clone())?;
    add(&crate_manifest, rust(&of_crate, names));
    let entry = serde_json::from_str(&read(REGISTRY_ENTRY)?).context(REGISTRY_ENTRY)?;
    add(REGISTRY_ENTRY, registry_entry(&entry, names, version));
    for (file, line) in constants(names, version)? {
        if !read(file)?.lines().any(|found| found == line) {
            add(file, vec![format!("has no line `{line}`, which {FILE} and Cargo.toml determine")]);
        }
    }
    for file in all_files(root)? {
        let shown = file.to_string_lossy();
        if file.ends_with("Cargo.toml") && file.components().count() > 1 {
            add(&shown, unpublished(&read(&shown)?.parse().with_context(|| shown.to_string())?));
        } else if file.ends_with("package.json") {
            let manifest =
                serde_json::from_str(&read(&shown)?).with_context(|| shown.to_string())?;
            add(&shown, private(&manifest));
        }
    }
    Ok(findings)
}

/// Lines with a name or the version in files that read no manifest.
fn constants(names: &Names, version: &str) -> Result<[(&'static str, String); 5]> {
    let python = "sdk/python/src/agentd_embed/_package.py";
    let typescript = "sdk/typescript/src/package.ts";
    Ok([
        (python, format!("VERSION = \"{version}\"")),
        (python, format!("PROGRAM = \"{}\"", names.pypi_program)),
        (typescript, format!("export const VERSION = \"{version}\";")),
        (typescript, format!("export const PROGRAM = \"{}\";", names.npm_platform)),
        ("packaging/npm/agentd.js", format!("const SCOPE = '{}'", names.npm_scope()?)),
    ])
}

fn publishing(package: &Value) -> Vec<String> {
    let is_off = package.get("publish").and_then(Value::as_bool) == Some(false);
    let message =
        "`publish` must be false: most names of the workspace belong to others on crates.io";
    if is_off { Vec::new() } else { vec![message.to_owned()] }
}

fn unpublished(manifest: &Table) -> Vec<String> {
    let Some(package) = manifest.get("package") else { return Vec::new() };
    let publish = package.get("publish");
    let is_off = publish.and_then(Value::as_bool) == Some(false)
        || publish.and_then(|publish| publish.get("workspace")).is_some();
    let message = "write `publish.workspace = true`: a crate that is published by mistake gets a name \
                   that is not in the list";
    if is_off { Vec::new() } else { vec![message.to_owned()] }
}

fn private(manifest: &Json) -> Vec<String> {
    let message = "write `\"private\": true`: npm publishes only what `cargo xtask package` built";
    if manifest["private"] == true { Vec::new() } else { vec![message.to_owned()] }
}

fn python(manifest: &Table, names: &Names, version: &str) -> Vec<String> {
    let none = Value::Table(Table::new());
    let project = manifest.get("project").unwrap_or(&none);
    let needed = texts(project.get("dependencies"));
    let mut messages = Vec::new();
    messages.extend(differs("project.name", text(project.get("name")), &names.pypi_sdk));
    messages.extend(differs("project.version", text(project.get("version")), version));
    messages.extend(differs(
        "project.keywords",
        texts(project.get("keywords")).join(", "),
        &names.keywords.join(", "),
    ));
    let pinned = format!("{}=={version}", names.pypi_program);
    messages.extend(differs("project.dependencies", needed.join(", "), &pinned));
    let extras = project.get("optional-dependencies").and_then(Value::as_table);
    let optional = extras.into_iter().flatten().flat_map(|(_, list)| texts(Some(list)));
    let build = manifest.get("build-system").and_then(|build| build.get("requires"));
    for requirement in optional.chain(texts(build)) {
        let name = requirement.split(['=', '<', '>', '~', '!', '[', ';', ' ']).next();
        let name = name.unwrap_or_default();
        if !names.may_be_named(Registry::Pypi, name) {
            messages.push(format!("needs `{name}`, which is not in {FILE}"));
        }
    }
    messages
}

fn typescript(manifest: &Json, names: &Names, version: &str) -> Vec<String> {
    let of = |key: &str| manifest[key].as_str().unwrap_or_default().to_owned();
    let keywords: Vec<&str> =
        manifest["keywords"].as_array().into_iter().flatten().filter_map(Json::as_str).collect();
    let mut messages = Vec::new();
    messages.extend(differs("name", of("name"), &names.npm_sdk));
    messages.extend(differs("version", of("version"), version));
    messages.extend(differs("keywords", keywords.join(", "), &names.keywords.join(", ")));
    for key in ["dependencies", "optionalDependencies", "peerDependencies"] {
        if !manifest[key].is_null() {
            messages.push(format!(
                "has `{key}`: `cargo xtask package` adds the programs of its own version"
            ));
        }
    }
    messages
}

fn rust(manifest: &Table, names: &Names) -> Vec<String> {
    let none = Value::Table(Table::new());
    let package = manifest.get("package").unwrap_or(&none);
    let mut messages = Vec::new();
    messages.extend(differs("package.name", text(package.get("name")), &names.crates_sdk));
    messages.extend(differs(
        "package.keywords",
        texts(package.get("keywords")).join(", "),
        &names.keywords.join(", "),
    ));
    for key in ["categories", "description", "license", "readme"] {
        if package.get(key).is_none() {
            messages
                .push(format!("has no `package.{key}`, which a reader of the registry looks for"));
        }
    }
    messages
}

fn registry_entry(entry: &Json, names: &Names, version: &str) -> Vec<String> {
    let package = entry["distribution"]["npx"]["package"].as_str().unwrap_or_default();
    let authors: Vec<&str> =
        entry["authors"].as_array().into_iter().flatten().filter_map(Json::as_str).collect();
    let mut messages = Vec::new();
    let wanted = format!("{}@{version}", names.npm_program);
    messages.extend(differs("distribution.npx.package", package.to_owned(), &wanted));
    messages.extend(differs("authors", authors.join(", "), &names.publisher.name));
    messages
}

fn differs(key: &str, found: String, wanted: &str) -> Option<String> {
    (found != wanted).then(|| format!("`{key}` is `{found}`, and must be `{wanted}`"))
}

fn text(value: Option<&Value>) -> String {
    value.and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn texts(value: Option<&Value>) -> Vec<String> {
    let list = value.and_then(Value::as_array).into_iter().flatten();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        Names::read(&xtask::workspace_root()).unwrap()
    }

    fn table(text: &str) -> Table {
        text.parse().unwrap()
    }

    #[test]
    fn manifests_have_the_names_of_the_list() {
        let names = names();
        let keywords = format!("{:?}", names.keywords);
        let good = format!(
            "[project]\nname = '{}'\nversion = '1.2.3'\nkeywords = {keywords}\ndependencies = ['{}==1.2.3']\n",
            names.pypi_sdk, names.pypi_program
        );
        for (manifest, expected) in [
            (good.clone(), 0),
            (good.replace("==1.2.3", "==1.2.4"), 1),
            (good.replace("==1.2.3", ">=1.2.3"), 1),
            (good.replace(&names.pypi_program, "agentd"), 1),
            (good.replace("version = '1.2.3'", "version = '1.2.2'"), 1),
            (format!("{good}optional-dependencies = {{ x = ['websockets>=13'] }}"), 0),
            (format!("{good}optional-dependencies = {{ x = ['unlisted>=13'] }}"), 1),
            (format!("{good}[build-system]\nrequires = ['unlisted']"), 1),
            (String::new(), 4),
        ] {
            let found = python(&table(&manifest), &names, "1.2.3");
            assert_eq!(found.len(), expected, "{manifest}: {found:?}");
        }

        let good = serde_json::json!({ "name": names.npm_sdk, "version": "1.2.3", "keywords": names.keywords });
        assert_eq!(typescript(&good, &names, "1.2.3"), Vec::<String>::new());
        let pinned = serde_json::json!({ "name": "agentd", "optionalDependencies": {} });
        assert_eq!(typescript(&pinned, &names, "1.2.3").len(), 4);

        let good = format!(
            "[package]\nname = '{}'\nkeywords = {keywords}\ncategories = []\ndescription = 'd'\n\
             license.workspace = true\nreadme = 'README.md'",
            names.crates_sdk
        );
        assert!(rust(&table(&good), &names).is_empty());
        assert_eq!(rust(&table("[package]\nname = 'agentd'"), &names).len(), 6);

        let entry = |package: String| {
            let distribution = serde_json::json!({ "npx": { "package": package } });
            serde_json::json!({ "authors": [names.publisher.name], "distribution": distribution })
        };
        assert!(
            registry_entry(&entry(format!("{}@1.2.3", names.npm_program)), &names, "1.2.3")
                .is_empty()
        );
        assert_eq!(registry_entry(&entry("agentd@1.2.3".to_owned()), &names, "1.2.3").len(), 1);
    }

    #[test]
    fn only_what_was_packaged_can_be_published() {
        for (manifest, expected) in [
            ("[package]\npublish.workspace = true", 0),
            ("[package]\npublish = false", 0),
            ("[package]\nname = 'a'", 1),
            ("[package]\npublish = true", 1),
            ("[workspace]", 0),
        ] {
            assert_eq!(unpublished(&table(manifest)).len(), expected, "{manifest}");
        }
        assert!(publishing(&Value::Table(table("publish = false"))).is_empty());
        assert_eq!(publishing(&Value::Table(table("publish = true"))).len(), 1);
        assert!(private(&serde_json::json!({ "private": true })).is_empty());
        assert_eq!(private(&serde_json::json!({ "name": "a" })).len(), 1);
    }
}
