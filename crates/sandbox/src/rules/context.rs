//! What is judged, and where it is to run.

use std::path::Path;

use super::resolver::Resolver;

/// Where a command is to run.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The folder that it starts in, absolute.
    pub cwd: &'a Path,
    /// How programs are found.
    pub resolver: &'a dyn Resolver,
}

/// What is to be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invocation<'a> {
    /// A script for the person's shell.
    Script(&'a str),
    /// A program and its arguments; a shell with `-c` or `-lc` is looked into.
    Argv(&'a [String]),
}
