//! Developer tasks: `cargo xtask test | tidy | generate | fuzz | fill | bench | interop`. Not part of the product;
//! it may start programs and print, which the crates may not.
#![allow(clippy::disallowed_methods, clippy::print_stdout, clippy::print_stderr)]

mod bench;
mod fill;
mod fuzz;
mod generate;
mod interop;
mod steps;
mod test;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask <task>

  test                  everything a change must pass: format, lints, tidy, generated files, tests
  tidy                  the rules of the code that no compiler checks
  tidy --imports        the files of each crate that import each other
  generate [--check]    rewrite the generated files (--check: compare only)
  fuzz [TARGET] [--seconds N]  run the fuzz targets, each for a minute
  fill HOME [options]   add many stored threads, or a very long one, to a home
  bench [options]       measure a server of this protocol; `cargo xtask bench --help` lists options
  bench gateway [options]  measure the gateway beside nginx and LiteLLM; `--help` lists options
  interop [options]     run other people's programs against this one: the official clients, …";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let root = workspace_root();
    let outcome = match arguments.as_slice() {
        ["test"] => return test::run(&root),
        ["interop", options @ ..] => return interop::run(&root, options),
        ["tidy"] => tidy::run(&root),
        ["tidy", "--imports"] => tidy::imports(&root),
        ["generate"] => generate::write(&root),
        ["generate", "--check"] => generate::check(&root),
        ["fuzz", options @ ..] => fuzz::run(&root, options),
        ["fill", options @ ..] => fill::run(options),
        ["bench", options @ ..] => bench::run(&root, options),
        [] | ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            Ok(())
        }
        other => Err(anyhow::anyhow!("no such task: {}\n\n{USAGE}", other.join(" "))),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The checkout that is worked on. Cargo says where at run time; the path that was compiled in is
/// only right for a binary started by hand.
fn workspace_root() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    package.parent().map_or_else(|| package.clone(), Path::to_owned)
}
