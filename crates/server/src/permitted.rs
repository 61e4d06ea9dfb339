//! Whether a command of the client's may run: what `command/exec`, `process/spawn` and
//! `thread/shellCommand` ask before they start one.

use std::path::Path;

use config::{Config, SandboxMode};
use sandbox::rules::{Decision, Invocation};
use session::SandboxPolicy;

use crate::error::Error;
use crate::rules;
use crate::server::Core;

/// For a command with full access, outside of any sandbox.
///
/// # Errors
/// an administrator's requirements do not allow full access, or a rule forbids the command.
pub(crate) fn check_full_access(
    core: &Core,
    config: &Config,
    command: Invocation<'_>,
    cwd: &Path,
) -> Result<(), Error> {
    if let Some(replaced) = config.requirements.sandbox(SandboxMode::DangerFullAccess) {
        let by = &replaced.requirement;
        return Err(Error::denied(format!("commands outside the sandbox are not allowed by {by}"))
            .next_step("use `command/exec` to run one in the sandbox"));
    }
    check_rules(core, config, command, &SandboxPolicy::DangerFullAccess, cwd)
}

/// For every command, confined or not.
///
/// # Errors
/// a rule forbids the command.
pub(crate) fn check_rules(
    core: &Core,
    config: &Config,
    command: Invocation<'_>,
    policy: &SandboxPolicy,
    cwd: &Path,
) -> Result<(), Error> {
    let resolver = rules::resolver(&core.options, config, policy, cwd);
    let found = core.rules.assess(command, cwd, &resolver, config);
    match found.decision.filter(|verdict| verdict.decision == Decision::Forbidden) {
        None => Ok(()),
        Some(verdict) => Err(Error::denied(match rules::reason(verdict) {
            Some(why) => format!("a rule forbids this command: {why}"),
            None => "a rule forbids this command".to_owned(),
        })),
    }
}
