//! The environment of the program: variables, folders, clock, ids and randomness. Nothing else reads
//! them.
#![allow(clippy::disallowed_methods)]

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use logging::LogFile;
use protocol::Dialect;
use rand::Rng;
use sandbox::{Layer, LimitsBy, Sandbox, THIS_PROGRAM};
use server::{Clock, Ids, Options};

/// The administrator's folder. No variable moves it, so that users cannot evade requirements.
const SYSTEM_DIR: &str = "/etc/agent";

/// The sockets that a service manager passed to this process. Must be called while there is only one
/// thread, because it removes the variables from the environment.
#[cfg(unix)]
pub(crate) fn inherited_sockets() -> listenfd::ListenFd {
    let ours = std::process::id().to_string();
    // Without our process id, the variables are meant for another process.
    if std::env::var("LISTEN_PID").is_ok_and(|pid| pid == ours) {
        return listenfd::ListenFd::from_env();
    }
    listenfd::ListenFd::empty()
}

/// The user's time zone.
pub(crate) fn time_zone() -> jiff::tz::TimeZone {
    jiff::tz::TimeZone::system()
}

/// The facts that the program reads from the machine, once.
#[derive(Clone)]
pub(crate) struct Environment {
    pub(crate) home: PathBuf,
    pub(crate) cwd: PathBuf,
    pub(crate) variables: Vec<(OsString, OsString)>,
    pub(crate) overrides: Vec<String>,
    /// `--strict-config`.
    pub(crate) strict: bool,
    /// `--dialect`, or `AGENTD_DIALECT`.
    pub(crate) dialect: Option<Dialect>,
}

/// Names a dialect for every subcommand; a flag replaces it.
const DIALECT: &str = "AGENTD_DIALECT";
/// The key of the default provider.
const KEY: &str = "AGENT_API_KEY";

impl Environment {
    /// Reads the environment. `overrides` are the `-c` arguments.
    ///
    /// # Errors
    /// Without a home folder or a current folder.
    pub(crate) fn gather(
        overrides: Vec<String>,
        strict: bool,
        dialect: Option<Dialect>,
    ) -> anyhow::Result<Self> {
        let mut variables: Vec<_> = std::env::vars_os().collect();
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let cwd = std::env::current_dir().context("cannot read the current folder")?;
        let named = set("AGENT_HOME").or_else(|| set(dialect?.home_variable()));
        let home = match named {
            Some(home) => cwd.join(home),
            None => {
                let user = std::env::var_os("HOME").filter(|value| !value.is_empty()).context(
                    "neither AGENT_HOME nor HOME is set: set AGENT_HOME to the folder for \
                     configuration and threads",
                )?;
                PathBuf::from(user).join(".agent")
            }
        };
        let mut overrides = overrides;
        if let Some(dialect) = dialect {
            for text in &mut overrides {
                use_own_key(text, dialect.config_keys());
            }
            if let Some(key) = set(dialect.key_variable()) {
                variables.retain(|(name, _)| name != KEY);
                variables.push((KEY.into(), key));
            }
        }
        Ok(Self { home, cwd, variables, overrides, strict, dialect })
    }

    /// Looks up a variable.
    pub(crate) fn variable(&self, name: &str) -> Option<String> {
        let (_, value) = self.variables.iter().find(|(key, _)| key == name)?;
        value.to_str().map(str::to_owned)
    }

    /// The options of a server.
    pub(crate) fn options(self, session_source: &str) -> Options {
        let shell = self
            .variable("SHELL")
            .map(PathBuf::from)
            .filter(|shell| shell.is_absolute() && shell.is_file())
            .unwrap_or_else(default_shell);
        Options {
            home: self.home,
            cwd: self.cwd,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            system_dir: SYSTEM_DIR.into(),
            strict_config: self.strict,
            config_overrides: self.overrides,
            environment: self.variables,
            shell,
            session_source: session_source.to_owned(),
            dialect: None,
            log_file: LogFile::default(),
            clock: Arc::new(SystemClock),
            ids: Arc::new(TimeOrderedIds),
            jitter: Arc::new(|| rand::rng().random()),
            random: Arc::new(|bytes| rand::rng().fill(bytes)),
        }
    }

    /// The sandbox of this machine. It is probed at the first command.
    pub(crate) fn sandbox(&self) -> Sandbox {
        self.sandbox_with(None)
    }

    /// See [`Environment::sandbox`]; with the limit of open files that commands begin with.
    pub(crate) fn sandbox_with(&self, descriptors: Option<u64>) -> Sandbox {
        Sandbox::new(sandbox::Config {
            supervisor: THIS_PROGRAM.into(),
            layer: Layer::Auto,
            descriptors,
            kept: vec![self.home.clone()],
            limits_by: LimitsBy::Auto,
        })
    }
}

/// The dialect of a flag, else that of the environment.
///
/// # Errors
/// When the environment names one that does not exist.
pub(crate) fn dialect(flag: Option<Dialect>) -> anyhow::Result<Option<Dialect>> {
    let named = std::env::var_os(DIALECT).filter(|value| !value.is_empty());
    let (None, Some(name)) = (flag, named) else { return Ok(flag) };
    let name = name.to_string_lossy();
    let found = Dialect::named(&name).with_context(|| {
        let known: Vec<&str> = Dialect::names().collect();
        format!(
            "{DIALECT}: there is no dialect `{name}`; set it to {}, or unset it",
            known.join(", ")
        )
    })?;
    Ok(Some(found))
}

/// Replaces the key of an override, `KEY=VALUE`, if it is the other server's name of one of ours.
fn use_own_key(text: &mut String, keys: &[(&str, &str)]) {
    let Some((key, value)) = text.split_once('=') else { return };
    if let Some((ours, _)) = keys.iter().find(|(_, theirs)| *theirs == key.trim()) {
        *text = format!("{ours}={value}");
    }
}

fn default_shell() -> PathBuf {
    let bash = PathBuf::from("/bin/bash");
    if bash.is_file() { bash } else { PathBuf::from("/bin/sh") }
}

struct SystemClock;

impl Clock for SystemClock {
    fn now_ms(&self) -> i64 {
        jiff::Timestamp::now().as_millisecond()
    }

    fn today(&self) -> String {
        jiff::Zoned::now().date().to_string()
    }

    fn time_zone(&self) -> String {
        let zone = jiff::tz::TimeZone::system();
        zone.iana_name().map_or_else(|| jiff::Zoned::now().offset().to_string(), str::to_owned)
    }
}

/// UUIDs of version 7, which sort by creation time.
struct TimeOrderedIds;

impl Ids for TimeOrderedIds {
    fn next(&self) -> String {
        uuid::Uuid::now_v7().to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_a_dialect_are_replaced_at_the_beginning_alone() {
        let codex = Dialect::named("codex").unwrap();
        let check = |given: &str, expected: &str| {
            let mut text = given.to_owned();
            use_own_key(&mut text, codex.config_keys());
            assert_eq!(text, expected);
        };
        check("openai_base_url=\"x\"", "default_provider_base_url=\"x\"");
        check(" openai_base_url = 1", "default_provider_base_url= 1");
        check("a.openai_base_url=1", "a.openai_base_url=1");
        check("model=\"openai_base_url=1\"", "model=\"openai_base_url=1\"");
        check("openai_base_url", "openai_base_url");
    }

    #[test]
    fn keys_of_a_dialect_replace_keys_that_exist() {
        let schema = include_str!("../../../schema/config.schema.json");
        let schema: serde_json::Value = serde_json::from_str(schema).unwrap();
        for dialect in Dialect::names().filter_map(Dialect::named) {
            for (ours, theirs) in dialect.config_keys() {
                assert!(schema["properties"].get(ours).is_some(), "{ours}");
                assert!(schema["properties"].get(theirs).is_none(), "{theirs}");
            }
        }
    }
}
