//! Checks a client's command before it runs: for `command/exec`, `process/spawn` and
//! `thread/shellCommand`.

use std::path::Path;

use config::Config;
use sandbox::rules::{Decision, Invocation};
use session::SandboxPolicy;

use crate::allowed::Allowed;
use crate::error::Error;
use crate::options::Options;
use crate::rules::{CommandRules, reason, resolver};

/// Checks a command outside the sandbox; returns the policy to run it under.
///
/// # Errors
/// The requirements do not allow full access, or a rule forbids the command.
pub fn check_full_access(
    rules: &CommandRules,
    options: &Options,
    config: &Config,
    command: Invocation<'_>,
    cwd: &Path,
) -> Result<Allowed<SandboxPolicy>, Error> {
    let policy = Allowed::full_access(config)?;
    check_rules(rules, options, config, (command, &policy), cwd)?;
    Ok(policy)
}

/// Checks a command, sandboxed or not, against the command rules.
///
/// # Errors
/// a rule forbids the command.
pub fn check_rules(
    rules: &CommandRules,
    options: &Options,
    config: &Config,
    (command, policy): (Invocation<'_>, &Allowed<SandboxPolicy>),
    cwd: &Path,
) -> Result<(), Error> {
    let resolver = resolver(options, config, policy, cwd);
    let found = rules.assess(command, cwd, &resolver, config);
    match found.decision.filter(|verdict| verdict.decision == Decision::Forbidden) {
        None => Ok(()),
        Some(verdict) => Err(Error::denied(match reason(verdict) {
            Some(why) => format!("a rule forbids this command: {why}"),
            None => "a rule forbids this command".to_owned(),
        })),
    }
}
