//! The picture of the terminal at work: a turn of a scripted model, driven with keys in tmux, whose screen is drawn at
//! three moments.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;

use super::screen::{Screen, picture};

/// The picture, relative to the root.
pub(super) const PICTURE: &str = "docs/images/terminal.svg";
const COLUMNS: usize = 100;
const ROWS: usize = 34;
const PATIENCE: Duration = Duration::from_secs(60);
/// Time between two looks at the screen.
const PAUSE: Duration = Duration::from_millis(50);
/// Letters answer a question only when nothing was typed for a while.
const QUIET: Duration = Duration::from_millis(700);
const TASK: &str = "The test for hexadecimal numbers fails. Find out why, and fix it.";
/// Part of the heading of the question about the change.
const QUESTION: &str = "Change calculator.py";
/// End of the last message.
const END: &str = "All three tests pass.";
const DESCRIPTION: &str = "The terminal of agentd: a plan, a command in the sandbox, a change that it asks about, and \
    the answer";

const PROGRAM: &str = "def number(text):\n    return int(text)\n";
const TEST: &str = r#"from calculator import number

for name, text, value in [("integers", "12", 12), ("signs", "-3", -3), ("hexadecimal", "0xff", 255)]:
    try:
        passed = number(text) == value
    except ValueError:
        passed = False
    print("test", name, "... ok" if passed else "... FAILED")
"#;
/// Without files of compiled code.
const RUN: &str = "python3 -B test.py";

/// Draws the picture.
pub(super) fn draw(agentd: &Path) -> Result<String> {
    let folder = tempfile::tempdir()?;
    let place = folder.path().canonicalize()?;
    let project = place.join("calculator");
    let home = place.join("agent");
    for folder in [&project, &home] {
        fs::create_dir(folder)?;
    }
    fs::write(home.join("script.json"), script().to_string())?;
    let model = ModelServer::start(agentd, &home.join("script.json"))?;
    prepare(&project, &home, &model.address)?;
    let tmux = Tmux { socket: place.join("tmux"), place: place.display().to_string() };
    let program = format!(
        "env HOME={} AGENT_HOME={} NO_COLOR= COLORTERM= {}",
        place.display(),
        home.display(),
        agentd.display()
    );
    let (columns, rows) = (COLUMNS.to_string(), ROWS.to_string());
    let start = ["-f", "/dev/null", "new-session", "-d", "-x", &columns, "-y", &rows];
    let folder = project.to_string_lossy();
    tmux.run(&[&start[..], &["-c", &folder, &program]].concat())?;
    tmux.run(&["set-option", "-g", "status", "off"])?;
    tmux.wait("›")?;
    tmux.run(&["send-keys", "-l", TASK])?;
    let written = tmux.wait(TASK)?;
    tmux.run(&["send-keys", "Enter"])?;
    let asked = tmux.wait(QUESTION)?;
    std::thread::sleep(QUIET);
    tmux.run(&["send-keys", "y"])?;
    let done = tmux.wait(END)?;
    tmux.run(&["kill-server"])?;
    Ok(picture(DESCRIPTION, COLUMNS, ROWS, &[written, asked, done]))
}

fn prepare(project: &Path, home: &Path, model: &str) -> Result<()> {
    fs::write(project.join("calculator.py"), PROGRAM)?;
    fs::write(project.join("test.py"), TEST)?;
    let git = Command::new("git")
        .args(["init", "--quiet", "--initial-branch=main"])
        .current_dir(project)
        .status();
    ensure!(git.context("git")?.success(), "git init failed");
    let config = format!(
        "model = \"gpt-5.2-codex\"\nmodel_provider = \"recorded\"\n[model_providers.recorded]\nbase_url = \"{model}\"\n\
         tool_types = [\"custom\"]\n[projects.\"{}\"]\ntrust_level = \"trusted\"\naccess = \"ask\"\n\
         [tui]\nshow_tooltips = false\n",
        project.display()
    );
    fs::write(home.join("config.toml"), config)?;
    Ok(())
}

/// A scripted model over HTTP, under an address of its own.
struct ModelServer {
    child: Child,
    address: String,
}

impl ModelServer {
    fn start(agentd: &Path, script: &Path) -> Result<Self> {
        let mut child = Command::new(agentd)
            .args(["model-server", "--script"])
            .arg(script)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| agentd.display().to_string())?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("its output")?).read_line(&mut line)?;
        let address = line.trim().strip_prefix("listening on ").map(str::to_owned);
        Ok(Self { child, address: address.context("the model server gave no address")? })
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn script() -> serde_json::Value {
    let call = |name: &str, arguments: serde_json::Value| json!({ "function_call": { "name": name, "arguments": arguments } });
    let plan = |states: [&str; 3]| {
        let steps = ["Run the tests", "Read hexadecimal numbers", "Run the tests again"];
        let plan: Vec<_> = steps
            .iter()
            .zip(states)
            .map(|(step, status)| json!({ "step": step, "status": status }))
            .collect();
        call("update_plan", json!({ "plan": plan }))
    };
    let patch = "*** Begin Patch\n*** Update File: calculator.py\n@@\n def number(text):\n-    return int(text)\n\
                 +    # The base follows from the prefix: 0x, 0o or 0b.\n+    return int(text, 0)\n*** End Patch\n";
    let answer = "`int(text)` reads decimal digits only. With the base `0`, Python takes it from the prefix:\n\n\
        | input | before | now |\n|---|---|---|\n| `12` | 12 | 12 |\n| `0xff` | an error | **255** |\n\n\
        All three tests pass.";
    json!({ "responses": [
        { "steps": [
            { "message": { "text": "I run the tests first.", "phase": "commentary" } },
            plan(["in_progress", "pending", "pending"]),
            call("exec_command", json!({ "cmd": RUN })),
        ] },
        { "steps": [
            { "message": { "text": "`number` cannot read a prefix. I let Python take the base from it.", "phase": "commentary" } },
            { "custom_tool_call": { "name": "apply_patch", "input": patch } },
        ] },
        { "steps": [
            plan(["completed", "completed", "in_progress"]),
            call("exec_command", json!({ "cmd": RUN })),
        ] },
        { "steps": [plan(["completed", "completed", "completed"])] },
        { "steps": [{ "message": { "text": answer, "phase": "final_answer" } }] },
    ] })
}

/// A server of tmux with one window.
struct Tmux {
    socket: PathBuf,
    /// The folder that the picture shows as that of the user.
    place: String,
}

impl Tmux {
    fn run(&self, arguments: &[&str]) -> Result<Output> {
        let done = Command::new("tmux")
            .arg("-S")
            .arg(&self.socket)
            .args(arguments)
            .env_remove("TMUX")
            .env("LANG", "C.UTF-8")
            .env("LC_ALL", "C.UTF-8")
            .output()
            .context("tmux")?;
        let said = String::from_utf8_lossy(&done.stderr);
        ensure!(done.status.success(), "tmux {}: {said}", arguments.join(" "));
        Ok(done)
    }

    /// Waits until the screen has a text. Returns the screen once it no longer changes.
    fn wait(&self, text: &str) -> Result<Screen> {
        let begin = Instant::now();
        let mut last = None;
        loop {
            let captured = self.run(&["capture-pane", "-e", "-p"])?.stdout;
            let captured = String::from_utf8_lossy(&captured).replace(&self.place, "~");
            let screen = Screen::parse(&captured);
            let is_there = screen.text().contains(text);
            if is_there && last.as_ref() == Some(&screen) {
                return Ok(screen);
            }
            if begin.elapsed() > PATIENCE {
                bail!("the screen did not show {text:?}:\n{}", screen.text());
            }
            last = Some(screen);
            std::thread::sleep(PAUSE * 4);
        }
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        // It has ended where nothing failed.
        let _ = self.run(&["kill-server"]);
    }
}
