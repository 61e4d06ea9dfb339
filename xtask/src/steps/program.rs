//! Programs that steps start: their output is passed on as it comes and, where it is to be read,
//! also kept.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, anyhow, ensure};

use super::counts::Counts;
use super::{Done, Failed, Outcome};

/// A command line to be run with nothing on its standard input.
pub struct Program {
    command: Command,
    shown: String,
}

impl Program {
    /// Cargo itself, the one that runs this program, in the checkout.
    pub fn cargo(root: &Path, arguments: &[&str]) -> Program {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut program = Program::new(cargo, arguments);
        program.shown = format!("cargo {}", arguments.join(" "));
        program.command.current_dir(root);
        // What `cargo run` set for this program would make every build script run again.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("CARGO_PKG_") || name == "CARGO_MANIFEST_DIR" {
                program.command.env_remove(name);
            }
        }
        program
    }

    /// Cargo with clippy in place of the compiler of the workspace's crates: one compile gives code and lints, and
    /// a finding fails it. What the test command builds is built this way alone, else it would be compiled
    /// twice. Where there is no clippy, the compiler is the usual one.
    pub fn linted(root: &Path, arguments: &[&str]) -> Program {
        let program = Program::cargo(root, arguments);
        match Program::clippy_driver() {
            // As `cargo clippy -- -D warnings` sets them.
            Ok(driver) => program
                .env("RUSTC_WORKSPACE_WRAPPER", &driver.to_string_lossy())
                .env("CLIPPY_ARGS", "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__"),
            Err(_) => program,
        }
    }

    /// Clippy as a compiler, in the toolchain of the `rustc` that cargo uses.
    ///
    /// # Errors
    /// Clippy is not installed.
    pub fn clippy_driver() -> Result<PathBuf> {
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let output = Command::new(&rustc)
            .args(["--print", "sysroot"])
            .output()
            .with_context(|| format!("cannot start {}", rustc.display()))?;
        let sysroot = String::from_utf8(output.stdout).context("the path of the toolchain")?;
        let driver = Path::new(sysroot.trim()).join("bin/clippy-driver");
        ensure!(
            driver.is_file(),
            "{} is missing: install clippy with `rustup component add clippy`",
            driver.display()
        );
        Ok(driver)
    }

    pub fn new(name: impl AsRef<std::ffi::OsStr>, arguments: &[&str]) -> Program {
        let mut command = Command::new(&name);
        command.args(arguments).stdin(Stdio::null());
        let shown = format!("{} {}", name.as_ref().to_string_lossy(), arguments.join(" "));
        Program { command, shown }
    }

    /// Returns whether a program of that name is on the path.
    pub fn exists(name: &str) -> bool {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
    }

    pub fn folder(mut self, folder: &Path) -> Program {
        self.command.current_dir(folder);
        self
    }

    pub fn env(mut self, name: &str, value: &str) -> Program {
        self.command.env(name, value);
        self
    }

    /// Runs it; `remedy` is what to do when it fails.
    pub fn succeed(mut self, remedy: &str) -> Outcome {
        println!("$ {}", self.shown);
        let status =
            self.command.status().with_context(|| format!("cannot start `{}`", self.shown))?;
        if !status.success() {
            return Err(anyhow!("`{}` failed ({status}): {remedy}", self.shown).into());
        }
        Ok(Done::Passed)
    }

    /// Runs it and returns its standard error, whether it succeeds or not.
    pub fn stderr(mut self) -> Result<String> {
        println!("$ {}", self.shown);
        let output =
            self.command.output().with_context(|| format!("cannot start `{}`", self.shown))?;
        Ok(String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// Runs it and returns its standard output. Its standard error is passed on.
    ///
    /// # Errors
    /// It cannot be started, or fails.
    pub fn stdout(mut self) -> Result<String> {
        println!("$ {}", self.shown);
        let output = self.command.stderr(Stdio::inherit()).output();
        let output = output.with_context(|| format!("cannot start `{}`", self.shown))?;
        ensure!(output.status.success(), "`{}` failed ({})", self.shown, output.status);
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Runs tests and counts them with `read`, which sees everything that was printed.
    pub fn run_tests(mut self, read: fn(&str) -> Option<Counts>) -> Outcome {
        println!("$ {}", self.shown);
        let mut child = self
            .command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start `{}`", self.shown))?;
        let stderr = child.stderr.take();
        let from_stderr = std::thread::spawn(move || pass_on(stderr, std::io::stderr()));
        let mut output = pass_on(child.stdout.take(), std::io::stdout());
        output.push_str(&from_stderr.join().unwrap_or_default());
        let status = child.wait().context("waiting for the tests")?;
        match (read(&output), status.success()) {
            (Some(counts), true) if counts.failed == 0 => Ok(Done::Tests(counts)),
            (None, true) => Ok(Done::Tests(Counts::default())),
            (counts, _) => Err(Failed {
                message: format!("`{}` failed ({status}): see the tests above", self.shown),
                counts: counts.unwrap_or_default(),
            }),
        }
    }
}

/// Copies line by line, and keeps the lines that hold numbers of tests: the rest may be long.
fn pass_on(from: Option<impl Read>, mut to: impl Write) -> String {
    let mut kept = String::new();
    let Some(from) = from else { return kept };
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
        // A closed terminal does not stop the tests; their result is in the exit code.
        let _ = to.write_all(&line);
        let text = String::from_utf8_lossy(&line);
        if text.contains("Summary") || text.contains("test result: ") {
            kept.push_str(&text);
        }
        line.clear();
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_passed_on_and_summaries_are_kept() {
        let mut seen = Vec::new();
        let text = "compiling\ntest result: ok. 1 passed\nbye";
        let kept = pass_on(Some(text.as_bytes()), &mut seen);
        assert_eq!(seen, text.as_bytes());
        assert_eq!(kept, "test result: ok. 1 passed\n");
    }
}
