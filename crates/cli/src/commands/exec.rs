//! `agentd exec`: one turn without a client. Progress goes to standard error; standard output has
//! the final message, or with `--json` every notification.

mod advice;
mod input;
mod report;

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::ValueEnum;
use protocol::{
    AskForApproval, SandboxMode, ThreadResumeParams, ThreadStartParams, ThreadStartResponse,
    TurnStartParams, TurnStatus,
};

use crate::commands::local::{self, LocalServer, Signals, TurnEnd};
use crate::commands::transcript::{Detail, Palette, Transcript};
use crate::commands::{checked, eprint};
use crate::environment::Environment;
use input::Input;
use report::{Events, Progress, Report};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The prompt; with `-` or without one, it is read from standard input
    prompt: Option<String>,
    /// Work in this folder
    #[arg(short = 'C', long, value_name = "DIR")]
    cd: Option<PathBuf>,
    /// The model to use
    #[arg(short, long)]
    model: Option<String>,
    /// The provider to use: `default`, `offline`, or one of config.toml
    #[arg(long, value_name = "ID")]
    model_provider: Option<String>,
    /// Use the local model server that `oss_provider` names
    #[arg(long, conflicts_with = "model_provider")]
    oss: bool,
    /// What commands may do
    #[arg(short, long, value_name = "MODE")]
    sandbox: Option<Sandbox>,
    /// Do not store the thread
    #[arg(long, conflicts_with = "resume")]
    ephemeral: bool,
    /// Continue a stored thread
    #[arg(long, value_name = "THREAD_ID")]
    resume: Option<String>,
    /// An image file to send with the prompt; may be repeated
    #[arg(short, long = "image", value_name = "FILE")]
    images: Vec<PathBuf>,
    /// Require the final message to follow the JSON Schema in this file
    #[arg(long, value_name = "FILE")]
    output_schema: Option<PathBuf>,
    /// Also write the final message to this file
    #[arg(short, long, value_name = "FILE")]
    output_last_message: Option<PathBuf>,
    /// Print every notification to standard output as one JSON object per line, and nothing else
    #[arg(long)]
    json: bool,
}

/// The override that selects the local provider.
fn local_provider(config: &config::Config) -> anyhow::Result<String> {
    let provider = config.oss_provider.context(
        "`--oss` needs `oss_provider` in config.toml: write `oss_provider = \"ollama\"` or \
         `oss_provider = \"lmstudio\"`",
    )?;
    Ok(format!("model_provider=\"{}\"", provider.as_str()))
}

/// What commands may do.
#[derive(Clone, Copy, ValueEnum)]
enum Sandbox {
    /// Read files
    ReadOnly,
    /// Also write in the working folder and the temporary folders
    WorkspaceWrite,
    /// Run without a sandbox
    DangerFullAccess,
}

/// Most lines of a command's output that are shown.
const OUTPUT_LINES: usize = 12;
/// Most lines of a file's diff that are shown on a terminal.
const DIFF_LINES: usize = 60;

/// Runs the subcommand. Exit codes: 0 the turn completed, 1 it failed, 2 no prompt, 130 and 143
/// ended by an interrupt or a termination.
pub(crate) async fn run(
    arguments: Arguments,
    mut environment: Environment,
) -> anyhow::Result<ExitCode> {
    if let Some(folder) = &arguments.cd {
        environment.cwd = input::folder(&environment.cwd, folder)?;
    }
    if input::is_prompt_missing(arguments.prompt.as_deref(), io::stdin().is_terminal()) {
        eprint(format_args!("{}", input::NO_PROMPT));
        return Ok(ExitCode::from(2));
    }
    let config = match checked(&environment, true) {
        Ok(config) => config,
        Err(code) => return Ok(code),
    };
    if arguments.oss {
        environment.overrides.push(local_provider(&config)?);
    }
    let input = Input::read(&arguments, &environment.cwd)?;
    let mut signals = Signals::catch()?;
    let is_terminal = io::stderr().is_terminal();
    let palette = Palette::for_terminal(&environment, is_terminal);
    let detail = Detail {
        is_live: false,
        output_lines: OUTPUT_LINES,
        diff_lines: if is_terminal { DIFF_LINES } else { 0 },
        reasoning: !config.hide_agent_reasoning,
    };
    let progress = if arguments.json {
        Progress::Json(Events::new(io::stdout()))
    } else {
        let cwd = environment.cwd.clone();
        Progress::Text(Box::new(Transcript::new(io::stderr(), palette, detail, cwd)))
    };
    let mut report = Report::new(progress);
    let cwd = environment.cwd.clone();
    let mut local = tokio::select! {
        local = LocalServer::start(environment, "exec") => local?,
        code = signals.next() => return Ok(ExitCode::from(code)),
    };
    let opened = tokio::select! {
        opened = open(&arguments, &cwd, &mut local, &mut report) => opened,
        code = signals.next() => return Ok(ExitCode::from(code)),
    };
    let outcome = match opened {
        Ok(thread) => converse(thread, input, &mut local, &mut report, &mut signals).await,
        Err(error) => Err(error),
    };
    if let Ok((_, TurnEnd::AtOnce(code))) = outcome {
        return Ok(ExitCode::from(code));
    }
    local.close().await;
    let (thread, ended) = outcome?;
    conclude(&arguments, &cwd, &thread, &ended, &mut report)
}

async fn converse(
    thread: ThreadStartResponse,
    input: Input,
    local: &mut LocalServer,
    report: &mut Report,
    signals: &mut Signals,
) -> anyhow::Result<(ThreadStartResponse, TurnEnd)> {
    report.opened(&thread);
    let params = TurnStartParams {
        output_schema: input.schema,
        ..local::turn_start(&thread.thread.id, input.parts)
    };
    let ended = local.turn(&params, report, signals).await?;
    Ok((thread, ended))
}

async fn open(
    arguments: &Arguments,
    cwd: &Path,
    local: &mut LocalServer,
    report: &mut Report,
) -> anyhow::Result<ThreadStartResponse> {
    let params = ThreadStartParams {
        model: arguments.model.clone(),
        model_provider: arguments.model_provider.clone(),
        cwd: Some(cwd.display().to_string()),
        // `exec` cannot ask for approval.
        approval_policy: Some(AskForApproval::Never),
        sandbox: arguments.sandbox.map(Into::into),
        ephemeral: arguments.ephemeral.then_some(true),
        ..ThreadStartParams::default()
    };
    match &arguments.resume {
        None => local.call::<protocol::ThreadStart>(&params, report).await,
        Some(id) => local.call::<protocol::ThreadResume>(&resumed(id, params), report).await,
    }
}

fn resumed(id: &str, params: ThreadStartParams) -> ThreadResumeParams {
    ThreadResumeParams {
        model: params.model,
        model_provider: params.model_provider,
        cwd: params.cwd,
        approval_policy: params.approval_policy,
        sandbox: params.sandbox,
        ..local::thread_resume(id)
    }
}

/// Prints the result, or the reason why it is missing.
fn conclude(
    arguments: &Arguments,
    cwd: &Path,
    thread: &ThreadStartResponse,
    ended: &TurnEnd,
    report: &mut Report,
) -> anyhow::Result<ExitCode> {
    report.finish();
    if report.has_declined {
        eprint(format_args!("agentd: {}", advice::declined(thread)));
    }
    let turn = match ended {
        TurnEnd::Turn(turn) => turn,
        TurnEnd::Interrupted(code) | TurnEnd::AtOnce(code) => {
            eprint(format_args!("agentd: interrupted. {}", advice::how_to_resume(thread)));
            return Ok(ExitCode::from(*code));
        }
    };
    match turn.status {
        TurnStatus::Completed => {
            deliver(arguments, cwd, report.answer.text())?;
            return Ok(ExitCode::SUCCESS);
        }
        TurnStatus::Interrupted => {
            eprint(format_args!(
                "agentd: the turn was interrupted. {}",
                advice::how_to_resume(thread)
            ));
        }
        TurnStatus::Failed | TurnStatus::InProgress => {
            eprint(format_args!("agentd: {}", advice::failure(turn.error.as_ref(), thread)));
        }
    }
    Ok(ExitCode::FAILURE)
}

/// Prints the final message.
fn deliver(arguments: &Arguments, cwd: &Path, answer: Option<&str>) -> anyhow::Result<()> {
    if answer.is_none() {
        eprint(format_args!("agentd: the turn ended without a message"));
    }
    if let Some(file) = &arguments.output_last_message {
        let file = cwd.join(file);
        std::fs::write(&file, answer.unwrap_or_default())
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    let Some(answer) = answer.filter(|_| !arguments.json) else { return Ok(()) };
    let mut out = io::stdout().lock();
    let end = if answer.ends_with('\n') { "" } else { "\n" };
    write!(out, "{answer}{end}")
        .and_then(|()| out.flush())
        .context("cannot write the final message to standard output")
}

impl From<Sandbox> for SandboxMode {
    fn from(sandbox: Sandbox) -> Self {
        match sandbox {
            Sandbox::ReadOnly => Self::ReadOnly,
            Sandbox::WorkspaceWrite => Self::WorkspaceWrite,
            Sandbox::DangerFullAccess => Self::DangerFullAccess,
        }
    }
}
