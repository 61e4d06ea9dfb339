//! Commands that the user runs in a thread: outside of the sandbox, beside a turn or as a turn of
//! their own. The model is told what came of them with its next request.

use std::path::PathBuf;

use crate::Id;
use crate::effect::{Answer, Effect, ExecSpec, Record, ToolRequest};
use crate::history::{self, Fragment};
use crate::item::{Action, CommandItem, CommandSource, Item, ItemStatus};
use crate::machine::Machine;
use crate::output;
use crate::processes::Process;
use crate::settings::SandboxPolicy;
use crate::turn::{Kind, Turn};

impl Machine {
    /// `thread/shellCommand`.
    pub(crate) fn user_shell(
        &mut self,
        reply: u64,
        script: String,
        cwd: PathBuf,
        actions: Vec<Action>,
    ) {
        if self.closed {
            return self.refuse(reply, "the server is shutting down".into());
        }
        if let Some(message) = self.too_many_processes() {
            return self.refuse(reply, message);
        }
        let number = self.number();
        let turn = match &self.turn {
            Some(turn) if turn.ending.is_some() => {
                return self.refuse(reply, "the running turn is ending; try again".into());
            }
            Some(turn) => {
                let turn = turn.view.id.clone();
                self.effect(Effect::Reply { reply, result: Ok(Answer::Done) });
                turn
            }
            None => {
                let view = self.new_turn();
                let turn = Turn::new(view, Kind::Shell { process: number });
                let turn = self.begin_turn(reply, turn);
                self.store_repairs(&turn);
                self.preview_text(&script);
                turn
            }
        };
        let item = CommandItem {
            id: self.ids.item(),
            command: script.clone(),
            cwd: cwd.clone(),
            status: ItemStatus::InProgress,
            actions,
            output: None,
            exit_code: None,
            duration_ms: None,
            process_id: Some(number.to_string()),
            source: CommandSource::User,
        };
        self.begin_item(&turn, Item::Command(item.clone()));
        let limits = self.limits;
        let process = Process::of_user(turn, item, self.now, &limits);
        self.processes.insert(number, process);
        let request = ToolRequest::Script { script, workdir: None, shell: None, login: false };
        let spec = ExecSpec {
            call: number,
            request,
            cwd,
            sandbox: SandboxPolicy::DangerFullAccess,
            tty: false,
            timeout_ms: None,
        };
        self.effect(Effect::Run { process: number, spec });
    }

    /// Tells the model of a user's command that ended; the turn may go on, or be over.
    pub(crate) fn user_shell_ended(&mut self, number: u64, turn: &Id, item: &Item) {
        let Item::Command(command) = item else { return };
        let tokens = self.limits.tool_output_tokens;
        let cap = usize::try_from(tokens.saturating_mul(4)).unwrap_or(usize::MAX);
        let ended = match command.exit_code {
            Some(code) => format!("exit code {code}"),
            None => "no exit code: it was stopped, or could not be started".to_owned(),
        };
        let text = format!(
            "<user_shell_command>\n<command>\n{}\n</command>\n<result>\n{ended}\n{}\n</result>\n\
             </user_shell_command>",
            command.command,
            output::shorten(command.output.as_deref().unwrap_or_default(), cap)
        );
        let fragment = Fragment::passing(history::message("user", &text));
        let running = self.turn.as_ref().filter(|turn| turn.ending.is_none());
        match running.map(|running| (running.view.id.clone(), running.awaits(number))) {
            // The thread's own history, not the review's: the review is about something else.
            Some((active, true)) => {
                self.history.push(fragment.clone());
                self.persist(Record::History { turn: Some(active), fragments: vec![fragment] });
                if let Some(turn) = &mut self.turn {
                    turn.kind = Kind::Ordinary;
                }
                self.advance();
            }
            Some((active, false)) => self.add_pending_fragments(&active, vec![fragment]),
            None if self.turn.as_ref().is_some_and(Turn::is_review) => {
                self.add_pending_fragments(turn, vec![fragment]);
            }
            None => {
                let ending = self.turn.is_some().then(|| turn.clone());
                self.persist(Record::History { turn: ending, fragments: vec![fragment.clone()] });
                // Behind the outputs of the calls that are ended with the turn.
                match &mut self.turn {
                    Some(turn) => turn.pending.push(fragment),
                    None => self.history.push(fragment),
                }
            }
        }
    }

    /// `thread/inject_items`.
    pub(crate) fn inject(&mut self, reply: u64, fragments: Vec<Fragment>) {
        let running = self.turn.as_ref().map(|turn| (turn.view.id.clone(), turn.ending.is_some()));
        match running {
            Some((_, true)) => {
                self.refuse(reply, "the running turn is ending; try again".into());
            }
            Some((turn, false)) => {
                self.effect(Effect::Reply { reply, result: Ok(Answer::Done) });
                self.add_pending_fragments(&turn, fragments);
            }
            None => {
                self.history.extend(fragments.iter().cloned());
                self.persist(Record::History { turn: None, fragments });
                self.effect(Effect::Reply { reply, result: Ok(Answer::Done) });
            }
        }
    }

    /// `thread/backgroundTerminals/clean`: ends the commands that no call waits for.
    pub(crate) fn clean_terminals(&mut self, reply: u64) {
        let awaited = self.turn.as_ref().and_then(Turn::awaited);
        self.end_processes(|number, process| process.waiting.is_none() && Some(number) != awaited);
        self.ended.clear();
        self.effect(Effect::Reply { reply, result: Ok(Answer::Done) });
    }
}
