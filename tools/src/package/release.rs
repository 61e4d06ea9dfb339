//! The facts that all packages of a release have in common, and the folder that they are written
//! to.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};
use xtask::markdown::{Page, resolve};
use xtask::names::Names;

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
    /// The names of the packages, and who publishes them.
    pub(super) names: Names,
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
            names: Names::read(root)?,
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
            names: Names::read(&xtask::workspace_root()).unwrap(),
            time: 1_700_000_000,
            license: b"License".to_vec(),
            readme: b"# agentd\n".to_vec(),
            is_shipped: true,
        }
    }

    /// A text of `packaging/`.
    pub(super) fn asset(&self, name: &str) -> Result<String> {
        let path = self.root.join("packaging").join(name);
        fs::read_to_string(&path).with_context(|| path.display().to_string())
    }

    /// A README of the checkout as a registry shows it, where its relative links would lead nowhere: they become
    /// links to the source of this version.
    pub(super) fn readme_of(&self, file: &str) -> Result<String> {
        let text = fs::read_to_string(self.root.join(file)).with_context(|| file.to_owned())?;
        let source = format!("{}/blob/v{}", self.names.publisher.repository, self.version);
        Ok(with_absolute_links(&text, Path::new(file), &source))
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
        let open = self.names.publisher.placeholders();
        if self.is_shipped && !open.is_empty() {
            eprintln!(
                "warning: not to be published yet: {} of `[publisher]` in {} are placeholders; the owner sets them",
                open.join(", "),
                xtask::names::FILE
            );
        }
        Ok(())
    }
}

/// The text of a page with its relative links below an address. Those within the page stay.
fn with_absolute_links(text: &str, file: &Path, source: &str) -> String {
    let mut absolute = text.to_owned();
    let mut links = Page::parse(text).links;
    links.sort_by_key(|link| link.place.as_ref().map(|place| place.start));
    for link in links.iter().rev().filter(|link| !link.target.starts_with('#')) {
        if let (Some(place), Some((to, anchor))) = (&link.place, resolve(file, &link.target)) {
            let anchor = anchor.map(|anchor| format!("#{anchor}")).unwrap_or_default();
            let address = format!("{source}/{}{anchor}", to.display());
            absolute.replace_range(place.clone(), &address);
        }
    }
    absolute
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_files_become_links_to_their_source() {
        let file = Path::new("sdk/python/README.md");
        for (text, expected) in [
            (
                "[a](../../docs/b.md#c) [d](e.py)",
                "[a](https://s.test/docs/b.md#c) [d](https://s.test/sdk/python/e.py)",
            ),
            ("[a](https://x.test/y) [b](#c)", "[a](https://x.test/y) [b](#c)"),
            ("[`e.py`](e.py), `[x](y)`", "[`e.py`](https://s.test/sdk/python/e.py), `[x](y)`"),
        ] {
            assert_eq!(with_absolute_links(text, file, "https://s.test"), expected);
        }
    }
}
