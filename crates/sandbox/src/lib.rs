//! Runs commands confined by a permission policy, and changes files within one. Knows nothing of
//! threads, approvals or the wire.
//!
//! # What is enforced, and by what
//!
//! [`Sandbox::spawn`] starts a command under a [`Policy`]. On Linux, a confined command runs
//!
//! - under **bubblewrap** where it works: user, process, IPC, host name and (network off) network
//!   namespaces of its own, no capability even for root, the file system read-only or only in
//!   part, writable roots writable, their protected names ([`PROTECTED_NAMES`]) not. A protected
//!   name that does not exist is represented by an empty read-only folder while commands run.
//!   Within it, where the kernel has it, **Landlock** again: the writable roots are opened before
//!   bubblewrap mounts them by their names, and nothing else can be written, whatever the names
//!   lead to by then;
//! - else under **Landlock** (Linux 6.2 or later), which enforces read-only policies completely
//!   and workspace policies more strictly than they ask: nothing new can be created at the top of
//!   a writable root, nor in `/tmp` itself, and modes, owners and times cannot be changed;
//! - else not at all: [`ErrorKind::Unavailable`].
//!
//! Under both, a seccomp filter takes away other processes' memory, namespaces, mounts, kernel
//! keys, io_uring, typing into terminals, and sockets: all of them with the network off, Unix
//! sockets in any case, because whoever listens at one acts outside of the sandbox.
//!
//! # What ends when
//!
//! Every command has a session of its own and ends, with everything it started, also what made
//! itself independent, when its [`Process`] is dropped or killed and when the server ends, however
//! that ends. A confined command's processes also end with its first one; under full access, what
//! the first process left running goes on until the [`Process`] is dropped.
//!
//! Known limits: under full access, a program of another user (started through `sudo`) cannot be
//! killed by us, and a process that kills its own supervisor can outlive the command.

#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "no command runs there"))]
pub mod egress;
pub mod env;
mod error;
pub mod files;
mod output;
mod policy;
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "no command runs there"))]
mod process;
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "no command runs there"))]
mod protect;
mod pty;
mod real_path;
pub mod rules;
mod sandbox;
mod utf8;

#[cfg(target_os = "linux")]
mod lead;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
mod pump;
#[cfg(target_os = "linux")]
mod supervise;

pub use error::{Error, ErrorKind};
pub use output::{DEFAULT_OUTPUT_CAP, OutputBuffer};
pub use policy::{
    Access, PLATFORM_READABLE, PROTECTED_NAMES, Policy, ReadAccess, Resolved, WritableRoot,
};
pub use process::{CHUNK_BYTES, Chunk, Control, Exit, LINGER, OUTPUT_CHUNKS, Process, Stream};
pub use pty::Size;
pub use sandbox::{
    Config, Layer, LayerStatus, SUPERVISE_ARGUMENT, Sandbox, Spawn, Stdin, THIS_PROGRAM,
    find_program,
};
#[cfg(target_os = "linux")]
pub use supervise::supervisor_main;
pub use utf8::Utf8Stream;
