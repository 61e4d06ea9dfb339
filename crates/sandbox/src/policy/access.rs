//! The grants of a policy, in the terms that every part of this crate shares.

use std::path::PathBuf;

/// Names that stay read-only at the top of every writable root, in any letter case: they hold
/// configuration that makes other programs run code.
pub const PROTECTED_NAMES: [&str; 2] = [".git", ".agent"];

/// The access that a rule of [`Policy::Profile`] grants, the strictest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// Can be neither read nor created.
    None,
    Read,
    /// Can be read and written, except the protected names in it that no rule spells.
    Write,
}

/// The files that a confined command can read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ReadAccess {
    /// Every file the user can read.
    #[default]
    Full,
    /// The listed roots, the writable roots and, on request, what the system's programs need to
    /// run ([`PLATFORM_READABLE`]).
    Restricted { include_platform_defaults: bool, readable_roots: Vec<PathBuf> },
}

/// The files that `include_platform_defaults` adds to restricted reads: programs, libraries and the
/// configuration that they need. Not all of `/etc`, which holds secrets.
pub const PLATFORM_READABLE: [&str; 33] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/run/current-system/sw",
    "/etc/alternatives",
    "/etc/bash.bashrc",
    "/etc/ca-certificates",
    "/etc/ca-certificates.conf",
    "/etc/fonts",
    "/etc/group",
    "/etc/host.conf",
    "/etc/hostname",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/locale.alias",
    "/etc/localtime",
    "/etc/login.defs",
    "/etc/nsswitch.conf",
    "/etc/os-release",
    "/etc/passwd",
    "/etc/pki",
    "/etc/profile",
    "/etc/profile.d",
    "/etc/resolv.conf",
    "/etc/ssl",
    "/etc/terminfo",
];
