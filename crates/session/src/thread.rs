//! The parts of a thread that outlive a turn. Each part owns its state; turns use the parts by
//! their methods.

use crate::Id;
use crate::approvals::{Approvals, UserWords};
use crate::concessions::Concessions;
use crate::configuration::Configuration;
use crate::conversation::Conversation;
use crate::cx::Cx;
use crate::goal::GoalTracker;
use crate::outputs::Outputs;
use crate::port::effect::Record;
use crate::port::event::Event;
use crate::port::fragment::Fragment;
use crate::port::hook::ThreadStart;
use crate::port::model::{ModelNotice, ResponseUsage};
use crate::port::thread::ProjectDocument;
use crate::processes::Processes;
use crate::spending::Spending;
use crate::tools::CallCx;

/// The parts of a thread that outlive a turn.
pub(crate) struct Thread {
    /// The thread's own id, for items that name it.
    pub(crate) id: Id,
    pub(crate) cx: Cx,
    pub(crate) configuration: Configuration,
    pub(crate) conversation: Conversation,
    pub(crate) goal: GoalTracker,
    pub(crate) processes: Processes,
    pub(crate) approvals: Approvals,
    pub(crate) outputs: Outputs,
    pub(crate) spending: Spending,
    /// The parts of requests that its providers refused.
    pub(crate) concessions: Concessions,
    pub(crate) phase: Phase,
    /// The way in which it began, for hooks.
    pub(crate) start: ThreadStart,
    /// True if the hooks of its start have run.
    pub(crate) has_started: bool,
    /// True while messages of the user wait for a turn of their own.
    pub(crate) messages_wait: bool,
}

/// The phase of a thread, which decides whether turns may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Turns may start.
    Open,
    /// No turn starts, and the running one ends at its next safe point.
    Draining,
    /// No turn starts.
    Closed,
}

impl Thread {
    /// Returns the context of a tool call of this turn.
    pub(crate) fn call_cx<'a>(&'a mut self, turn: &'a Id) -> CallCx<'a> {
        CallCx {
            cx: &mut self.cx,
            turn,
            number: 0,
            settings: self.configuration.settings(),
            offer: self.configuration.offer(),
            processes: &mut self.processes,
            goal: &mut self.goal,
            outputs: &mut self.outputs,
        }
    }

    /// Counts what a response cost.
    pub(crate) fn account(&mut self, turn: &Id, response: ResponseUsage) {
        let (total, cost) = self.spending.add(turn, &response);
        let (last, at) = (response.tokens, self.cx.now);
        let (turn, response) = (turn.clone(), Box::new(response));
        let record = Record::TokenUsage { turn: turn.clone(), at, total, cost, last: response };
        self.cx.persist(record);
        self.cx.emit(Event::TokenUsage { turn: turn.clone(), total, last, cost });
        let announcement = self.goal.charge(&turn, last, &mut self.cx);
        self.announce_goal(announcement);
    }

    /// Passes on what a provider says about the model of a turn.
    pub(crate) fn notice(&mut self, turn: &Id, notice: ModelNotice) {
        if self.spending.is_new(turn, &notice) {
            self.cx.emit(Event::ModelNotice { turn: turn.clone(), notice });
        }
    }

    /// Returns the user's messages in the thread. `pending`: what the model has not seen yet.
    pub(crate) fn user_words(&self, pending: &[Fragment]) -> UserWords {
        let history = self.conversation.history().fragments().iter().chain(pending);
        UserWords::new(history, self.goal.goal().map(|goal| goal.objective.as_str()))
    }

    /// Adds what changed of the goal to the model's next request. A thread without a turn has its
    /// goal in its introduction.
    pub(crate) fn announce_goal(&mut self, announcement: Option<Fragment>) {
        if let Some(fragment) = announcement
            && self.conversation.introduced().is_some()
        {
            self.conversation.announce(fragment);
        }
    }

    /// Gives the model project documents with its next request, as far as it does not have them.
    pub(crate) fn offer_documents(&mut self, documents: &[ProjectDocument]) {
        let root = self.configuration.context().project_doc.as_ref().map_or(0, String::len);
        let room = self.cx.limits.project_doc_bytes.saturating_sub(root);
        for document in documents {
            if self.conversation.offer_document(document, room) {
                let message = format!(
                    "the project document {} does not fit, and is cut off or left out: project documents have \
                     reached `project_doc_max_bytes`; shorten them, or raise that key",
                    document.path
                );
                self.cx.emit(Event::Warning { message });
            }
        }
    }

    /// Adds what the model does not know yet of the settings to its next request.
    pub(crate) fn introduce(&mut self, turn: &Id) {
        let goal = self.goal.introduction();
        self.conversation.introduce(turn, &self.configuration, goal, &mut self.cx);
    }
}
