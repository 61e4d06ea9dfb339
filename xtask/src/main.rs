//! Developer tasks: `cargo xtask --help` lists them. They are not part of the product, so unlike the
//! crates they may start programs and print. Tasks that need crates of the product are those of `tools`,
//! which is built when one of them is wanted: this program compiles in seconds.
#![allow(clippy::disallowed_methods, clippy::print_stdout, clippy::print_stderr)]

mod fuzz;
mod must_not_compile;
mod recipes;
mod slow_checks;
mod soak;
mod test;
mod tidy;
mod tools;
mod walkthrough;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use xtask::workspace_root;

/// Developer tasks of agentd.
#[derive(Parser)]
#[command(name = "xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Run everything that a change must pass: lints, tidy, generated files, tests
    Test(test::Options),
    /// Run what takes minutes more: walk-throughs, code that must not compile, fuzzing
    SlowChecks,
    /// Check the rules that no compiler checks
    Tidy {
        /// Only list the files of each crate that import each other
        #[arg(long)]
        imports: bool,
    },
    /// Apply the walk-throughs of CONTRIBUTING.md to a copy of the checkout, and compile it
    Walkthrough,
    /// Run the recipes of docs/ and compare their output with what they show
    Recipes(recipes::Options),
    /// Compile code that the compiler must refuse
    MustNotCompile,
    /// Run the fuzz targets
    Fuzz(fuzz::Options),
    /// Run tests at a size that takes minutes: a job of 1,000 rows whose server is killed ten times
    Soak,
    /// Rewrite the generated files
    #[command(disable_help_flag = true)]
    Generate(tools::Arguments),
    /// Rewrite the page that names tests of each method, from a run of the server's tests
    #[command(disable_help_flag = true)]
    ProtocolStatus(tools::Arguments),
    /// Record the examples of the protocol reference again, in a run of the server's tests
    #[command(disable_help_flag = true)]
    Examples(tools::Arguments),
    /// Run the tests of keys of the configuration, each with its key ignored: they must fail
    #[command(disable_help_flag = true)]
    Effects(tools::Arguments),
    /// Build the site of docs/ into target/book
    #[command(disable_help_flag = true)]
    Book(tools::Arguments),
    /// Add many stored threads, or a very long one, to a home folder
    #[command(disable_help_flag = true)]
    Fill(tools::Arguments),
    /// Measure a server of this protocol, or the gateway, against others
    #[command(disable_help_flag = true)]
    Bench(tools::Arguments),
    /// Record `agentd demo` as the picture of the README
    #[command(disable_help_flag = true)]
    Recording(tools::Arguments),
    /// Run other people's programs against this one
    #[command(disable_help_flag = true)]
    Interop(tools::Arguments),
    /// Build what users install: wheels, packages for npm and Debian, a tarball, an image, the SBOM
    #[command(disable_help_flag = true)]
    Package(tools::Arguments),
}

fn main() -> ExitCode {
    let root = workspace_root();
    let outcome = match Arguments::parse().task {
        Task::Test(options) => return test::run(&root, &options),
        Task::SlowChecks => return slow_checks::run(&root),
        Task::Soak => return soak::run(&root),
        Task::Tidy { imports: false } => tidy::run(&root),
        Task::Tidy { imports: true } => tidy::imports(&root),
        Task::Walkthrough => walkthrough::run(&root),
        Task::Recipes(options) => recipes::run(&root, &options),
        Task::MustNotCompile => must_not_compile::run(&root),
        Task::Fuzz(options) => fuzz::run(&root, &options),
        Task::Generate(arguments) => tools::run(&root, "generate", &arguments),
        Task::ProtocolStatus(arguments) => tools::run(&root, "protocol-status", &arguments),
        Task::Examples(arguments) => tools::run(&root, "examples", &arguments),
        Task::Effects(arguments) => tools::run(&root, "effects", &arguments),
        Task::Book(arguments) => tools::run(&root, "book", &arguments),
        Task::Fill(arguments) => tools::run(&root, "fill", &arguments),
        Task::Bench(arguments) => tools::run(&root, "bench", &arguments),
        Task::Recording(arguments) => tools::run(&root, "recording", &arguments),
        Task::Interop(arguments) => tools::run(&root, "interop", &arguments),
        Task::Package(arguments) => tools::run(&root, "package", &arguments),
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
