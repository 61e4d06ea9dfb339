//! The Linux-specific part: the layers that confine a command, and their system calls.

pub(crate) mod capabilities;
pub(crate) mod cgroup;
pub(crate) mod detect;
pub(crate) mod landlock;
pub(crate) mod limit_calls;
pub(crate) mod mount_calls;
pub(crate) mod mounts;
pub(crate) mod notify;
pub(crate) mod seccomp;
pub(crate) mod sys;
pub(crate) mod view;
