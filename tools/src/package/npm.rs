//! Packages for npm: `agentd`, a launcher, and one for each platform with the program, of which npm takes
//! the one that fits. Nothing runs while they are installed.

use std::path::PathBuf;

use anyhow::Result;
use serde_json::{Map, Value, json};

use super::archive::{Tar, gzip};
use super::program::{PROCESSORS, Program, processor};
use super::release::Release;

const LAUNCHER: &str = "agentd.js";

pub(super) fn packages(release: &Release, program: &Program) -> Result<[PathBuf; 2]> {
    let processor = processor()?.npm;
    let platform = format!("linux-{processor}");
    let launcher = release.asset("npm/agentd.js")?;
    let of_launcher = launcher_manifest(release);
    let of_program = manifest(
        release,
        &format!("@agentd/{platform}"),
        &json!({
            "description": format!("The program agentd for {platform}, which the package agentd starts"),
            "os": ["linux"],
            "cpu": [processor],
            "libc": ["glibc"],
        }),
    );
    Ok([
        write(release, "agentd", &of_launcher, (LAUNCHER, launcher.as_bytes()))?,
        write(release, &format!("agentd-{platform}"), &of_program, ("bin/agentd", &program.bytes))?,
    ])
}

/// The same on every machine that builds it: npm leaves out the programs of other processors, and those that its
/// registry does not have.
fn launcher_manifest(release: &Release) -> Value {
    let programs: Map<String, Value> = PROCESSORS
        .iter()
        .map(|it| (format!("@agentd-embed/linux-{}", it.npm), json!(release.version)))
        .collect();
    manifest(
        release,
        "agentd",
        &json!({
            "description": "Embed a coding agent in any product",
            "bin": { "agentd": LAUNCHER },
            "engines": { "node": ">=18" },
            "optionalDependencies": programs,
        }),
    )
}

/// `package.json`: what both have, and `more`.
fn manifest(release: &Release, name: &str, more: &Value) -> Value {
    let mut manifest = json!({
        "name": name,
        "version": release.version,
        "license": "Apache-2.0",
    });
    if let (Some(all), Some(more)) = (manifest.as_object_mut(), more.as_object()) {
        all.extend(more.clone());
    }
    manifest
}

fn write(
    release: &Release,
    name: &str,
    manifest: &Value,
    program: (&str, &[u8]),
) -> Result<PathBuf> {
    let mut tar = Tar::new(release.time);
    let text = format!("{}\n", serde_json::to_string_pretty(manifest)?);
    for (path, mode, bytes) in [
        ("package.json", 0o644, text.as_bytes()),
        ("README.md", 0o644, &release.readme[..]),
        ("LICENSE", 0o644, &release.license[..]),
        (program.0, 0o755, program.1),
    ] {
        tar.file(&format!("package/{path}"), mode, bytes)?;
    }
    let bytes = gzip(&tar.finish()?, release.compression_level())?;
    release.write(&format!("{name}-{}.tgz", release.version), &bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It is published once, whichever machine built it.
    #[test]
    fn the_launcher_takes_the_program_of_any_processor() {
        let folder = tempfile::tempdir().unwrap();
        let release = Release::for_tests(folder.path(), "1.2.3");
        let manifest = launcher_manifest(&release);
        let programs =
            json!({ "@agentd-embed/linux-x64": "1.2.3", "@agentd-embed/linux-arm64": "1.2.3" });
        assert_eq!(manifest["optionalDependencies"], programs);
        let launcher = include_str!("../../../packaging/npm/agentd.js");
        assert!(launcher.contains("const PLATFORMS = ['linux-x64', 'linux-arm64']"));
    }
}
