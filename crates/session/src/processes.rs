//! The commands of a thread while they run: their output, their item, and the call that waits.

use serde_json::json;

use crate::calls::CallState;
use crate::effect::Effect;
use crate::event::Event;
use crate::input::{Failure, FailureKind, ProcessEnd};
use crate::item::{CommandItem, Item, ItemStatus};
use crate::machine::{Limits, Machine};
use crate::output::{self, HeadTail};
use crate::{Id, Millis};

/// A running command. It may outlive the call, and the turn, that began it.
pub(crate) struct Process {
    pub(crate) turn: Id,
    pub(crate) item: CommandItem,
    /// Whether it reads what is typed.
    pub(crate) tty: bool,
    /// Whether it was started in plan mode, so that nothing typed makes it write.
    pub(crate) reads_only: bool,
    started_at: Millis,
    /// When the call that waits began to wait.
    pub(crate) asked_at: Millis,
    aggregated: HeadTail,
    /// Output that the model has not seen.
    unread: HeadTail,
    /// The call that waits for output.
    pub(crate) waiting: Option<u64>,
    default_tokens: u64,
    tokens: u64,
    streamed_bytes: usize,
    /// The user ran it.
    by_user: bool,
}

impl Process {
    /// A command of the user's: no call waits for it.
    pub(crate) fn of_user(turn: Id, item: CommandItem, now: Millis, limits: &Limits) -> Self {
        let process = Self::new(turn, item, false, now, limits, 0, None);
        Self { waiting: None, by_user: true, ..process }
    }

    /// The item as it is now.
    pub(crate) fn shown(&self, now: Millis) -> Item {
        self.final_item(now, ItemStatus::InProgress, None)
    }

    pub(crate) fn new(
        turn: Id,
        item: CommandItem,
        tty: bool,
        now: Millis,
        limits: &Limits,
        call: u64,
        tokens: Option<u64>,
    ) -> Self {
        let mut process = Self {
            turn,
            item,
            tty,
            reads_only: false,
            started_at: now,
            asked_at: now,
            aggregated: HeadTail::new(limits.output_bytes),
            unread: HeadTail::new(limits.output_bytes),
            waiting: Some(call),
            default_tokens: limits.tool_output_tokens,
            tokens: limits.tool_output_tokens,
            streamed_bytes: limits.streamed_bytes,
            by_user: false,
        };
        process.set_tokens(tokens);
        process
    }

    /// How much of its output the next answer holds.
    pub(crate) fn set_tokens(&mut self, tokens: Option<u64>) {
        self.tokens = tokens.unwrap_or(self.default_tokens).min(self.default_tokens);
    }

    /// What a call is answered: the state of the command and its new output.
    fn answer(&mut self, now: Millis, state: &str) -> String {
        let waited = (now - self.asked_at).max(0);
        answer(waited, state, &self.unread.take(), self.tokens)
    }

    fn final_item(&self, now: Millis, status: ItemStatus, exit_code: Option<i32>) -> Item {
        let mut item = self.item.clone();
        item.status = status;
        item.exit_code = exit_code;
        item.duration_ms = Some((now - self.started_at).max(0));
        item.output = Some(self.aggregated.text());
        Item::Command(item)
    }
}

/// A command that ended while no call waited for it.
pub(crate) struct Ended {
    state: String,
    unread: String,
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

fn bytes(tokens: u64) -> usize {
    usize::try_from(tokens.saturating_mul(4)).unwrap_or(usize::MAX)
}

impl Machine {
    pub(crate) fn process_output(&mut self, number: u64, text: String) {
        let Some(process) = self.processes.get_mut(&number) else { return };
        let stream = process.aggregated.seen() < process.streamed_bytes;
        process.aggregated.push(&text);
        process.unread.push(&text);
        if stream {
            let (turn, item) = (process.turn.clone(), process.item.id.clone());
            self.emit(Event::CommandOutput { turn, item, text });
        }
    }

    pub(crate) fn process_exited(&mut self, number: u64, end: ProcessEnd) {
        self.network_unused(number);
        let Some(mut process) = self.processes.remove(&number) else { return };
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
            ProcessEnd::NotStarted(message) | ProcessEnd::Unconfined(message) => {
                process.aggregated.push(message);
                (ItemStatus::Failed, None, format!("Process was not started: {message}"))
            }
        };
        let item = process.final_item(self.now, status, exit_code);
        let turn = process.turn.clone();
        self.item_completed(&turn, item.clone());
        if process.by_user {
            return self.user_shell_ended(number, &turn, &item);
        }
        if let ProcessEnd::Unconfined(message) = end
            && self.active_turn() == Some(&turn)
        {
            if let Some(call) = process.waiting {
                self.answer_last(call, state);
            }
            // No command of the turn can run, and only a person can mend this.
            return self.fail(Failure::new(FailureKind::SandboxError, message));
        }
        match process.waiting {
            Some(call) => {
                let answer = process.answer(self.now, &state);
                self.answer(call, answer);
            }
            None => self.keep_ended(number, state, &mut process),
        }
    }

    /// Keeps how a command ended for the call that will ask; the oldest go first.
    fn keep_ended(&mut self, number: u64, state: String, process: &mut Process) {
        let unread = output::shorten(&process.unread.take(), bytes(process.default_tokens));
        self.ended.insert(number, Ended { state, unread });
        if self.ended.len() > self.limits.processes {
            self.ended.pop_first();
        }
    }

    /// What a call is answered that asks for a command that ended before; only once.
    pub(crate) fn take_ended(&mut self, number: u64, tokens: Option<u64>) -> Option<String> {
        let Ended { state, unread } = self.ended.remove(&number)?;
        let most = self.limits.tool_output_tokens;
        Some(answer(0, &state, &unread, tokens.unwrap_or(most).min(most)))
    }

    /// The call has waited long enough: it is answered with what there is.
    pub(crate) fn elapsed(&mut self, number: u64) {
        let Some(call) = self.find_call(number) else { return };
        let CallState::Waiting { process } = call.state else { return };
        let now = self.now;
        let Some(running) = self.processes.get_mut(&process) else { return };
        running.waiting = None;
        let answer = running.answer(now, &format!("Process running with session ID {process}"));
        self.answer(number, answer);
    }

    /// The call that typed fails: its text did not reach the command.
    pub(crate) fn not_typed(&mut self, number: u64) {
        let Some(process) = self.processes.get_mut(&number) else { return };
        let Some(call) = process.waiting.take() else { return };
        let Some(turn) = self.active_turn().cloned() else { return };
        let message = format!(
            "session {number} does not read its input: what was typed before still waits, and this \
             was not passed on; wait until it reads, or end it"
        );
        self.fail_tool(&turn, call, "write_stdin", &json!({ "session_id": number }), message);
    }

    /// Kills the commands that `which` names.
    pub(crate) fn end_processes(&mut self, which: impl Fn(u64, &Process) -> bool) {
        let numbers: Vec<u64> = self
            .processes
            .iter()
            .filter(|(number, process)| which(**number, process))
            .map(|(number, _)| *number)
            .collect();
        for number in numbers {
            self.network_unused(number);
            let Some(process) = self.processes.remove(&number) else { continue };
            self.effect(Effect::Kill { process: number });
            let item = process.final_item(self.now, ItemStatus::Failed, None);
            self.item_completed(&process.turn, item.clone());
            if process.by_user {
                self.user_shell_ended(number, &process.turn, &item);
            }
        }
    }

    /// No call waits any more, also not for a command of an earlier turn.
    pub(crate) fn stop_waiting(&mut self) {
        for process in self.processes.values_mut() {
            process.waiting = None;
        }
    }
}
