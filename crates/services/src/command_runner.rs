//! The one door through which the server starts commands: each has a policy that the requirements
//! allow.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use policy::RootedPolicy;
use sandbox::egress::Egress;
use sandbox::{Degradation, Error, Limits, Outputs, Process, Sandbox, Size, Spawn, Stdin};

use crate::allowed::Allowed;

/// A command that is about to be started; see [`Spawn`].
pub struct CommandLine {
    pub argv: Vec<OsString>,
    pub cwd: PathBuf,
    /// See [`Spawn::cwd_is_real`].
    pub cwd_is_real: bool,
    pub env: Vec<(OsString, OsString)>,
    pub policy: Allowed<RootedPolicy>,
    /// Folders of trusted projects, whose configuration stays read-only.
    pub guarded: Vec<PathBuf>,
    /// See [`Spawn::granted`].
    pub granted: Vec<PathBuf>,
    pub tty: Option<Size>,
    pub stdin: Stdin,
    pub outputs: Outputs,
    pub egress: Option<Arc<Egress>>,
    /// See `command_limits`; none by default.
    pub limits: Limits,
}

impl CommandLine {
    /// A command without terminal, input, managed network and limits.
    pub fn new(
        argv: Vec<OsString>,
        cwd: PathBuf,
        env: Vec<(OsString, OsString)>,
        policy: Allowed<RootedPolicy>,
    ) -> Self {
        let (guarded, granted) = (Vec::new(), Vec::new());
        let (tty, stdin, egress) = (None, Stdin::Null, None);
        let (cwd_is_real, outputs) = (false, Outputs::Separate);
        Self {
            argv,
            cwd,
            cwd_is_real,
            env,
            policy,
            guarded,
            granted,
            tty,
            stdin,
            outputs,
            egress,
            limits: Limits::default(),
        }
    }

    /// As the sandbox takes it.
    pub fn into_spawn(self) -> Spawn {
        let Self { argv, cwd, cwd_is_real, env, policy, .. } = self;
        let Self { guarded, granted, tty, stdin, outputs, egress, limits, .. } = self;
        let policy = policy.into_inner();
        Spawn {
            argv,
            cwd,
            cwd_is_real,
            env,
            policy,
            guarded,
            granted,
            tty,
            stdin,
            outputs,
            egress,
            limits,
        }
    }
}

/// Starts commands. Cheap to clone.
#[derive(Clone)]
pub struct CommandRunner {
    sandbox: Arc<Sandbox>,
}

impl CommandRunner {
    pub fn new(sandbox: Arc<Sandbox>) -> Self {
        Self { sandbox }
    }

    /// Starts a command.
    ///
    /// # Errors
    /// As [`Sandbox::spawn`].
    pub async fn spawn(&self, command: CommandLine) -> Result<Process, Error> {
        self.sandbox.spawn(command.into_spawn()).await
    }

    /// See [`Sandbox::degradation`].
    pub async fn degradation(&self) -> Option<Degradation> {
        self.sandbox.degradation().await
    }

    /// See [`Sandbox::is_known_whole`].
    pub fn is_known_whole(&self) -> bool {
        self.sandbox.is_known_whole()
    }

    /// Finds out what works on this machine, before the first command would.
    pub async fn prepare(&self) {
        self.sandbox.prepare().await;
    }
}
