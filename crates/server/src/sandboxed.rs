//! A command under the configured sandbox policy, without a server: `agentd sandbox`.

use std::ffi::OsString;

use config::{Config, table::SandboxMode};
use sandbox::{Outputs, Size, Spawn, Stdin};

use services::allowed::Allowed;
use services::command_environment::{command_environment, command_tmpdir};
use services::command_limits::command_limits;
use services::command_runner::CommandLine;
use services::convert::policies::{configured_sandbox, mode_policy, profile_policy};
use services::error::Error;
use services::options::Options;
use services::thread_defaults::unknown_profile;
use threads::egress::managed_network;

/// The policy that a person chooses in place of the configured one.
#[derive(Clone, Debug)]
pub enum ChosenPolicy {
    /// `sandbox_mode`.
    Mode(SandboxMode),
    /// The permission profile of that name.
    Profile(String),
}

/// A command in the working folder, under the chosen or the configured policy as far as the
/// requirements allow. Also returns what the requirements replaced, for people.
///
/// # Errors
/// A profile that does not exist, or one that cannot be enforced.
pub fn sandboxed(
    options: &Options,
    config: &Config,
    chosen: Option<&ChosenPolicy>,
    argv: Vec<OsString>,
    terminal: Option<Size>,
) -> Result<(Spawn, Vec<String>), Error> {
    let cwd = options.cwd.clone();
    let policy = match chosen {
        None => configured_sandbox(config, &cwd, command_tmpdir(options, config)),
        Some(ChosenPolicy::Mode(mode)) => mode_policy(*mode, &cwd, &config.sandbox_workspace_write),
        Some(ChosenPolicy::Profile(name)) => {
            let profile = config.permission_profiles.get(name);
            let profile = profile.ok_or_else(|| unknown_profile(config, name))?;
            profile_policy(profile, &config.project_root, command_tmpdir(options, config))
        }
    };
    let (policy, replacements) = Allowed::new(policy, config, &cwd);
    let command = CommandLine {
        argv,
        policy: policy.confinement(&cwd),
        guarded: config.trusted_folders.clone(),
        granted: Vec::new(),
        env: command_environment(options, config),
        cwd,
        cwd_is_real: false,
        tty: terminal,
        stdin: Stdin::Pipe,
        outputs: Outputs::Separate,
        egress: managed_network(&policy, config, options, None)?,
        limits: command_limits(config, None),
    };
    Ok((command.into_spawn(), replacements))
}
