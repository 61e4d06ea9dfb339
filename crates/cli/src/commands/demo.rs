//! `agentd demo`: the main job, shown once, with no key and no network. It is a client like any
//! other: what it shows comes over the public protocol.

mod ending;
mod questions;
mod scratch;

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use jsonrpc::{Method, Notification};
use protocol::{
    AskForApproval, SandboxMode, Thread, ThreadReadParams, ThreadStartParams, ThreadStartResponse,
    TurnStatus, UserInput,
};
use serde_json::value::RawValue;

use crate::commands::local::{self, LocalServer, Observer, Signals, TurnEnd};
use crate::commands::output::{self, Output};
use crate::commands::transcript::{Detail, Palette, Style, Transcript, sandbox_name, seconds};
use crate::environment::Environment;
use questions::Answers;
use scratch::Scratch;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Answer the approval yourself, in this terminal
    #[arg(long)]
    ask: bool,
}

/// The prompt of the turn. The scripted model does the same whatever it is asked.
const PROMPT: &str = "Look around, add a small file, and tell me what you did.";

const DETAIL: Detail = Detail { is_live: true, output_lines: 15, diff_lines: 40, reasoning: true };

/// Runs the subcommand. Exit codes: 0 the turn completed, 1 it did not, 130 and 143 ended by an
/// interrupt or a termination.
pub(crate) async fn run(
    arguments: Arguments,
    mut environment: Environment,
) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::catch()?;
    let folder = environment.cwd.clone();
    let temporary =
        environment.variable("TMPDIR").map_or_else(|| PathBuf::from("/tmp"), PathBuf::from);
    let scratch = Scratch::copy(&folder, &temporary, &environment.home)?;
    environment.cwd = scratch.path().to_owned();
    // What the demo asks was not typed by anybody.
    environment.overrides.push("history.persistence=\"none\"".to_owned());
    let palette = Palette::for_terminal(&environment, io::stdout().is_terminal());
    let screen = Transcript::new(output::stdout(), palette, DETAIL, environment.cwd.clone());
    let is_asking = arguments.ask && io::stdin().is_terminal();
    let mut show = Show { screen, answers: Answers { is_asking } };
    show.introduce(&folder, &scratch)?;
    if arguments.ask && !is_asking {
        show.screen.block(
            Style::Warn,
            "--ask",
            "standard input is not a terminal: the demo answers",
        )?;
    }
    let outcome = present(environment, folder, &mut show, &mut signals).await;
    let removed = scratch.remove();
    let code = outcome.context("the demo failed")?;
    removed?;
    Ok(ExitCode::from(code))
}

/// The terminal and the person who answers at it.
struct Show {
    screen: Transcript<Output>,
    answers: Answers,
}

/// The whole show; yields the exit code.
async fn present(
    environment: Environment,
    folder: PathBuf,
    show: &mut Show,
    signals: &mut Signals,
) -> anyhow::Result<u8> {
    let mut local = tokio::select! {
        local = LocalServer::start(environment, "cli") => local?,
        code = signals.next() => return Ok(code),
    };
    let outcome = perform(&mut local, show, signals).await;
    let outcome = match outcome {
        Ok((_, TurnEnd::AtOnce(code))) => return Ok(code),
        Ok((thread, TurnEnd::Interrupted(code))) => {
            local.close().await;
            show.screen.block(
                Style::Warn,
                "interrupted",
                &format!("thread {}", thread.thread.id),
            )?;
            return Ok(code);
        }
        Ok((thread, TurnEnd::Turn(turn))) => {
            recall(&mut local, show, thread).await.map(|it| (it, turn))
        }
        Err(error) => Err(error),
    };
    let home = local.opened.agent_home.clone();
    local.close().await;
    let (thread, turn) = outcome?;
    show.stored(&thread, &home)?;
    if turn.status != TurnStatus::Completed {
        let why = turn
            .error
            .map_or_else(|| "the server gave no reason".to_owned(), |error| error.message);
        show.screen.block(Style::Bad, "the turn failed:", &why)?;
        return Ok(1);
    }
    for line in ending::lines(&thread.id, &folder, show.screen.not_started.as_deref()) {
        show.screen.plain(&line)?;
    }
    Ok(0)
}

/// Starts the thread and runs the turn.
async fn perform(
    local: &mut LocalServer,
    show: &mut Show,
    signals: &mut Signals,
) -> anyhow::Result<(ThreadStartResponse, TurnEnd)> {
    show.call(protocol::Initialize::NAME, &format!("home {}", local.opened.agent_home))?;
    let params = ThreadStartParams {
        model: Some("demo".to_owned()),
        model_provider: Some("offline".to_owned()),
        approval_policy: Some(AskForApproval::UnlessTrusted),
        sandbox: Some(SandboxMode::WorkspaceWrite),
        ..ThreadStartParams::default()
    };
    let thread = local.call::<protocol::ThreadStart>(&params, show).await?;
    let sandbox = sandbox_name(&thread.sandbox);
    show.call(
        protocol::ThreadStart::NAME,
        &format!(
            "thread {}\nmodel {} ({}), sandbox {sandbox}, asks unless trusted",
            thread.thread.id, thread.model, thread.model_provider
        ),
    )?;
    let text = PROMPT.to_owned();
    show.call(protocol::TurnStart::NAME, &format!("\"{text}\""))?;
    let input = vec![UserInput::Text { text, text_elements: Vec::new() }];
    let params = local::turn_start(&thread.thread.id, input);
    let ended = local.turn(&params, show, signals).await?;
    show.screen.finish(true)?;
    if let TurnEnd::Turn(turn) = &ended {
        let took = turn.duration_ms.map(|ms| format!(" in {}", seconds(ms))).unwrap_or_default();
        show.call(
            protocol::TurnCompleted::NAME,
            &format!("{:?}{took}", turn.status).to_lowercase(),
        )?;
    }
    Ok((thread, ended))
}

/// Reads the thread back from where it was stored.
async fn recall(
    local: &mut LocalServer,
    show: &mut Show,
    thread: ThreadStartResponse,
) -> anyhow::Result<Thread> {
    let params = ThreadReadParams { thread_id: thread.thread.id, include_turns: true };
    let read = local.call::<protocol::ThreadRead>(&params, show).await;
    Ok(read.context("cannot read the thread back")?.thread)
}

impl Show {
    fn introduce(&mut self, folder: &std::path::Path, scratch: &Scratch) -> io::Result<()> {
        self.screen.plain(&format!(
            "agentd {}: one turn over the protocol. The model is a script: no key, no network.",
            env!("CARGO_PKG_VERSION")
        ))?;
        let what = format!("{}, {}", folder.display(), scratch.summary());
        self.screen.block(Style::Dim, "scratch copy of", &what)
    }

    /// A message of the protocol and what came of it.
    fn call(&mut self, method: &str, what: &str) -> io::Result<()> {
        self.screen.block(Style::Dim, &format!("· {method}:"), what)
    }

    fn stored(&mut self, thread: &Thread, home: &str) -> io::Result<()> {
        let items: usize = thread.turns.iter().map(|turn| turn.items.len()).sum();
        self.call(
            protocol::ThreadRead::NAME,
            &format!("{} turn with {items} items, read back", thread.turns.len()),
        )?;
        let database = std::path::Path::new(home).join("threads.db");
        let place =
            if database.is_file() { database.display().to_string() } else { home.to_owned() };
        self.screen.block(Style::Bold, "stored", &format!("thread {} in {place}", thread.id))
    }
}

impl Observer for Show {
    fn notified(&mut self, method: &str, params: &RawValue) -> io::Result<()> {
        self.screen.notified(method, params)
    }

    async fn asked(&mut self, method: &str, params: &RawValue) -> io::Result<local::Answer> {
        self.answers.answer(&mut self.screen, method, params).await
    }
}
