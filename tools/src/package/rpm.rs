//! The package for Fedora, openSUSE and their relatives: the files of the Debian package, from a spec file that is written
//! from `packaging/names.toml`.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, ensure};

use super::program::{Program, processor};
use super::release::Release;
use super::system::{GATEWAY_CONFIG, PackagedFile, files};
use xtask::steps;

/// Where distributions with RPM have completions.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/agentd"),
    ("zsh", "usr/share/zsh/site-functions/_agentd"),
    ("fish", "usr/share/fish/vendor_completions.d/agentd.fish"),
];

pub(super) fn package(release: &Release, program: &Program) -> Result<PathBuf> {
    ensure!(
        steps::Program::exists("rpmbuild"),
        "a package for RPM needs `rpmbuild`: install it (on Debian the package rpm), or build the others by their names"
    );
    ensure!(program.glibc.is_some(), "the program is static");
    let mut files = files(release, program)?;
    for (shell, completions) in &program.completions {
        let (_, path) = COMPLETIONS
            .iter()
            .find(|(name, _)| name == shell)
            .with_context(|| format!("no place for the completions of {shell}"))?;
        let bytes = completions.clone();
        files.push(PackagedFile { path: (*path).to_owned(), mode: 0o644, bytes });
    }
    let license = release.license.clone();
    let path = "usr/share/licenses/agentd/LICENSE".to_owned();
    files.push(PackagedFile { path, mode: 0o644, bytes: license });
    let folder = tempfile::tempdir()?;
    let source = folder.path().join("files");
    for file in &files {
        let path = source.join(&file.path);
        fs::create_dir_all(path.parent().context("a file has a folder")?)?;
        fs::write(&path, &file.bytes).with_context(|| path.display().to_string())?;
        fs::set_permissions(&path, fs::Permissions::from_mode(file.mode))?;
    }
    let processor = processor()?.rust;
    let spec = folder.path().join("agentd.spec");
    fs::write(&spec, spec_text(release, &files)?)?;
    build(release, folder.path(), &source, &spec, processor)?;
    let name = format!("agentd-{}-1.{processor}.rpm", release.version);
    let built = folder.path().join("RPMS").join(processor).join(&name);
    let bytes = fs::read(&built).with_context(|| format!("rpmbuild wrote no {name}"))?;
    release.write(&name, &bytes)
}

fn build(release: &Release, top: &Path, source: &Path, spec: &Path, processor: &str) -> Result<()> {
    let define = |name: &str, value: &str| ["--define".to_owned(), format!("{name} {value}")];
    let mut arguments = vec!["-bb".to_owned(), "--quiet".to_owned()];
    arguments.extend(["--target".to_owned(), processor.to_owned()]);
    let threads = if release.is_shipped { "w19.zstdio" } else { "w1.zstdio" };
    for (name, value) in [
        ("_topdir", &*top.to_string_lossy()),
        ("packaged_files", &*source.to_string_lossy()),
        // The program is stripped already, and the same commit must give the same package.
        ("debug_package", "%{nil}"),
        ("__os_install_post", "%{nil}"),
        ("_build_id_links", "none"),
        ("_buildhost", "localhost"),
        ("use_source_date_epoch_as_buildtime", "1"),
        ("clamp_mtime_to_source_date_epoch", "1"),
        ("_binary_payload", threads),
    ] {
        arguments.extend(define(name, value));
    }
    arguments.push(spec.to_string_lossy().into_owned());
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    steps::Program::new("rpmbuild", &arguments)
        .env("SOURCE_DATE_EPOCH", &release.time.to_string())
        .succeed("see the message above")
        .map(drop)
        .map_err(|failed| anyhow!(failed.message))
}

fn spec_text(release: &Release, files: &[PackagedFile]) -> Result<String> {
    let (facts, publisher) = (&release.names.program, &release.names.publisher);
    // A hyphen is not allowed in a version; a tilde sorts before the release, as a hyphen does for us.
    let version = release.version.replace('-', "~");
    let mut spec = format!(
        "Name: agentd\nVersion: {version}\nRelease: 1\nSummary: {summary}\nLicense: {license}\n\
         URL: {homepage}\nVendor: {vendor}\nRequires(pre): /usr/sbin/useradd\n\
         Recommends: ca-certificates, git\n\n%description\n{description}\n\n%prep\n%build\n%install\n\
         cp -a %{{packaged_files}}/. %{{buildroot}}/\n\n",
        summary = facts.summary,
        license = facts.license,
        homepage = publisher.homepage,
        vendor = publisher.name,
        description = facts.description,
    );
    spec.push_str(
        "%pre\n\
         getent group agentd-gateway >/dev/null || groupadd --system agentd-gateway\n\
         getent passwd agentd-gateway >/dev/null || useradd --system --gid agentd-gateway --no-create-home \\\n  \
         --home-dir /var/lib/agentd-gateway --shell /sbin/nologin agentd-gateway\n\n\
         %post\n\
         if [ -d /run/systemd/system ]; then systemctl daemon-reload; \
         systemctl try-restart agentd-gateway.service; fi\n\n\
         %preun\n\
         if [ \"$1\" = 0 ] && [ -d /run/systemd/system ]; then \
         systemctl disable --now agentd-gateway.service; fi\n\n\
         %files\n",
    );
    for file in files {
        let owner = if file.path == GATEWAY_CONFIG { "agentd-gateway" } else { "root" };
        let kind = match &*file.path {
            GATEWAY_CONFIG => "%config(noreplace) ",
            path if path.starts_with("usr/share/doc/") => "%doc ",
            path if path.starts_with("usr/share/licenses/") => "%license ",
            _ => "",
        };
        writeln!(spec, "%attr({:04o}, root, {owner}) {kind}/{}", file.mode, file.path)?;
    }
    Ok(spec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spec_has_the_facts_and_every_file() {
        let folder = tempfile::tempdir().unwrap();
        let release = Release::for_tests(folder.path(), "1.2.3-rc.1");
        let file =
            |path: &str, mode| PackagedFile { path: path.to_owned(), mode, bytes: Vec::new() };
        let files = [file("usr/bin/agentd", 0o755), file(GATEWAY_CONFIG, 0o640)];
        let spec = spec_text(&release, &files).unwrap();
        for line in [
            "Version: 1.2.3~rc.1\n",
            "License: Apache-2.0\n",
            "%attr(0755, root, root) /usr/bin/agentd\n",
            "%attr(0640, root, agentd-gateway) %config(noreplace) /etc/agentd/gateway.toml\n",
        ] {
            assert!(spec.contains(line), "{line}: {spec}");
        }
        assert!(spec.contains(&release.names.program.description));
    }
}
