//! The Linux-specific part: the layers that confine a command, and their system calls.

pub(crate) mod bubblewrap;
pub(crate) mod detect;
pub(crate) mod landlock;
pub(crate) mod seccomp;
pub(crate) mod sys;
