//! The pictures of the terminal: turns of a scripted model, driven with keys in tmux. One picture shows the screen at
//! three moments of a turn, the others show one screen each.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;

use super::screen::{Screen, picture};

/// A file, relative to the root, and its content.
pub(super) type Picture = (&'static str, String);

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
/// The answer after a refused command.
const REFUSED: &str = "The branch was not published.";
const PUSH: &str = "git push origin main";
/// Messages of the other threads, which the list of threads shows. The offline model repeats them.
const OTHERS: [&str; 2] =
    ["Explain how the tests are run.", "Which Python versions does this need?"];
const ECHO: &str = "--model-provider offline --model echo";

/// Draws the pictures.
pub(super) fn draw(agentd: &Path) -> Result<Vec<Picture>> {
    let mut pictures = vec![first_start(agentd)?];
    pictures.extend(at_work(agentd)?);
    Ok(pictures)
}

/// The first start, without a provider's key.
fn first_start(agentd: &Path) -> Result<Picture> {
    let folder = tempfile::tempdir()?;
    let place = folder.path().canonicalize()?;
    let project = place.join("calculator");
    let home = place.join("agent");
    for folder in [&project, &home] {
        fs::create_dir(folder)?;
    }
    make_repository(&project)?;
    // What the agent may do here is another question.
    let access = format!("[projects.\"{}\"]\naccess = \"ask\"\n", project.display());
    fs::write(home.join("config.toml"), access)?;
    let tmux = Tmux::start(agentd, &place, &project, "")?;
    let screen = tmux.wait("Choose a model provider")?;
    tmux.run(&["kill-server"])?;
    Ok(still(
        "docs/images/terminal-first-start.svg",
        "The first start: choose a model provider",
        screen,
    ))
}

/// A picture of one screen, without the empty rows at its end.
fn still(name: &'static str, description: &str, screen: Screen) -> Picture {
    let rows = screen.text().trim_end().lines().count();
    (name, picture(description, COLUMNS, rows, &[screen]))
}

/// A turn with a change, its end, what `/undo` would do, a command that asks, and the list of threads.
fn at_work(agentd: &Path) -> Result<Vec<Picture>> {
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
    for message in OTHERS {
        let tmux = Tmux::start(agentd, &place, &project, ECHO)?;
        tmux.wait("›")?;
        tmux.send(message)?;
        tmux.wait("Worked for")?;
        tmux.run(&["kill-server"])?;
    }
    let tmux = Tmux::start(agentd, &place, &project, "")?;
    tmux.wait("›")?;
    let written = tmux.write(TASK)?;
    tmux.run(&["send-keys", "Enter"])?;
    let asked = tmux.wait(QUESTION)?;
    tmux.answer("y")?;
    let done = tmux.wait(END)?;
    let answered = tmux.wait(END)?;
    tmux.send("/undo")?;
    let undo = tmux.wait("Undo the latest turn and restore")?;
    tmux.answer("Escape")?;
    tmux.gone("Undo the latest turn and restore")?;
    tmux.send("Publish the branch.")?;
    let approval = tmux.wait("Run this command?")?;
    tmux.answer("n")?;
    tmux.wait(REFUSED)?;
    tmux.send("/resume")?;
    let threads = tmux.wait("Resume a thread")?;
    tmux.run(&["kill-server"])?;
    Ok(vec![
        ("docs/images/terminal.svg", picture(DESCRIPTION, COLUMNS, ROWS, &[written, asked, done])),
        still("docs/images/terminal-answer.svg", "The answer of a turn, with a table", answered),
        still("docs/images/terminal-undo.svg", "/undo shows its effect on files first", undo),
        still(
            "docs/images/terminal-approval.svg",
            "A turn that asks before it runs a command",
            approval,
        ),
        still("docs/images/terminal-threads.svg", "The list of threads, with a preview", threads),
    ])
}

fn prepare(project: &Path, home: &Path, model: &str) -> Result<()> {
    fs::write(project.join("calculator.py"), PROGRAM)?;
    fs::write(project.join("test.py"), TEST)?;
    make_repository(project)?;
    let config = format!(
        "model = \"gpt-5.2-codex\"\nmodel_provider = \"recorded\"\n[model_providers.recorded]\nbase_url = \"{model}\"\n\
         tool_types = [\"custom\"]\n[projects.\"{}\"]\ntrust_level = \"trusted\"\naccess = \"ask\"\n\
         [tui]\nshow_tooltips = false\n[features]\nundo = true\n",
        project.display()
    );
    fs::write(home.join("config.toml"), config)?;
    Ok(())
}

fn make_repository(folder: &Path) -> Result<()> {
    let git = Command::new("git")
        .args(["init", "--quiet", "--initial-branch=main"])
        .current_dir(folder)
        .status();
    ensure!(git.context("git")?.success(), "git init failed");
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
    let push = json!({ "cmd": PUSH, "sandbox_permissions": "require_escalated",
        "justification": "The tests pass; the branch can be published." });
    let says =
        |text: &str| json!({ "steps": [{ "message": { "text": text, "phase": "final_answer" } }] });
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
        says(answer),
        { "steps": [call("exec_command", push)] },
        says(REFUSED),
    ] })
}

/// A server of tmux with one window.
struct Tmux {
    socket: PathBuf,
    /// The folder that the picture shows as that of the user.
    place: String,
}

impl Tmux {
    /// Starts the terminal in a project. The agent's home is `agent` in `place`, which is the user's home.
    fn start(agentd: &Path, place: &Path, project: &Path, options: &str) -> Result<Self> {
        let tmux = Self { socket: place.join("tmux"), place: place.display().to_string() };
        let home = place.join("agent");
        let program = format!(
            "env -u OPENAI_API_KEY -u AGENT_API_KEY HOME={} AGENT_HOME={} NO_COLOR= COLORTERM= {} {options}",
            place.display(),
            home.display(),
            agentd.display()
        );
        let (columns, rows) = (COLUMNS.to_string(), ROWS.to_string());
        let start = ["-f", "/dev/null", "new-session", "-d", "-x", &columns, "-y", &rows];
        let folder = project.to_string_lossy();
        tmux.run(&[&start[..], &["-c", &folder, &program]].concat())?;
        tmux.run(&["set-option", "-g", "status", "off"])?;
        Ok(tmux)
    }

    /// Writes a message, and returns the screen with it.
    fn write(&self, text: &str) -> Result<Screen> {
        self.run(&["send-keys", "-l", text])?;
        self.wait(text)
    }

    /// Writes a message or a command, and sends it.
    fn send(&self, text: &str) -> Result<()> {
        self.write(text)?;
        self.run(&["send-keys", "Enter"])?;
        Ok(())
    }

    /// Presses the key of an answer.
    fn answer(&self, key: &str) -> Result<()> {
        std::thread::sleep(QUIET);
        self.run(&["send-keys", key])?;
        Ok(())
    }

    /// Waits until the screen no longer has a text.
    fn gone(&self, text: &str) -> Result<()> {
        let begin = Instant::now();
        while self.screen()?.text().contains(text) {
            ensure!(begin.elapsed() < PATIENCE, "the screen still shows {text:?}");
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    fn screen(&self) -> Result<Screen> {
        let captured = self.run(&["capture-pane", "-e", "-p"])?.stdout;
        Ok(Screen::parse(&String::from_utf8_lossy(&captured).replace(&self.place, "~")))
    }

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
            let screen = self.screen()?;
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
