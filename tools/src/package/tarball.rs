//! The tarball: a static program, with completions and manual page, to be unpacked anywhere.

use std::path::PathBuf;

use anyhow::Result;

use super::archive::{Tar, gzip};
use super::program::{Program, processor};
use super::release::Release;

pub(super) fn write(release: &Release, program: &Program) -> Result<PathBuf> {
    let name = format!("agentd-{}-linux-{}", release.version, processor()?.rust);
    let mut tar = Tar::new(release.time);
    let mut add =
        |path: &str, mode: u32, bytes: &[u8]| tar.file(&format!("{name}/{path}"), mode, bytes);
    add("bin/agentd", 0o755, &program.bytes)?;
    add("LICENSE", 0o644, &release.license)?;
    add("README.md", 0o644, &release.readme)?;
    add("share/man/man1/agentd.1", 0o644, &program.manual)?;
    add("share/doc/agentd/sbom.cdx.json", 0o644, &program.sbom)?;
    for (shell, completions) in &program.completions {
        add(completions_path(shell), 0o644, completions)?;
    }
    release.write(&format!("{name}.tar.gz"), &gzip(&tar.finish()?, release.compression_level())?)
}

/// Where a shell looks for completions, below `/usr`.
pub(super) fn completions_path(shell: &str) -> &'static str {
    match shell {
        "zsh" => "share/zsh/vendor-completions/_agentd",
        "fish" => "share/fish/vendor_completions.d/agentd.fish",
        _ => "share/bash-completion/completions/agentd",
    }
}
