//! The gateway that a client is tried on: the built program, in a folder of its own that goes when
//! the trial ends.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use tempfile::TempDir;

use super::tools::GATEWAY;
use crate::bench::gateway::{Cores, Running, Starter};

/// Of the admin API.
pub(crate) const TOKEN: &str = "admin-token-of-the-clients-0123456789";
const START_PATIENCE: Duration = Duration::from_secs(60);
/// Longer than it waits for requests that are under way.
const END_PATIENCE: Duration = Duration::from_secs(40);

pub(crate) struct Gateway {
    /// Without a path.
    pub(crate) url: String,
    process: Running,
    _folder: TempDir,
}

impl Gateway {
    /// Asks it to end, which it must be able to after all that the client did to it.
    pub(crate) fn end(&mut self) -> Result<()> {
        self.process.still_runs().context("the gateway")?;
        self.process.end(END_PATIENCE).context("the gateway")
    }
}

pub(crate) fn start(starter: &Starter, root: &Path, agentd: &Path) -> Result<Gateway> {
    let folder = tempfile::tempdir().context("a folder for the gateway")?;
    let token = folder.path().join("token");
    std::fs::write(&token, TOKEN)?;
    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o600))?;
    let source = root.join(GATEWAY.scripts).join("gateway.toml");
    let file = folder.path().join("gateway.toml");
    std::fs::copy(&source, &file).with_context(|| source.display().to_string())?;
    let mut command = Command::new(agentd);
    command.args(["gateway", "--config"]).arg(&file).current_dir(folder.path());
    // The configuration of the user who runs this must not be read.
    command.env("HOME", folder.path());
    let mut process = starter.start(Cores::All, &command)?;
    let (url, _) = process
        .line(START_PATIENCE, |line| Some(line.strip_prefix("listening on ")?.trim().to_owned()))
        .with_context(|| format!("`{} gateway --config {}`", agentd.display(), file.display()))?;
    Ok(Gateway { url, process, _folder: folder })
}
