//! Shared parts of the tests that fetch and install.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use plugins::{Added, Error, Git, Home, Marketplace, MarketplaceSource, Upgrade};
use sandbox::{Config, Layer, LimitsBy, Sandbox, THIS_PROGRAM};

pub(crate) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

pub(crate) fn home(root: &Path, more: &[(&str, String)]) -> Home {
    let sandbox = Sandbox::new(Config {
        supervisor: THIS_PROGRAM.into(),
        layer: Layer::Auto,
        descriptors: None,
        kept: vec![root.to_owned()],
        limits_by: LimitsBy::Auto,
    });
    let mut environment: Vec<(OsString, OsString)> = vec![("PATH".into(), PATH.into())];
    environment.extend(more.iter().map(|(name, value)| (name.into(), value.into())));
    Home::new(root.to_owned(), Git::new(Arc::new(sandbox), environment))
}

/// A folder outside of `/tmp`, which some sandboxes replace.
pub(crate) fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/var/tmp").unwrap()
}

pub(crate) fn write(path: &Path, contents: impl AsRef<[u8]>) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, contents).unwrap();
}

/// A marketplace `market` with the plugin `one` in `plugins/one`.
pub(crate) fn marketplace(root: &Path) -> PathBuf {
    let list = r#"{"name": "market", "plugins": [{"name": "one", "source": "./plugins/one"}]}"#;
    write(&root.join(".claude-plugin/marketplace.json"), list);
    let plugin = root.join("plugins/one");
    write(&plugin.join(".claude-plugin/plugin.json"), r#"{"name": "one", "version": "1.0.0"}"#);
    write(&plugin.join("skills/greet/SKILL.md"), "---\nname: greet\ndescription: d\n---\n");
    plugin
}

pub(crate) fn read(root: &Path) -> Marketplace {
    Marketplace::read(root).unwrap()
}

/// Adds a marketplace that is allowed in any case.
pub(crate) async fn add(
    home: &Home,
    source: &str,
    ref_name: Option<&str>,
    sparse_paths: &[String],
) -> Result<Added, Error> {
    let source =
        MarketplaceSource::parse(source, ref_name, sparse_paths).map_err(Error::Invalid)?;
    home.add_marketplace(source, |_| Ok(())).await
}

pub(crate) async fn upgrade(home: &Home, name: &str) -> Result<Upgrade, Error> {
    home.upgrade_marketplace(name, |_| Ok(())).await
}

/// Runs git with the configuration and environment of the test, as a user does.
pub(crate) fn git(
    cwd: &Path,
    env: &[(&str, String)],
    arguments: &[&str],
    input: &[u8],
) -> Option<String> {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=t", "-c", "user.email=t@t", "-c", "init.defaultBranch=main"]);
    command.args(arguments).current_dir(cwd).env_clear().env("PATH", PATH);
    command.env("HOME", "/nonexistent").envs(env.iter().map(|(name, value)| (name, value)));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let _ = child.stdin.take().unwrap().write_all(input);
    let output = child.wait_with_output().unwrap();
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Makes a folder a repository with one commit of all its files.
pub(crate) fn commit(folder: &Path) -> String {
    git(folder, &[], &["init", "-q"], b"").unwrap();
    git(folder, &[], &["add", "-A", "-f"], b"").unwrap();
    git(folder, &[], &["commit", "-q", "--allow-empty", "-m", "c"], b"").unwrap();
    git(folder, &[], &["rev-parse", "HEAD"], b"").unwrap()
}

pub(crate) fn url(folder: &Path) -> String {
    format!("file://{}", folder.display())
}

/// Everything below a folder with its contents, to compare two moments.
pub(crate) fn snapshot(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(&next).into_iter().flatten().flatten() {
            let (path, kind) = (entry.path(), entry.file_type().unwrap());
            if kind.is_dir() {
                open.push(path);
            } else if kind.is_file() {
                found.push((path.clone(), std::fs::read(&path).unwrap()));
            } else {
                found.push((path, Vec::new()));
            }
        }
    }
    found.sort();
    found
}
