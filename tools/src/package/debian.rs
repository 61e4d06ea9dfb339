//! The Debian package: the program, completions, manual page, units for a user's own server and for the
//! gateway, and the gateway's user.

use std::fs;
use std::io::{Seek as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow, ensure};

use super::program::{Program, processor};
use super::release::Release;
use super::system::files;
use super::tarball::completions_path;
use xtask::steps;

pub(super) fn package(release: &Release, program: &Program) -> Result<PathBuf> {
    ensure!(
        steps::Program::exists("dpkg-deb"),
        "a Debian package needs `dpkg-deb`: build the others by their names, or run this on Debian"
    );
    ensure!(
        steps::Program::exists("xz"),
        "a Debian package needs `xz`: install xz-utils, or build the others by their names"
    );
    let folder = tempfile::tempdir()?;
    let tree = Tree { root: folder.path() };
    for file in files(release, program)? {
        tree.add(&file.path, file.mode, &file.bytes)?;
    }
    for (shell, completions) in &program.completions {
        tree.add(&format!("usr/{}", completions_path(shell)), 0o644, completions)?;
    }
    for (asset, path, mode) in [
        ("copyright", "usr/share/doc/agentd/copyright", 0o644),
        ("conffiles", "DEBIAN/conffiles", 0o644),
        ("postinst", "DEBIAN/postinst", 0o755),
        ("prerm", "DEBIAN/prerm", 0o755),
    ] {
        tree.add(path, mode, release.asset(&format!("debian/{asset}"))?.as_bytes())?;
    }
    let (control, name) = control(release, program)?;
    tree.add("DEBIAN/control", 0o644, control.as_bytes())?;
    build(release, &tree, &name)
}

/// The description of the package, and the name of its file.
fn control(release: &Release, program: &Program) -> Result<(String, String)> {
    let (major, minor) = program.glibc.context("the program is static")?;
    let processor = processor()?.debian;
    let kib = program.bytes.len().div_ceil(1024) + 512;
    let control = format!(
        "Package: agentd\nVersion: {version}\nArchitecture: {processor}\n\
         Maintainer: {name} <{email}>\nHomepage: {homepage}\nInstalled-Size: {kib}\n\
         Depends: adduser, libc6 (>= {major}.{minor}), libgcc-s1\n\
         Recommends: ca-certificates, git\nSection: devel\nPriority: optional\n\
         Description: {summary}\n {description}\n",
        version = release.version,
        name = release.names.publisher.name,
        email = release.names.publisher.email,
        homepage = release.names.publisher.homepage,
        summary = release.names.program.summary,
        description = release.names.program.description.replace('\n', "\n "),
    );
    Ok((control, format!("agentd_{}_{processor}.deb", release.version)))
}

fn build(release: &Release, tree: &Tree<'_>, name: &str) -> Result<PathBuf> {
    let path = release.folder.join(name);
    let (root, to) = (tree.root.to_string_lossy(), path.to_string_lossy());
    let arguments =
        ["--root-owner-group", "--no-uniform-compression", "-Znone", "--build", &root, &to];
    steps::Program::new("dpkg-deb", &arguments)
        .env("SOURCE_DATE_EPOCH", &release.time.to_string())
        .succeed("see the message above")
        .map_err(|failed| anyhow!(failed.message))?;
    let archive = fs::read(&path).with_context(|| path.display().to_string())?;
    release.write(name, &with_compressed_files(&archive, |data| xz(release, data))?)
}

/// The archive with its member `data.tar` compressed. `dpkg-deb` cannot do it as well: it knows no filter for
/// machine code, which makes the package a twentieth smaller.
fn with_compressed_files(
    archive: &[u8],
    compress: impl Fn(&[u8]) -> Result<Vec<u8>>,
) -> Result<Vec<u8>> {
    const MAGIC: &[u8] = b"!<arch>\n";
    const NAME: usize = 16;
    const SIZE: std::ops::Range<usize> = 48..58;
    const HEADER: usize = 60;
    let mut rest = archive.strip_prefix(MAGIC).context("dpkg-deb wrote no archive")?;
    let mut compressed = MAGIC.to_vec();
    while !rest.is_empty() {
        let (header, behind) = rest.split_at_checked(HEADER).context("half a header")?;
        let text = std::str::from_utf8(header).context("a header of dpkg-deb")?;
        let size: usize = text[SIZE].trim_end().parse().context("a size")?;
        let (data, behind) = behind.split_at_checked(size).context("half a member")?;
        if text[..NAME].trim_end() == "data.tar" {
            let data = compress(data)?;
            let name = format!("{:NAME$}", "data.tar.xz");
            let size = format!("{:<10}", data.len());
            compressed.extend(
                [&name, &text[NAME..SIZE.start], &size, &text[SIZE.end..]].concat().bytes(),
            );
            compressed.extend(&data);
        } else {
            compressed.extend(header);
            compressed.extend(data);
        }
        if compressed.len() % 2 == 1 {
            compressed.push(b'\n');
        }
        rest = behind.get(size % 2..).unwrap_or_default();
    }
    Ok(compressed)
}

/// Compressed by `xz`, with the filter for this processor's code where every version of dpkg knows it.
fn xz(release: &Release, bytes: &[u8]) -> Result<Vec<u8>> {
    let mut input = tempfile::tempfile()?;
    input.write_all(bytes)?;
    input.rewind()?;
    let filter = if processor()?.debian == "amd64" { "--x86" } else { "--quiet" };
    let extreme = if release.is_shipped { "e" } else { "" };
    let preset = format!("--lzma2=preset={}{extreme}", release.compression_level());
    let done = Command::new("xz").args(["--stdout", filter, &preset]).stdin(input).output()?;
    ensure!(done.status.success(), "xz failed: {}", String::from_utf8_lossy(&done.stderr));
    Ok(done.stdout)
}

/// The files of the package.
struct Tree<'p> {
    root: &'p Path,
}

impl Tree<'_> {
    fn add(&self, path: &str, mode: u32, bytes: &[u8]) -> Result<()> {
        let path = self.root.join(path);
        for folder in path.ancestors().skip(1).take_while(|it| *it != self.root) {
            fs::create_dir_all(folder)?;
            fs::set_permissions(folder, fs::Permissions::from_mode(0o755))?;
        }
        fs::write(&path, bytes).with_context(|| path.display().to_string())?;
        Ok(fs::set_permissions(&path, fs::Permissions::from_mode(mode))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_files_of_an_archive_are_compressed() {
        let member = |name: &str, data: &str| {
            let padding = if data.len() % 2 == 1 { "\n" } else { "" };
            let size = data.len();
            format!("{name:16}{:<12}{:<6}{:<6}{:<8}{size:<10}`\n{data}{padding}", 1, 0, 0, 100_644)
        };
        let archive = |files: &str, data: &str| {
            let before = member("debian-binary", "2.0\n") + &member("control.tar.gz", "odd");
            format!("!<arch>\n{before}{}", member(files, data))
        };
        let whole = archive("data.tar", "files");
        let got = with_compressed_files(whole.as_bytes(), |_| Ok(b"xz".to_vec())).unwrap();
        assert_eq!(String::from_utf8(got).unwrap(), archive("data.tar.xz", "xz"));
        let cut = &whole.as_bytes()[..whole.len() - 3];
        assert!(with_compressed_files(cut, |data| Ok(data.to_vec())).is_err());
    }
}
