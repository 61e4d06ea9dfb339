//! The environment of the user's login shell, captured once and reused (`features.shell_snapshot`):
//! a command that asks for a login shell gets what the profile leaves behind, without waiting for
//! the profile each time.
//!
//! The profile runs in a read-only sandbox without a network: what a command may have written into
//! it does nothing that a command could not. Its variables go through `shell_environment_policy`
//! like any other. Where something cannot be captured, commands run a login shell of their own.
//!
//! The captured environment, functions and aliases are put before later scripts.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sandbox::OutputBuffer;
use tokio::sync::OnceCell;
use tokio::time::timeout;

use crate::allowed::Allowed;
use crate::command_runner::{CommandLine, CommandRunner};
use crate::error::Error;

/// Time limit of a profile.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of output of a capture, at most.
const MAX_OUTPUT: usize = 1024 * 1024;
/// Longest text of functions and aliases: it is part of an argument, which has a limit.
const MAX_PRELUDE: usize = 64 * 1024;
/// Longest script that it is put before.
const MAX_SCRIPT: usize = 60 * 1024;
/// Snapshots that are kept.
const MAX_KEPT: usize = 16;
/// Delimits what is captured from what the profile prints.
const MARK: &[u8] = b"\0agentd-snapshot\0";
/// Variables that say where a shell is, not what it is.
const TRANSIENT: &[&str] = &["OLDPWD", "PWD", "SHLVL", "_"];

type Environment = Vec<(OsString, OsString)>;
/// `None` when it cannot be captured.
type Captured = Arc<OnceCell<Option<Arc<Snapshot>>>>;

/// The environment that a profile leaves.
pub struct Snapshot {
    /// All variables.
    pub environment: Environment,
    /// Options, functions and aliases, as the shell's own text.
    prelude: String,
}

/// The captured environments of login shells.
pub struct ShellSnapshots {
    runner: CommandRunner,
    captured: Mutex<HashMap<(PathBuf, Environment), Captured>>,
}

impl ShellSnapshots {
    pub fn new(runner: CommandRunner) -> Self {
        Self { runner, captured: Mutex::default() }
    }

    /// The snapshot of `shell` when it starts from `environment`. The first caller waits for the
    /// profile. When it cannot be captured, this returns `None`, and calls `failed` with the reason
    /// once.
    pub async fn get(
        &self,
        shell: &Path,
        environment: &Environment,
        failed: impl FnOnce(&str),
    ) -> Option<Arc<Snapshot>> {
        let cell = {
            let mut kept = self.captured.lock().unwrap_or_else(PoisonError::into_inner);
            let key = (shell.to_owned(), environment.clone());
            if kept.len() >= MAX_KEPT && !kept.contains_key(&key) {
                kept.clear();
            }
            kept.entry(key).or_default().clone()
        };
        let captured = cell.get_or_init(|| async {
            match capture(&self.runner, shell, environment).await {
                Ok(snapshot) => Some(Arc::new(snapshot)),
                Err(why) => {
                    let shell = shell.display();
                    failed(&format!("{shell}: the profile could not be captured, so every login shell runs it again: {why}"));
                    None
                }
            }
        });
        captured.await.clone()
    }
}

impl Snapshot {
    /// The arguments of a shell that runs `script` as a login shell would; `None` when they would
    /// be too long.
    pub fn argv(&self, shell: &Path, script: &str) -> Option<Vec<OsString>> {
        let fits = script.len() <= MAX_SCRIPT;
        let text = format!("{}\n{script}", self.prelude);
        fits.then(|| vec![shell.into(), "-c".into(), text.into()])
    }
}

/// The description that a shell prints after its variables, which it can read again.
fn describe(shell: &Path) -> Option<&'static str> {
    match shell.file_name()?.to_str()? {
        // Aliases last: they must not be expanded in the functions.
        "bash" => Some("shopt -p; declare -f; alias -p"),
        "zsh" => Some("functions; alias -L"),
        _ => None,
    }
}

async fn capture(
    runner: &CommandRunner,
    shell: &Path,
    environment: &Environment,
) -> Result<Snapshot, Error> {
    let describe =
        describe(shell).ok_or_else(|| Error::failed("only bash and zsh can be captured"))?;
    let mark = r"printf '\0agentd-snapshot\0'";
    let script = format!("{mark}; command env -0; {mark}; {describe}; {mark}");
    let printed = run(runner, shell, "-lc", &script, environment).await?;
    let (environment, described) =
        read(&printed).ok_or_else(|| Error::failed("its output cannot be read"))?;
    let prelude = prelude(&described);
    if prelude.len() > MAX_PRELUDE {
        return Err(Error::failed(format!("its functions exceed {MAX_PRELUDE} bytes")));
    }
    // What the shell cannot read again must not break every command.
    run(runner, shell, "-c", &format!("{prelude}\n:"), &environment).await?;
    Ok(Snapshot { environment, prelude })
}

/// Runs a script that succeeds; what it prints.
async fn run(
    runner: &CommandRunner,
    shell: &Path,
    flag: &str,
    script: &str,
    environment: &Environment,
) -> Result<Vec<u8>, Error> {
    let argv = vec![shell.into(), flag.into(), script.into()];
    let (cwd, env) = (PathBuf::from("/"), environment.clone());
    let command = CommandLine::new(argv, cwd, env, Allowed::read_only());
    let mut process = runner.spawn(command).await?;
    let (mut printed, mut errors) = (OutputBuffer::new(MAX_OUTPUT), OutputBuffer::new(1024));
    let exit = timeout(PATIENCE, process.collect(&mut printed, &mut errors)).await;
    let exit =
        exit.map_err(|_| Error::failed(format!("it took longer than {} s", PATIENCE.as_secs())))?;
    if !exit.success() {
        let (code, said) = (exit.shell_code(), errors.text());
        return Err(Error::failed(format!("it failed with {code}: {}", said.trim())));
    }
    match printed.omitted() {
        0 => Ok(printed.bytes()),
        _ => Err(Error::failed(format!("it printed more than {MAX_OUTPUT} bytes"))),
    }
}

/// The variables, and the rest of what stands between the marks.
fn read(printed: &[u8]) -> Option<(Environment, String)> {
    let find = |bytes: &[u8]| bytes.windows(MARK.len()).position(|window| window == MARK);
    let rest = &printed[find(printed)? + MARK.len()..];
    let end = find(rest)?;
    let (variables, rest) = (&rest[..end], &rest[end + MARK.len()..]);
    let described = &rest[..find(rest)?];
    let mut environment = Environment::new();
    for variable in variables.split(|byte| *byte == 0).filter(|variable| !variable.is_empty()) {
        let equals = variable.iter().position(|byte| *byte == b'=')?;
        let name = os_string(&variable[..equals])?;
        if !TRANSIENT.iter().any(|transient| name == OsStr::new(transient)) {
            environment.push((name, os_string(&variable[equals + 1..])?));
        }
    }
    Some((environment, String::from_utf8(described.to_vec()).ok()?))
}

#[cfg(unix)]
fn os_string(bytes: &[u8]) -> Option<OsString> {
    Some(std::os::unix::ffi::OsStringExt::from_vec(bytes.to_vec()))
}

#[cfg(not(unix))]
fn os_string(bytes: &[u8]) -> Option<OsString> {
    String::from_utf8(bytes.to_vec()).ok().map(OsString::from)
}

/// Without the options that a running shell may not set; aliases are switched on at the end, so
/// that they hold from the script on.
fn prelude(described: &str) -> String {
    const FIXED: &[&str] = &["login_shell", "restricted_shell", "expand_aliases"];
    let is_fixed = |line: &&str| {
        line.strip_prefix("shopt -")
            .is_some_and(|rest| FIXED.iter().any(|name| rest.ends_with(name)))
    };
    let mut lines: Vec<&str> = described.lines().filter(|line| !is_fixed(line)).collect();
    lines.extend(described.lines().find(|line| *line == "shopt -s expand_aliases"));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_between_the_marks_is_read() {
        let text = b"noise\0agentd-snapshot\0A=1\0B=x\ny=z\0PWD=/\0_=env\0\0agentd-snapshot\0f () \
            { :; }\n\0agentd-snapshot\0bye";
        let (environment, described) = read(text).unwrap();
        assert_eq!(environment, [("A".into(), "1".into()), ("B".into(), "x\ny=z".into())]);
        assert_eq!(described, "f () { :; }\n");
        for torn in [&b""[..], &text[..30], &text[..text.len() - 8]] {
            assert!(read(torn).is_none());
        }
    }

    #[test]
    fn aliases_are_switched_on_last() {
        let described = "shopt -s login_shell\nshopt -s expand_aliases\nshopt -s extglob\nf () { :; }\n\
                         alias a='b'\n";
        let expected = "shopt -s extglob\nf () { :; }\nalias a='b'\nshopt -s expand_aliases";
        assert_eq!(prelude(described), expected);
    }
}
