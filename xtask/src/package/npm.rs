//! Packages for npm: `agentd`, a launcher, and one for each platform with the program, of which npm takes
//! the one that fits. Nothing runs while they are installed.

use std::path::PathBuf;

use anyhow::Result;
use serde_json::{Value, json};

use super::archive::{Tar, gzip};
use super::program::{Program, processor};
use super::release::Release;

const LAUNCHER: &str = "agentd.js";

pub(super) fn packages(release: &Release, program: &Program) -> Result<[PathBuf; 2]> {
    let processor = processor()?.npm;
    let platform = format!("linux-{processor}");
    let launcher = release.asset("npm/agentd.js")?;
    let of_launcher = manifest(
        release,
        "agentd",
        &json!({
            "description": "Embed a coding agent in any product",
            "bin": { "agentd": LAUNCHER },
            "engines": { "node": ">=18" },
            "optionalDependencies": { format!("@agentd/{platform}"): release.version },
        }),
    );
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
    release.write(&format!("{name}-{}.tgz", release.version), &gzip(&tar.finish()?)?)
}
