//! The facts that all packages of a release have in common, and the folder that they are written
//! to.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

/// Below the target folder.
const FOLDER: &str = "packages";
/// The size, in bytes, that packages are to stay below.
const LIMIT: u64 = 20_000_000;

/// The facts that all packages of a release have in common.
pub(super) struct Release {
    pub(super) root: PathBuf,
    /// Where packages are written.
    pub(super) folder: PathBuf,
    pub(super) version: String,
    /// Seconds since 1970 that files in packages have: the commit's, or `SOURCE_DATE_EPOCH`.
    pub(super) time: u64,
    pub(super) license: Vec<u8>,
    pub(super) readme: Vec<u8>,
    /// True if these packages are for users. Others are for tests: compressed quickly, and not
    /// limited in size.
    pub(super) is_shipped: bool,
}

impl Release {
    pub(super) fn of(root: &Path, profile: &str) -> Result<Release> {
        let read = |name: &str| {
            let path = root.join(name);
            fs::read(&path).with_context(|| path.display().to_string())
        };
        let manifest: toml::Table = String::from_utf8(read("Cargo.toml")?)?.parse()?;
        let version = manifest["workspace"]["package"]["version"].as_str();
        let version = version.context("Cargo.toml has no version")?.to_owned();
        let folder = folder(root);
        // The files of an earlier version would remain next to this one.
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
            is_shipped: profile == "dist",
        })
    }

    /// A release with empty texts, in a folder.
    #[cfg(test)]
    pub(super) fn for_tests(folder: &Path, version: &str) -> Release {
        Release {
            root: folder.to_owned(),
            folder: folder.to_owned(),
            version: version.to_owned(),
            time: 1_700_000_000,
            license: Vec::new(),
            readme: Vec::new(),
            is_shipped: true,
        }
    }

    /// A text of `packaging/`.
    pub(super) fn asset(&self, name: &str) -> Result<String> {
        let path = self.root.join("packaging").join(name);
        fs::read_to_string(&path).with_context(|| path.display().to_string())
    }

    /// Returns the level of compression, from 1 to 9.
    pub(super) fn compression_level(&self) -> u32 {
        if self.is_shipped { 9 } else { 1 }
    }

    pub(super) fn write(&self, name: &str, bytes: &[u8]) -> Result<PathBuf> {
        let path = self.folder.join(name);
        fs::write(&path, bytes).with_context(|| path.display().to_string())?;
        Ok(path)
    }

    /// Writes the checksums, and tells what is there.
    pub(super) fn finish(&self, written: &[PathBuf]) -> Result<()> {
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
        if self.is_shipped && !too_large.is_empty() {
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

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) fn folder(root: &Path) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    root.join(target).join(FOLDER)
}
