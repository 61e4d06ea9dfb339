//! The list of what the program consists of (SBOM), in CycloneDX 1.6: every crate that is compiled into it
//! on this platform, with its version, licence and checksum, and what needs what.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::program::{static_target, target_of};
use super::release::Release;

/// The package whose program is shipped.
const PROGRAM: &str = "cli";

/// Writes the lists of both programs as files of their own: of that for glibc, and of the static one.
pub(super) fn write(release: &Release) -> Result<[PathBuf; 2]> {
    let of = |kind: &str, platform: &str| {
        let name = format!("agentd-{}-linux-{kind}.cdx.json", release.version);
        release.write(&name, &text(release, platform)?)
    };
    Ok([of("gnu", &target_of("gnu")?)?, of("static", &static_target()?)?])
}

/// The list for a target of the compiler.
pub(super) fn text(release: &Release, platform: &str) -> Result<Vec<u8>> {
    let metadata = metadata(release, platform)?;
    let lock: toml::Table = fs::read_to_string(release.root.join("Cargo.lock"))?.parse()?;
    let sbom = sbom(release, &metadata, &checksums(&lock))?;
    Ok(format!("{}\n", serde_json::to_string_pretty(&sbom)?).into_bytes())
}

fn metadata(release: &Release, platform: &str) -> Result<Value> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--locked", "--filter-platform", platform])
        .current_dir(&release.root)
        .output()
        .context("cargo metadata")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`cargo metadata` failed: {errors}");
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// The checksums of the lock file, by name and version.
fn checksums(lock: &toml::Table) -> BTreeMap<(String, String), String> {
    let packages = lock.get("package").and_then(toml::Value::as_array);
    let text = |package: &toml::Value, key: &str| Some(package.get(key)?.as_str()?.to_owned());
    let sum = |package| {
        Some(((text(package, "name")?, text(package, "version")?), text(package, "checksum")?))
    };
    packages.into_iter().flatten().filter_map(sum).collect()
}

fn sbom(
    release: &Release,
    metadata: &Value,
    checksums: &BTreeMap<(String, String), String>,
) -> Result<Value> {
    let packages = metadata["packages"].as_array().context("metadata without packages")?;
    let by_id: BTreeMap<&str, &Value> =
        packages.iter().filter_map(|it| Some((it["id"].as_str()?, it))).collect();
    let needed = needed(metadata)?;
    let program = packages.iter().find(|it| it["name"] == PROGRAM).and_then(|it| it["id"].as_str());
    let program = program.context("no package of the program")?;
    let included = reachable(program, &needed);
    let reference_of = |id: &&str| by_id.get(id).map(|package| reference(package));
    let (mut components, mut dependencies) = (Vec::new(), Vec::new());
    for id in &included {
        let package = by_id.get(id).with_context(|| format!("metadata without {id}"))?;
        if *id != program {
            components.push(component(package, checksums));
        }
        let on: Vec<String> =
            needed.get(id).into_iter().flatten().filter_map(reference_of).collect();
        dependencies.push(json!({ "ref": reference(package), "dependsOn": on }));
    }
    let time = i64::try_from(release.time)?;
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": jiff::Timestamp::from_second(time)?.to_string(),
            "component": {
                "type": "application",
                "bom-ref": reference_of(&program),
                "name": "agentd",
                "version": release.version,
                "licenses": [{ "expression": "Apache-2.0" }],
            },
        },
        "components": components,
        "dependencies": dependencies,
    }))
}

/// Returns the dependencies that each package is compiled with: no build scripts, no tests.
fn needed(metadata: &Value) -> Result<BTreeMap<&str, BTreeSet<&str>>> {
    let nodes = metadata["resolve"]["nodes"].as_array().context("metadata without a graph")?;
    Ok(nodes.iter().filter_map(|node| Some((node["id"].as_str()?, compiled_with(node)))).collect())
}

fn compiled_with(node: &Value) -> BTreeSet<&str> {
    let is_normal = |dependency: &Value| {
        let kinds = dependency["dep_kinds"].as_array();
        kinds.into_iter().flatten().any(|kind| kind["kind"].is_null())
    };
    let dependencies = node["deps"].as_array().map_or(&[][..], Vec::as_slice);
    dependencies.iter().filter(|it| is_normal(it)).filter_map(|it| it["pkg"].as_str()).collect()
}

fn reachable<'m>(
    from: &'m str,
    needed: &BTreeMap<&'m str, BTreeSet<&'m str>>,
) -> BTreeSet<&'m str> {
    let mut found = BTreeSet::from([from]);
    let mut left = vec![from];
    while let Some(id) = left.pop() {
        for next in needed.get(id).into_iter().flatten() {
            if found.insert(next) {
                left.push(next);
            }
        }
    }
    found
}

/// Returns the list's reference to a package. Our own are not in a registry, where others may have
/// their names.
fn reference(package: &Value) -> String {
    let place = if package["source"].is_null() { "agentd:" } else { "pkg:cargo/" };
    let text = |key: &str| package[key].as_str().unwrap_or_default();
    format!("{place}{}@{}", text("name"), text("version"))
}

fn component(package: &Value, checksums: &BTreeMap<(String, String), String>) -> Value {
    let text = |key: &str| package[key].as_str().unwrap_or_default().to_owned();
    let mut component = json!({
        "type": "library",
        "bom-ref": reference(package),
        "name": text("name"),
        "version": text("version"),
    });
    if !package["source"].is_null() {
        component["purl"] = json!(reference(package));
    }
    if let Some(license) = package["license"].as_str() {
        // Old crates write a slash for a choice.
        let expression = license.replace('/', " OR ").replace("  ", " ");
        component["licenses"] = json!([{ "expression": expression }]);
    }
    if let Some(sum) = checksums.get(&(text("name"), text("version"))) {
        component["hashes"] = json!([{ "alg": "SHA-256", "content": sum }]);
    }
    component
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_builds_or_tests_is_left_out() {
        let metadata = json!({ "resolve": { "nodes": [
            { "id": "a", "deps": [
                { "pkg": "b", "dep_kinds": [{ "kind": null }] },
                { "pkg": "c", "dep_kinds": [{ "kind": "build" }, { "kind": "dev" }] },
            ] },
            { "id": "b", "deps": [{ "pkg": "a", "dep_kinds": [{ "kind": "dev" }] }] },
            { "id": "c", "deps": [] },
        ] } });
        let needed = needed(&metadata).unwrap();
        assert_eq!(reachable("a", &needed), BTreeSet::from(["a", "b"]));
        assert_eq!(reachable("b", &needed), BTreeSet::from(["b"]));
    }
}
