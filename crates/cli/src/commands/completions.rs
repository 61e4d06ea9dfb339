//! `agentd completions` and `agentd manual`: what a shell and `man` know of the command line. Packages
//! install their output.

use std::io::{BufWriter, Write};
use std::process::ExitCode;

use clap_complete::Shell;

use crate::commands::output;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Writes the completions of a shell to standard output.
pub(crate) fn completions(
    arguments: &Arguments,
    mut command: clap::Command,
) -> anyhow::Result<ExitCode> {
    let name = command.get_name().to_owned();
    // Not to standard output at once: the library panics when that is closed.
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, name, &mut script);
    let mut out = output::stdout();
    out.write_all(&script)?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the manual page, in roff, to standard output: the program, then each subcommand.
pub(crate) fn manual(command: clap::Command) -> anyhow::Result<ExitCode> {
    let mut out = BufWriter::new(output::stdout());
    clap_mangen::Man::new(command.clone()).render(&mut out)?;
    for subcommand in command.get_subcommands() {
        let name = format!("{} {}", command.get_name(), subcommand.get_name());
        let man = clap_mangen::Man::new(subcommand.clone().name(name));
        man.render_synopsis_section(&mut out)?;
        man.render_description_section(&mut out)?;
        man.render_options_section(&mut out)?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
