//! Container images in the layout of the Open Container Initiative, as tarballs that `docker load`, `podman load` and
//! `skopeo` read. That of the gateway has the static program alone; that of the application server has it on a minimal
//! Debian, because commands of an agent need a system around them.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::archive::{Tar, gzip};
use super::program::{Program, processor};
use super::release::{Release, hex};
use xtask::steps;

/// The name that the image is loaded with, before the version. Every tool takes a name with a host as it stands,
/// whether it reads the index of the layout or the manifest for Docker; `localhost` is that of no registry.
const NAME: &str = "localhost/agentd";
/// The state folder in the configurations that are made for the image.
const STATE: &str = "var/lib/agentd-gateway";
/// The user that the program runs as.
const USER: u64 = 65532;

/// Packages of Debian that commands of an agent need.
const SYSTEM: &str = "ca-certificates,git,libgcc-s1";

/// The image of the gateway.
pub(super) fn write(release: &Release, program: &Program) -> Result<PathBuf> {
    let settings = json!({
        "User": format!("{USER}:{USER}"),
        "ExposedPorts": { "8080/tcp": {} },
        "Env": ["PATH=/usr/bin", "AGENT_HOME=/data"],
        "Entrypoint": ["/usr/bin/agentd"],
        "Cmd": ["gateway"],
        "Volumes": { "/data": {} },
        "WorkingDir": "/data",
    });
    Image { suffix: "", settings, layer: layer(release, program)? }.write(release)
}

/// The image of the application server. Needs root and debootstrap, which fetches packages from the mirror that this
/// machine's apt uses: the same commit gives the same image only with the same packages there.
pub(super) fn write_server(release: &Release, program: &Program) -> Result<PathBuf> {
    ensure!(
        steps::Program::exists("debootstrap"),
        "the image of the application server needs `debootstrap`: install it, or build the others by their names"
    );
    let folder = tempfile::tempdir()?;
    let root = folder.path().join("root");
    let (codename, mirror) = mirror()?;
    let include = format!("--include={SYSTEM}");
    let shown = root.to_string_lossy();
    steps::Program::new(
        "debootstrap",
        &["--variant=minbase", &include, &codename, &shown, &mirror],
    )
    .succeed("it needs root and the network; see the message above")
    .map_err(|failed| anyhow!(failed.message))?;
    add_program(&root, program)?;
    let settings = json!({
        "User": format!("{USER}:{USER}"),
        "ExposedPorts": { "4500/tcp": {} },
        "Env": [
            "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME=/home/agent",
            "LANG=C.UTF-8",
        ],
        "Entrypoint": ["/usr/bin/agentd"],
        "Cmd": [
            "app-server", "--listen", "ws://0.0.0.0:4500",
            "--ws-auth", "capability-token", "--ws-token-file", "/run/secrets/agentd-token",
        ],
        "Volumes": { "/home/agent/.agent": {}, "/work": {} },
        "WorkingDir": "/work",
    });
    let layer = archived(release, &root)?;
    Image { suffix: "-app-server", settings, layer }.write(release)
}

/// The name of this machine's release of Debian, and the mirror of its packages.
fn mirror() -> Result<(String, String)> {
    let targets = Command::new("apt-get")
        .args(["indextargets", "--format", "$(RELEASE) $(REPO_URI)"])
        .output()
        .context("apt-get")?;
    let system = std::fs::read_to_string("/etc/os-release").context("/etc/os-release")?;
    let codename = system.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    let codename = codename.context("/etc/os-release has no VERSION_CODENAME")?.trim_matches('"');
    let targets = String::from_utf8_lossy(&targets.stdout);
    let mirror = targets.lines().find_map(|line| {
        let (release, mirror) = line.split_once(' ')?;
        (release == codename).then(|| mirror.to_owned())
    });
    Ok((codename.to_owned(), mirror.with_context(|| format!("apt has no packages of {codename}"))?))
}

/// Puts the program and its user into the root of a system, and removes what only installs packages.
fn add_program(root: &Path, program: &Program) -> Result<()> {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, chown};
    let binary = root.join("usr/bin/agentd");
    fs::write(&binary, &program.bytes).with_context(|| binary.display().to_string())?;
    fs::set_permissions(&binary, fs::Permissions::from_mode(0o755))?;
    let documents = root.join("usr/share/doc/agentd");
    fs::create_dir_all(&documents)?;
    fs::write(documents.join("sbom.cdx.json"), &program.sbom)?;
    for (file, line) in [
        ("etc/passwd", format!("agent:x:{USER}:{USER}::/home/agent:/bin/bash\n")),
        ("etc/group", format!("agent:x:{USER}:\n")),
    ] {
        let path = root.join(file);
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())? + &line;
        fs::write(&path, text)?;
    }
    let owner = u32::try_from(USER).context("the number of the user")?;
    for folder in ["home/agent", "home/agent/.agent", "work"] {
        let path = root.join(folder);
        fs::create_dir_all(&path)?;
        chown(&path, Some(owner), Some(owner))?;
    }
    for folder in ["var/cache/apt", "var/lib/apt/lists", "var/log", "tmp"] {
        let path = root.join(folder);
        for entry in fs::read_dir(&path).with_context(|| path.display().to_string())? {
            let entry = entry?;
            match entry.file_type()?.is_dir() {
                true => fs::remove_dir_all(entry.path())?,
                false => fs::remove_file(entry.path())?,
            }
        }
    }
    Ok(())
}

/// The root of a system as a layer, by the program `tar`, which keeps links, owners and modes.
fn archived(release: &Release, root: &Path) -> Result<Vec<u8>> {
    let time = format!("--mtime=@{}", release.time);
    let done = Command::new("tar")
        .args(["--create", "--sort=name", "--numeric-owner", "--format=gnu", &time])
        .args(["--exclude=./dev/*", "--exclude=./proc/*", "--exclude=./sys/*", "--directory"])
        .arg(root)
        .arg(".")
        .output()
        .context("tar")?;
    ensure!(done.status.success(), "tar failed: {}", String::from_utf8_lossy(&done.stderr));
    Ok(done.stdout)
}

/// An image with one layer.
struct Image {
    /// Follows the name.
    suffix: &'static str,
    /// `config` of its configuration.
    settings: Value,
    layer: Vec<u8>,
}

impl Image {
    fn write(self, release: &Release) -> Result<PathBuf> {
        let Self { suffix, mut settings, layer } = self;
        settings["Labels"] = json!({
            "org.opencontainers.image.title": "agentd",
            "org.opencontainers.image.version": release.version,
            "org.opencontainers.image.licenses": release.names.program.license,
        });
        let processor = processor()?;
        let image = format!("{NAME}{suffix}:{}", release.version);
        let compressed = gzip(&layer, release.compression_level())?;
        let mut blobs = Blobs { tar: Tar::new(release.time) };
        let configuration = json!({
            "architecture": processor.debian,
            "os": "linux",
            "created": rfc3339(release.time),
            "config": settings,
            "rootfs": { "type": "layers", "diff_ids": [digest(&layer)] },
            "history": [{ "created": rfc3339(release.time), "created_by": "cargo xtask package image" }],
        });
        let layer = blobs.add("application/vnd.oci.image.layer.v1.tar+gzip", &compressed)?;
        let configuration =
            blobs.add_json("application/vnd.oci.image.config.v1+json", &configuration)?;
        let named =
            [&configuration, &layer].map(|it| blob_path(it["digest"].as_str().unwrap_or_default()));
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": configuration,
            "layers": [layer],
        });
        let mut manifest =
            blobs.add_json("application/vnd.oci.image.manifest.v1+json", &manifest)?;
        manifest["platform"] = json!({ "architecture": processor.debian, "os": "linux" });
        manifest["annotations"] = json!({ "org.opencontainers.image.ref.name": image });
        let index = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.index.v1+json",
            "manifests": [manifest],
        });
        // For versions of Docker that do not know the layout.
        let [configuration, layer] = named;
        let docker = json!([{
            "Config": configuration,
            "RepoTags": [image],
            "Layers": [layer],
        }]);
        for (path, value) in [
            ("oci-layout", json!({ "imageLayoutVersion": "1.0.0" })),
            ("index.json", index),
            ("manifest.json", docker),
        ] {
            blobs.tar.file(path, 0o644, value.to_string().as_bytes())?;
        }
        let name = format!("agentd{suffix}-{}-image-{}.tar", release.version, processor.debian);
        release.write(&name, &blobs.tar.finish()?)
    }
}

/// The files of the image of the gateway.
fn layer(release: &Release, program: &Program) -> Result<Vec<u8>> {
    let mut tar = Tar::new(release.time);
    for folder in ["etc", "usr", "usr/bin", "var", "var/lib"] {
        tar.folder(folder, 0o755, 0)?;
    }
    // A new volume takes the owner from here.
    tar.folder(STATE, 0o700, USER)?;
    tar.folder("tmp", 0o1777, 0)?;
    tar.folder("data", 0o700, USER)?;
    tar.file("etc/passwd", 0o644, format!("agentd:x:{USER}:{USER}::/data:/\n").as_bytes())?;
    tar.file("etc/group", 0o644, format!("agentd:x:{USER}:\n").as_bytes())?;
    tar.file("usr/bin/agentd", 0o755, &program.bytes)?;
    for folder in ["usr/share", "usr/share/doc", "usr/share/doc/agentd"] {
        tar.folder(folder, 0o755, 0)?;
    }
    tar.file("usr/share/doc/agentd/sbom.cdx.json", 0o644, &program.sbom)?;
    tar.finish()
}

struct Blobs {
    tar: Tar,
}

impl Blobs {
    /// Adds a blob; returns its descriptor.
    fn add(&mut self, kind: &str, bytes: &[u8]) -> Result<Value> {
        let digest = digest(bytes);
        self.tar.file(&blob_path(&digest), 0o644, bytes)?;
        Ok(json!({ "mediaType": kind, "digest": digest, "size": bytes.len() }))
    }

    fn add_json(&mut self, kind: &str, value: &Value) -> Result<Value> {
        self.add(kind, value.to_string().as_bytes())
    }
}

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex(&Sha256::digest(bytes)))
}

fn blob_path(digest: &str) -> String {
    format!("blobs/{}", digest.replace(':', "/"))
}

/// Seconds since 1970 as a date.
fn rfc3339(time: u64) -> String {
    let time = i64::try_from(time).unwrap_or_default();
    jiff::Timestamp::from_second(time).unwrap_or_default().to_string()
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    /// `podman load` reads the index, older versions of Docker the manifest.
    #[test]
    fn both_descriptions_name_the_image() {
        let folder = tempfile::tempdir().unwrap();
        let release = Release::for_tests(folder.path(), "1.2.3");
        let program = Program {
            bytes: b"program".to_vec(),
            glibc: None,
            manual: Vec::new(),
            completions: Vec::new(),
            sbom: Vec::new(),
        };
        let path = write(&release, &program).unwrap();
        let read = |wanted: &str| -> Value {
            let mut archive = tar::Archive::new(std::fs::File::open(&path).unwrap());
            let mut entries = archive.entries().unwrap().map(Result::unwrap);
            let mut entry = entries.find(|it| it.path().unwrap().as_os_str() == wanted).unwrap();
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            serde_json::from_str(&text).unwrap()
        };
        let named = &read("index.json")["manifests"][0]["annotations"];
        assert_eq!(named["org.opencontainers.image.ref.name"], "localhost/agentd:1.2.3");
        assert_eq!(read("manifest.json")[0]["RepoTags"], json!(["localhost/agentd:1.2.3"]));
    }
}
