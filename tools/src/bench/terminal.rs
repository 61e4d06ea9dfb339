//! The terminal program on a pseudo-terminal of 120 × 40 that answers queries: how soon it is there, what it
//! holds and uses at rest, how soon a key is on the screen, and what streamed text costs.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use tempfile::TempDir;

use super::model_server::Script;
use super::process;
use super::report::{Figure, median, megabytes, milliseconds};
use super::scenario::Scenario;
use super::target::{Run, config};
use crate::fill::{self, Fill};

pub(crate) const SCENARIO: Scenario =
    Scenario { name: "terminal", script: Script::Deltas { count: 1, delay_ms: 0 }, measure };

/// 1,000 deltas, 10 ms apart.
pub(crate) const STREAM: Scenario = Scenario {
    name: "terminal_stream",
    script: Script::Deltas { count: 1_000, delay_ms: 10 },
    measure: stream,
};

/// 20,000 deltas at once.
pub(crate) const BURST: Scenario = Scenario {
    name: "terminal_burst",
    script: Script::Deltas { count: 20_000, delay_ms: 0 },
    measure: burst,
};

/// The list of `agentd resume` over 100,000 threads.
pub(crate) const PICKER: Scenario = Scenario {
    name: "terminal_picker",
    script: Script::Deltas { count: 1, delay_ms: 0 },
    measure: picker,
};

const COLUMNS: u16 = 120;
const ROWS: u16 = 40;
/// The appearance of the composer's prompt.
pub(crate) const PROMPT: &str = "›";
/// The turns of a thread of 5,000 items.
const LONG_TURNS: usize = 2_500;
const KEYS: usize = 100;
const THREADS: u64 = 100_000;
/// Time without drawing after which a list is complete.
const QUIET: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_secs(60);

fn measure(run: &Run<'_>) -> Result<Vec<Figure>> {
    let mut starts = Vec::new();
    for _ in 0..run.repeats.min(10) {
        let mut terminal = Terminal::start(run, &[])?;
        terminal.wait_for(PROMPT)?;
        starts.push(milliseconds(terminal.started.elapsed()));
    }
    let mut terminal = Terminal::start(run, &[])?;
    terminal.wait_for(PROMPT)?;
    terminal.settle(Duration::from_secs(1))?;
    let resident = megabytes(process::resident(terminal.pid())?);
    let (cpu, bytes) = (process::cpu(terminal.pid())?, terminal.bytes);
    terminal.settle_for(Duration::from_secs(10))?;
    let idle = process::cpu(terminal.pid())?.saturating_sub(cpu);
    let idle_bytes = terminal.bytes - bytes;
    let floor = Keys::measure(&mut Terminal::echo()?)?;
    let keys = Keys::measure(&mut terminal)?;
    drop(terminal);
    let mut figures = vec![
        row("terminal: process start to the composer on the screen", median(starts), "ms", 20.0),
        row("terminal: resident memory, idle, with the server", resident, "MB", 25.0),
        row("terminal: CPU in 10 s idle", milliseconds(idle), "ms", 5.0),
        row("terminal: bytes in 10 s idle", idle_bytes as f64, "", 0.0),
        row(
            "terminal: key to screen above the floor, median",
            keys.median - floor.median,
            "ms",
            2.0,
        ),
        row(
            "terminal: key to screen above the floor, slowest",
            keys.most - floor.median,
            "ms",
            6.0,
        ),
    ];
    if run.target.is_own() {
        let long = long_thread(run)?;
        let what = "terminal: resident memory after a thread of 5,000 items";
        figures.push(row(what, long, "MB", 40.0));
    }
    Ok(figures)
}

fn stream(run: &Run<'_>) -> Result<Vec<Figure>> {
    let mut terminal = Terminal::ready(run)?;
    terminal.write_message("go")?;
    let (cpu, bytes) = (process::cpu(terminal.pid())?, terminal.bytes);
    terminal.send(b"\r")?;
    terminal.settle(Duration::from_secs(2))?;
    let cpu = process::cpu(terminal.pid())?.saturating_sub(cpu);
    let bytes = terminal.bytes - bytes;
    ensure!(bytes > 5_000, "the text did not arrive: {bytes} bytes");
    let floor = Keys::measure(&mut Terminal::echo()?)?;
    terminal.write_message("again")?;
    terminal.send(b"\r")?;
    terminal.settle_for(Duration::from_secs(1))?;
    let keys = Keys::measure(&mut terminal)?;
    Ok(vec![
        row(
            "terminal: CPU for 1,000 deltas 10 ms apart, with the server",
            cpu.as_secs_f64(),
            "s",
            0.15,
        ),
        row("terminal: bytes for them", bytes as f64 / 1e3, "kB", 40.0),
        row(
            "terminal: key to screen while streaming, median",
            keys.median - floor.median,
            "ms",
            4.0,
        ),
        row(
            "terminal: key to screen while streaming, slowest",
            keys.most - floor.median,
            "ms",
            10.0,
        ),
    ])
}

fn burst(run: &Run<'_>) -> Result<Vec<Figure>> {
    let mut terminal = Terminal::ready(run)?;
    terminal.write_message("go")?;
    let (cpu, seen) = (process::cpu(terminal.pid())?, terminal.output.len());
    let begun = Instant::now();
    terminal.send(b"\r")?;
    let last = terminal.settle(Duration::from_secs(2))?;
    let cpu = process::cpu(terminal.pid())?.saturating_sub(cpu);
    let words = terminal.output[seen..].windows(4).filter(|it| it == b"word").count();
    // Another program may not draw all of them.
    ensure!(words >= 20_000 || !run.target.is_own(), "only {words} of 20,000 words were drawn");
    Ok(vec![
        row(
            "terminal: 20,000 deltas at once, until they are drawn",
            (last - begun).as_secs_f64(),
            "s",
            0.5,
        ),
        row("terminal: CPU for them, with the server", cpu.as_secs_f64(), "s", 0.3),
        Figure {
            what: "terminal: words of them on the screen",
            value: words as f64,
            unit: "",
            goal: None,
        },
    ])
}

fn picker(run: &Run<'_>) -> Result<Vec<Figure>> {
    if !run.target.is_own() {
        return Ok(vec![]);
    }
    let kept = tempfile::tempdir().context("a folder for a home with many threads")?;
    let (home, work) = (kept.path().join("home"), kept.path().join("work"));
    std::fs::create_dir(&home)?;
    std::fs::create_dir(&work)?;
    fill::write(&home, &work, Fill::Threads(THREADS))?;
    let mut first_rows = Vec::new();
    let mut keys = Vec::new();
    for search in ["request 77777", "flaky", "no such words"] {
        let mut terminal = Terminal::start_in(run, &["resume"], Some(home.clone()))?;
        terminal.wait_for("Request 999")?;
        first_rows.push(milliseconds(terminal.started.elapsed()));
        terminal.settle(Duration::from_secs(1))?;
        for key in search.bytes() {
            let begun = Instant::now();
            terminal.send(&[key])?;
            // The letter itself is drawn at once; the rows, when the server has found them.
            let last = terminal.settle(QUIET)?;
            keys.push(milliseconds(last - begun));
        }
    }
    let slowest = keys.iter().copied().fold(0.0, f64::max);
    Ok(vec![
        row(
            "terminal: process start to the first rows of 100,000 threads",
            median(first_rows),
            "ms",
            30.0,
        ),
        row("terminal: a key of a search among them, median", median(keys), "ms", 10.0),
        row("terminal: a key of a search among them, slowest", slowest, "ms", 10.0),
    ])
}

/// Resident memory, in MB, after a thread of 5,000 items was opened.
fn long_thread(run: &Run<'_>) -> Result<f64> {
    let (mut server, _) = run.start_initialized()?;
    let (thread, _) = server.start_thread()?;
    for _ in 0..LONG_TURNS {
        server.client.turn(&thread)?;
    }
    server.finish()?;
    let mut terminal = Terminal::start_in(run, &["resume", &thread], Some(server.home()))?;
    terminal.wait_for(PROMPT)?;
    terminal.settle(Duration::from_secs(2))?;
    let words = terminal.output.windows(4).filter(|it| it == b"word").count();
    ensure!(words >= LONG_TURNS, "only {words} of {LONG_TURNS} messages were drawn");
    Ok(megabytes(process::resident(terminal.pid())?))
}

fn row(what: &'static str, value: f64, unit: &'static str, goal: f64) -> Figure {
    Figure { what, value, unit, goal: Some(goal) }
}

/// Times from a key to its echo, in milliseconds.
struct Keys {
    median: f64,
    most: f64,
}

impl Keys {
    fn measure(terminal: &mut Terminal) -> Result<Self> {
        let mut times = Vec::new();
        for number in 0..KEYS {
            std::thread::sleep(Duration::from_millis(23));
            terminal.drain()?;
            // A letter that what is streamed does not have.
            let key = [b"xyzjkq"[number % 6]];
            let begun = Instant::now();
            terminal.send(&key)?;
            terminal.wait_for_key(key[0])?;
            times.push(milliseconds(begun.elapsed()));
        }
        let most = times.iter().copied().fold(0.0, f64::max);
        Ok(Self { median: median(times), most })
    }
}

/// A program on a pseudo-terminal.
pub(crate) struct Terminal {
    child: Child,
    screen: File,
    /// Everything that it wrote.
    output: Vec<u8>,
    bytes: usize,
    started: Instant,
    _folder: Option<TempDir>,
}

impl Terminal {
    fn ready(run: &Run<'_>) -> Result<Self> {
        let mut terminal = Self::start(run, &[])?;
        terminal.wait_for(PROMPT)?;
        terminal.settle(Duration::from_millis(500))?;
        Ok(terminal)
    }

    fn start(run: &Run<'_>, arguments: &[&str]) -> Result<Self> {
        Self::start_in(run, arguments, None)
    }

    fn start_in(run: &Run<'_>, arguments: &[&str], home: Option<PathBuf>) -> Result<Self> {
        let folder = tempfile::tempdir().context("a folder for the program's home")?;
        for name in ["home", "work", "user"] {
            std::fs::create_dir(folder.path().join(name))?;
        }
        let home = home.unwrap_or_else(|| folder.path().join("home"));
        let work = home.with_file_name("work");
        let mut settings = config(&run.model.base_url);
        if !run.target.is_own() {
            // Others ask about every new folder.
            let trusted =
                format!("\n[projects.\"{}\"]\ntrust_level = \"trusted\"\n", work.display());
            settings.push_str(&trusted);
        }
        std::fs::write(home.join("config.toml"), settings)?;
        let mut program = Command::new(&run.target.binary);
        program
            .args(arguments)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("TERM", "xterm-256color")
            .env("COLORTERM", "truecolor")
            .env("HOME", folder.path().join("user"))
            .env(&run.target.home_env, home)
            .current_dir(work);
        Self::spawn(program, Some(folder))
    }

    /// A program that does nothing but echo: the floor of the measurement.
    fn echo() -> Result<Self> {
        let mut program = Command::new("sh");
        program.args(["-c", "stty raw -echo; printf '›'; exec cat"]);
        let mut terminal = Self::spawn(program, None)?;
        terminal.wait_for(PROMPT)?;
        Ok(terminal)
    }

    pub(crate) fn spawn(mut program: Command, folder: Option<TempDir>) -> Result<Self> {
        let screen = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&screen)?;
        unlockpt(&screen)?;
        let size = Winsize { ws_row: ROWS, ws_col: COLUMNS, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&screen, size)?;
        let name = ptsname(&screen, Vec::new())?;
        let program_side = || -> Result<Stdio> {
            let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY;
            let file: OwnedFd = rustix::fs::open(&name, flags, rustix::fs::Mode::empty())?;
            Ok(file.into())
        };
        program.stdin(program_side()?).stdout(program_side()?).stderr(program_side()?);
        let started = Instant::now();
        let child = program.spawn().context("the program on the terminal")?;
        let screen = File::from(screen);
        Ok(Self { child, screen, output: Vec::new(), bytes: 0, started, _folder: folder })
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<()> {
        Ok(self.screen.write_all(bytes)?)
    }

    /// Types a message. Enter comes later, as a key of its own: at once it would be part of a paste.
    pub(crate) fn write_message(&mut self, text: &str) -> Result<()> {
        self.send(text.as_bytes())?;
        self.settle(Duration::from_millis(300))?;
        Ok(())
    }

    /// Reads what comes within `wait`; none: nothing came.
    fn read(&mut self, wait: Duration) -> Result<Option<usize>> {
        let wait = Timespec::try_from(wait)?;
        let mut ready = [PollFd::new(&self.screen, PollFlags::IN)];
        if poll(&mut ready, Some(&wait))? == 0 {
            return Ok(None);
        }
        let mut buffer = [0; 64 << 10];
        let count = self.screen.read(&mut buffer).context("the program has ended")?;
        let read = &buffer[..count];
        for (query, reply) in [
            (&b"\x1b]11;?"[..], &b"\x1b]11;rgb:1111/1111/1111\x1b\\"[..]),
            (b"\x1b[?2026$p", b"\x1b[?2026;2$y"),
            (b"\x1b]10;?", b"\x1b]10;rgb:eeee/eeee/eeee\x1b\\"),
            (b"\x1b[?u", b"\x1b[?0u"),
            (b"\x1b[6n", b"\x1b[1;1R"),
            (b"\x1b[c", b"\x1b[?62;22c"),
        ] {
            if read.windows(query.len()).any(|it| it == query) {
                self.screen.write_all(reply)?;
            }
        }
        self.output.extend_from_slice(read);
        self.bytes += count;
        Ok(Some(count))
    }

    pub(crate) fn wait_for(&mut self, text: &str) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while !self.output.windows(text.len()).any(|it| it == text.as_bytes()) {
            self.read(Duration::from_millis(100))?;
            if Instant::now() > deadline {
                bail!("`{text}` did not appear: {}", String::from_utf8_lossy(&self.output));
            }
        }
        Ok(())
    }

    fn wait_for_key(&mut self, key: u8) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let seen = self.output.len();
            self.read(Duration::from_millis(100))?;
            if self.output[seen..].contains(&key) {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "the key `{}` did not appear", char::from(key));
        }
    }

    fn drain(&mut self) -> Result<()> {
        while self.read(Duration::ZERO)?.is_some() {}
        Ok(())
    }

    /// Reads until nothing has come for `quiet`; returns when the last byte came.
    pub(crate) fn settle(&mut self, quiet: Duration) -> Result<Instant> {
        let mut last = Instant::now();
        while self.read(quiet)?.is_some() {
            last = Instant::now();
        }
        Ok(last)
    }

    /// Reads until the program has ended.
    pub(crate) fn wait(&mut self) -> Result<ExitStatus> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            // The terminal of a program that has ended cannot be read.
            let _ = self.read(Duration::from_millis(100));
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            ensure!(Instant::now() < deadline, "the program does not end");
        }
    }

    /// Reads for this long.
    fn settle_for(&mut self, time: Duration) -> Result<()> {
        let end = Instant::now() + time;
        while let Some(left) = end.checked_duration_since(Instant::now()) {
            self.read(left)?;
        }
        Ok(())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It may already have ended; an error has no further effect.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
