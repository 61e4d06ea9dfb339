//! The command to assess, and its context.

use std::path::Path;

use super::resolver::Resolver;

/// The context of a command.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The absolute path of its working folder.
    pub cwd: &'a Path,
    /// Finds programs.
    pub resolver: &'a dyn Resolver,
}

/// The command to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invocation<'a> {
    /// A script for the user's shell.
    Script(&'a str),
    /// A program and its arguments; the script of a shell with `-c` or `-lc` is assessed.
    Argv(&'a [String]),
}
