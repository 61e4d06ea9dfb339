//! The environment that commands get: the server's own, under `shell_environment_policy`.

use std::ffi::OsString;
use std::path::PathBuf;

use config::Config;
use sandbox::env::{EnvPolicy, Inherit, child_environment};

use crate::options::Options;

/// The environment of every command.
pub fn command_environment(options: &Options, config: &Config) -> Vec<(OsString, OsString)> {
    filtered_environment(options.environment.iter().cloned(), config)
}

/// `$TMPDIR` of commands, when it names an absolute folder.
pub fn command_tmpdir(options: &Options, config: &Config) -> Option<PathBuf> {
    tmpdir_in(&command_environment(options, config))
}

/// `$TMPDIR` in the environment of a command, when it names an absolute folder.
pub(crate) fn tmpdir_in(environment: &[(OsString, OsString)]) -> Option<PathBuf> {
    let (_, value) = environment.iter().rfind(|(name, _)| name == "TMPDIR")?;
    Some(PathBuf::from(value)).filter(|path| path.is_absolute())
}

/// `variables` under `shell_environment_policy`.
pub fn filtered_environment(
    variables: impl IntoIterator<Item = (OsString, OsString)>,
    config: &Config,
) -> Vec<(OsString, OsString)> {
    let policy = &config.shell_environment_policy;
    let policy = EnvPolicy {
        inherit: match policy.inherit {
            config::EnvironmentInherit::All => Inherit::All,
            config::EnvironmentInherit::Core => Inherit::Core,
            config::EnvironmentInherit::None => Inherit::None,
        },
        ignore_default_excludes: policy.ignore_default_excludes,
        exclude: policy.exclude.clone(),
        set: policy.set.clone(),
        include_only: policy.include_only.clone(),
        secrets: config.secret_variables.clone(),
    };
    child_environment(variables, &policy)
}
