//! The tasks of the package `tools`: built as the tests build it, so that nothing is compiled twice, then run.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow};
use xtask::checkout::target;
use xtask::steps::{PROGRAM_SCOPE, Program};

/// Arguments that `tools` parses.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    arguments: Vec<OsString>,
}

/// Builds `tools`, and becomes it.
pub(crate) fn run(root: &Path, task: &str, arguments: &Arguments) -> Result<()> {
    let build = [&["build", "--quiet", "--locked", "--bin", "tools"][..], &PROGRAM_SCOPE].concat();
    let built = Program::linted(root, &build).succeed("fix the compiler errors above");
    built.map_err(|failed| anyhow!(failed.message))?;
    let program = program(root);
    let error = Command::new(&program).arg(task).args(&arguments.arguments).exec();
    Err(error).with_context(|| format!("cannot start {}", program.display()))
}

/// The program, which a build of the workspace makes.
pub(crate) fn program(root: &Path) -> PathBuf {
    target(root).join("debug/tools")
}
