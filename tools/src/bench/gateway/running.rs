//! Processes of a measurement, each on its assigned cores. They end with the measurement, however it
//! ends.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_setaffinity};
use tempfile::NamedTempFile;

/// The cores that a process may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cores {
    One(usize),
    All,
}

impl std::fmt::Display for Cores {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Cores::One(core) => core.fmt(f),
            Cores::All => f.write_str(ALL_CORES),
        }
    }
}

impl std::str::FromStr for Cores {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == ALL_CORES { Ok(Cores::All) } else { text.parse().map(Cores::One) }
    }
}

const ALL_CORES: &str = "all";

/// A started process, which is killed on drop.
pub(crate) struct Running {
    child: Child,
    lines: Receiver<String>,
    errors: NamedTempFile,
    began: Instant,
}

/// Starts programs through the `dist` build of this one: see [`become_pinned`].
pub(crate) struct Starter {
    pub(crate) parts: PathBuf,
}

/// The subcommand with the parts in [`Part`].
const PART: &str = "gateway-part";

/// A process of a measurement. Structured values are passed as JSON.
#[derive(clap::Subcommand)]
pub(crate) enum Part {
    /// Serves as the upstream
    Upstream { pace: String },
    /// Puts load on a contestant, and prints what it measured
    Load { load: String },
    /// Becomes another program, on the given cores
    Pinned {
        cores: Cores,
        program: PathBuf,
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
}

impl Starter {
    /// Starts a part of the benchmark itself.
    pub(crate) fn part(&self, cores: Cores, name: &str, arguments: &str) -> Result<Running> {
        self.start(cores, Command::new(&self.parts).args(["bench", PART, name, arguments]))
    }

    /// Starts a program with its arguments and environment on the given cores.
    pub(crate) fn start(&self, cores: Cores, command: &Command) -> Result<Running> {
        let errors = NamedTempFile::new().context("a file for its standard error")?;
        let mut pinned = Command::new(&self.parts);
        pinned.args(["bench", PART, "pinned", &cores.to_string()]);
        pinned.arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => pinned.env(name, value),
                None => pinned.env_remove(name),
            };
        }
        if let Some(folder) = command.get_current_dir() {
            pinned.current_dir(folder);
        }
        let began = Instant::now();
        let mut child = pinned
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(errors.reopen()?)
            .spawn()
            .with_context(|| self.parts.display().to_string())?;
        let output = child.stdout.take().context("its output")?;
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                // The receiver may be gone, but the pipe must still be drained.
                let _ = sender.send(line);
            }
        });
        Ok(Running { child, lines, errors, began })
    }
}

impl Running {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the next line on standard output that `wanted` accepts; returns its value and the
    /// time since the start.
    pub(crate) fn line<T>(
        &mut self,
        patience: Duration,
        wanted: impl Fn(&str) -> Option<T>,
    ) -> Result<(T, Duration)> {
        let deadline = Instant::now() + patience;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => {
                    if let Some(found) = wanted(&line) {
                        return Ok((found, self.began.elapsed()));
                    }
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    bail!(
                        "the expected output did not appear within {patience:?}; {}",
                        self.last_words()
                    );
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    let status = self.child.wait()?;
                    bail!("it ended with {status}; {}", self.last_words());
                }
            }
        }
    }

    /// Returns an error if the process has exited, which none should do by itself.
    pub(crate) fn still_runs(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => Err(anyhow!("it ended with {status}; {}", self.last_words())),
        }
    }

    /// Asks the process to exit and waits until it has.
    pub(crate) fn end(&mut self, patience: Duration) -> Result<()> {
        rustix::process::kill_process(Pid::from_child(&self.child), Signal::TERM)?;
        let deadline = Instant::now() + patience;
        while self.child.try_wait()?.is_none() {
            if Instant::now() > deadline {
                bail!("it did not end within {patience:?}; {}", self.last_words());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    fn last_words(&self) -> String {
        let text = std::fs::read(self.errors.path()).unwrap_or_default();
        let tail = &text[text.len().saturating_sub(2000)..];
        format!("its standard error ends: {}", String::from_utf8_lossy(tail).trim())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The process may already have exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Replaces this process by the program, on these cores, with the most open files allowed. The
/// program is killed when the process that started it ends.
pub(crate) fn become_pinned(cores: Cores, program: &Path, arguments: &[OsString]) -> Result<()> {
    if let Cores::One(core) = cores {
        let mut set = CpuSet::new();
        set.set(core);
        sched_setaffinity(None, &set).with_context(|| format!("core {core}"))?;
    }
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    allow_files()?;
    let error = Command::new(program).args(arguments).exec();
    Err(error).with_context(|| program.display().to_string())
}

/// Open files of a proxy that are no streams.
const OTHER_FILES: u64 = 200;

/// Allows this process and what it starts as many open files as ten thousand streams need, or as many as it may have.
/// Returns the number of streams that a proxy can hold then, at two files a stream.
pub(crate) fn allow_files() -> Result<usize> {
    const WANTED: Rlimit = Rlimit { current: Some(65_536), maximum: Some(65_536) };
    let files = getrlimit(Resource::Nofile);
    if files.maximum.is_none_or(|most| most >= 65_536)
        || setrlimit(Resource::Nofile, WANTED).is_err()
    {
        setrlimit(Resource::Nofile, Rlimit { current: files.maximum, ..files })?;
    }
    let allowed = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    Ok(usize::try_from(allowed.saturating_sub(OTHER_FILES) / 2).unwrap_or(usize::MAX))
}
