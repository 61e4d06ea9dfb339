//! Runs commands confined by a permission policy, and changes files within one. Does not know
//! threads, approvals or the protocol.
//!
//! # What is enforced, and by what
//!
//! [`Sandbox::spawn`] starts a command under a [`policy::RootedPolicy`]. On Linux, a confined command runs
//!
//! - in **namespaces** of its own where they can be made: for users, mounts, processes, IPC, the host name and
//!   (network off) the network, without any capability even for root, the file system read-only or only in part,
//!   writable roots writable, their protected names ([`policy::PROTECTED_NAMES`]) read-only. An empty
//!   read-only folder stands for a protected name that does not exist while commands run. Inside of
//!   it, **Landlock** applies as well if the kernel has it: the writable roots are opened before
//!   they are mounted, and nothing else can be written, wherever their names lead by then;
//! - else under **Landlock** (Linux 6.2 or later). By itself it is stricter than a workspace policy: nothing can be
//!   created at the top of a writable root or of `/tmp`, and modes, owners and times cannot be changed. The command's
//!   supervisor answers those system calls and makes the changes that the policy allows; it also enforces permission
//!   profiles and the managed network. Where it cannot answer calls, Landlock alone holds;
//! - else not at all: [`ErrorKind::Unavailable`].
//!
//! Under both, a seccomp filter denies access to other processes' memory, namespaces, mounts,
//! kernel keys, io_uring, typing into terminals, and sockets: all sockets if the network is off,
//! Unix sockets always, because their servers act outside of the sandbox.
//!
//! # What ends when
//!
//! Every command has its own session. It ends with all of its descendants, including daemons, when
//! its [`Process`] is dropped or killed, and when the server ends in any way. The processes of a
//! confined command also end with its first one; under full access, they run until the [`Process`]
//! is dropped.
//!
//! Known limits: under full access, a program of another user (started through `sudo`) cannot be
//! killed, and a process that kills its own supervisor can outlive the command.

#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "no command runs there"))]
pub mod egress;
pub mod env;
mod error;
pub mod files;
mod limits;
mod output;
mod platform;
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "no command runs there"))]
mod process;
mod program;
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "no command runs there"))]
mod protect;
mod pty;
mod real_path;
mod resolved;
pub mod rules;
mod sandbox;
mod utf8;

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
mod pump;
#[cfg(target_os = "linux")]
mod supervise;

pub use error::{Error, ErrorKind};
pub use limits::{
    Exceeded, Group, GroupLimits, Limits, LimitsBy, Resource, Scope, UsageLimits, machine_memory,
};
pub use output::{DEFAULT_OUTPUT_CAP, OutputBuffer};
pub use platform::PLATFORM_READABLE;
pub use process::{CHUNK_BYTES, Chunk, Control, Exit, LINGER, OUTPUT_CHUNKS, Process, Stream};
pub use program::{SUPERVISE_ARGUMENT, THIS_PROGRAM, find_program};
pub use pty::Size;
pub use resolved::Resolved;
pub use sandbox::{Config, Degradation, Layer, LayerStatus, Outputs, Sandbox, Spawn, Stdin};
#[cfg(target_os = "linux")]
pub use supervise::supervisor_main;
pub use utf8::Utf8Stream;
