//! Whether a command of the client's may run: what `command/exec`, `process/spawn` and
//! `thread/shellCommand` ask before they start one.

use std::path::Path;

use config::{Config, SandboxMode};
use sandbox::rules::{Decision, Invocation};
use session::SandboxPolicy;

use crate::rules;
use crate::server::Core;

/// For a command with full access, outside of any sandbox.
///
/// # Errors
/// In words: an administrator's requirements do not allow full access, or a rule forbids the command.
pub(crate) fn check_full_access(
    core: &Core,
    config: &Config,
    command: Invocation<'_>,
    cwd: &Path,
) -> Result<(), String> {
    if let Some(replaced) = config.requirements.sandbox(SandboxMode::DangerFullAccess) {
        return Err(format!(
            "commands outside of any sandbox are not allowed by {}; use `command/exec` for one in \
             the sandbox",
            replaced.requirement
        ));
    }
    check_rules(core, config, command, &SandboxPolicy::DangerFullAccess, cwd)
}

/// For every command, confined or not.
///
/// # Errors
/// In words: a rule forbids the command.
pub(crate) fn check_rules(
    core: &Core,
    config: &Config,
    command: Invocation<'_>,
    policy: &SandboxPolicy,
    cwd: &Path,
) -> Result<(), String> {
    let resolver = rules::resolver(&core.options, config, policy, cwd);
    let found = core.rules.assess(command, cwd, &resolver, config);
    match found.decision.filter(|verdict| verdict.decision == Decision::Forbidden) {
        None => Ok(()),
        Some(verdict) => Err(match rules::reason(verdict) {
            Some(why) => format!("a rule forbids this command: {why}"),
            None => "a rule forbids this command".to_owned(),
        }),
    }
}
