//! The files that packages of Linux distributions have in common: the program with its manual page, units for a user's
//! own server and for the gateway, and the list of what is in the program.

use std::fs;

use anyhow::{Context, Result, ensure};

use super::archive::gzip;
use super::program::Program;
use super::release::Release;

/// Where the units of `docs/systemd` look for the program, which is where the install script puts it, and where packages
/// have it.
const BY_SCRIPT: &str = "%h/.local/bin/agentd";
const INSTALLED: &str = "/usr/bin/agentd";
/// Configuration of the gateway, which an upgrade keeps as the administrator wrote it.
pub(super) const GATEWAY_CONFIG: &str = "etc/agentd/gateway.toml";

/// A file of a package.
pub(super) struct PackagedFile {
    /// From the root of the system.
    pub(super) path: String,
    pub(super) mode: u32,
    pub(super) bytes: Vec<u8>,
}

pub(super) fn files(release: &Release, program: &Program) -> Result<Vec<PackagedFile>> {
    let gateway = "usr/lib/systemd/system/agentd-gateway.service";
    let mut files = vec![
        ("usr/bin/agentd".to_owned(), 0o755, program.bytes.clone()),
        ("usr/share/man/man1/agentd.1.gz".to_owned(), 0o644, gzip(&program.manual, 9)?),
        ("usr/share/doc/agentd/README.md".to_owned(), 0o644, release.readme.clone()),
        ("usr/share/doc/agentd/sbom.cdx.json.gz".to_owned(), 0o644, gzip(&program.sbom, 9)?),
        (gateway.to_owned(), 0o644, release.asset("debian/agentd-gateway.service")?.into_bytes()),
        (GATEWAY_CONFIG.to_owned(), 0o640, release.asset("debian/gateway.toml")?.into_bytes()),
    ];
    for name in ["agentd.service", "agentd.socket"] {
        let unit = unit(release, name)?.into_bytes();
        files.push((format!("usr/lib/systemd/user/{name}"), 0o644, unit));
    }
    Ok(files.into_iter().map(|(path, mode, bytes)| PackagedFile { path, mode, bytes }).collect())
}

/// A unit of a user's server. Its first comment says how to install it by hand.
fn unit(release: &Release, name: &str) -> Result<String> {
    let path = release.root.join("docs/systemd").join(name);
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let sections = text.find("[Unit]").with_context(|| format!("{name} has no [Unit]"))?;
    let text = text[sections..].replace(BY_SCRIPT, INSTALLED);
    ensure!(!text.contains(".local"), "{name} names another program than {BY_SCRIPT}");
    Ok(text)
}
