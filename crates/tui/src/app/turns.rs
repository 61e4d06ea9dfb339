//! Starting turns, adding to them, interrupting them, and messages that wait.

use protocol::{
    Thread, ThreadShellCommandParams, TurnInterruptParams, TurnStartParams, TurnSteerParams,
};

use crate::app::{App, Effect};
use crate::ask::Answer;
use crate::composer::Draft;
use crate::palette::Palette;
use crate::session::ActiveTurn;
use crate::text::{Line, Style};

impl App {
    /// Shows the text before a thread's first item.
    pub(super) fn greet(&mut self, model: &str, cwd: &str, thread: &Thread, has_turns: bool) {
        let folder = self.folder(cwd);
        let title = Line::new("agentd", Style::BOLD)
            .with(format!("  {model}  "), Style::PLAIN)
            .with(folder, Palette::QUIET);
        self.print([title]);
        if self.settings.tooltips && !has_turns && !std::mem::replace(&mut self.has_hinted, true) {
            let hint = "Write what is to be done. / lists commands, @ files, $ skills, ! runs a shell command.";
            let hint = Line::new(hint, Palette::QUIET).wrapped(self.size.columns, &Line::default());
            self.print(hint);
        }
        if let Some(name) = &thread.name {
            self.print([Line::new(name.clone(), Palette::QUIET)]);
        }
        self.print([Line::default()]);
    }

    /// A message from the composer: to the running turn, or as a new one.
    pub(super) fn submit(&mut self, draft: Draft) {
        if draft.is_blank() {
            return;
        }
        self.queue.forget_edited();
        if let Some(command) = draft.shell() {
            return self.shell(command.to_owned());
        }
        match self.session.turn_id() {
            Some(turn) => {
                let turn = turn.to_owned();
                self.steer(draft, turn);
            }
            None if self.session.turn.is_some() => self.wait_for_end(draft),
            None => self.start_turn(draft),
        }
    }

    pub(super) fn start_turn(&mut self, draft: Draft) {
        let Some(thread_id) = self.session.id.clone().filter(|_| !self.login.holds()) else {
            // It is sent as soon as there is a thread, and a model that can be asked.
            return self.wait_for_end(draft);
        };
        // Shown at once: the notification follows.
        self.session.turn = Some(ActiveTurn {
            id: None,
            started_ms: self.now,
            before_ms: 0,
            retry: None,
            has_message: false,
            is_interrupting: false,
        });
        let params = TurnStartParams {
            thread_id,
            input: draft.inputs(),
            ..std::mem::take(&mut self.overrides)
        };
        let sending = self.sent.add(draft);
        self.call::<protocol::TurnStart>(&params, move |app, result| {
            let draft = app.sent.answered(sending);
            match result {
                // The notification may be later than the answer, and the next key earlier than both.
                Ok(started) => {
                    app.turn_started(&started.turn);
                }
                Err(error) => {
                    app.session.turn = None;
                    app.give_back(draft.into_iter().collect());
                    app.error(&format!("The message was not sent: {}", error.message));
                }
            }
        });
    }

    fn steer(&mut self, draft: Draft, expected_turn_id: String) {
        let Some(thread_id) = self.session.id.clone() else { return };
        let params = TurnSteerParams {
            thread_id,
            input: draft.inputs(),
            expected_turn_id,
            responsesapi_client_metadata: None,
        };
        let sending = self.sent.add(draft);
        self.call::<protocol::TurnSteer>(&params, move |app, result| {
            let (Some(draft), Err(_)) = (app.sent.answered(sending), result) else { return };
            // The turn has just ended: the message starts the next one.
            if app.session.turn.is_none() {
                return app.start_turn(draft);
            }
            app.wait_for_end(draft);
            app.notice("The turn takes no more input: the message waits for its end.");
        });
    }

    fn shell(&mut self, command: String) {
        let Some(thread_id) = self.session.id.clone() else { return };
        let params = ThreadShellCommandParams { thread_id, command };
        self.call_or_report::<protocol::ThreadShellCommand>(&params, "The command was not run");
    }

    pub(super) fn interrupt(&mut self) {
        let Some(thread_id) = self.session.id.clone() else { return };
        let Some(turn) = &mut self.session.turn else { return };
        let Some(turn_id) = turn.id.clone() else { return };
        if std::mem::replace(&mut turn.is_interrupting, true) {
            return;
        }
        let params = TurnInterruptParams { thread_id, turn_id };
        self.call_or_report::<protocol::TurnInterrupt>(&params, "The turn was not interrupted");
    }

    pub(super) fn edited(&mut self, result: Result<String, String>) -> bool {
        match result {
            Ok(text) => self.composer.restore(Draft::plain(text)),
            Err(why) => self.error(&why),
        }
        true
    }

    /// Answers the question in front.
    pub(super) fn answer(&mut self, answer: Answer) {
        let Some(question) = self.questions.pop_front() else { return };
        self.effects.push_back(Effect::Respond { id: question.id, outcome: answer.reply });
        if let Some(address) = answer.open {
            self.effects.push_back(Effect::Browse(address));
        }
        self.print(answer.summary.wrapped(self.size.columns, &Line::plain("  ")));
        self.print([Line::default()]);
        // The next one is as new to the reader as this one was.
        if let Some(next) = self.questions.front_mut() {
            next.ask.comes_to_front(self.now);
        }
    }

    /// Informs the user, who looks at something else.
    pub(super) fn notify(&mut self, event: &str, text: &str) {
        if self.is_focused || !self.settings.notifications.includes(event) {
            return;
        }
        let bytes = match self.settings.rings {
            true => b"\x07".to_vec(),
            false => format!("\x1b]9;{}\x1b\\", visible::line(text)).into_bytes(),
        };
        self.effects.push_back(Effect::Write(bytes));
    }

    /// The folder of the thread, or that of the start while there is no thread.
    pub(super) fn working_folder(&self) -> String {
        self.session.cwd.as_ref().unwrap_or(&self.cwd).to_string_lossy().into_owned()
    }

    /// A folder as people write it.
    pub(super) fn folder(&self, path: &str) -> String {
        let home = self.environment.home.as_ref().and_then(|home| home.to_str());
        match home.and_then(|home| path.strip_prefix(home)) {
            Some("") => "~".to_owned(),
            Some(rest) if rest.starts_with('/') => format!("~{rest}"),
            _ => path.to_owned(),
        }
    }
}
