//! A container image in the layout of the Open Container Initiative, as a tarball that `docker load`,
//! `podman load` and `skopeo` read. It has the static program alone, so it is for the gateway: commands of
//! an agent need a system around them.

use std::path::PathBuf;

use anyhow::Result;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::archive::{Tar, gzip};
use super::program::{Program, processor};
use super::release::{Release, hex};

/// The name that the image is loaded with, before the version. Every tool takes a name with a host as it stands,
/// whether it reads the index of the layout or the manifest for Docker; `localhost` is that of no registry.
const NAME: &str = "localhost/agentd";
/// The state folder in the configurations that are made for the image.
const STATE: &str = "var/lib/agentd-gateway";
/// The user that the program runs as.
const USER: u64 = 65532;

pub(super) fn write(release: &Release, program: &Program) -> Result<PathBuf> {
    let processor = processor()?;
    let image = format!("{NAME}:{}", release.version);
    let layer = layer(release, program)?;
    let compressed = gzip(&layer, release.compression_level())?;
    let mut blobs = Blobs { tar: Tar::new(release.time) };
    let configuration = json!({
        "architecture": processor.debian,
        "os": "linux",
        "created": rfc3339(release.time),
        "config": {
            "User": format!("{USER}:{USER}"),
            "ExposedPorts": { "8080/tcp": {} },
            "Env": ["PATH=/usr/bin", "AGENT_HOME=/data"],
            "Entrypoint": ["/usr/bin/agentd"],
            "Cmd": ["gateway"],
            "Volumes": { "/data": {} },
            "WorkingDir": "/data",
            "Labels": {
                "org.opencontainers.image.title": "agentd",
                "org.opencontainers.image.version": release.version,
                "org.opencontainers.image.licenses": "Apache-2.0",
            },
        },
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
    let mut manifest = blobs.add_json("application/vnd.oci.image.manifest.v1+json", &manifest)?;
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
    let name = format!("agentd-{}-image-{}.tar", release.version, processor.debian);
    release.write(&name, &blobs.tar.finish()?)
}

/// The files of the image.
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
