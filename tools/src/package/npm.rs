//! Packages for npm: a launcher, one for each platform with the program, of which npm takes the one that fits, and
//! the TypeScript SDK, which finds that program too. Nothing runs while they are installed.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use serde_json::{Map, Value, json};
use xtask::checkout::target;
use xtask::files::files_below;
use xtask::steps;

use super::archive::{Tar, gzip};
use super::program::{PROCESSORS, Program, processor};
use super::release::Release;
use crate::generate;

const LAUNCHER: &str = "agentd.js";
/// The source of the SDK.
const SDK: &str = "sdk/typescript";
/// Where the SDK is compiled, below the target folder: a checkout stays as it was.
const COMPILED: &str = "typescript-package";

/// Follows the processor in the name of a package with a static program.
const MUSL: &str = "-musl";

/// The launcher, the program for glibc, and the SDK.
pub(super) fn packages(release: &Release, program: &Program) -> Result<[PathBuf; 3]> {
    let launcher = release.asset("npm/agentd.js")?;
    let launcher = File { path: LAUNCHER.to_owned(), mode: 0o755, bytes: launcher.into_bytes() };
    Ok([
        write(release, &launcher_manifest(release), &release.readme, &[launcher])?,
        of_program(release, program)?,
        sdk(release)?,
    ])
}

/// The package with the program: for glibc, or for musl if it is static.
pub(super) fn of_program(release: &Release, program: &Program) -> Result<PathBuf> {
    let processor = processor()?.npm;
    let (suffix, library) = if program.glibc.is_some() { ("", "glibc") } else { (MUSL, "musl") };
    let manifest = manifest(
        release,
        &format!("{}{processor}{suffix}", release.names.npm_platform),
        &json!({
            "description": format!(
                "The program agentd for linux-{processor} with {library}, which {} starts",
                release.names.npm_program
            ),
            "os": ["linux"],
            "cpu": [processor],
            "libc": [library],
        }),
    );
    let sbom = File { path: "sbom.cdx.json".to_owned(), mode: 0o644, bytes: program.sbom.clone() };
    let program = File { path: "bin/agentd".to_owned(), mode: 0o755, bytes: program.bytes.clone() };
    write(release, &manifest, &release.readme, &[program, sbom])
}

/// The folder in which the SDK is compiled, with the compiler.
pub(crate) fn compiled_folder(root: &Path) -> PathBuf {
    target(root).join(COMPILED)
}

/// The package of the TypeScript SDK.
fn sdk(release: &Release) -> Result<PathBuf> {
    let path = release.root.join(SDK).join("package.json");
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let manifest = sdk_manifest(release, serde_json::from_str(&text)?)?;
    let folder = compile(&release.root)?;
    let files = files_below(&folder.join("dist"), &[])?
        .into_iter()
        .map(|file| {
            let path = format!("dist/{}", file.display());
            let bytes = fs::read(folder.join(&path)).with_context(|| path.clone())?;
            Ok(File { path, mode: 0o644, bytes })
        })
        .collect::<Result<Vec<_>>>()?;
    let readme = release.readme_of(&format!("{SDK}/README.md"))?;
    write(release, &manifest, readme.as_bytes(), &files)
}

/// The manifest of the source, without what only builds it, and with the programs of the same version.
fn sdk_manifest(release: &Release, source: Value) -> Result<Value> {
    let Value::Object(mut source) = source else {
        anyhow::bail!("{SDK}/package.json is no object")
    };
    for key in ["private", "scripts", "devDependencies"] {
        source.remove(key);
    }
    source.insert("optionalDependencies".to_owned(), programs(release).into());
    let mut manifest = manifest(release, &release.names.npm_sdk, &source.into());
    manifest["repository"]["directory"] = json!(SDK);
    Ok(manifest)
}

/// Compiles the SDK with the compiler that its lock file names. Returns the folder, which then has `dist`.
fn compile(root: &Path) -> Result<PathBuf> {
    for program in ["node", "npm"] {
        anyhow::ensure!(
            steps::Program::exists(program),
            "the package of the TypeScript SDK needs `{program}`: install Node.js, or build the other kinds by their names"
        );
    }
    generate::build(root)?;
    let (source, folder) = (root.join(SDK), compiled_folder(root));
    for old in ["src", "dist"].map(|name| folder.join(name)).iter().filter(|old| old.exists()) {
        fs::remove_dir_all(old).with_context(|| old.display().to_string())?;
    }
    let own = ["package.json", "package-lock.json", "tsconfig.json"].map(PathBuf::from);
    let files = files_below(&source.join("src"), &[])?;
    for file in own.into_iter().chain(files.iter().map(|file| Path::new("src").join(file))) {
        let to = folder.join(&file);
        fs::create_dir_all(to.parent().unwrap_or(&folder))?;
        fs::copy(source.join(&file), to).with_context(|| file.display().to_string())?;
    }
    let install = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"];
    for (program, arguments, hint) in [
        ("npm", &install[..], "check the network: npm downloads the TypeScript compiler"),
        (
            "node",
            &["node_modules/typescript/bin/tsc", "--project", "."][..],
            "fix the errors above",
        ),
    ] {
        let done = steps::Program::new(program, arguments).folder(&folder).succeed(hint);
        done.map_err(|failed| anyhow!(failed.message))?;
    }
    Ok(folder)
}

/// The same on every machine that builds it: npm leaves out the programs of other processors, and those that its
/// registry does not have.
fn launcher_manifest(release: &Release) -> Value {
    manifest(
        release,
        &release.names.npm_program,
        &json!({
            "description": "Embed a coding agent in any product",
            "bin": { "agentd": LAUNCHER },
            "engines": { "node": ">=18" },
            "optionalDependencies": programs(release),
        }),
    )
}

/// The packages with the program, of this version.
fn programs(release: &Release) -> Map<String, Value> {
    let platform = &release.names.npm_platform;
    PROCESSORS
        .iter()
        .flat_map(|it| ["", MUSL].map(|suffix| format!("{platform}{}{suffix}", it.npm)))
        .map(|name| (name, json!(release.version)))
        .collect()
}

/// `package.json`: what all have, and `more`.
fn manifest(release: &Release, name: &str, more: &Value) -> Value {
    let publisher = &release.names.publisher;
    let mut manifest = json!({
        "name": name,
        "version": release.version,
        "license": "Apache-2.0",
        "keywords": release.names.keywords,
        "author": { "name": publisher.name, "email": publisher.email },
        "homepage": publisher.homepage,
        "bugs": { "url": publisher.issues },
        "repository": { "type": "git", "url": format!("git+{}.git", publisher.repository) },
        // Packages of a scope are private by default.
        "publishConfig": { "access": "public" },
    });
    if let (Some(all), Some(more)) = (manifest.as_object_mut(), more.as_object()) {
        all.extend(more.clone());
    }
    manifest
}

/// A file of a package.
struct File {
    path: String,
    mode: u32,
    bytes: Vec<u8>,
}

/// Writes a package under the name that `npm pack` would give its file.
fn write(release: &Release, manifest: &Value, readme: &[u8], files: &[File]) -> Result<PathBuf> {
    let name =
        manifest["name"].as_str().context("a name")?.trim_start_matches('@').replace('/', "-");
    let mut tar = Tar::new(release.time);
    let text = format!("{}\n", serde_json::to_string_pretty(manifest)?);
    let own =
        [("package.json", text.as_bytes()), ("README.md", readme), ("LICENSE", &release.license)];
    for (path, bytes) in own {
        tar.file(&format!("package/{path}"), 0o644, bytes)?;
    }
    for File { path, mode, bytes } in files {
        tar.file(&format!("package/{path}"), *mode, bytes)?;
    }
    let bytes = gzip(&tar.finish()?, release.compression_level())?;
    release.write(&format!("{name}-{}.tgz", release.version), &bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// They are published once, whichever machine built them.
    #[test]
    fn the_launcher_and_the_sdk_take_the_program_of_any_processor() {
        let folder = tempfile::tempdir().unwrap();
        let release = Release::for_tests(folder.path(), "1.2.3");
        let platform = &release.names.npm_platform;
        let programs: Map<String, Value> = ["x64", "x64-musl", "arm64", "arm64-musl"]
            .map(|name| (format!("{platform}{name}"), json!("1.2.3")))
            .into_iter()
            .collect();
        let programs = Value::Object(programs);
        let source =
            json!({ "private": true, "scripts": {}, "devDependencies": {}, "type": "module" });
        for manifest in [launcher_manifest(&release), sdk_manifest(&release, source).unwrap()] {
            assert_eq!(manifest["optionalDependencies"], programs);
            let left = ["private", "scripts", "devDependencies"].map(|key| manifest.get(key));
            assert_eq!(left, [None; 3]);
        }
        let launcher = include_str!("../../../packaging/npm/agentd.js");
        assert!(launcher.contains("const PLATFORMS = ['linux-x64', 'linux-arm64']"));
    }
}
