//! `cargo xtask package`: what users install, into `target/packages`: wheels for PyPI, packages for npm, a
//! Debian package, a tarball and a container image with a program that needs no library of the system, the
//! list of what is in them (SBOM), and checksums. The same commit gives the same files.

mod archive;
mod debian;
mod image;
mod npm;
mod program;
mod sbom;
mod tarball;
mod wheel;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use sha2::{Digest, Sha256};

use program::Program;

/// Below the target folder.
const FOLDER: &str = "packages";
/// The size, in bytes, that packages are to stay below.
const LIMIT: u64 = 10_000_000;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// What to build [default: all]
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

/// What all packages of a release have in common.
struct Release {
    root: PathBuf,
    /// Where packages are written.
    folder: PathBuf,
    version: String,
    /// Seconds since 1970 that files in packages have: the commit's, or `SOURCE_DATE_EPOCH`.
    time: u64,
    license: Vec<u8>,
    readme: Vec<u8>,
}

/// Where packages are, and the program of some of them.
pub(crate) struct Built {
    pub(crate) folder: PathBuf,
    pub(crate) static_program: PathBuf,
}

/// Builds every package.
pub(crate) fn build_all(root: &Path, profile: &str) -> Result<Built> {
    let options = Options { kinds: Vec::new(), profile: profile.to_owned() };
    run(root, &options)?;
    let folder = folder(root);
    Ok(Built { folder, static_program: Program::static_path(root, profile)? })
}

pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    let chosen = |kind| options.kinds.is_empty() || options.kinds.contains(&kind);
    let release = Release::of(root)?;
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
    release.finish(&written, options.profile == "dist")
}

fn folder(root: &Path) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    root.join(target).join(FOLDER)
}

impl Release {
    fn of(root: &Path) -> Result<Release> {
        let read = |name: &str| {
            let path = root.join(name);
            fs::read(&path).with_context(|| path.display().to_string())
        };
        let manifest: toml::Table = String::from_utf8(read("Cargo.toml")?)?.parse()?;
        let version = manifest["workspace"]["package"]["version"].as_str();
        let version = version.context("Cargo.toml has no version")?.to_owned();
        let folder = folder(root);
        // What an earlier version left would stand beside this one.
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
        }
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        Ok(Release {
            root: root.to_owned(),
            folder,
            version,
            time: source_time(root)?,
            license: read("LICENSE")?,
            readme: read("packaging/README.md")?,
        })
    }

    /// A text of `packaging/`.
    fn asset(&self, name: &str) -> Result<String> {
        let path = self.root.join("packaging").join(name);
        fs::read_to_string(&path).with_context(|| path.display().to_string())
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<PathBuf> {
        let path = self.folder.join(name);
        fs::write(&path, bytes).with_context(|| path.display().to_string())?;
        Ok(path)
    }

    /// Writes the checksums, and tells what is there.
    fn finish(&self, written: &[PathBuf], limited: bool) -> Result<()> {
        let mut sums = String::new();
        let mut too_large = Vec::new();
        for path in written {
            let bytes = fs::read(path).with_context(|| path.display().to_string())?;
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            println!("{:>10}  {name}", bytes.len());
            writeln!(sums, "{}  {name}", hex(&Sha256::digest(&bytes)))?;
            if bytes.len() as u64 > LIMIT {
                too_large.push(name.into_owned());
            }
        }
        self.write("SHA256SUMS", sums.as_bytes())?;
        println!("in {}, with SHA256SUMS", self.folder.display());
        if limited && !too_large.is_empty() {
            eprintln!("warning: more than {LIMIT} bytes: {}", too_large.join(", "));
        }
        Ok(())
    }
}

/// The time of the source: `SOURCE_DATE_EPOCH`, or that of the latest commit.
fn source_time(root: &Path) -> Result<u64> {
    if let Some(time) = std::env::var_os("SOURCE_DATE_EPOCH") {
        let time = time.to_string_lossy().into_owned();
        return time.parse().with_context(|| format!("SOURCE_DATE_EPOCH is {time:?}, no number"));
    }
    let log = std::process::Command::new("git")
        .args(["log", "-1", "--format=%ct"])
        .current_dir(root)
        .output()
        .context("git")?;
    let text = String::from_utf8_lossy(&log.stdout);
    match text.trim().parse() {
        Ok(time) if log.status.success() => Ok(time),
        _ => bail!("git does not tell the time of the latest commit: set SOURCE_DATE_EPOCH"),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The SDK takes the program of its own version.
    #[test]
    fn versions_agree() {
        let root = crate::workspace_root();
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
