//! A command under the configured sandbox policy, without a server: `agentd sandbox`.

use std::ffi::OsString;

use config::{Config, table::SandboxMode};
use sandbox::{Size, Spawn, Stdin};
use session::{Overrides, SandboxPolicy};

use crate::convert::settings::{configured_mode, confinement, mode_policy, profile_policy};
use crate::egress::managed;
use crate::error::Error;
use crate::options::Options;
use crate::thread::environment;
use crate::{loading, required};

/// Which policy is wanted instead of the configured one.
#[derive(Clone, Debug)]
pub enum Wanted {
    /// `sandbox_mode`.
    Mode(SandboxMode),
    /// The permission profile of that name.
    Profile(String),
}

/// A command of the working folder under the policy that is wanted, or else configured, as far as
/// the requirements allow. The second part is what they changed, for people.
///
/// # Errors
/// A profile that does not exist, or one that cannot be enforced.
pub fn sandboxed(
    options: &Options,
    config: &Config,
    wanted: Option<&Wanted>,
    argv: Vec<OsString>,
    terminal: Option<Size>,
) -> Result<(Spawn, Vec<String>), Error> {
    let cwd = options.cwd.clone();
    let policy = match wanted {
        None => loading::configured_sandbox(config, &cwd, options.tmpdir()),
        Some(Wanted::Mode(mode)) => {
            let mode = configured_mode(*mode);
            mode_policy(mode, &cwd, &config.sandbox_workspace_write)
        }
        Some(Wanted::Profile(name)) => match config.permission_profiles.get(name) {
            Some(profile) => profile_policy(profile, &config.project_root, options.tmpdir()),
            None => {
                let known = config.permission_profiles.keys().map(String::as_str);
                let known: Vec<&str> = known.collect();
                return Err(Error::invalid_params(format!(
                    "there is no permission profile `{name}`; the configuration has {}",
                    if known.is_empty() { "none".to_owned() } else { known.join(", ") }
                )));
            }
        },
    };
    let mut wished = Overrides { sandbox: Some(policy), ..Overrides::default() };
    let workspace = &config.sandbox_workspace_write;
    let told = required::constrain(&mut wished, &config.requirements, workspace, &cwd);
    let policy = wished.sandbox.unwrap_or(SandboxPolicy::DangerFullAccess);
    let spawn = Spawn {
        argv,
        policy: confinement(&policy, &cwd),
        guarded: config.trusted_folders.clone(),
        env: environment(options, config),
        cwd,
        tty: terminal,
        stdin: Stdin::Pipe,
        egress: managed(&policy, config, options, None)?,
    };
    Ok((spawn, told))
}
