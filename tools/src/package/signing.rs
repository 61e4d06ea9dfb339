//! The parts that make a release verifiable: the script that installs it, with the release's address and public key, and the
//! signature of its checksums by minisign.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, ensure};

use super::release::Release;
use xtask::steps;

/// The script, below `packaging/` and in the folder of the packages.
const SCRIPT: &str = "install.sh";
/// Lines of the script that a release replaces.
const SOURCE: &str = "\nSOURCE=''\n";
const PUBLIC_KEY: &str = "\nPUBLIC_KEY=''\n";

/// Writes the script for this release. Where the owner has set no address or no key, it asks for them.
pub(super) fn write_script(release: &Release) -> Result<PathBuf> {
    let text = script(release, &release.asset(SCRIPT)?)?;
    release.write(SCRIPT, text.as_bytes())
}

fn script(release: &Release, text: &str) -> Result<String> {
    for line in [SOURCE, PUBLIC_KEY] {
        ensure!(text.contains(line), "packaging/{SCRIPT} has no line `{}`", line.trim());
    }
    let publisher = &release.names.publisher;
    let mut text = text.to_owned();
    if !publisher.placeholders().contains(&"downloads") {
        let source = format!("\nSOURCE='{}/{}'\n", publisher.downloads, release.version);
        text = text.replace(SOURCE, &source);
    }
    if let Some(key) = &publisher.signing_key {
        text = text.replace(PUBLIC_KEY, &format!("\nPUBLIC_KEY='{key}'\n"));
    }
    Ok(text)
}

/// Signs the checksums with a secret key of minisign, which asks for its password. The trusted comment names the
/// version, so that an old release does not pass for a new one.
pub(super) fn sign(release: &Release, secret_key: &Path) -> Result<()> {
    ensure!(
        steps::Program::exists("minisign"),
        "signing needs `minisign`: install it (on Debian the package minisign)"
    );
    let sums = release.folder.join("SHA256SUMS");
    let (sums, key) = (sums.to_string_lossy(), secret_key.to_string_lossy());
    let comment = format!("agentd {}", release.version);
    minisign(&["-S", "-s", &key, "-m", &sums, "-t", &comment]).context("the signature")?;
    match &release.names.publisher.signing_key {
        Some(public) => minisign(&["-Vq", "-P", public, "-m", &sums])
            .context("`signing_key` of `[publisher]` is the key of another secret key"),
        None => {
            eprintln!(
                "warning: no one can check the signature: `signing_key` of `[publisher]` is empty"
            );
            Ok(())
        }
    }
}

fn minisign(arguments: &[&str]) -> Result<()> {
    let done = steps::Program::new("minisign", arguments).succeed("see the message above");
    done.map(drop).map_err(|failed| anyhow!(failed.message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_has_the_address_and_the_key_that_are_set() {
        let folder = tempfile::tempdir().unwrap();
        let mut release = Release::for_tests(folder.path(), "1.2.3");
        let text = "#!/bin/sh\nSOURCE=''\nPUBLIC_KEY=''\n";
        release.names.publisher.downloads = "https://agentd.invalid/r".to_owned();
        release.names.publisher.signing_key = None;
        assert_eq!(script(&release, text).unwrap(), text);
        release.names.publisher.downloads = "https://example.com/r".to_owned();
        release.names.publisher.signing_key = Some("RWSkey".to_owned());
        let expected = "#!/bin/sh\nSOURCE='https://example.com/r/1.2.3'\nPUBLIC_KEY='RWSkey'\n";
        assert_eq!(script(&release, text).unwrap(), expected);
        assert!(script(&release, "#!/bin/sh\n").unwrap_err().to_string().contains("SOURCE"));
    }

    #[test]
    fn the_committed_script_has_both_lines() {
        let text = include_str!("../../../packaging/install.sh");
        assert!(text.contains(SOURCE) && text.contains(PUBLIC_KEY));
    }
}
