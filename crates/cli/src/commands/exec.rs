//! `agentd exec`: one turn without a client. Progress goes to standard error; standard output has
//! the final message, or with `--json` every notification.

mod advice;
mod arguments;
mod input;
mod output_file;
mod piped;
mod report;
mod review_output;
mod thread_events;

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};
use json_schema::Validator;
use protocol::mcp::{McpServerStatusDetail, McpServerStatusListParams};
use protocol::{
    AskForApproval, ReviewModeItem, ReviewStartParams, ReviewTarget, SandboxPolicy,
    ThreadListCwdFilter, ThreadListParams, ThreadResumeParams, ThreadSortKey, ThreadSourceKind,
    ThreadStartParams, ThreadStartResponse, TurnStartParams, TurnStatus, UserInput,
};

use crate::commands::local::{self, LocalServer, Signals, TurnEnd};
use crate::commands::local_provider;
use crate::commands::transcript::{Detail, Palette, Transcript, sandbox_name};
use crate::commands::{Invalid, checked, eprint, output};
use crate::environment::Environment;
pub(crate) use arguments::{Arguments, ReviewRequest};
use arguments::{Task, Thread};
use input::Input;
use output_file::OutputFile;
use report::{Answer, Events, Progress, Report};
use review_output::HAS_FINDING;
pub(crate) use review_output::ReviewOutput;
use thread_events::ThreadEvents;

/// Most lines of a command's output that are shown.
const OUTPUT_LINES: usize = 12;
/// Most lines of a file's diff that are shown on a terminal.
const DIFF_LINES: usize = 60;

/// The exit code when the final message does not follow the schema, even after a second request.
const BROKEN_SCHEMA: u8 = 4;

/// Runs the subcommand. Exit codes: 0 the turn completed, 1 it failed, 2 the arguments or the
/// configuration are invalid, 4 the final message breaks its schema, 130 and 143 ended by an interrupt or
/// a termination.
pub(crate) async fn run(
    mut arguments: Arguments,
    mut environment: Environment,
) -> anyhow::Result<ExitCode> {
    let config = prepare(&mut arguments, &mut environment).map_err(Invalid::from)?;
    let thread = arguments.thread().map_err(Invalid::from)?;
    let task = arguments.task().map_err(Invalid::from)?;
    let is_missing = |prompt| input::is_prompt_missing(prompt, io::stdin().is_terminal());
    if matches!(task, Task::Turn(prompt) if is_missing(prompt)) {
        return Err(Invalid::new(input::NO_PROMPT).into());
    }
    let named = arguments.output_last_message.as_deref();
    let output = named.map(|file| OutputFile::check(&environment.cwd, file)).transpose();
    let output = output.map_err(Invalid::from)?;
    let work = Work::read(&arguments, task, &environment).map_err(Invalid::from)?;
    if arguments.oss {
        let names_model = arguments.model.is_some() || config.model.is_some();
        let selected = local_provider::overrides(&environment, &config, names_model).await?;
        environment.overrides.extend(selected);
    }
    let mut signals = Signals::catch()?;
    let is_terminal = io::stderr().is_terminal();
    let palette = Palette::for_terminal(&environment, is_terminal);
    let detail = Detail {
        is_live: false,
        output_lines: OUTPUT_LINES,
        diff_lines: if is_terminal { DIFF_LINES } else { 0 },
        reasoning: !config.hide_agent_reasoning,
    };
    let progress = if arguments.experimental_json {
        Progress::ThreadEvents(Box::new(ThreadEvents::new(output::stdout(), io::stderr())))
    } else if arguments.json {
        Progress::Json(Events::new(output::stdout()))
    } else {
        let cwd = environment.cwd.clone();
        Progress::Text(Box::new(Transcript::new(io::stderr(), palette, detail, cwd)))
    };
    let mut report = Report::new(progress);
    let cwd = environment.cwd.clone();
    let mut local = tokio::select! {
        local = start(&arguments, environment) => local?,
        code = signals.next() => return Ok(ExitCode::from(code)),
    };
    let has_servers = config.mcp_servers.values().any(|server| server.enabled);
    let opened = async {
        let opened = open(&arguments, thread, &cwd, &mut local, &mut report).await?;
        if has_servers {
            await_servers(&mut local, &mut report).await?;
        }
        Ok(opened)
    };
    let opened = tokio::select! {
        opened = opened => opened,
        code = signals.next() => return Ok(ExitCode::from(code)),
    };
    let outcome = match opened {
        Ok(thread) => {
            let policy = policy(&arguments, &thread);
            converse(thread, work, policy, &mut local, &mut report, &mut signals).await
        }
        Err(error) => Err(error),
    };
    if let Ok(Conversation { ended: TurnEnd::AtOnce(code), .. }) = outcome {
        return Ok(ExitCode::from(code));
    }
    local.close().await;
    let conversation = outcome?;
    conclude(&arguments, output.as_ref(), &conversation, &mut report)
}

/// Only worktrees need the experimental part of the protocol.
async fn start(arguments: &Arguments, environment: Environment) -> anyhow::Result<LocalServer> {
    match arguments.worktree {
        Some(_) => LocalServer::start_experimental(environment, "exec").await,
        None => LocalServer::start(environment, "exec").await,
    }
}

/// Resolves the folders of the arguments, and reads the configuration.
fn prepare(
    arguments: &mut Arguments,
    environment: &mut Environment,
) -> anyhow::Result<config::Config> {
    if let Some(folder) = &arguments.cd {
        environment.cwd = input::folder("--cd", &environment.cwd, folder)?;
    }
    if arguments.needs_repository() {
        input::check_repository(&environment.cwd)?;
    }
    for folder in &mut arguments.add_dirs {
        *folder = input::folder("--add-dir", &environment.cwd, folder)?;
    }
    let config = checked(environment, true)?;
    if config.permission_profile.is_some() && !arguments.add_dirs.is_empty() {
        bail!(
            "--add-dir: `default_permissions` selects a permission profile, which alone decides \
             about folders; add the folder there, or give --sandbox workspace-write"
        );
    }
    Ok(config)
}

/// Prints the event of an error without a turn, for `--experimental-json`.
pub(crate) fn print_error_event(error: &anyhow::Error) {
    // The exit code says the same.
    let _ = thread_events::print_error(&mut io::stdout(), &format!("{error:#}"));
}

/// Prints the event of a command line that the parser refuses, when it asks for the events.
pub(crate) fn print_parse_error_event(
    line: impl IntoIterator<Item = OsString>,
    error: &clap::Error,
) {
    if error.use_stderr() && arguments::names_thread_events(line) {
        print_error_event(&anyhow::Error::msg(arguments::reason(error)));
    }
}

/// The work for the agent.
enum Work {
    Turn(Input),
    Review(ReviewTarget),
}

impl Work {
    fn read(
        arguments: &Arguments,
        task: Task<'_>,
        environment: &Environment,
    ) -> anyhow::Result<Self> {
        let cwd = &environment.cwd;
        let target = match task {
            Task::Turn(prompt) => {
                let mut input = Input::read(arguments, prompt, cwd)?;
                if prompt.is_some_and(|prompt| prompt != "-")
                    && let Some(block) = piped::block()?
                {
                    input.append(block);
                }
                return Ok(Self::Turn(input));
            }
            Task::Review(ReviewTarget::Custom { instructions }) => {
                let block = piped::block()?;
                let appended = block.map(|block| input::appended(&instructions, &block));
                ReviewTarget::Custom { instructions: appended.unwrap_or(instructions) }
            }
            Task::Review(target) => target,
            Task::ReviewOfInput => ReviewTarget::Custom { instructions: input::prompt_of_input()? },
        };
        server::check_review(&target, cwd, &environment.variables)?;
        Ok(Self::Review(target))
    }
}

/// The end of the work.
struct Conversation {
    thread: ThreadStartResponse,
    ended: TurnEnd,
    /// Why the final message does not follow its schema.
    broken_schema: Option<String>,
}

async fn converse(
    thread: ThreadStartResponse,
    work: Work,
    policy: Option<SandboxPolicy>,
    local: &mut LocalServer,
    report: &mut Report,
    signals: &mut Signals,
) -> anyhow::Result<Conversation> {
    report.opened(&thread)?;
    let thread_id = thread.thread.id.clone();
    let mut broken_schema = None;
    let ended = match work {
        Work::Turn(input) => {
            let (text, validator) = match input.schema {
                Some(schema) => (Some(schema.text), schema.validator),
                None => (None, None),
            };
            let mut params = TurnStartParams {
                output_schema: text,
                sandbox_policy: policy,
                ..local::turn_start(&thread_id, input.parts)
            };
            let mut ended = local.turn(&params, report, signals).await?;
            broken_schema = broken(validator.as_ref(), &ended, report);
            if let Some(why) = &broken_schema {
                eprint(format_args!(
                    "agentd: the final message does not follow the schema ({why}); the model is asked once more"
                ));
                params.input = vec![correction(why)];
                report.answer = Answer::default();
                ended = local.turn(&params, report, signals).await?;
                broken_schema = broken(validator.as_ref(), &ended, report);
            }
            ended
        }
        Work::Review(target) => {
            let params = ReviewStartParams { thread_id: thread_id.clone(), target, delivery: None };
            let started = local.call::<protocol::ReviewStart>(&params, report).await?;
            local.turn_end(thread_id, started.turn, report, signals).await?
        }
    };
    Ok(Conversation { thread, ended, broken_schema })
}

/// Why the final message of a completed turn does not follow the schema.
fn broken(validator: Option<&Validator>, ended: &TurnEnd, report: &Report) -> Option<String> {
    let answer = report.answer.text().filter(|_| is_completed(ended))?;
    match serde_json::from_str(answer) {
        Ok(value) => validator?.check(&value).err(),
        Err(error) => validator.map(|_| format!("it is not JSON: {error}")),
    }
}

fn is_completed(ended: &TurnEnd) -> bool {
    matches!(ended, TurnEnd::Turn(turn) if turn.status == TurnStatus::Completed)
}

/// The next question to the model after a final message that does not follow the schema.
fn correction(why: &str) -> UserInput {
    let text = format!(
        "Your last message does not follow the JSON Schema that was required: {why}\nGive the same answer again \
         as JSON that follows the schema, and nothing else."
    );
    UserInput::Text { text, text_elements: Vec::new() }
}

/// The thread's sandbox with the folders of `--add-dir`; `None` when it stays as it is.
fn policy(arguments: &Arguments, thread: &ThreadStartResponse) -> Option<SandboxPolicy> {
    if arguments.add_dirs.is_empty() {
        return None;
    }
    let mut sandbox = thread.sandbox.clone();
    let SandboxPolicy::WorkspaceWrite { writable_roots, .. } = &mut sandbox else {
        let name = sandbox_name(&sandbox);
        eprint(format_args!("agentd: --add-dir has no effect with the sandbox {name}"));
        return None;
    };
    let more = arguments.add_dirs.iter().map(|dir| dir.display().to_string());
    policy::add_roots(writable_roots, thread.cwd.clone(), more);
    Some(sandbox)
}

async fn open(
    arguments: &Arguments,
    thread: Thread<'_>,
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
        thread_source: arguments.thread_source(),
        worktree: arguments.worktree(),
        ..ThreadStartParams::default()
    };
    let id = match thread {
        Thread::New => {
            let started = local.call::<protocol::ThreadStart>(&params, report).await?;
            if let Some(worktree) = &started.thread.worktree
                && !arguments.prints_events()
            {
                let (branch, path) = (&worktree.branch, &worktree.path);
                eprint(format_args!("agentd: works on the branch {branch}, in {path}"));
            }
            return Ok(started);
        }
        Thread::Stored(id) => id.to_owned(),
        Thread::Last => last_thread(cwd, local, report).await?,
    };
    local.call::<protocol::ThreadResume>(&resumed(&id, params), report).await
}

/// Waits until each MCP server is ready or has failed: there is one turn, and its tools are those of the
/// servers that are ready before it. Failures are reported as warnings.
async fn await_servers(local: &mut LocalServer, report: &mut Report) -> anyhow::Result<()> {
    let mut params = McpServerStatusListParams {
        detail: Some(McpServerStatusDetail::ToolsAndAuthOnly),
        start: Some(true),
        ..McpServerStatusListParams::default()
    };
    loop {
        let page = local.call::<protocol::McpServerStatusList>(&params, report).await?;
        for row in page.data {
            if let Some(error) = row.error {
                report.warn(&format!("the MCP server `{}`: {error}", row.name))?;
            }
        }
        params.cursor = page.next_cursor;
        if params.cursor.is_none() {
            return Ok(());
        }
    }
}

/// The thread of the folder that was used last.
async fn last_thread(
    cwd: &Path,
    local: &mut LocalServer,
    report: &mut Report,
) -> anyhow::Result<String> {
    use ThreadSourceKind::{AppServer, Cli, Editor, Exec};
    let folder = cwd.display().to_string();
    let params = ThreadListParams {
        limit: Some(1),
        sort_key: Some(ThreadSortKey::UpdatedAt),
        source_kinds: Some(vec![Cli, Editor, Exec, AppServer]),
        cwd: Some(ThreadListCwdFilter::One(folder.clone())),
        ..ThreadListParams::default()
    };
    let page = local.call::<protocol::ThreadList>(&params, report).await?;
    let last = page.data.into_iter().next();
    let last = last.with_context(|| {
        format!("--last: no stored thread for {folder}; start one with `agentd exec PROMPT`")
    })?;
    Ok(last.id)
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
    output: Option<&OutputFile>,
    Conversation { thread, ended, broken_schema }: &Conversation,
    report: &mut Report,
) -> anyhow::Result<ExitCode> {
    report.finish(is_completed(ended));
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
            if let (None, Some(reasons)) = (report.answer.text(), &report.hook_reasons) {
                let reasons = visible::exact(reasons);
                eprint(format_args!(
                    "agentd: the turn ended without a message, because of a hook: {reasons}"
                ));
                return Ok(ExitCode::FAILURE);
            }
            if let (Some(printed), Some(review)) = (arguments.review_output, &report.review) {
                return conclude_review(printed, review, output, &thread.thread.id);
            }
            deliver(arguments, output, report.answer.text())?;
            if let Some(why) = broken_schema {
                eprint(format_args!(
                    "agentd: the final message does not follow the schema, even after a second \
                     request: {why}"
                ));
                return Ok(ExitCode::from(BROKEN_SCHEMA));
            }
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

/// Prints the result of `agentd review`, and writes it to the file.
fn conclude_review(
    printed: ReviewOutput,
    review: &ReviewModeItem,
    output: Option<&OutputFile>,
    thread_id: &str,
) -> anyhow::Result<ExitCode> {
    let text = printed.text(thread_id, review)?;
    let written = output.map_or(Ok(()), |file| file.write(&text));
    print_answer(&text)?;
    written?;
    if printed.cannot_tell(review) {
        bail!("--fail-on: the review lists no findings with priorities; read it, or run it again");
    }
    match printed.failing(review) {
        0 => Ok(ExitCode::SUCCESS),
        count => {
            eprint(format_args!("agentd: findings at or above the priority of --fail-on: {count}"));
            Ok(ExitCode::from(HAS_FINDING))
        }
    }
}

/// Prints the final message, and writes it to the file. Tries both, because the turn is paid for.
fn deliver(
    arguments: &Arguments,
    output: Option<&OutputFile>,
    answer: Option<&str>,
) -> anyhow::Result<()> {
    if answer.is_none() {
        eprint(format_args!("agentd: the turn ended without a message"));
    }
    let written = output.map_or(Ok(()), |file| file.write(answer.unwrap_or_default()));
    let printed = answer.filter(|_| !arguments.prints_events()).map_or(Ok(()), print_answer);
    if let (Err(written), Err(printed)) = (&written, &printed) {
        bail!("{written:#}; {printed:#}");
    }
    written.and(printed)
}

fn print_answer(answer: &str) -> anyhow::Result<()> {
    let mut out = output::stdout();
    let end = if answer.ends_with('\n') { "" } else { "\n" };
    write!(out, "{answer}{end}")
        .and_then(|()| out.flush())
        .context("cannot write the final message to standard output")
}
