//! The words between callers and platforms: what a command is and how it is confined, and what a platform implements.

use std::ffi::OsString;
use std::path::PathBuf;

use policy::RootedPolicy;

use crate::error::Error;
use crate::limits::LimitsBy;
use crate::process::Process;
use crate::pty::Size;

/// Configuration of a [`crate::Sandbox`], which reads nothing from the environment.
#[derive(Clone, Debug)]
pub struct Config {
    /// The program that starts commands, given [`crate::SUPERVISE_ARGUMENT`]: [`crate::THIS_PROGRAM`], or
    /// another that calls [`crate::supervisor_main`].
    pub supervisor: PathBuf,
    pub layer: Layer,
    /// Soft limit of open files that commands start with; `None` is this process's own.
    pub descriptors: Option<u64>,
    /// Folders that no confined command may change, even where they lie in a writable root, are one, or
    /// do not exist yet: the agent's home, whose files start programs outside of the sandbox.
    pub kept: Vec<PathBuf>,
    pub limits_by: LimitsBy,
}

/// Which layer confines commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layer {
    /// Namespaces where they work, else Landlock alone.
    #[default]
    Auto,
    /// Namespaces of its own, with Landlock where the kernel has it.
    Namespaces,
    /// Landlock without namespaces, with a supervisor that answers system calls where that works; see the crate's
    /// documentation.
    Landlock,
    /// Not one: a command that has to be confined is refused, as on a machine where nothing works.
    None,
}

/// A command to start.
#[derive(Clone, Debug)]
pub struct Spawn {
    /// The program, looked up in the `PATH` of `env` when it has no `/`, and its arguments.
    pub argv: Vec<OsString>,
    /// Absolute.
    pub cwd: PathBuf,
    /// True if `cwd` is a real path that was decided about: the command does not start when it
    /// leads elsewhere by then.
    pub cwd_is_real: bool,
    /// The complete environment: nothing is inherited. Its `TMPDIR` is the temporary folder of
    /// [`policy::SandboxPolicy::WorkspaceWrite`].
    pub env: Vec<(OsString, OsString)>,
    pub policy: RootedPolicy,
    /// Folders whose protected names must not change either, where they lie in a writable root:
    /// their files configure later commands.
    pub guarded: Vec<PathBuf>,
    /// Paths of the policy that somebody granted beyond what was chosen: real paths, each of which
    /// permits nothing while it leads elsewhere. See [`crate::Process::lapsed`].
    pub granted: Vec<PathBuf>,
    /// Runs the command on a terminal of this size, which also is its standard input; output and
    /// errors arrive in one stream.
    pub tty: Option<Size>,
    pub stdin: Stdin,
    /// The outputs of a command without a terminal.
    pub outputs: Outputs,
    /// The only way to the network, whatever `policy` allows. Needs a policy that confines.
    pub egress: Option<std::sync::Arc<crate::egress::Egress>>,
    /// Limits of the command.
    pub limits: crate::limits::Limits,
}

/// Standard input of a command without a terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stdin {
    /// Empty.
    #[default]
    Null,
    /// Written with [`crate::Process::write_stdin`].
    Pipe,
}

/// The streams of output of a command without a terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Outputs {
    /// Standard output and standard error are a pipe each. Each keeps its order; what was written to both
    /// arrives in no particular order.
    #[default]
    Separate,
    /// Both are one pipe, and arrive as standard output in the order in which they were written.
    Joined,
}

/// The state of one layer on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerStatus {
    /// `namespaces`, `landlock`, `seccomp`, `control groups`.
    pub layer: &'static str,
    pub usable: bool,
    /// The parts that work, or the reason why the layer does not, with advice.
    pub detail: String,
}

/// The parts of the sandbox that do not work on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Degradation {
    /// For people: which parts do not work, why, and the remedy.
    pub warning: String,
    /// For the author of commands, such as a model: the differences that commands notice, as whole sentences.
    pub for_commands: String,
}

/// The part of this crate that each platform implements: how commands are started and confined. Everything else of
/// this crate works with policies and paths. `docs/platforms.md` describes what macOS and Windows would need.
pub(crate) trait Platform: Sized + Send + Sync {
    /// Does no work.
    fn new(config: Config) -> Self;

    /// Starts a command under its policy, or refuses it: never with less confinement than the policy demands. What the
    /// returned process does is described at [`Process`].
    fn spawn(&self, spawn: Spawn) -> impl Future<Output = Result<Process, Error>> + Send;

    /// Finds out what works on this machine, once.
    fn prepare(&self) -> impl Future<Output = ()> + Send;

    /// See [`crate::Sandbox::degradation`].
    fn degradation(&self) -> impl Future<Output = Option<Degradation>> + Send;

    /// See [`crate::Sandbox::is_known_whole`].
    fn is_known_whole(&self) -> bool;

    /// See [`crate::Sandbox::report`].
    fn report(&self) -> impl Future<Output = Vec<LayerStatus>> + Send;
}
