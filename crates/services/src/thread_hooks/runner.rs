//! Runs hooks: those of an event at once, each within its time.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use config::Config;
use files::Pool;
use hooks::{Answer, Context, Event, EventName, Handler, HandlerResult, Hook, read_answer};
use protocol::hooks::HookRunSummary;
use sandbox::Stdin;
use serde_json::{Map, Value};
use session::{ReadAccess, ResponseUsage, SandboxPolicy};
use tokio::sync::{OnceCell, Semaphore};

use super::HookReport;
use super::command::{self, CommandEnd};
use super::notifications::{completed, started};
use super::sources::{LoadedHook, digest, plugin_of, project_folder, variables};
use crate::allowed::Allowed;
use crate::command_environment::{command_environment, tmpdir_in};
use crate::command_runner::{CommandLine, CommandRunner};
use crate::options::Options;

/// Hooks of all threads that run at once; further ones wait, within their time.
const MAX_RUNNING: usize = 64;
/// Seconds that the agent of a hook has for reading a file.
const MAX_READING: u64 = 10;
/// Stands for the event in a prompt and in the arguments of a tool.
const ARGUMENTS: &str = "$ARGUMENTS";

/// The runner of hooks.
pub struct HookRunner {
    commands: CommandRunner,
    options: Arc<Options>,
    files: Pool,
    permits: Semaphore,
}

/// Where an event happens.
pub struct HookPlace {
    pub context: Context,
    pub config: Arc<Config>,
    pub cwd: PathBuf,
    /// The thread's, for hooks that are not the user's own.
    pub sandbox: SandboxPolicy,
    /// The MCP servers of the thread.
    pub servers: Vec<mcp::Server>,
    /// Where commands run when the event happens: `cwd`, once the first hook has looked whether it is
    /// there.
    pub folder: OnceCell<PathBuf>,
}

/// A model that is asked, or an agent that works: what it says in the end.
pub struct ModelRequest {
    pub answer: Pin<Box<dyn Future<Output = Result<String, String>> + Send>>,
    /// The usage until now.
    pub usage: UsageLog,
}

/// The cost of a model's responses, even of one that does not end.
#[derive(Clone, Default)]
pub struct UsageLog(Arc<Mutex<Vec<ResponseUsage>>>);

impl UsageLog {
    pub fn add(&self, usage: ResponseUsage) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(usage);
    }

    fn take(&self) -> Vec<ResponseUsage> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A hook that runs.
pub struct BegunHook {
    turn: Option<String>,
    run: HookRunSummary,
    started_ms: i64,
}

impl BegunHook {
    pub fn report(&self) -> HookReport {
        HookReport { turn: self.turn.clone(), run: self.run.clone() }
    }
}

/// A hook that has run.
pub struct EndedHook {
    /// Id of the run.
    pub id: String,
    pub answer: Answer,
    /// The usage of the models that were asked.
    pub usage: Vec<ResponseUsage>,
    pub report: HookReport,
}

impl HookRunner {
    pub fn new(commands: CommandRunner, options: Arc<Options>, files: Pool) -> Self {
        Self { commands, options, files, permits: Semaphore::new(MAX_RUNNING) }
    }

    /// Where the files of hooks are read.
    pub fn files(&self) -> Pool {
        self.files.clone()
    }

    /// Begins to run a hook.
    pub fn begin(&self, loaded: &LoadedHook, place: &HookPlace) -> BegunHook {
        let started_ms = self.options.clock.now_ms();
        let run = started(self.options.ids.next(), loaded, started_ms);
        BegunHook { turn: place.context.turn.clone(), run, started_ms }
    }

    /// Runs a hook to its end. `model` answers its prompt.
    pub async fn run(
        &self,
        begun: BegunHook,
        loaded: &LoadedHook,
        event: &Event,
        place: &HookPlace,
        model: Option<ModelRequest>,
    ) -> EndedHook {
        let hook = &loaded.hook;
        let limit = Duration::from_secs(hook.timeout_sec);
        let usage = model.as_ref().map(|model| model.usage.clone()).unwrap_or_default();
        let answering = async {
            // The semaphore is never closed.
            let _permit = self.permits.acquire().await;
            match model {
                Some(model) => read_model_answer(hook.event, model.answer.await),
                None => self.answer(loaded, event, place).await,
            }
        };
        let answer = match tokio::time::timeout(limit, answering).await {
            Ok(answer) => answer,
            Err(_) => {
                read_answer(hook.event, HandlerResult::TimedOut { seconds: hook.timeout_sec })
            }
        };
        let answer = match hook.origin.source.is_unconfined() {
            true => answer,
            false => answer.without_consent(),
        };
        let answer = answer.without_foreign_output(event);
        let answer = if hook.is_async { answer.without_effect() } else { answer };
        let BegunHook { turn, run, started_ms } = begun;
        let id = run.id.clone();
        let run = completed(run, &answer, (started_ms, self.options.clock.now_ms()));
        EndedHook { id, answer, usage: usage.take(), report: HookReport { turn, run } }
    }

    async fn answer(&self, loaded: &LoadedHook, event: &Event, place: &HookPlace) -> Answer {
        let hook = &loaded.hook;
        let not_run = |message: &str| read_answer(hook.event, HandlerResult::NotRun { message });
        match &hook.handler {
            Handler::Command(line) => {
                if let Err(message) = self.check_unchanged(loaded, &place.config).await {
                    let result = HandlerResult::NotTrusted { message: &message };
                    return read_answer(hook.event, result);
                }
                let command = self.command(line, hook, place).await;
                let input = event.input(&place.context) + "\n";
                let end = command::run(&self.commands, command, &input, hook.timeout_sec).await;
                read_answer(hook.event, end.as_result())
            }
            // A thread that ends asks no model.
            Handler::Prompt { .. } | Handler::Agent { .. } => {
                not_run("no model can be asked about this event")
            }
            Handler::McpTool { server, tool, arguments } => {
                let input = event.input(&place.context);
                match call_tool(server, tool, arguments, &input, place).await {
                    Ok(text) => {
                        let output = text.as_bytes();
                        let result = HandlerResult::Exited { code: 0, output, errors: b"" };
                        read_answer(hook.event, result)
                    }
                    Err(message) => not_run(&message),
                }
            }
        }
    }

    /// Runs a program for the agent of a hook, which can read what the thread can, and no more. Returns
    /// what it writes to standard output.
    ///
    /// # Errors
    /// It ends with another code than 0, or not in time: a sentence.
    pub async fn read(&self, argv: Vec<OsString>, place: &HookPlace) -> Result<Vec<u8>, String> {
        let HookPlace { config, sandbox, cwd, .. } = place;
        let env = command_environment(&self.options, config);
        let reading = match sandbox {
            external @ SandboxPolicy::External { .. } => external.clone(),
            confined => confined.reading_only(cwd, tmpdir_in(&env).as_deref()),
        };
        let (sandbox, _) = Allowed::new(reading, config, cwd);
        let policy = sandbox.confinement(cwd);
        let command = CommandLine::new(argv, self.folder(place).await, env, policy);
        let command = CommandLine { stdin: Stdin::Pipe, ..command };
        match command::run(&self.commands, command, "", MAX_READING).await {
            CommandEnd::Exited { code: Some(0), output, .. } => Ok(output),
            // `grep` that finds nothing.
            CommandEnd::Exited { code: Some(1), output, errors } if errors.is_empty() => Ok(output),
            CommandEnd::Exited { errors, .. } => Err(String::from_utf8_lossy(&errors).into_owned()),
            CommandEnd::TimedOut { seconds } => Err(format!("it took more than {seconds} s")),
            CommandEnd::TooMuchOutput { .. } => Err("it found too much; narrow it down".to_owned()),
            CommandEnd::NotStarted { message } => Err(message),
        }
    }

    /// A hook of a project that has changed since it was read is not what the user trusts: who
    /// changed it may have wanted to be rid of its refusals.
    async fn check_unchanged(
        &self,
        loaded: &LoadedHook,
        config: &Arc<Config>,
    ) -> Result<(), String> {
        if loaded.hook.origin.source.is_unconfined() {
            return Ok(());
        }
        let (hook, config) = (loaded.hook.clone(), config.clone());
        let work = move || digest(&hook, &config);
        let now = self.files.run(&loaded.hook.origin.path, work).await;
        match now {
            Ok(Ok(now)) if now == loaded.digest => Ok(()),
            Ok(Err(why)) => Err(why),
            Ok(Ok(_)) => {
                Err("a file that its command names has changed since you trusted it; look at it, and trust \
                     the hook again (`agentd hooks trust`)"
                    .to_owned())
            }
            Err(error) => Err(error.to_string()),
        }
    }

    async fn command(&self, line: &str, hook: &Hook, place: &HookPlace) -> CommandLine {
        let HookPlace { config, sandbox, .. } = place;
        // What a project's hook names is looked for where it was when the user trusted it.
        let cwd = match project_folder(hook) {
            Some(folder) => self.present(folder).await,
            None => self.folder(place).await,
        };
        let argv = vec![self.options.shell.clone().into(), "-c".into(), line.into()];
        let mut env = command_environment(&self.options, config);
        let variables = variables(config, plugin_of(hook, config));
        env.extend(variables.into_iter().map(|(name, path)| (name.into(), path.into())));
        let policy = match hook.origin.source.is_unconfined() {
            true => Allowed::hook_program(),
            false => {
                // Programs of others are confined, even where the agent itself is not.
                let sandbox = match sandbox {
                    SandboxPolicy::DangerFullAccess => workspace_write(),
                    confined => confined.clone(),
                };
                let (sandbox, _) = Allowed::new(sandbox, config, &place.cwd);
                sandbox.confinement(&place.cwd)
            }
        };
        let guarded = config.trusted_folders.clone();
        let command = CommandLine::new(argv, cwd, env, policy);
        CommandLine { stdin: Stdin::Pipe, guarded, ..command }
    }

    /// The working folder of an event; its hooks look for it once.
    async fn folder(&self, place: &HookPlace) -> PathBuf {
        place.folder.get_or_init(|| self.present(&place.cwd)).await.clone()
    }

    /// A folder, or the root when the folder is gone: an agent that removes the working folder must not
    /// keep the hooks from running.
    async fn present(&self, folder: &Path) -> PathBuf {
        let wanted = folder.to_owned();
        let found = self.files.run(folder, move || wanted.is_dir().then_some(wanted)).await;
        found.ok().flatten().unwrap_or_else(|| PathBuf::from("/"))
    }
}

fn read_model_answer(event: EventName, answer: Result<String, String>) -> Answer {
    match answer {
        Ok(text) => read_answer(event, HandlerResult::Verdict { text: &text }),
        Err(message) => read_answer(event, HandlerResult::NotRun { message: &message }),
    }
}

/// Calls the tool of a hook. Returns the text of its result, which is read as what a command prints.
async fn call_tool(
    server: &str,
    tool: &str,
    arguments: &Value,
    input: &str,
    place: &HookPlace,
) -> Result<String, String> {
    let found = place.servers.iter().find(|one| one.name() == server);
    let found = found.ok_or_else(|| {
        format!(
            "the MCP server `{server}` is not configured for the thread: add it to `mcp_servers`"
        )
    })?;
    let failed = |error: mcp::Error| format!("MCP server `{server}`: {error}");
    found.ready().await.map_err(failed)?;
    let call = mcp::Call {
        holder: Some(place.context.thread.clone()),
        turn: place.context.turn.clone(),
        tool: tool.to_owned(),
        arguments: Some(arguments_with(arguments, input)),
        ..mcp::Call::default()
    };
    let result = found.call(call).await.map_err(failed)?;
    let parts = result.get("content").and_then(Value::as_array).cloned().unwrap_or_default();
    let texts: Vec<&str> =
        parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str)).collect();
    match result.get("isError") {
        Some(Value::Bool(true)) => Err(format!("the tool reports a failure: {}", texts.join("\n"))),
        _ => Ok(texts.join("\n")),
    }
}

/// The arguments of a tool: those of the file, with the event in place of `$ARGUMENTS`; without any,
/// the event itself.
fn arguments_with(arguments: &Value, input: &str) -> Map<String, Value> {
    let event: Value = serde_json::from_str(input).unwrap_or_default();
    match arguments {
        Value::Object(members) if !members.is_empty() => {
            let filled = |(name, value): (&String, &Value)| {
                let is_event = value.as_str() == Some(ARGUMENTS);
                (name.clone(), if is_event { event.clone() } else { value.clone() })
            };
            members.iter().map(filled).collect()
        }
        _ => event.as_object().cloned().unwrap_or_default(),
    }
}

/// The policy of hooks that others wrote, in a thread without confinement.
fn workspace_write() -> SandboxPolicy {
    SandboxPolicy::WorkspaceWrite {
        writable_roots: Vec::new(),
        read: ReadAccess::Full,
        network: false,
        exclude_slash_tmp: false,
        exclude_tmpdir: false,
    }
}

/// The prompt of a hook for a model.
pub fn prompt_with(prompt: &str, input: &str) -> String {
    match prompt.contains(ARGUMENTS) {
        true => prompt.replace(ARGUMENTS, input),
        false => format!("{prompt}\n\n{input}"),
    }
}
