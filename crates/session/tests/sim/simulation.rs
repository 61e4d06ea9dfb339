//! The simulated driver: carries effects out against a [`Script`], in virtual time, and delivers
//! what comes of them in an order that it explores. Every step is checked.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use session::{
    AgentTools, Answer, Configured, Context, Effect, Event, Failure, FailureKind, Fragment, Id,
    Ids, Input, Item, Machine, Millis, ModelEvent, Offer, ProcessEnd, Prompt, Record, Refusal,
    Retry, ReviewResponse, ToolError, ToolRequest, ToolSet, TurnStatus, Usage,
};

use crate::checker::Checker;
use crate::outside;
use crate::response::{Output, respond, say};
use crate::script::{Review, Script, judged, text, verdict};

/// The order in which what is ready is delivered.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Order {
    /// As time says.
    Timely,
    /// Any order that keeps what comes from one source in order: clocks and schedulers promise
    /// nothing more.
    Shuffled(u64),
}

/// Where an input comes from; one source's inputs stay in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    Client,
    Sample(u64),
    Retry(u64),
    Call(u64),
    Timer(u64),
    Process(u64),
    Approver(u8, u64),
    Reviewer(u64),
    ReviewTimer(u64),
    Hook(u64),
}

struct Pending {
    due: Millis,
    sequence: u64,
    input: Input,
}

/// A run in progress.
pub(crate) struct Simulation {
    pub(crate) machine: Machine,
    pub(crate) events: Vec<Event>,
    pub(crate) prompts: Vec<Prompt>,
    /// Requests to the reviewer of approvals.
    pub(crate) reviews: Vec<Prompt>,
    pub(crate) records: Vec<Record>,
    pub(crate) replies: BTreeMap<u64, Result<Answer, Refusal>>,
    pub(crate) effects: Vec<Effect>,
    /// When each of `effects` was asked for.
    pub(crate) times: Vec<Millis>,
    pub(crate) steps: usize,
    script: Script,
    order: Order,
    random: u64,
    now: Millis,
    sequence: u64,
    next_reply: u64,
    next_key: u64,
    next_turn: usize,
    queues: BTreeMap<Source, VecDeque<Pending>>,
    responses: VecDeque<Vec<ModelEvent>>,
    decisions: VecDeque<session::Decision>,
    answers: VecDeque<Review>,
    requests: BTreeMap<u64, ToolRequest>,
    checker: Checker,
}

/// No scripted run needs more; one that does is stuck in a circle.
const MAX_STEPS: usize = 20_000;

struct Counter {
    turns: u64,
    items: u64,
}

impl Ids for Counter {
    fn turn(&mut self) -> Id {
        self.turns += 1;
        format!("turn-{}", self.turns).into()
    }

    fn item(&mut self) -> Id {
        self.items += 1;
        format!("item-{}", self.items).into()
    }
}

impl Simulation {
    pub(crate) fn new(script: &Script, order: Order) -> Self {
        let script = script.clone();
        let configured = Configured {
            settings: script.settings.clone(),
            context: Context::default(),
            offer: Offer::new(
                ToolSet {
                    dynamic: script.tools.clone().into(),
                    server_tools: script.server_tools.clone().into(),
                    // Understood and not offered, as for an agent at the largest depth.
                    agents: Some(Arc::new(AgentTools::default())),
                    ..ToolSet::default()
                }
                .deferring(),
            ),
            limits: script.limits,
            plan_effort: None,
        };
        let machine = Machine::new(
            configured,
            Box::new(Counter { turns: 0, items: 0 }),
            script.restored.clone(),
        );
        let random = match order {
            Order::Timely => 0,
            Order::Shuffled(seed) => seed,
        };
        let mut sim = Self {
            machine,
            events: Vec::new(),
            prompts: Vec::new(),
            reviews: Vec::new(),
            records: Vec::new(),
            replies: BTreeMap::new(),
            effects: Vec::new(),
            times: Vec::new(),
            steps: 0,
            order,
            random,
            now: 1_000_000,
            sequence: 0,
            next_reply: 1,
            next_key: 0,
            next_turn: 0,
            queues: BTreeMap::new(),
            responses: script.responses.iter().cloned().collect(),
            decisions: script.decisions.iter().cloned().collect(),
            answers: script.reviews.iter().cloned().collect(),
            requests: BTreeMap::new(),
            checker: Checker::new(&script),
            script,
        };
        let events = sim.script.hook_events.iter().copied().collect();
        sim.step(Input::Hooks { events });
        sim.steps = 0;
        sim.start_next_turn();
        sim
    }

    /// Runs `script` to its end.
    pub(crate) fn run(script: &Script, order: Order) -> Self {
        Self::run_with(script, order, |_| {})
    }

    /// Runs `script` to its end; `intervene` sees the simulation before each step.
    pub(crate) fn run_with(
        script: &Script,
        order: Order,
        mut intervene: impl FnMut(&mut Self),
    ) -> Self {
        let mut sim = Self::new(script, order);
        loop {
            intervene(&mut sim);
            let Some(input) = sim.next_input() else { break };
            sim.step(input);
        }
        sim.checker.finish(&sim.machine);
        sim
    }

    /// Runs to the end.
    pub(crate) fn run_out(&mut self) {
        while let Some(input) = self.next_input() {
            self.step(input);
        }
        self.checker.finish(&self.machine);
    }

    /// Takes the next step.
    pub(crate) fn advance(&mut self) {
        let input = self.next_input().expect("nothing is under way");
        self.step(input);
    }

    /// Lets time pass in which nothing happens.
    pub(crate) fn wait(&mut self, ms: Millis) {
        self.now += ms;
    }

    /// What the model answers next.
    pub(crate) fn respond_with(&mut self, outputs: &[Output]) {
        self.responses.push_back(respond(outputs));
    }

    /// A number for a caller that waits for its reply.
    pub(crate) fn reply(&mut self) -> u64 {
        self.next_reply += 1;
        self.next_reply
    }

    /// A number that looks random, the same in every run.
    pub(crate) fn roll(&mut self, below: usize) -> usize {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) as usize % below.max(1)
    }

    /// Takes one step now, checks it, and carries its effects out.
    pub(crate) fn step(&mut self, input: Input) {
        self.steps += 1;
        assert!(self.steps < MAX_STEPS, "the run does not end");
        self.checker.input(&input);
        let effects = self.machine.step(self.now, input);
        self.checker.effects(&effects, &self.machine);
        for effect in &effects {
            self.carry_out(effect);
        }
        self.times.extend(effects.iter().map(|_| self.now));
        self.effects.extend(effects);
    }

    /// The next input that is delivered, if anything is under way.
    fn next_input(&mut self) -> Option<Input> {
        self.queues.retain(|_, queue| !queue.is_empty());
        let heads: Vec<(Source, Millis, u64)> = self
            .queues
            .iter()
            .filter_map(|(source, queue)| {
                queue.front().map(|head| (*source, head.due, head.sequence))
            })
            .collect();
        let source = match self.order {
            Order::Timely => heads.iter().min_by_key(|(_, due, sequence)| (*due, *sequence))?.0,
            Order::Shuffled(_) => {
                let at = self.roll(heads.len());
                heads.get(at)?.0
            }
        };
        let head = self.queues.get_mut(&source)?.pop_front()?;
        self.now = self.now.max(head.due);
        Some(match head.input {
            Input::Model { sample, events } => self.merge_batches(source, sample, events),
            input => input,
        })
    }

    /// A fast stream arrives in larger batches.
    fn merge_batches(&mut self, source: Source, sample: u64, mut events: Vec<ModelEvent>) -> Input {
        while matches!(self.order, Order::Shuffled(_)) && self.roll(3) == 0 {
            let queue = self.queues.get_mut(&source);
            let Some(Pending { input, .. }) = queue.and_then(VecDeque::pop_front) else { break };
            let Input::Model { events: more, .. } = input else { break };
            events.extend(more);
        }
        Input::Model { sample, events }
    }

    fn later(&mut self, source: Source, delay: Millis, input: Input) {
        self.sequence += 1;
        let pending =
            Pending { due: self.now.saturating_add(delay), sequence: self.sequence, input };
        self.queues.entry(source).or_default().push_back(pending);
    }

    fn start_next_turn(&mut self) {
        let Some(start) = self.script.turns.get(self.next_turn).cloned() else { return };
        self.next_turn += 1;
        let reply = self.reply();
        let input = Input::Start {
            reply,
            author: self.script.author,
            content: text(&start.text),
            overrides: start.overrides,
            output_schema: start.output_schema,
        };
        self.later(Source::Client, 1, input);
    }

    fn carry_out(&mut self, effect: &Effect) {
        match effect {
            Effect::Reply { reply, result } => {
                self.replies.insert(*reply, result.clone());
            }
            Effect::Persist(record) => self.records.push(record.clone()),
            Effect::Emit(event) => self.events.push(event.clone()),
            Effect::Sample { sample, prompt } => self.answer_prompt(*sample, prompt),
            Effect::RetryAfter { sample, wait } => {
                let delay = i64::try_from(wait.longest().as_millis()).unwrap();
                self.later(Source::Retry(*sample), delay, Input::RetryDue { sample: *sample });
            }
            Effect::Prepare { call, request, .. } => {
                self.requests.insert(*call, request.clone());
                self.later(Source::Call(*call), 3, outside::prepare(*call, request));
            }
            Effect::PlanJob { call, job, .. } => {
                self.later(Source::Call(*call), 3, outside::plan_job(*call, job));
            }
            Effect::Run { process, spec } => self.start_program(*process, &outside::run(spec)),
            Effect::Write { process, text } if text.contains("quit") => {
                let end = ProcessEnd::Code(0);
                self.later(Source::Process(*process), 5, Input::Exited { process: *process, end });
            }
            Effect::Write { process, text } if text.contains("unread") => {
                self.later(Source::Approver(2, *process), 0, Input::NotTyped { process: *process });
            }
            Effect::Wait { call, ms } => {
                let delay = i64::try_from(*ms).unwrap();
                self.later(Source::Timer(*call), delay, Input::Elapsed { call: *call });
            }
            Effect::Apply { call, .. } => {
                let input = outside::apply(*call, &self.requests[call]);
                self.later(Source::Call(*call), 10, input);
            }
            Effect::Ask { request, .. } => self.decide(*request),
            Effect::Review { review, prompt } => self.answer_review(*review, prompt),
            Effect::RetryReviewAfter { review, wait } => {
                let delay = i64::try_from(wait.longest().as_millis()).unwrap();
                let input = Input::ReviewRetryDue { review: *review };
                self.later(Source::Reviewer(*review), delay, input);
            }
            Effect::ReviewTimeout { review, ms } => {
                let delay = i64::try_from(*ms).unwrap();
                let input = Input::ReviewOverdue { review: *review };
                self.later(Source::ReviewTimer(*review), delay, input);
            }
            Effect::CallTool { request, call, .. } => {
                let outcome = match call.tool.as_str() {
                    "breaks" => Err(ToolError::new("it is broken")),
                    _ => Ok(session::ToolAnswer {
                        content: vec![session::ToolContent::Text(call.arguments.clone())],
                        success: call.tool == "works",
                    }),
                };
                let request = *request;
                let input = Input::ToolAnswered { request, outcome };
                self.later(Source::Approver(1, request), 7, input);
            }
            Effect::AskUser { request, questions, .. } => {
                let (request, outcome) = (*request, outside::answer(questions));
                self.later(
                    Source::Approver(1, request),
                    7,
                    Input::UserAnswered { request, outcome },
                );
            }
            Effect::FindSkillNeeds { request, skills, .. } => {
                let (request, questions) = (*request, outside::questions_about(skills));
                let input = Input::SkillNeedsFound { request, questions };
                self.later(Source::Approver(5, request), 2, input);
            }
            Effect::MeetSkillNeeds { request, answers, unanswered } => {
                let notes = vec![format!("answers: {}, {unanswered:?}", answers.len())];
                let request = *request;
                let input = Input::SkillNeedsMet { request, notes };
                self.later(Source::Approver(5, request), 2, input);
            }
            Effect::CallServer { request, call, .. } => {
                let (request, outcome) = (*request, Box::new(outside::server(call)));
                let message = "half".to_owned();
                let source = Source::Approver(4, request);
                self.later(source, 3, Input::ServerProgressed { request, message });
                self.later(source, 9, Input::ServerAnswered { request, outcome });
            }
            Effect::CallAgents { request, call, .. } => {
                let (delay, outcome) = outside::agents(call);
                let (request, outcome) = (*request, Box::new(outcome));
                let input = Input::AgentsAnswered { request, outcome };
                self.later(Source::Approver(3, request), delay, input);
            }
            Effect::CheckGrant { call, grant } => {
                let input = Input::Granted { call: *call, outcome: outside::check(grant) };
                self.later(Source::Call(*call), 2, input);
            }
            Effect::RunHooks { run, event, .. } => self.run_hooks(*run, event),
            Effect::TurnEnded { .. } => self.start_next_turn(),
            // What is already under way still arrives: a cancel or a kill cannot call it back.
            Effect::CancelSample { .. }
            | Effect::CancelAgents { .. }
            | Effect::CancelServerCall { .. }
            | Effect::CancelReview { .. }
            | Effect::CancelHooks { .. }
            | Effect::ForgetSkillNeeds { .. }
            | Effect::TurnContinues { .. }
            | Effect::Kill { .. }
            | Effect::Discard { .. }
            | Effect::Write { .. }
            | Effect::NetworkAnswer { .. }
            | Effect::Allow { .. } => {}
        }
    }

    fn answer_prompt(&mut self, sample: u64, prompt: &Prompt) {
        self.prompts.push(prompt.clone());
        let closing = || respond(&[say("that is all")]);
        let events = self.responses.pop_front().unwrap_or_else(closing);
        for (at, event) in events.into_iter().enumerate() {
            let input = Input::Model { sample, events: vec![event] };
            self.later(Source::Sample(sample), at as Millis, input);
        }
    }

    fn run_hooks(&mut self, run: u64, event: &hooks::Event) {
        let name = event.name();
        let place = self.script.hooks.iter().position(|(event, _)| *event == name);
        let outcome = place.map(|place| self.script.hooks.remove(place).1).unwrap_or_default();
        let input = Input::HooksAnswered { run, outcome: Box::new(outcome), usage: Vec::new() };
        self.later(Source::Hook(run), 4, input);
    }

    fn answer_review(&mut self, review: u64, prompt: &Prompt) {
        self.reviews.push(prompt.clone());
        let approval = || judged(verdict("approve", "low", "high"));
        let answer = self.answers.pop_front().unwrap_or_else(approval);
        let usage = Usage { input: 5, output: 2, total: 7, ..Usage::default() };
        let usage = session::ResponseUsage::from(usage);
        let (delay, outcome) = match answer {
            Review::IsSilent => return,
            Review::Fails => {
                let failure = Failure::new(FailureKind::ServerOverloaded, "the provider is busy");
                (7, Err(Failure { usage: Some(Box::new(usage)), ..failure }))
            }
            Review::IsBusy(delay, asked) => {
                let failure = Failure::new(FailureKind::ServerOverloaded, "the provider is busy");
                let retry_after = asked.map(Duration::from_millis);
                let retry = Retry::Request;
                (
                    delay,
                    Err(Failure { usage: Some(Box::new(usage)), retry, retry_after, ..failure }),
                )
            }
            Review::Calls => {
                let response = ReviewResponse { other_items: 1, usage, ..Default::default() };
                (7, Ok(response))
            }
            Review::Says(delay, texts) => {
                let id = self.review_id(prompt);
                let messages = texts.iter().map(|text| text.replace("ID", &id).into()).collect();
                (delay, Ok(ReviewResponse { messages, usage, ..Default::default() }))
            }
        };
        self.later(Source::Reviewer(review), delay, Input::Reviewed { review, outcome });
    }

    /// The id that a reviewer's request names.
    fn review_id(&self, prompt: &Prompt) -> String {
        let message: serde_json::Value = serde_json::from_str(&prompt.input[0]).unwrap();
        let text = message["content"][0]["text"].as_str().unwrap();
        let request: serde_json::Value = serde_json::from_str(text).unwrap();
        request["reviewId"].as_str().unwrap().to_owned()
    }

    fn start_program(&mut self, process: u64, program: &outside::Program) {
        let source = Source::Process(process);
        for (delay, target) in &program.reaches {
            self.next_key += 1;
            let key = self.next_key;
            let input = Input::NetworkAsk { process, key, target: target.clone() };
            self.later(source, *delay, input);
            if let Some(delay) = program.gives_up {
                self.later(source, delay, Input::NetworkWithdrawn { key });
            }
        }
        for (delay, text) in &program.output {
            self.later(source, *delay, Input::Output { process, text: text.clone() });
        }
        if let Some((delay, end)) = &program.end {
            self.later(source, *delay, Input::Exited { process, end: end.clone() });
        }
    }

    fn decide(&mut self, request: u64) {
        let decision = self.decisions.pop_front().unwrap_or(session::Decision::Accept);
        self.later(Source::Approver(1, request), 7, Input::Decided { request, decision });
        if let Some(decision) = self.script.second_answer.clone() {
            self.later(Source::Approver(2, request), 7, Input::Decided { request, decision });
        }
    }

    /// The final items, in the order in which they became final.
    pub(crate) fn items(&self) -> Vec<&Item> {
        self.events
            .iter()
            .filter_map(|event| match event {
                Event::ItemCompleted { item, .. } => Some(item),
                _ => None,
            })
            .collect()
    }

    /// How the turns ended, in order.
    pub(crate) fn ends(&self) -> Vec<TurnStatus> {
        self.events
            .iter()
            .filter_map(|event| match event {
                Event::TurnCompleted(view) => Some(view.status),
                _ => None,
            })
            .collect()
    }

    /// What the model was answered to its call `call_id`.
    pub(crate) fn output_of(&self, call_id: &str) -> String {
        self.output_with(call_id, |fragment| &fragment.text)
    }

    /// The same as it is stored.
    pub(crate) fn stored_output_of(&self, call_id: &str) -> String {
        self.output_with(call_id, |fragment| fragment.stored_text())
    }

    fn output_with(&self, call_id: &str, text: impl Fn(&Fragment) -> &Arc<str>) -> String {
        let fragments = self.records.iter().filter_map(|record| match record {
            Record::History { fragments, .. } => Some(fragments),
            _ => None,
        });
        for fragment in fragments.flatten() {
            let value: serde_json::Value = serde_json::from_str(text(fragment)).unwrap();
            if value["call_id"] == call_id && !value["output"].is_null() {
                return value["output"]
                    .as_str()
                    .map_or_else(|| value["output"].to_string(), str::to_owned);
            }
        }
        panic!("call {call_id} has no output");
    }

    /// How many requests were put to the clients.
    pub(crate) fn asks(&self) -> usize {
        self.effects.iter().filter(|effect| matches!(effect, Effect::Ask { .. })).count()
    }
}
