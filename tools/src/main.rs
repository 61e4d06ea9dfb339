//! Developer tasks that use crates of the product or run for minutes: generated files, benchmarks, packages,
//! other people's programs. `cargo xtask` builds this program when one of them is wanted. They are not part of
//! the product, so unlike the crates they may start programs and print.
#![allow(clippy::disallowed_methods, clippy::print_stdout, clippy::print_stderr)]

mod bench;
mod book;
mod effects;
mod examples;
mod fill;
mod generate;
mod interop;
mod link_order;
mod package;
mod protocol_status;
mod recording;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use xtask::notes::Notes;
use xtask::workspace_root;

/// Developer tasks of agentd.
#[derive(Parser)]
#[command(name = "tools", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Rewrite the generated files
    Generate {
        /// Only compare them with their source
        #[arg(long)]
        check: bool,
    },
    /// Rewrite the page that names tests of each method, from a run of the server's tests
    ProtocolStatus {
        /// Use what an earlier `cargo xtask test` left in target/answered-methods
        #[arg(long, value_name = "FILE")]
        notes: Option<PathBuf>,
    },
    /// Record the examples of the protocol reference again, in a run of the server's tests
    Examples {
        /// Use what an earlier `cargo xtask test` left in target/recorded-messages
        #[arg(long, value_name = "FILE")]
        notes: Option<PathBuf>,
    },
    /// Compare what a run of all tests left in target/ with the pages and examples that are made of it
    CheckNotes,
    /// Run the tests of keys of the configuration, each with its key ignored: they must fail
    Effects(effects::Options),
    /// Build the site of docs/ into target/book
    Book,
    /// Add many stored threads, or a very long one, to a home folder
    Fill(fill::Options),
    /// Measure a server of this protocol, or the gateway, against others
    Bench(Box<bench::Arguments>),
    /// Record `agentd demo` and the terminal at work as pictures; needs tmux
    Recording,
    /// Run other people's programs against this one
    Interop(interop::Options),
    /// Build what users install: wheels, packages for npm, Debian and RPM, a tarball, an image, the SBOMs
    Package(package::Options),
}

fn main() -> ExitCode {
    let root = workspace_root();
    let outcome = match Arguments::parse().task {
        Task::Interop(options) => return interop::run(&root, &options),
        Task::Generate { check: false } => generate::write(&root),
        Task::Generate { check: true } => generate::check(&root),
        Task::Recording => recording::run(&root),
        Task::Package(options) => package::run(&root, &options),
        Task::ProtocolStatus { notes } => protocol_status::write(&root, notes),
        Task::Examples { notes } => {
            examples::write(&root, notes).and_then(|()| generate::write(&root))
        }
        Task::CheckNotes => {
            let notes = Notes::of_last_run(&root);
            protocol_status::check(&root, &notes.answers)
                .and_then(|()| examples::check_recorded(&root, &notes.messages))
        }
        Task::Effects(options) => effects::run(&root, &options),
        Task::Book => book::run(&root),
        Task::Fill(options) => fill::run(&options),
        Task::Bench(arguments) => bench::run(&root, *arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
