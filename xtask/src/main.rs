//! Developer tasks: `cargo xtask --help` lists them. They are not part of the product, so unlike the
//! crates they may start programs and print.
#![allow(clippy::disallowed_methods, clippy::print_stdout, clippy::print_stderr)]

mod bench;
mod book;
mod examples;
mod fill;
mod fuzz;
mod generate;
mod interop;
mod link_order;
mod markdown;
mod must_not_compile;
mod notes;
mod package;
mod protocol_status;
mod recipes;
mod recording;
mod soak;
mod steps;
mod test;
mod tidy;
mod walkthrough;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Developer tasks of agentd.
#[derive(Parser)]
#[command(name = "xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Run everything that a change must pass: format, lints, tidy, generated files, tests
    Test,
    /// Check the rules that no compiler checks
    Tidy {
        /// Only list the files of each crate that import each other
        #[arg(long)]
        imports: bool,
    },
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
    /// Build the site of docs/ into target/book
    Book,
    /// Apply the walk-throughs of CONTRIBUTING.md to a copy of the checkout, and compile it
    Walkthrough,
    /// Run the recipes of docs/ and compare their output with what they show
    Recipes(recipes::Options),
    /// Compile code that the compiler must refuse
    MustNotCompile,
    /// Run the fuzz targets
    Fuzz(fuzz::Options),
    /// Add many stored threads, or a very long one, to a home folder
    Fill(fill::Options),
    /// Measure a server of this protocol, or the gateway, against others
    Bench(Box<bench::Arguments>),
    /// List the functions that a start runs, for the linker
    LinkOrder,
    /// Record `agentd demo` as the picture of the README
    Recording,
    /// Run other people's programs against this one
    Interop(interop::Options),
    /// Build what users install: wheels, packages for npm and Debian, a tarball, an image, the SBOM
    Package(package::Options),
    /// Run tests at a size that takes minutes: a job of 1,000 rows whose server is killed ten times
    Soak,
}

fn main() -> ExitCode {
    let root = workspace_root();
    let outcome = match Arguments::parse().task {
        Task::Test => return test::run(&root),
        Task::Soak => return soak::run(&root),
        Task::Interop(options) => return interop::run(&root, &options),
        Task::Tidy { imports: false } => tidy::run(&root),
        Task::Tidy { imports: true } => tidy::imports(&root),
        Task::Generate { check: false } => generate::write(&root),
        Task::Generate { check: true } => generate::check(&root),
        Task::LinkOrder => link_order::run(&root),
        Task::Recording => recording::run(&root),
        Task::Package(options) => package::run(&root, &options),
        Task::ProtocolStatus { notes } => protocol_status::write(&root, notes),
        Task::Examples { notes } => {
            examples::write(&root, notes).and_then(|()| generate::write(&root))
        }
        Task::Book => book::run(&root),
        Task::Walkthrough => walkthrough::run(&root),
        Task::Recipes(options) => recipes::run(&root, &options),
        Task::MustNotCompile => must_not_compile::run(&root),
        Task::Fuzz(options) => fuzz::run(&root, &options),
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

/// The root of the checkout. Cargo sets the variable at run time; the path from compile time is the
/// fallback for a binary that is started by hand.
fn workspace_root() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    package.parent().map_or_else(|| package.clone(), Path::to_owned)
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
