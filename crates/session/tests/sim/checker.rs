//! What must hold in every run, whatever the script and the order: checked after each step.

use std::collections::{BTreeMap, BTreeSet};

use hooks::EventName;
use session::{
    Answer, CommandSource, Effect, Event, Id, Input, Item, ItemStatus, Machine, Mode, ModelEvent,
    Record, ReviewStatus, SandboxPolicy, Status, TurnStatus, TurnView,
};

use crate::prompts::Prompts;
use crate::script::Script;

/// An item that was started.
struct StartedItem {
    turn: Id,
    command: bool,
    streamed: String,
    completed: bool,
}

/// The items of a turn, in the order in which they began, and in that of their first records.
#[derive(Default)]
struct ItemOrder {
    began: Vec<Id>,
    stored: Vec<Id>,
}

/// A turn that was started.
#[derive(Default)]
struct Turn {
    reported: bool,
    error: bool,
    completed: Option<TurnStatus>,
    ended: bool,
}

/// Watches inputs and effects; panics at the first promise that is broken.
pub(crate) struct Checker {
    coherent: bool,
    max_processes: usize,
    replies: BTreeMap<u64, bool>,
    turns: BTreeMap<Id, Turn>,
    items: BTreeMap<Id, StartedItem>,
    stored_items: BTreeMap<Id, Option<ItemStatus>>,
    order: BTreeMap<Id, ItemOrder>,
    stored_starts: BTreeSet<Id>,
    stored_ends: BTreeSet<Id>,
    /// Open requests, with the item that they are about.
    asks: BTreeMap<u64, Id>,
    asked: BTreeSet<u64>,
    /// Open requests for an approval.
    approvals: BTreeSet<u64>,
    /// Open requests that ask the user a question.
    questions: BTreeSet<u64>,
    /// Running commands; true once their first call was answered.
    running: BTreeMap<u64, bool>,
    /// Numbers of the user's own commands.
    users: BTreeSet<String>,
    /// Questions about hosts that wait for their answer.
    reaching: BTreeSet<u64>,
    /// Runs of hooks that are waited for.
    hooks: BTreeSet<u64>,
    /// Calls to other agents that run.
    agent_calls: BTreeSet<u64>,
    sample: Option<u64>,
    retry: Option<u64>,
    applying: BTreeSet<u64>,
    /// Requests to the reviewer of approvals.
    reviewing: BTreeSet<u64>,
    /// Those that wait to be sent again.
    review_retries: BTreeSet<u64>,
    /// Reviews whose request was answered: it may be sent again, because the user wrote something.
    answered_reviews: BTreeSet<u64>,
    /// Reviews of approvals that were reported to have begun.
    reviews: BTreeSet<Id>,
    /// The turn that a client stopped: nothing new begins in it.
    stopped: bool,
    failed: bool,
    prompts: Prompts,
}

impl Checker {
    pub(crate) fn new(script: &Script) -> Self {
        Self {
            coherent: script.coherent,
            max_processes: script.limits.processes,
            replies: BTreeMap::new(),
            turns: BTreeMap::new(),
            items: BTreeMap::new(),
            stored_items: BTreeMap::new(),
            order: BTreeMap::new(),
            stored_starts: BTreeSet::new(),
            stored_ends: BTreeSet::new(),
            asks: BTreeMap::new(),
            asked: BTreeSet::new(),
            approvals: BTreeSet::new(),
            questions: BTreeSet::new(),
            running: BTreeMap::new(),
            users: BTreeSet::new(),
            reaching: BTreeSet::new(),
            hooks: BTreeSet::new(),
            agent_calls: BTreeSet::new(),
            sample: None,
            retry: None,
            applying: BTreeSet::new(),
            reviewing: BTreeSet::new(),
            review_retries: BTreeSet::new(),
            answered_reviews: BTreeSet::new(),
            reviews: BTreeSet::new(),
            stopped: false,
            failed: script.restored.failed,
            prompts: Prompts::new(script.restored.history.as_deref().unwrap_or_default()),
        }
    }

    /// Takes note of what happened, before the machine does.
    pub(crate) fn input(&mut self, input: &Input) {
        if let Input::Interrupt { turn, .. } = input {
            self.stopped |= self.is_running(turn);
        }
        match input {
            Input::Start { reply, .. }
            | Input::StartQueued { reply, .. }
            | Input::Steer { reply, .. }
            | Input::Interrupt { reply, .. }
            | Input::Compact { reply }
            | Input::Review { reply, .. }
            | Input::Shell { reply, .. }
            | Input::Inject { reply, .. }
            | Input::CleanTerminals { reply }
            | Input::SetGoal { reply, .. }
            | Input::ClearGoal { reply }
            | Input::ApproveDenied { reply, .. } => {
                assert!(self.replies.insert(*reply, false).is_none(), "reply {reply} used twice");
            }
            Input::NetworkAsk { key, .. } => {
                assert!(self.reaching.insert(*key), "key {key} used twice");
            }
            Input::Exited { process, .. } => drop(self.running.remove(process)),
            Input::HooksAnswered { run, .. } => drop(self.hooks.remove(run)),
            Input::ServerAnswered { request, .. } | Input::AgentsAnswered { request, .. } => {
                self.agent_calls.remove(request);
            }
            Input::Elapsed { call } => {
                if let Some(yielded) = self.running.get_mut(call) {
                    *yielded = true;
                }
            }
            Input::Applied { call, .. } => drop(self.applying.remove(call)),
            Input::Reviewed { review, .. } if self.reviewing.remove(review) => {
                self.answered_reviews.insert(*review);
            }
            Input::RetryDue { sample } if self.retry == Some(*sample) => self.retry = None,
            Input::Model { sample, events } if self.sample == Some(*sample) => {
                let ends = |event: &ModelEvent| {
                    matches!(event, ModelEvent::Completed { .. } | ModelEvent::Failed(_))
                };
                self.sample = self.sample.filter(|_| !events.iter().any(ends));
            }
            _ => {}
        }
    }

    /// Checks one step's effects, and the state that it left.
    pub(crate) fn effects(&mut self, effects: &[Effect], machine: &Machine) {
        // A step's records are stored before any of its events is reported.
        for effect in effects {
            if let Effect::Persist(record) = effect {
                self.record(record);
            }
        }
        for effect in effects {
            self.effect(effect);
        }
        if machine.settings().mode == Mode::Plan {
            effects.iter().for_each(|effect| self.planned(effect));
        }
        self.state(machine);
    }

    /// In plan mode the agent changes nothing; the user's own commands are the user's.
    fn planned(&self, effect: &Effect) {
        match effect {
            Effect::Run { process, spec } if !self.users.contains(&process.to_string()) => {
                let SandboxPolicy::ReadOnly { network: false, .. } = spec.sandbox else {
                    panic!("plan mode runs {spec:?}");
                };
            }
            Effect::Apply { .. } | Effect::Allow { .. } => panic!("plan mode: {effect:?}"),
            _ => {}
        }
    }

    fn record(&mut self, record: &Record) {
        match record {
            Record::TurnStarted { turn, .. } => {
                assert!(self.stored_starts.insert(turn.clone()), "{turn} stored twice");
                self.prompts.turn_started(turn);
            }
            Record::Item { turn, item } => {
                assert!(self.stored_starts.contains(turn), "{item:?} of an unknown turn");
                if self.stored_items.insert(item.id().clone(), item.status()).is_none() {
                    self.order.entry(turn.clone()).or_default().stored.push(item.id().clone());
                }
                if let Item::Command(command) = item
                    && command.source == CommandSource::User
                {
                    self.users.extend(command.process_id.clone());
                }
            }
            Record::History { turn, fragments } => {
                let known = turn.as_ref().is_none_or(|turn| self.stored_starts.contains(turn));
                assert!(known, "history of an unknown turn");
                self.prompts.stored(turn.as_ref(), fragments);
            }
            Record::HistoryReplaced { turn, fragments } => {
                assert!(self.stored_starts.contains(turn), "history of an unknown turn");
                self.prompts.begun_anew(turn, fragments);
            }
            Record::TurnFinished { view, status } => {
                assert_eq!(view.status, *status);
                self.prompts.turn_finished();
                if let Some(ItemOrder { began, stored }) = self.order.get(&view.id) {
                    let began: Vec<_> = began.iter().filter(|id| stored.contains(id)).collect();
                    // The last one is perhaps not reported yet.
                    let stored: Vec<_> = stored.iter().filter(|id| began.contains(id)).collect();
                    assert_eq!(stored, began, "read in another order");
                }
                assert!(self.stored_ends.insert(view.id.clone()), "{} ended twice", view.id);
            }
            Record::Settings(_)
            | Record::Introduced(_)
            | Record::ProjectDocuments(_)
            | Record::Preview(_)
            | Record::Goal(_)
            | Record::ApprovedActions(_)
            | Record::Concessions(_)
            | Record::TokenUsage { .. } => {}
        }
    }

    fn effect(&mut self, effect: &Effect) {
        let begins = matches!(
            effect,
            Effect::Sample { .. }
                | Effect::Prepare { .. }
                | Effect::PlanJob { .. }
                | Effect::Run { .. }
                | Effect::Apply { .. }
                | Effect::Ask { .. }
                | Effect::Review { .. }
                | Effect::CallTool { .. }
                | Effect::CallAgents { .. }
                | Effect::CallServer { .. }
                | Effect::AskUser { .. }
                | Effect::FindSkillNeeds { .. }
                | Effect::CheckGrant { .. }
                | Effect::RetryAfter { .. }
                | Effect::RetryReviewAfter { .. }
        );
        assert!(!(begins && self.stopped), "begun after the turn was stopped: {effect:?}");
        match effect {
            Effect::Reply { reply, result } => {
                let answered = self.replies.insert(*reply, true);
                assert_eq!(answered, Some(false), "reply {reply} answered twice or never asked");
                match result {
                    Ok(Answer::Started(view)) => assert!(self.stored_starts.contains(&view.id)),
                    Ok(Answer::Interrupted) => assert!(self.stopped),
                    Ok(Answer::Steered { turn }) => self.assert_running(turn),
                    Ok(Answer::Done | Answer::Goal(_) | Answer::Cleared(_)) => {}
                    Err(refusal) => assert!(!refusal.message.is_empty()),
                }
            }
            Effect::Persist(_)
            | Effect::Wait { .. }
            | Effect::Discard { .. }
            | Effect::CheckGrant { .. }
            | Effect::MeetSkillNeeds { .. }
            | Effect::ForgetSkillNeeds { .. }
            | Effect::ReviewTimeout { .. } => {}
            Effect::FindSkillNeeds { turn, skills, .. } => {
                self.assert_running(turn);
                assert!(!skills.is_empty(), "a search for nothing");
            }
            Effect::Review { review, .. } => {
                let is_again =
                    self.review_retries.remove(review) || self.answered_reviews.remove(review);
                assert!(self.asked.insert(*review) || is_again, "reviewed twice: {review}");
                self.reviewing.insert(*review);
                assert!(self.reviewing.len() <= 16, "too many reviews at once");
            }
            Effect::CancelReview { review } => {
                let was_open = self.reviewing.remove(review) || self.review_retries.remove(review);
                assert!(was_open, "cancelled twice: {review}");
            }
            Effect::RetryReviewAfter { review, wait } => {
                assert!(
                    wait.longest().as_millis() < 90_000,
                    "a wait beyond the time of the review"
                );
                assert!(!self.reviewing.contains(review) && self.review_retries.insert(*review));
            }
            Effect::NetworkAnswer { key, .. } => {
                assert!(self.reaching.remove(key), "question {key} answered twice");
            }
            Effect::Allow { prefix, .. } => assert!(!prefix.is_empty(), "all would be allowed"),
            Effect::Emit(event) => self.event(event),
            Effect::Sample { sample, prompt } => {
                assert_eq!(self.sample.replace(*sample), None, "two requests at once");
                assert_eq!(self.retry, None, "asked while waiting to retry");
                self.prompts.sent(prompt);
            }
            // Its last event may have come in the same batch.
            Effect::CancelSample { sample } => {
                let open = self.sample.take();
                assert!(open.is_none_or(|open| open == *sample));
            }
            Effect::RetryAfter { sample, .. } => self.retry = Some(*sample),
            Effect::Prepare { turn, .. } | Effect::PlanJob { turn, .. } => {
                self.assert_running(turn);
                assert!(self.applying.is_empty(), "prepared while a patch is being applied");
            }
            Effect::Run { process, .. } => {
                // The user's own commands wait for nothing.
                let by_user = self.users.contains(&process.to_string());
                assert!(by_user || self.applying.is_empty(), "run beside a patch");
                assert!(self.running.insert(*process, by_user).is_none());
                assert!(self.running.len() <= self.max_processes, "too many commands");
            }
            Effect::Write { process, .. } => assert!(self.running.contains_key(process)),
            Effect::Kill { process } => {
                assert!(self.running.remove(process).is_some(), "killed twice: {process}");
            }
            Effect::Apply { call, .. } => {
                assert!(self.running.values().all(|yielded| *yielded), "applied beside a command");
                assert!(self.applying.insert(*call));
                assert_eq!(self.applying.len(), 1, "two patches at once");
            }
            Effect::Ask { request, item, turn, .. } => {
                self.assert_running(turn);
                let seen = self.items.get(item).expect("asked about an item never shown");
                assert!(!seen.completed, "asked about an item that is final");
                assert!(self.asked.insert(*request), "request {request} asked twice");
                self.asks.insert(*request, item.clone());
                self.approvals.insert(*request);
            }
            Effect::CallTool { request, turn, call } => {
                self.assert_running(turn);
                assert!(self.asked.insert(*request), "request {request} asked twice");
                self.asks.insert(*request, call.id.clone());
            }
            Effect::AskUser { request, turn, item, questions } => {
                self.assert_running(turn);
                assert!((1..=3).contains(&questions.len()));
                assert!(!self.items[item].completed, "asked about an item that is final");
                assert!(self.asked.insert(*request), "request {request} asked twice");
                self.asks.insert(*request, item.clone());
                self.questions.insert(*request);
            }
            Effect::RunHooks { run, turn, event } => {
                self.assert_running(turn);
                // Those of an interrupt are the only ones that begin with it, and that none waits for.
                if event.name() != EventName::Interrupt {
                    assert!(!self.stopped, "hooks of {} in a stopped turn", event.name());
                    assert!(self.hooks.insert(*run), "hooks {run} run twice");
                }
            }
            Effect::CancelHooks { run } => {
                assert!(self.hooks.remove(run), "hooks {run} were not running");
            }
            Effect::CallServer { request, turn, call } => {
                self.assert_running(turn);
                assert!(!self.items[&call.id].completed, "called for an item that is final");
                assert!(self.agent_calls.insert(*request), "call {request} begun twice");
            }
            Effect::CancelServerCall { request } => {
                assert!(self.agent_calls.remove(request), "call {request} was not running");
            }
            Effect::CallAgents { request, .. } => {
                assert!(self.agent_calls.insert(*request), "call {request} begun twice");
            }
            Effect::CancelAgents { request } => {
                assert!(self.agent_calls.remove(request), "call {request} was not running");
            }
            Effect::TurnContinues { turn } => {
                self.assert_running(turn);
                assert!(self.turns.values().any(|turn| turn.ended), "no turn ended before it");
            }
            Effect::TurnEnded { turn } => {
                let state = self.turns.get_mut(turn).expect("an unknown turn ended");
                assert!(state.completed.is_some() && !state.ended);
                state.ended = true;
            }
        }
    }

    fn event(&mut self, event: &Event) {
        match event {
            Event::TurnStarted(view) => {
                assert!(self.stored_starts.contains(&view.id), "reported before it is stored");
                let reported = self.turns.entry(view.id.clone()).or_default().reported;
                assert!(!reported, "{} started twice", view.id);
                self.turns.insert(view.id.clone(), Turn { reported: true, ..Turn::default() });
            }
            Event::TurnCompleted(view) => self.turn_completed(view),
            Event::ItemStarted { turn, item, .. } => self.item_started(turn, item),
            Event::ItemCompleted { turn, item, .. } => self.item_completed(turn, item),
            Event::MessageDelta { item, text, .. } | Event::PlanDelta { item, text, .. } => {
                self.open_item(item).streamed.push_str(text);
            }
            Event::PatchUpdated { item, .. } => {
                assert!(!self.items.contains_key(item), "{item} grows after it began");
            }
            Event::SummaryPartAdded { item, .. }
            | Event::SummaryDelta { item, .. }
            | Event::ReasoningDelta { item, .. }
            | Event::CommandOutput { item, .. }
            | Event::CommandRuns { item, .. }
            | Event::CallProgress { item, .. } => {
                self.open_item(item);
            }
            Event::TerminalInteraction { turn, item, .. } => {
                self.assert_running(turn);
                self.open_item(item);
            }
            Event::PlanUpdated { turn, .. }
            | Event::DiffUpdated { turn, .. }
            | Event::TokenUsage { turn, .. }
            | Event::ModelNotice { turn, .. } => self.assert_running(turn),
            Event::Error { turn, retry, .. } => {
                self.assert_running(turn);
                let state = self.turns.get_mut(turn).expect("checked above");
                assert!(!state.error, "an error after the last one");
                state.error = retry.is_none();
            }
            Event::RequestResolved { request } => {
                assert!(self.asks.remove(request).is_some(), "resolved twice: {request}");
                self.questions.remove(request);
                self.approvals.remove(request);
            }
            Event::ApprovalReview(review) => {
                self.assert_running(&review.turn);
                assert!(!self.items[&review.item].completed, "a review of a final item");
                if review.status == ReviewStatus::InProgress {
                    assert!(self.reviews.insert(review.id.clone()), "{} began twice", review.id);
                } else {
                    assert!(self.reviews.remove(&review.id), "{} ended twice", review.id);
                    assert!(review.completed_at.is_some());
                }
            }
            Event::ReviewerWarning { message } | Event::Warning { message } => {
                if message.contains("this thread goes on") {
                    self.prompts.conceded();
                }
                assert!(!message.is_empty());
            }
            Event::StatusChanged(_) | Event::GoalUpdated { .. } | Event::GoalCleared => {}
        }
    }

    fn turn_completed(&mut self, view: &TurnView) {
        assert!(self.stored_ends.contains(&view.id), "reported before it is stored");
        assert!(view.completed_at.is_some());
        assert!(self.asks.is_empty(), "a turn ended with open requests");
        assert!(self.reviews.is_empty(), "a turn ended with open reviews");
        let requests = self.reviewing.len() + self.review_retries.len();
        assert_eq!(requests, 0, "a turn ended with requests to the reviewer");
        let open = self
            .items
            .values()
            .any(|item| item.turn == view.id && !item.completed && !item.command);
        assert!(!open, "{} ended with open items", view.id);
        let turn = self.turns.get_mut(&view.id).expect("an unknown turn ended");
        assert_eq!(turn.completed, None, "{} completed twice", view.id);
        let failed = view.status == TurnStatus::Failed;
        assert_eq!(turn.error, failed, "the error event and the status disagree");
        assert_eq!(view.error.is_some(), failed);
        turn.completed = Some(view.status);
        self.failed = failed;
        self.stopped = false;
        self.sample = None;
        self.retry = None;
    }

    fn item_started(&mut self, turn: &Id, item: &Item) {
        self.assert_running(turn);
        self.order.entry(turn.clone()).or_default().began.push(item.id().clone());
        let seen = StartedItem {
            turn: turn.clone(),
            command: matches!(item, Item::Command(_)),
            streamed: String::new(),
            completed: false,
        };
        assert!(self.items.insert(item.id().clone(), seen).is_none(), "started twice: {item:?}");
    }

    fn item_completed(&mut self, turn: &Id, item: &Item) {
        let id = item.id();
        assert_eq!(self.stored_items.get(id), Some(&item.status()), "reported before it is stored");
        assert_ne!(item.status(), Some(ItemStatus::InProgress));
        assert!(!self.asks.values().any(|asked| asked == id), "final before its request is");
        let coherent = self.coherent;
        let seen = self.open_item(id);
        assert_eq!(seen.turn, *turn, "completed in another turn");
        if let Item::AgentMessage { text, .. } | Item::Plan { text, .. } = item {
            let streamed = seen.streamed.trim();
            assert!(!coherent || streamed.is_empty() || streamed == text.trim());
        }
        seen.completed = true;
    }

    /// An item that is not final; after its turn's end only a command may be.
    fn open_item(&mut self, id: &Id) -> &mut StartedItem {
        let seen = self.items.get_mut(id).expect("an item never started");
        assert!(!seen.completed, "item {id} is final already");
        let over = self.turns[&seen.turn].completed.is_some();
        assert!(!over || seen.command, "item {id} continues after its turn");
        seen
    }

    fn is_running(&self, turn: &str) -> bool {
        self.turns.get(turn).is_some_and(|turn| turn.completed.is_none())
    }

    fn assert_running(&self, turn: &Id) {
        let state = self.turns.get(turn).expect("a turn never started");
        assert_eq!(state.completed, None, "{turn} is over");
    }

    fn state(&mut self, machine: &Machine) {
        if machine.active_turn().is_none() {
            let expected = if self.failed { Status::SystemError } else { Status::Idle };
            assert_eq!(machine.status(), expected);
            let open = self.turns.values().any(|turn| turn.completed.is_none());
            assert!(!open, "no turn runs, but one was not completed");
            return;
        }
        let waiting_on_approval = !self.approvals.is_empty();
        let waiting_on_user_input = !self.questions.is_empty();
        let expected = Status::Active { waiting_on_approval, waiting_on_user_input };
        assert_eq!(machine.status(), expected);
    }

    /// Checks what must hold when no work is in progress.
    pub(crate) fn finish(&self, machine: &Machine) {
        assert!(machine.active_turn().is_none(), "the turn hangs");
        assert!(self.replies.values().all(|answered| *answered), "a caller waits for ever");
        assert!(self.asks.is_empty());
        assert!(self.applying.is_empty());
        assert!(self.hooks.is_empty(), "hooks are waited for without a turn");
        assert!(self.reaching.is_empty(), "a connection waits for ever");
        for (id, item) in &self.items {
            assert!(item.completed || item.command, "item {id} is never final");
        }
        let open = self.items.values().filter(|item| !item.completed).count();
        assert_eq!(open, self.running.len(), "open command items and running commands differ");
        assert_eq!(machine.is_quiet(), self.running.is_empty());
        for id in &self.stored_starts {
            assert!(self.stored_ends.contains(id), "{id} has no stored end");
        }
    }
}
