//! The commands of a thread: those that run, with their output and the call that waits for it, and
//! those that ended in the background, until the model asks for them.

pub(crate) mod output;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::cx::Cx;
use crate::port::effect::Effect;
use crate::port::event::Event;
use crate::port::item::{CommandItem, Item, ItemStatus};
use crate::port::thread::Limits;
use crate::port::tool::ProcessEnd;
use crate::port::tool_error::ToolError;
use crate::unstored_text::{Portions, UnstoredText};
use crate::{Id, Millis};
use output::HeadTail;

/// Texts that may be typed again into one command; past it the user is asked again.
const MAX_ALLOWED_TEXTS: usize = 100;
/// Why a command ends with its turn.
const GRANT_ENDED: &str = "the command had permissions that were granted until the end of the turn, so \
     it ended with the turn; request them for the session, or start it again";

/// The commands of a thread.
#[derive(Default)]
pub(crate) struct Processes {
    running: BTreeMap<u64, Process>,
    /// At most [`Limits::processes`]; the oldest go first.
    ended: BTreeMap<u64, Ended>,
}

/// A running command. It may outlive the call, and the turn, that began it.
struct Process {
    turn: Id,
    item: CommandItem,
    /// True if it reads typed text.
    tty: bool,
    /// True if it was started in plan mode, so that nothing typed makes it write.
    reads_only: bool,
    /// See [`AgentCommand::is_outside`].
    is_outside: bool,
    /// See [`AgentCommand::ends_with_turn`].
    ends_with_turn: bool,
    /// See [`AgentCommand::cwd`].
    cwd: PathBuf,
    /// Texts that the user allowed to be typed again, where it is outside of the sandbox.
    allowed_texts: BTreeSet<String>,
    started_at: Millis,
    /// When the call that waits began to wait.
    asked_at: Millis,
    aggregated: HeadTail,
    /// Output that the model has not seen.
    unread: HeadTail,
    caller: Caller,
    default_tokens: u64,
    /// Output of the next answer, in tokens.
    tokens: u64,
    streamed_bytes: usize,
    /// Of its output.
    unstored: UnstoredText,
}

/// Who has an interest in a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Caller {
    /// The user ran it.
    User,
    /// This call of the agent waits for output.
    Call(u64),
    /// It runs in the background.
    None,
}

/// A command that ended while no call waited for it.
struct Ended {
    state: String,
    unread: String,
}

/// The parameters for starting a command of the agent.
pub(crate) struct AgentCommand {
    /// The call that starts it and waits.
    pub(crate) call: u64,
    /// True if it gets a terminal.
    pub(crate) tty: bool,
    /// True if it can only read.
    pub(crate) reads_only: bool,
    /// True if no sandbox confines it.
    pub(crate) is_outside: bool,
    /// True if it has permissions that were granted until the end of the turn, and so ends with it.
    pub(crate) ends_with_turn: bool,
    /// The real path of its working folder.
    pub(crate) cwd: PathBuf,
    /// Output of an answer, in tokens; `None`: the default, which is also the most.
    pub(crate) tokens: Option<u64>,
}

/// The effects of the end of a command, whose item is completed.
pub(crate) enum AfterExit {
    /// Nothing: it ran in the background.
    Nothing,
    /// The model learns of the user's command.
    TellUserCommand(CommandItem),
    /// The call that waited is answered.
    Answer { call: u64, output: String },
    /// The sandbox is not available. The turn that ran the command fails, and its call is answered.
    FailTurn { message: String, call: Option<(u64, String)> },
}

impl Process {
    fn new(turn: Id, item: CommandItem, caller: Caller, now: Millis, limits: &Limits) -> Self {
        Self {
            turn,
            cwd: item.cwd.clone(),
            item,
            tty: false,
            reads_only: false,
            is_outside: false,
            ends_with_turn: false,
            allowed_texts: BTreeSet::new(),
            started_at: now,
            asked_at: now,
            aggregated: HeadTail::new(limits.output_bytes),
            unread: HeadTail::new(limits.output_bytes),
            caller,
            default_tokens: limits.tool_output_tokens,
            tokens: limits.tool_output_tokens,
            streamed_bytes: limits.streamed_bytes,
            unstored: UnstoredText::default(),
        }
    }

    fn set_tokens(&mut self, tokens: Option<u64>) {
        self.tokens = tokens.unwrap_or(self.default_tokens).min(self.default_tokens);
    }

    /// The output of a call: the state of the command and its new output.
    fn answer(&mut self, now: Millis, state: &str) -> String {
        let waited = (now - self.asked_at).max(0);
        answer(waited, state, &self.unread.take(), self.tokens)
    }

    fn item(&self, now: Millis, status: ItemStatus, exit_code: Option<i32>) -> CommandItem {
        CommandItem {
            status,
            exit_code,
            duration_ms: Some((now - self.started_at).max(0)),
            output: Some(self.aggregated.text()),
            omitted: self.aggregated.omitted(),
            ..self.item.clone()
        }
    }
}

impl Processes {
    /// Refuses one more command than may run at once.
    pub(crate) fn check_room(&self, limits: &Limits) -> Result<(), ToolError> {
        let (running, limit) = (self.running.len(), limits.processes);
        if running < limit {
            return Ok(());
        }
        let message = format!("{running} commands are running, {limit} at most; end one first");
        Err(ToolError::new(message))
    }

    /// Returns whether no command runs.
    pub(crate) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// The item of a running command, and the real path of its working folder.
    pub(crate) fn in_folder(&self, process: u64) -> Option<(&CommandItem, &Path)> {
        self.running.get(&process).map(|process| (&process.item, process.cwd.as_path()))
    }

    /// The items of the running commands as they are now, each with its turn.
    pub(crate) fn items(&self, now: Millis) -> impl Iterator<Item = (Id, Item)> + '_ {
        self.running.values().map(move |process| {
            let item = process.item(now, ItemStatus::InProgress, None);
            (process.turn.clone(), Item::Command(item))
        })
    }

    /// The items with output to store, each with its turn.
    pub(crate) fn with_new_output(&mut self, portions: Portions, now: Millis) -> Vec<(Id, Item)> {
        let news = |process: &mut Process| {
            process.unstored.take(portions).then(|| {
                let item = process.item(now, ItemStatus::InProgress, None);
                (process.turn.clone(), Item::Command(item))
            })
        };
        self.running.values_mut().filter_map(news).collect()
    }

    /// Adds a command of the agent.
    pub(crate) fn start(&mut self, turn: &Id, item: CommandItem, by: &AgentCommand, cx: &Cx) {
        let caller = Caller::Call(by.call);
        let mut process = Process::new(turn.clone(), item, caller, cx.now, &cx.limits);
        process.tty = by.tty;
        process.reads_only = by.reads_only;
        process.is_outside = by.is_outside;
        process.ends_with_turn = by.ends_with_turn;
        process.cwd.clone_from(&by.cwd);
        process.set_tokens(by.tokens);
        self.running.insert(by.call, process);
    }

    /// Adds a command of the user.
    pub(crate) fn start_for_user(&mut self, number: u64, turn: &Id, item: CommandItem, cx: &Cx) {
        let process = Process::new(turn.clone(), item, Caller::User, cx.now, &cx.limits);
        self.running.insert(number, process);
    }

    /// A command wrote text.
    pub(crate) fn output(&mut self, number: u64, text: String, cx: &mut Cx) {
        let Some(process) = self.running.get_mut(&number) else { return };
        let is_streamed = process.aggregated.seen() < process.streamed_bytes;
        process.aggregated.push(&text);
        process.unread.push(&text);
        if is_streamed {
            process.unstored.add(text.len(), &mut cx.unstored);
            let (turn, item) = (process.turn.clone(), process.item.id.clone());
            cx.emit(Event::CommandOutput { turn, item, text });
        }
    }

    /// A command ended; `None` when it was ended before. `active` is the running turn.
    pub(crate) fn exited(
        &mut self,
        number: u64,
        end: ProcessEnd,
        active: Option<&Id>,
        cx: &mut Cx,
    ) -> Option<AfterExit> {
        let mut process = self.running.remove(&number)?;
        let (status, exit_code, state) = match &end {
            ProcessEnd::Code(code) => {
                let code = *code;
                let status = if code == 0 { ItemStatus::Completed } else { ItemStatus::Failed };
                (status, Some(code), format!("Process exited with code {code}"))
            }
            ProcessEnd::TimedOut => {
                let state = "Process was killed at its timeout (exit code 124)".to_owned();
                (ItemStatus::Failed, Some(124), state)
            }
            ProcessEnd::Limited { code, reason } => {
                process.aggregated.push(&format!("\n[ended at a limit: {reason}]\n"));
                let state = format!("Process was ended at a limit (exit code {code}): {reason}");
                (ItemStatus::Failed, Some(*code), state)
            }
            ProcessEnd::NotStarted(message) | ProcessEnd::Unconfined(message) => {
                process.aggregated.push(message);
                (ItemStatus::Failed, None, format!("Process was not started: {message}"))
            }
        };
        let item = process.item(cx.now, status, exit_code);
        cx.item_completed(&process.turn, Item::Command(item.clone()));
        let then = match (process.caller, end) {
            (Caller::User, _) => AfterExit::TellUserCommand(item),
            // No command of the turn can run, and only a person can fix this.
            (caller, ProcessEnd::Unconfined(message)) if active == Some(&process.turn) => {
                let call = match caller {
                    Caller::Call(call) => Some((call, state)),
                    Caller::User | Caller::None => None,
                };
                AfterExit::FailTurn { message, call }
            }
            (Caller::Call(call), _) => {
                AfterExit::Answer { call, output: process.answer(cx.now, &state) }
            }
            (Caller::None, _) => {
                self.keep_ended(number, state, &mut process, &cx.limits);
                AfterExit::Nothing
            }
        };
        Some(then)
    }

    fn keep_ended(&mut self, number: u64, state: String, process: &mut Process, limits: &Limits) {
        let unread = output::shorten(&process.unread.take(), bytes(process.default_tokens));
        self.ended.insert(number, Ended { state, unread });
        if self.ended.len() > limits.processes {
            self.ended.pop_first();
        }
    }

    /// The output of a call that asks for a command that ended before; given only once.
    pub(crate) fn take_ended(
        &mut self,
        number: u64,
        tokens: Option<u64>,
        limits: &Limits,
    ) -> Option<String> {
        let Ended { state, unread } = self.ended.remove(&number)?;
        let most = limits.tool_output_tokens;
        Some(answer(0, &state, &unread, tokens.unwrap_or(most).min(most)))
    }

    /// Forgets the commands that ended in the background.
    pub(crate) fn forget_ended(&mut self) {
        self.ended.clear();
    }

    /// A call waits for a running command, and types `chars` into it where there are any. Returns
    /// the id of the command's item.
    pub(crate) fn interact(
        &mut self,
        number: u64,
        interaction: &Interaction<'_>,
        now: Millis,
    ) -> Result<Id, InteractionError> {
        self.check_interaction(number, interaction)?;
        let Interaction { call, tokens, .. } = *interaction;
        let process = self.running.get_mut(&number).ok_or(InteractionError::NotRunning)?;
        process.caller = Caller::Call(call);
        process.set_tokens(tokens);
        process.asked_at = now;
        Ok(process.item.id.clone())
    }

    /// Checks that a call can wait for a running command, and type its text into it.
    pub(crate) fn check_interaction(
        &self,
        number: u64,
        interaction: &Interaction<'_>,
    ) -> Result<(), InteractionError> {
        let Interaction { chars, reads_only, .. } = *interaction;
        let process = self.running.get(&number).ok_or(InteractionError::NotRunning)?;
        match process.caller {
            // The user's own commands are not the agent's to talk to.
            Caller::User => return Err(InteractionError::NotRunning),
            Caller::Call(_) => return Err(InteractionError::Busy),
            Caller::None => {}
        }
        if !chars.is_empty() && !process.tty {
            return Err(InteractionError::NoInput);
        }
        if reads_only && !chars.is_empty() && !process.reads_only {
            return Err(InteractionError::MayWrite);
        }
        Ok(())
    }

    /// The command that `text` needs an approval for, because no sandbox confines it. `None`: it needs
    /// none.
    pub(crate) fn outside_command(&self, number: u64, text: &str) -> Option<OutsideCommand> {
        let process = self.running.get(&number).filter(|process| process.is_outside)?;
        let needs_approval = !text.is_empty() && !process.allowed_texts.contains(text);
        needs_approval.then(|| OutsideCommand {
            item: process.item.id.clone(),
            display: process.item.command.clone(),
            cwd: process.cwd.clone(),
        })
    }

    /// The user allows the same text for this command again.
    pub(crate) fn allow_text(&mut self, number: u64, text: &str) {
        if let Some(process) = self.running.get_mut(&number)
            && process.allowed_texts.len() < MAX_ALLOWED_TEXTS
        {
            process.allowed_texts.insert(text.to_owned());
        }
    }

    /// Ends the commands that have permissions of the turn that ends. No call waits for them. The
    /// model learns why when it asks for them.
    pub(crate) fn end_with_turn(&mut self, cx: &mut Cx) {
        let ends = |(number, process): (&u64, &Process)| process.ends_with_turn.then_some(*number);
        let over: Vec<u64> = self.running.iter().filter_map(ends).collect();
        for number in over {
            let Some(mut process) = self.running.remove(&number) else { continue };
            cx.push(Effect::Kill { process: number });
            process.aggregated.push(&format!("agentd: {GRANT_ENDED}\n"));
            let item = process.item(cx.now, ItemStatus::Failed, None);
            cx.item_completed(&process.turn, Item::Command(item));
            let state = format!("Process was ended: {GRANT_ENDED}");
            self.keep_ended(number, state, &mut process, &cx.limits);
        }
    }

    /// The call that waits for this command has waited long enough. Returns its output.
    pub(crate) fn elapsed(&mut self, number: u64, now: Millis) -> Option<String> {
        let process = self.running.get_mut(&number)?;
        process.caller = Caller::None;
        Some(process.answer(now, &format!("Process running with session ID {number}")))
    }

    /// Notes that the typed text did not reach the command. Returns the call that waits for it.
    pub(crate) fn not_typed(&mut self, number: u64) -> Option<u64> {
        let process = self.running.get_mut(&number)?;
        let Caller::Call(call) = process.caller else { return None };
        process.caller = Caller::None;
        Some(call)
    }

    /// Ends the waiting of calls, even for a command of an earlier turn.
    pub(crate) fn stop_waiting(&mut self) {
        for process in self.running.values_mut() {
            if matches!(process.caller, Caller::Call(_)) {
                process.caller = Caller::None;
            }
        }
    }

    /// The numbers of the commands of a turn that end with it. When it is completed, those of the agent
    /// go on in the background.
    pub(crate) fn ending_with(&self, turn: &Id, is_completed: bool) -> Vec<u64> {
        self.numbers(|process| {
            process.turn == *turn && (!is_completed || process.caller == Caller::User)
        })
    }

    /// Returns whether commands of the user run in a turn.
    pub(crate) fn run_for_user(&self, turn: &Id) -> bool {
        self.running.values().any(|process| process.caller == Caller::User && process.turn == *turn)
    }

    /// The numbers of the commands that no call waits for; those of the user only `with_users`.
    pub(crate) fn without_call(&self, with_users: bool) -> Vec<u64> {
        self.numbers(|process| match process.caller {
            Caller::Call(_) => false,
            Caller::User => with_users,
            Caller::None => true,
        })
    }

    fn numbers(&self, matches: impl Fn(&Process) -> bool) -> Vec<u64> {
        let matching = self.running.iter().filter(|(_, process)| matches(process));
        matching.map(|(number, _)| *number).collect()
    }

    /// The numbers of all commands.
    pub(crate) fn all(&self) -> Vec<u64> {
        self.running.keys().copied().collect()
    }

    /// Ends a running command now. No call is answered.
    pub(crate) fn kill(&mut self, number: u64, cx: &mut Cx) -> Option<AfterExit> {
        let process = self.running.remove(&number)?;
        cx.push(Effect::Kill { process: number });
        let item = process.item(cx.now, ItemStatus::Failed, None);
        cx.item_completed(&process.turn, Item::Command(item.clone()));
        let then = match process.caller {
            Caller::User => AfterExit::TellUserCommand(item),
            Caller::Call(_) | Caller::None => AfterExit::Nothing,
        };
        Some(then)
    }
}

/// A running command that no sandbox confines.
#[derive(Clone, Debug)]
pub(crate) struct OutsideCommand {
    /// Its item.
    pub(crate) item: Id,
    /// The command in display form.
    pub(crate) display: String,
    /// The real path of its working folder.
    pub(crate) cwd: PathBuf,
}

/// A call that waits for a running command.
#[derive(Clone, Copy)]
pub(crate) struct Interaction<'a> {
    /// The call.
    pub(crate) call: u64,
    /// The text to type; empty to wait only.
    pub(crate) chars: &'a str,
    /// True if the call may not make a command write.
    pub(crate) reads_only: bool,
    /// See [`AgentCommand::tokens`].
    pub(crate) tokens: Option<u64>,
}

/// Why a call cannot wait for a command or type into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InteractionError {
    /// No such command of the agent runs.
    NotRunning,
    /// Another call waits for it.
    Busy,
    /// It has no terminal.
    NoInput,
    /// It was started outside of plan mode.
    MayWrite,
}

fn answer(waited: Millis, state: &str, text: &str, tokens: u64) -> String {
    let cap = bytes(tokens);
    let seconds = waited as f64 / 1000.0;
    let mut answer = format!("Wall time: {seconds:.1} seconds\n{state}\n");
    if text.len() > cap {
        answer.push_str(&format!("Original token count: {}\n", text.len() / 4));
    }
    answer.push_str("Output:\n");
    answer.push_str(&output::shorten(text, cap));
    answer
}

/// Bytes of about so many tokens.
pub(crate) fn bytes(tokens: u64) -> usize {
    usize::try_from(tokens.saturating_mul(4)).unwrap_or(usize::MAX)
}
