//! The Debian package: the program, completions, manual page, units for a user's own server and for the
//! gateway, and the gateway's user.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, ensure};

use super::archive::gzip;
use super::program::{Program, processor};
use super::release::Release;
use super::tarball::completions_path;
use crate::steps;

/// Where the units of `docs/systemd` look for the program, and where this package has it.
const BY_CARGO: &str = "%h/.cargo/bin/agentd";
const INSTALLED: &str = "/usr/bin/agentd";

pub(super) fn package(release: &Release, program: &Program) -> Result<PathBuf> {
    ensure!(
        steps::Program::exists("dpkg-deb"),
        "a Debian package needs `dpkg-deb`: build the others by their names, or run this on Debian"
    );
    let folder = tempfile::tempdir()?;
    let tree = Tree { root: folder.path() };
    tree.add("usr/bin/agentd", 0o755, &program.bytes)?;
    tree.add("usr/share/man/man1/agentd.1.gz", 0o644, &gzip(&program.manual, 9)?)?;
    for (shell, completions) in &program.completions {
        tree.add(&format!("usr/{}", completions_path(shell)), 0o644, completions)?;
    }
    let copyright = release.asset("debian/copyright")?;
    tree.add("usr/share/doc/agentd/copyright", 0o644, copyright.as_bytes())?;
    tree.add("usr/share/doc/agentd/README.md", 0o644, &release.readme)?;
    for name in ["agentd.service", "agentd.socket"] {
        tree.add(&format!("usr/lib/systemd/user/{name}"), 0o644, unit(release, name)?.as_bytes())?;
    }
    for (asset, path, mode) in [
        ("agentd-gateway.service", "usr/lib/systemd/system/agentd-gateway.service", 0o644),
        ("gateway.toml", "etc/agentd/gateway.toml", 0o640),
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

/// A unit of a user's server. Its first comment says how to install it by hand.
fn unit(release: &Release, name: &str) -> Result<String> {
    let path = release.root.join("docs/systemd").join(name);
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let sections = text.find("[Unit]").with_context(|| format!("{name} has no [Unit]"))?;
    let text = text[sections..].replace(BY_CARGO, INSTALLED);
    ensure!(!text.contains(".cargo"), "{name} names another program than {BY_CARGO}");
    Ok(text)
}

/// The description of the package, and the name of its file.
fn control(release: &Release, program: &Program) -> Result<(String, String)> {
    let (major, minor) = program.glibc.context("the program is static")?;
    let processor = processor()?.debian;
    let kib = program.bytes.len().div_ceil(1024) + 512;
    let control = format!(
        "Package: agentd\nVersion: {version}\nArchitecture: {processor}\n\
         Maintainer: The agentd authors <maintainers@agentd.invalid>\nInstalled-Size: {kib}\n\
         Depends: adduser, bubblewrap, libc6 (>= {major}.{minor}), libgcc-s1\n\
         Recommends: ca-certificates, git\nSection: devel\nPriority: optional\n\
         Description: Embed a coding agent in any product\n \
         One program with an application server that products embed, a terminal for\n \
         people, and a gateway with exact limits in front of model servers.\n",
        version = release.version
    );
    Ok((control, format!("agentd_{}_{processor}.deb", release.version)))
}

fn build(release: &Release, tree: &Tree<'_>, name: &str) -> Result<PathBuf> {
    let path = release.folder.join(name);
    let (root, to) = (tree.root.to_string_lossy(), path.to_string_lossy());
    let level = format!("-z{}", release.compression_level());
    let arguments = ["--root-owner-group", "-Zxz", &level, "--build", &root, &to];
    steps::Program::new("dpkg-deb", &arguments)
        .env("SOURCE_DATE_EPOCH", &release.time.to_string())
        .succeed("see the message above")
        .map_err(|failed| anyhow!(failed.message))?;
    Ok(path)
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
