//! Wheels: one puts the program among a Python's scripts, and the SDK depends on it.

use std::fmt::Write as _;
use std::fs;
use std::io::{Cursor, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use xtask::names::{Names, Publisher};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

use super::program::{Program, processor};
use super::release::Release;

/// The wheel with the program: for systems with the glibc that it needs, or with musl if it is static.
pub(super) fn of_program(release: &Release, program: &Program) -> Result<PathBuf> {
    let library = match program.glibc {
        Some((major, minor)) => format!("manylinux_{major}_{minor}"),
        // A static program needs no version of it: the earliest that systems have fits all.
        None => "musllinux_1_1".to_owned(),
    };
    let tag = format!("py3-none-{library}_{}", processor()?.wheel);
    let name = &release.names.pypi_program;
    let metadata = format!(
        "Metadata-Version: 2.4\nName: {name}\nVersion: {}\n\
         Summary: Embed a coding agent in any product: the program agentd\n{}\
         License-Expression: Apache-2.0\nLicense-File: LICENSE\n\
         Classifier: Operating System :: POSIX :: Linux\nRequires-Python: >=3.8\n\
         Description-Content-Type: text/markdown\n\n{}",
        release.version,
        of_publisher(&release.names),
        String::from_utf8_lossy(&release.readme)
    );
    let mut wheel = Wheel::new(release, name);
    let script = format!("{}-{}.data/scripts/agentd", wheel.name, release.version);
    wheel.file(&script, 0o755, &program.bytes)?;
    // The place of SBOMs in wheels (PEP 770).
    let sbom = format!("{}-{}.dist-info/sboms/agentd.cdx.json", wheel.name, release.version);
    wheel.file(&sbom, 0o644, &program.sbom)?;
    wheel.finish(&metadata, &tag, false)
}

/// The wheel of the Python SDK.
pub(super) fn of_sdk(release: &Release) -> Result<PathBuf> {
    let root = release.root.join("sdk/python");
    let manifest = root.join("pyproject.toml");
    let text = fs::read_to_string(&manifest).with_context(|| manifest.display().to_string())?;
    let project: toml::Table = text.parse().with_context(|| manifest.display().to_string())?;
    let readme = release.readme_of("sdk/python/README.md")?;
    let metadata = sdk_metadata(&project["project"], &release.names, &readme)?;
    let mut wheel = Wheel::new(release, &release.names.pypi_sdk);
    let source = root.join("src");
    let mut files = Vec::new();
    list(&source.join(&wheel.name), &mut files)?;
    files.sort();
    for path in files {
        let name = path.strip_prefix(&source)?.to_string_lossy().into_owned();
        let bytes = fs::read(&path).with_context(|| path.display().to_string())?;
        wheel.file(&name, 0o644, &bytes)?;
    }
    wheel.finish(&metadata, "py3-none-any", true)
}

/// The keywords, the author and the addresses, as a wheel has them.
pub(super) fn of_publisher(names: &Names) -> String {
    let Publisher { name, email, homepage, documentation, repository, issues, .. } =
        &names.publisher;
    format!(
        "Keywords: {}\nAuthor-email: {name} <{email}>\nProject-URL: Homepage, {homepage}\n\
         Project-URL: Documentation, {documentation}\nProject-URL: Repository, {repository}\n\
         Project-URL: Issues, {issues}\n",
        names.keywords.join(",")
    )
}

/// The files of a package, without what Python compiled.
fn list(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            if !path.ends_with("__pycache__") {
                list(&path, files)?;
            }
        } else {
            files.push(path);
        }
    }
    Ok(())
}

/// Returns the contents of `pyproject.toml` in the form of a wheel.
fn sdk_metadata(project: &toml::Value, names: &Names, readme: &str) -> Result<String> {
    let text = |key: &str| project[key].as_str().with_context(|| format!("project.{key}"));
    let mut metadata = format!(
        "Metadata-Version: 2.4\nName: {}\nVersion: {}\nSummary: {}\n{}License-Expression: {}\n\
         License-File: LICENSE\nRequires-Python: {}\n",
        text("name")?,
        text("version")?,
        text("description")?,
        of_publisher(names),
        text("license")?,
        text("requires-python")?,
    );
    let strings = |value: &toml::Value| -> Result<Vec<String>> {
        let list = value.as_array().context("a list of texts")?;
        list.iter().map(|it| Ok(it.as_str().context("a text")?.to_owned())).collect()
    };
    for classifier in strings(&project["classifiers"])? {
        writeln!(metadata, "Classifier: {classifier}")?;
    }
    for needed in strings(&project["dependencies"])? {
        writeln!(metadata, "Requires-Dist: {needed}")?;
    }
    let extras = project["optional-dependencies"].as_table().context("optional-dependencies")?;
    for (extra, needed) in extras {
        writeln!(metadata, "Provides-Extra: {extra}")?;
        for needed in strings(needed)? {
            writeln!(metadata, "Requires-Dist: {needed}; extra == '{extra}'")?;
        }
    }
    write!(metadata, "Description-Content-Type: text/markdown\n\n{readme}")?;
    Ok(metadata)
}

/// A wheel while it is written.
struct Wheel<'r> {
    release: &'r Release,
    /// The name of the package as files have it.
    name: String,
    zip: ZipWriter<Cursor<Vec<u8>>>,
    /// The lines of `RECORD`.
    record: String,
}

impl<'r> Wheel<'r> {
    fn new(release: &'r Release, name: &str) -> Wheel<'r> {
        let zip = ZipWriter::new(Cursor::new(Vec::new()));
        let name = name.replace('-', "_");
        Wheel { release, name, zip, record: String::new() }
    }

    fn file(&mut self, path: &str, mode: u32, bytes: &[u8]) -> Result<()> {
        // Entries of a zip file cannot be older than 1980, and installers ignore their times.
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            .compression_level(Some(self.release.compression_level().into()))
            .last_modified_time(DateTime::default())
            .unix_permissions(mode);
        self.zip.start_file(path, options)?;
        self.zip.write_all(bytes)?;
        let hash = URL_SAFE_NO_PAD.encode(Sha256::digest(bytes));
        writeln!(self.record, "{path},sha256={hash},{}", bytes.len())?;
        Ok(())
    }

    fn finish(mut self, metadata: &str, tag: &str, is_pure: bool) -> Result<PathBuf> {
        let stem = format!("{}-{}", self.name, self.release.version);
        let folder = format!("{stem}.dist-info");
        let wheel = format!(
            "Wheel-Version: 1.0\nGenerator: agentd\nRoot-Is-Purelib: {is_pure}\nTag: {tag}\n"
        );
        let license = &self.release.license;
        for (name, bytes) in [
            ("licenses/LICENSE", &license[..]),
            ("METADATA", metadata.as_bytes()),
            ("WHEEL", wheel.as_bytes()),
        ] {
            self.file(&format!("{folder}/{name}"), 0o644, bytes)?;
        }
        let record = format!("{}{folder}/RECORD,,\n", self.record);
        self.file(&format!("{folder}/RECORD"), 0o644, record.as_bytes())?;
        let bytes = self.zip.finish()?.into_inner();
        self.release.write(&format!("{stem}-{tag}.whl"), &bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements_are_those_of_the_project() {
        let project: toml::Table =
            "name = 'n'\nversion = '1'\ndescription = 'd'\nlicense = 'MIT'\n\
             requires-python = '>=3.10'\nclassifiers = ['A :: B']\ndependencies = ['program==1']\n\
             optional-dependencies = { websocket = ['websockets>=13'] }"
                .parse()
                .unwrap();
        let names = Names::read(&xtask::workspace_root()).unwrap();
        let metadata = sdk_metadata(&toml::Value::Table(project), &names, "text").unwrap();
        for line in [
            "Classifier: A :: B\nRequires-Dist: program==1\n",
            "Project-URL: Repository, https://",
            "Provides-Extra: websocket\nRequires-Dist: websockets>=13; extra == 'websocket'\n",
            "\n\ntext",
        ] {
            assert!(metadata.contains(line), "{metadata}");
        }
    }
}
