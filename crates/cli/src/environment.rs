//! The environment of the program: variables, folders, clock, ids and randomness. Nothing else reads
//! them.
#![allow(clippy::disallowed_methods)]

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use logging::LogFile;
use rand::Rng;
use sandbox::{Layer, Sandbox, THIS_PROGRAM};
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

/// What the program reads from the machine, once.
#[derive(Clone)]
pub(crate) struct Environment {
    pub(crate) home: PathBuf,
    pub(crate) cwd: PathBuf,
    pub(crate) variables: Vec<(OsString, OsString)>,
    pub(crate) overrides: Vec<String>,
    /// `--strict-config`.
    pub(crate) strict: bool,
}

impl Environment {
    /// Reads the environment. `overrides` are the `-c` arguments.
    ///
    /// # Errors
    /// Without a home folder or a current folder.
    pub(crate) fn gather(overrides: Vec<String>, strict: bool) -> anyhow::Result<Self> {
        let variables: Vec<_> = std::env::vars_os().collect();
        let cwd = std::env::current_dir().context("cannot read the current folder")?;
        let named = std::env::var_os("AGENT_HOME").filter(|value| !value.is_empty());
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
        Ok(Self { home, cwd, variables, overrides, strict })
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
            log_file: LogFile::default(),
            clock: Arc::new(SystemClock),
            ids: Arc::new(TimeOrderedIds),
            jitter: Arc::new(|| rand::rng().random()),
        }
    }

    /// The sandbox of this machine. It is probed at the first command.
    pub(crate) fn sandbox(&self) -> Sandbox {
        self.sandbox_with(None)
    }

    /// See [`Environment::sandbox`]; with the limit of open files that commands begin with.
    pub(crate) fn sandbox_with(&self, descriptors: Option<u64>) -> Sandbox {
        let path = self.variable("PATH").unwrap_or_default();
        Sandbox::new(sandbox::Config {
            supervisor: THIS_PROGRAM.into(),
            search_path: std::env::split_paths(&path).collect(),
            layer: Layer::Auto,
            descriptors,
        })
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
