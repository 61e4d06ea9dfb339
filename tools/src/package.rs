//! `cargo xtask package`: what users install, into `target/packages`: wheels for PyPI, packages for npm, a
//! Debian package, a tarball and a container image with a program that needs no library of the system, the
//! list of what is in them (SBOM), and checksums. The same commit gives the same files.

mod archive;
mod debian;
mod image;
mod npm;
mod program;
mod release;
mod sbom;
mod tarball;
mod wheel;

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::ValueEnum;

use program::Program;
use release::{Release, folder};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The kinds of packages to build [default: all]
    #[arg(value_enum)]
    kinds: Vec<Kind>,
    /// The profile of the program; another than `dist` is for tests of the packages
    #[arg(long, default_value = "dist")]
    profile: String,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// Wheels with the program and with the Python SDK
    Wheel,
    /// The launcher and the program for npm
    Npm,
    /// A Debian package; needs dpkg-deb
    Deb,
    /// A tarball with a static program
    Tarball,
    /// A container image with a static program
    Image,
    /// The SBOM, in CycloneDX
    Sbom,
}

/// Builds the packages of installers; returns their folder.
pub(crate) fn build_installed(root: &Path, profile: &str) -> Result<PathBuf> {
    let kinds = vec![Kind::Wheel, Kind::Npm, Kind::Deb];
    run(root, &Options { kinds, profile: profile.to_owned() })?;
    Ok(folder(root))
}

/// Builds the packages with a static program; returns their folder and the program.
pub(crate) fn build_static(root: &Path, profile: &str) -> Result<(PathBuf, PathBuf)> {
    let kinds = vec![Kind::Tarball, Kind::Image];
    run(root, &Options { kinds, profile: profile.to_owned() })?;
    Ok((folder(root), Program::static_path(root, profile)?))
}

pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    let chosen = |kind| options.kinds.is_empty() || options.kinds.contains(&kind);
    let release = Release::of(root, &options.profile)?;
    let mut written = Vec::new();
    if [Kind::Wheel, Kind::Npm, Kind::Deb].into_iter().any(chosen) {
        let program = Program::build(root, &options.profile)?;
        if chosen(Kind::Wheel) {
            written.push(wheel::of_program(&release, &program)?);
            written.push(wheel::of_sdk(&release)?);
        }
        if chosen(Kind::Npm) {
            written.extend(npm::packages(&release, &program)?);
        }
        if chosen(Kind::Deb) {
            written.push(debian::package(&release, &program)?);
        }
    }
    if [Kind::Tarball, Kind::Image].into_iter().any(chosen) {
        let program = Program::build_static(root, &options.profile)?;
        if chosen(Kind::Tarball) {
            written.push(tarball::write(&release, &program)?);
        }
        if chosen(Kind::Image) {
            written.push(image::write(&release, &program)?);
        }
    }
    if chosen(Kind::Sbom) {
        written.push(sbom::write(&release)?);
    }
    release.finish(&written)
}

#[cfg(test)]
mod tests {
    use std::fs;

    /// The SDK takes the program of its own version.
    #[test]
    fn versions_agree() {
        let root = xtask::workspace_root();
        let read = |name: &str| -> toml::Table {
            fs::read_to_string(root.join(name)).unwrap().parse().unwrap()
        };
        let version = read("Cargo.toml")["workspace"]["package"]["version"].clone();
        let version = version.as_str().unwrap();
        let sdk = read("sdk/python/pyproject.toml");
        assert_eq!(sdk["project"]["version"].as_str(), Some(version));
        let program = format!("agentd=={version}");
        let needed = sdk["project"]["dependencies"].as_array().unwrap();
        assert_eq!(needed.iter().map(|it| it.as_str().unwrap()).collect::<Vec<_>>(), [program]);
        let agent = fs::read_to_string(root.join("crates/acp/registry/agent.json")).unwrap();
        assert!(agent.contains(&format!("\"package\": \"agentd@{version}\"")), "{agent}");
    }
}
