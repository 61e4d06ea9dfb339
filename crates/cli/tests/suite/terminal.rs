//! `agentd` on a real pseudo-terminal: it opens, runs a turn, resumes it, and leaves the terminal as it was.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::common::{Running, TestEnvironment, listing};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};
use serde_json::json;

/// Longer than anything takes on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Time after which a key is pressed again that a dialog has perhaps not taken.
const PRESS_AGAIN: Duration = Duration::from_millis(1500);

/// The program and its terminal.
pub(crate) struct Terminal {
    child: Child,
    keyboard: File,
    /// The program's side, which keeps the terminal's settings.
    other_end: File,
    arrives: Receiver<Vec<u8>>,
    seen: String,
    /// Everything that the program has written.
    pub(crate) all: String,
}

impl Terminal {
    pub(crate) fn open(env: &TestEnvironment, arguments: &[&str]) -> (Self, Termios) {
        Self::run(env.agentd(arguments))
    }

    fn run(program: Command) -> (Self, Termios) {
        Self::run_as("xterm-256color", program)
    }

    fn run_as(term: &str, mut program: Command) -> (Self, Termios) {
        let keyboard =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&keyboard).unwrap();
        unlockpt(&keyboard).unwrap();
        tcsetwinsize(&keyboard, Winsize { ws_row: 30, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 })
            .unwrap();
        let name = ptsname(&keyboard, Vec::new()).unwrap();
        let other_end =
            File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        let before = tcgetattr(&other_end).unwrap();
        let end = || Stdio::from(other_end.try_clone().unwrap());
        program.env("TERM", term).stdin(end()).stdout(end()).stderr(end());
        let child = program.spawn().unwrap();
        let keyboard = File::from(keyboard);
        let mut screen = keyboard.try_clone().unwrap();
        let (sender, arrives) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // The end of the program is the end of what can be read.
            while let Ok(count @ 1..) = screen.read(&mut buffer) {
                if sender.send(buffer[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        (
            Self { child, keyboard, other_end, arrives, seen: String::new(), all: String::new() },
            before,
        )
    }

    fn take(&mut self, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        self.seen.push_str(&text);
        self.all.push_str(&text);
    }

    /// Waits until the program has written this, after what was waited for before.
    pub(crate) fn expect(&mut self, text: &str) {
        loop {
            if let Some(at) = self.seen.find(text) {
                self.seen.drain(..at + text.len());
                return;
            }
            match self.arrives.recv_timeout(PATIENCE) {
                Ok(bytes) => self.take(&bytes),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    panic!("`{text}` did not come; there is: {:?}", self.seen)
                }
            }
        }
    }

    /// Presses a key until the program has written this: a dialog that has just appeared takes none.
    pub(crate) fn press_until(&mut self, key: &str, text: &str) {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            self.send(key);
            let next = Instant::now() + PRESS_AGAIN;
            while let Some(left) = next.checked_duration_since(Instant::now()) {
                if let Some(at) = self.seen.find(text) {
                    self.seen.drain(..at + text.len());
                    return;
                }
                if let Ok(bytes) = self.arrives.recv_timeout(left) {
                    self.take(&bytes);
                }
            }
        }
        panic!("`{text}` did not come; there is: {:?}", self.seen)
    }

    /// What the program has written since, once it has ended.
    fn rest(&mut self) -> String {
        while let Ok(bytes) = self.arrives.try_recv() {
            self.take(&bytes);
        }
        self.seen.clone()
    }

    pub(crate) fn send(&mut self, text: &str) {
        self.keyboard.write_all(text.as_bytes()).unwrap();
    }

    pub(crate) fn paste(&mut self, text: &str) {
        self.send(&format!("\x1b[200~{text}\x1b[201~"));
    }

    /// Writes a message and sends it.
    pub(crate) fn enter(&mut self, text: &str) {
        // A key that was pressed once more than needed is in the composer.
        self.send("\x15");
        self.paste(text);
        self.expect(text);
        self.send("\r");
    }

    pub(crate) fn ends(&mut self, code: i32, before: &Termios) {
        assert_eq!(self.child.wait().unwrap().code(), Some(code));
        let after = tcgetattr(&self.other_end).unwrap();
        assert_eq!(format!("{after:?}"), format!("{before:?}"));
    }
}

fn environment() -> TestEnvironment {
    let env = TestEnvironment::new();
    let config = "model_provider = \"offline\"\nmodel = \"echo\"\n";
    std::fs::write(env.home().join("config.toml"), config).unwrap();
    env
}

#[test]
fn a_thread_is_begun_left_and_resumed() {
    let env = environment();
    let (mut terminal, before) = Terminal::open(&env, &[]);
    terminal.expect("› ");
    terminal.paste("the first words");
    terminal.expect("the first words");
    terminal.send("\r");
    // As it was sent, and as the answer or, where the thread was not open yet, as what waits.
    terminal.expect("the first words");
    terminal.expect("the first words");
    terminal.send("\x04");
    terminal.expect("To continue: agentd resume ");
    terminal.ends(0, &before);
    let (mut terminal, before) = Terminal::open(&env, &["--continue"]);
    terminal.expect("the first words");
    terminal.send("\x04");
    terminal.ends(0, &before);
}

#[test]
fn a_signal_leaves_the_terminal_as_it_was_and_keeps_what_was_written() {
    let env = environment();
    for signal in [Signal::TERM, Signal::HUP] {
        let (mut terminal, before) = Terminal::open(&env, &[]);
        terminal.expect("› ");
        terminal.paste("not sent yet");
        terminal.expect("not sent yet");
        kill_process(Pid::from_child(&terminal.child), signal).unwrap();
        terminal.ends(if signal == Signal::TERM { 143 } else { 129 }, &before);
        let (mut terminal, before) = Terminal::open(&env, &[]);
        terminal.expect("not sent yet");
        terminal.send("\x03");
        terminal.expect("Cleared");
        terminal.send("\x04");
        terminal.ends(0, &before);
    }
}

#[test]
fn the_first_start_leads_to_a_turn_and_the_next_one_does_not_ask() {
    let env = TestEnvironment::new();
    let (mut terminal, before) = Terminal::open(&env, &["my first words"]);
    terminal.expect("Choose a model provider");
    terminal.press_until("o", "From now on the provider is `offline`");
    // The message of the command line waited for the choice.
    terminal.expect("my first words");
    terminal.send("\x04");
    terminal.expect("To continue: agentd resume ");
    terminal.ends(0, &before);
    let config = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
    assert!(config.contains("model_provider = \"offline\""), "{config}");
    let (mut terminal, before) = Terminal::open(&env, &[]);
    terminal.expect("› ");
    terminal.paste("again");
    terminal.expect("again");
    terminal.send("\x03");
    terminal.expect("Cleared");
    assert!(!terminal.seen.contains("Choose a model provider"), "{:?}", terminal.seen);
    terminal.send("\x04");
    terminal.ends(0, &before);
}

#[test]
fn an_api_key_is_nowhere_but_with_the_credentials() {
    let env = TestEnvironment::new();
    let (mut terminal, before) = Terminal::open(&env, &[]);
    terminal.expect("Choose a model provider");
    terminal.press_until("k", "hidden as you type");
    terminal.paste("key-0123456789");
    terminal.expect("••••••••••••••");
    terminal.send("\r");
    terminal.expect("an API key; stored in ");
    terminal.send("\x04");
    terminal.ends(0, &before);
    assert!(!terminal.seen.contains("key-0123456789"));
    let files = listing(&env.home());
    let holds = |contents: &[u8]| contents.windows(14).any(|part| part == b"key-0123456789");
    let with: Vec<_> = files.iter().filter(|(_, contents)| holds(contents)).collect();
    assert!(with.len() == 1 && with[0].0.ends_with("credentials.json"), "{:?}", with[0].0);
}

#[test]
fn the_first_start_in_a_repository_asks_what_the_agent_may_do_and_keeps_it() {
    let env = environment();
    std::fs::create_dir(env.work().join(".git")).unwrap();
    let (mut terminal, before) = Terminal::open(&env, &[]);
    terminal.expect("What may the agent do in ");
    terminal.press_until("e", "· edits this folder ·");
    terminal.send("\x04");
    terminal.ends(0, &before);
    let config = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
    assert!(config.contains("access = \"edit\""), "{config}");
    // The next start, also in a folder of the repository, has it and asks nothing.
    let deeper = env.work().join("src");
    std::fs::create_dir(&deeper).unwrap();
    let (mut terminal, before) = Terminal::open(&env, &["--cd", "src"]);
    terminal.expect("· edits this folder ·");
    terminal.send("\x04");
    terminal.ends(0, &before);
}

#[test]
fn trust_is_asked_for_once_and_stored() {
    let env = environment();
    let agent = env.work().join(".agent/skills/a");
    std::fs::create_dir_all(&agent).unwrap();
    let (mut terminal, before) = Terminal::open(&env, &[]);
    terminal.expect("Do you trust this folder?");
    terminal.press_until("t", "Trusted from now on:");
    // The thread is opened.
    terminal.expect("echo");
    terminal.send("\x04");
    terminal.ends(0, &before);
    let config = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
    assert!(config.contains("trust_level = \"trusted\""), "{config}");
    let (mut terminal, before) = Terminal::open(&env, &[]);
    terminal.expect("› ");
    terminal.send("\x04");
    terminal.ends(0, &before);
    assert!(!terminal.seen.contains("Do you trust"), "{:?}", terminal.seen);
}

#[test]
fn two_terminals_follow_one_thread_and_one_answer_is_enough() {
    let env = TestEnvironment::new();
    let command = json!({ "cmd": "echo made > made.txt" });
    let responses = json!([
        { "steps": [{ "function_call": { "name": "exec_command", "arguments": command } }] },
        { "steps": [{ "message": "The end." }] },
    ]);
    let socket = env.tmp().join("agentd.sock");
    let address = format!("unix://{}", socket.display());
    let model = format!("model={:?}", env.script(&responses));
    let provider = r#"model_provider="offline""#;
    let approval = r#"approval_policy="untrusted""#;
    let sandbox = r#"sandbox_mode="workspace-write""#;
    let arguments = ["-c", provider, "-c", &model, "-c", approval, "-c", sandbox];
    let server = [&["app-server", "--listen", &address], &arguments[..]].concat();
    let _server = Running::start(&mut env.agentd(&server));
    while !socket.exists() {
        std::thread::yield_now();
    }
    let (mut first, before) = Terminal::open(&env, &["--connect", &address, "make it"]);
    first.expect("echo made");
    first.expect("Yes, once");
    let (mut second, other_before) = Terminal::open(&env, &["--connect", &address, "--continue"]);
    second.expect("echo made");
    second.expect("Yes, once");
    second.press_until("y", "The end.");
    first.expect("answered elsewhere");
    first.expect("The end.");
    assert_eq!(std::fs::read_to_string(env.work().join("made.txt")).unwrap(), "made\n");
    for (mut terminal, before) in [(first, before), (second, other_before)] {
        terminal.send("\x04");
        terminal.expect("To continue: agentd resume ");
        terminal.ends(0, &before);
    }
}

#[test]
fn without_a_terminal_there_is_a_hint() {
    let env = environment();
    let output = env.agentd(&[]).stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("this needs a terminal") && error.contains("agentd exec"), "{error}");
    let output = env.agentd(&["exce"]).stdin(Stdio::null()).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("did you mean `agentd exec`?"));
}

#[test]
fn a_terminal_without_a_cursor_is_refused_with_the_next_step() {
    let env = environment();
    let (mut terminal, before) = Terminal::run_as("dumb", env.agentd(&[]));
    terminal.expect("TERM is `dumb`");
    terminal.expect("agentd exec");
    terminal.ends(2, &before);
    assert!(!terminal.seen.contains('\x1b'), "{:?}", terminal.seen);
}

#[test]
fn a_program_that_ends_early_leaves_no_reply_to_the_shell() {
    let env = TestEnvironment::new();
    std::fs::write(env.home().join("config.toml"), "model = [[[\n").unwrap();
    let (mut terminal, before) = Terminal::open(&env, &[]);
    // The last query, which every terminal answers.
    terminal.expect("\x1b[c");
    terminal.send("\x1b[?1;2c");
    terminal.expect("not valid TOML");
    terminal.ends(1, &before);
    assert!(!terminal.rest().contains("not valid TOML"), "said twice");
    // The shell would read what is left.
    terminal.send("next\n");
    let mut line = [0; 100];
    let count = terminal.other_end.read(&mut line).unwrap();
    assert_eq!(String::from_utf8_lossy(&line[..count]), "next\n");
}

/// Where the program of the next test finds its folders; it fails when there is a file `fail` in the home.
const FAILING: &str = "AGENTD_TEST_FAILING";

#[test]
fn a_panic_leaves_the_terminal_as_it_was_and_says_where_the_log_is() {
    let env = environment();
    let name = "terminal::fails_on_its_terminal";
    let mut failing = Command::new(std::env::current_exe().unwrap());
    failing.args(["--ignored", "--exact", name, "--nocapture"]).env(FAILING, env.home());
    failing.current_dir(env.work());
    let (mut terminal, before) = Terminal::run(failing);
    terminal.expect("reconnecting");
    terminal.paste("not sent yet");
    terminal.expect("not sent yet");
    std::fs::write(env.home().join("fail"), "").unwrap();
    // Without raw mode, and before anything is printed.
    terminal.expect("\x1b[?25h");
    terminal.expect("the terminal program failed at ");
    terminal.expect("nothing to connect to");
    terminal.expect("agentd.log");
    terminal.ends(1, &before);
    std::fs::remove_file(env.home().join("fail")).unwrap();
    let (mut terminal, before) = Terminal::open(&env, &[]);
    terminal.expect("not sent yet");
    terminal.send("\x03");
    terminal.expect("Cleared");
    terminal.send("\x04");
    terminal.ends(0, &before);
}

struct Failing(std::path::PathBuf);

impl tui::link::Connector for Failing {
    fn connect(&mut self) -> tui::link::Connecting {
        assert!(!self.0.join("fail").exists(), "nothing to connect to");
        Box::pin(async { Err("there is no server".to_owned()) })
    }

    fn can_reconnect(&self) -> bool {
        true
    }
}

#[test]
#[ignore = "the program of `a_panic_leaves_the_terminal_as_it_was_and_says_where_the_log_is`"]
fn fails_on_its_terminal() {
    let Some(home) = std::env::var_os(FAILING).map(std::path::PathBuf::from) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let cwd = std::env::current_dir().unwrap();
    let options = tui::Options {
        connector: Failing(home.clone()),
        background: runtime.handle().clone(),
        limits: server::connection_limits(),
        version: "0".to_owned(),
        kept: tui::Kept::new(&home, &cwd),
        cwd,
        start: tui::app::Start::default(),
        environment: tui::app::Environment::from_variables(|name| std::env::var(name).ok()),
        find_servers: None,
        find_models: None,
    };
    let draw = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(tui::run(options))
    };
    let crash = std::thread::spawn(draw).join().unwrap_err();
    let log = home.join("log/agentd.log");
    eprintln!("{}", tui::crash_report(&*crash, Some(&log)));
    std::process::exit(1);
}
