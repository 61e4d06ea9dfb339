//! The spans of a thread: of its turns, its tool calls and its questions about approvals. Those of model
//! requests begin in `model_stream`.

use std::collections::HashMap;
use std::sync::Arc;

use config::Config;
use session::{
    Ask, Decision, Event, FailureKind, Id, Item, ItemStatus, Settings, TurnStatus, TurnView,
    UserContent,
};
use telemetry::{Attribute, Operation, TraceContext, names};

use services::telemetry::{OpenSpan, Telemetry, TurnSpan, TurnTrace, model_label};

/// The name of the agent that users talk to.
const AGENT: &str = "agentd";

/// The spans of a thread.
pub struct ThreadTrace {
    thread: Id,
    /// The name of a sub-agent.
    agent: Option<String>,
    telemetry: Arc<Telemetry>,
    /// Positions that requests gave, by the turns that they started and that have not begun here.
    requested: Vec<(Id, TraceContext)>,
    running: Option<Running>,
    /// Calls under way, by their items; also commands that outlive their turn.
    calls: HashMap<Id, Call>,
    /// Approvals under way, by the numbers of their requests.
    approvals: HashMap<u64, OpenSpan>,
}

struct Running {
    span: TurnSpan,
    logs_prompts: bool,
}

struct Call {
    span: OpenSpan,
    /// The number of the process of a command.
    process: Option<String>,
}

impl ThreadTrace {
    pub fn new(thread: Id, agent: Option<String>, telemetry: Arc<Telemetry>) -> Self {
        Self {
            thread,
            agent,
            telemetry,
            requested: Vec::new(),
            running: None,
            calls: HashMap::new(),
            approvals: HashMap::new(),
        }
    }

    /// Keeps the position that the request for a turn gave until the turn begins.
    pub(super) fn request(&mut self, turn: Id, trace: Option<TraceContext>) {
        self.requested.extend(trace.map(|trace| (turn, trace)));
    }

    /// A turn begins. A request that joins the running turn has no turn of its own.
    pub(super) fn turn_started(&mut self, view: &TurnView, config: &Config, settings: &Settings) {
        let place = self.requested.iter().position(|(turn, _)| *turn == view.id);
        let parent = place.map(|place| self.requested.swap_remove(place).1);
        if self.running.is_some() {
            return;
        }
        let attributes = [
            Attribute::new(names::PROVIDER, settings.provider.as_str()),
            Attribute::new(names::REQUEST_MODEL, &*model_label(&settings.model)),
        ];
        let agent = self.agent.as_deref().unwrap_or(AGENT);
        let recorder = self.telemetry.recorder(config);
        let ids = (&self.thread, &view.id);
        let span = TurnSpan::begin(&self.telemetry, recorder, parent, ids, (agent, attributes));
        self.running = Some(Running { span, logs_prompts: config.otel.log_user_prompt });
    }

    /// The position of the running turn.
    pub(super) fn of_turn(&self) -> TurnTrace {
        self.running.as_ref().map(|running| running.span.trace().clone()).unwrap_or_default()
    }

    /// The position of a call, or else of the running turn.
    pub(super) fn of_item(&self, item: &str) -> Option<TraceContext> {
        let call = self.calls.get(item);
        call.map_or_else(|| self.of_turn().context(), |call| call.span.context())
    }

    /// The position of the call that runs a command, or else of the running turn.
    pub(super) fn of_process(&self, process: u64) -> Option<TraceContext> {
        let process = Some(process.to_string());
        let call = self.calls.values().find(|call| call.process == process);
        call.map_or_else(|| self.of_turn().context(), |call| call.span.context())
    }

    /// Follows an event.
    pub(super) fn observe(&mut self, event: &Event) {
        match event {
            Event::ItemStarted { item, .. } => self.item_started(item),
            Event::ItemCompleted { item, .. } => self.item_completed(item),
            Event::TokenUsage { last, cost, .. } => {
                if let Some(running) = &mut self.running {
                    running.span.used(*last, cost.turn);
                }
            }
            Event::RequestResolved { request } => {
                if let Some(span) = self.approvals.remove(request) {
                    span.end();
                }
            }
            Event::TurnCompleted(view) => self.turn_completed(view),
            _ => {}
        }
    }

    fn turn_completed(&mut self, view: &TurnView) {
        let Some(Running { span, .. }) = self.running.take() else { return };
        let status = match view.status {
            TurnStatus::Completed | TurnStatus::InProgress => "completed",
            TurnStatus::Interrupted => "interrupted",
            TurnStatus::Failed => "failed",
        };
        let failed = view.error.as_ref();
        span.end(status, failed.map(|error| (error_type(error.kind), error.message.as_str())));
    }

    fn item_started(&mut self, item: &Item) {
        let Some((tool, attributes)) = described(item) else { return };
        let turn = self.of_turn();
        if !turn.is_turn() {
            return;
        }
        let name = Attribute::new(names::TOOL_NAME, tool);
        let id = Attribute::new(names::TOOL_CALL, &**item.id());
        let all = [name, id].into_iter().chain(attributes);
        let span = turn.begin(None, Operation::ExecuteTool, tool, all);
        let process = match item {
            Item::Command(command) => command.process_id.clone(),
            _ => None,
        };
        self.calls.insert(item.id().clone(), Call { span, process });
    }

    fn item_completed(&mut self, item: &Item) {
        if let (Item::UserMessage { content, .. }, Some(running)) = (item, &self.running) {
            let texts = content.iter().filter_map(|part| match part {
                UserContent::Text { text, .. } => Some(text.as_str()),
                _ => None,
            });
            let text = texts.collect::<Vec<_>>().join("\n");
            running.span.trace().prompt(&text, running.logs_prompts);
        }
        // An item that is final at once was never begun.
        if described(item).is_some() && !self.calls.contains_key(item.id()) {
            self.item_started(item);
        }
        let Some(Call { mut span, .. }) = self.calls.remove(item.id()) else { return };
        if let Item::Command(command) = item
            && let Some(code) = command.exit_code
        {
            span.set(names::EXIT_CODE, i64::from(code));
        }
        match item.status() {
            Some(ItemStatus::Failed) => span.fail("failed", None),
            Some(ItemStatus::Declined) => span.fail("declined", None),
            _ => {}
        }
        span.end();
    }

    /// The clients are asked for an approval.
    pub(super) fn asked(&mut self, request: u64, item: &Id, ask: &Ask) {
        let kind = match ask {
            Ask::Command { .. } => "command",
            Ask::Network { .. } => "network",
            Ask::Patch { .. } => "patch",
            Ask::Permissions { .. } => "permissions",
            Ask::ServerTool { .. } => "server_tool",
        };
        let turn = self.of_turn();
        if !turn.is_turn() {
            return;
        }
        let parent = self.calls.get(item).and_then(|call| call.span.context());
        let attributes = [
            Attribute::new(names::APPROVAL_KIND, kind),
            Attribute::new(names::TOOL_CALL, &**item),
            Attribute::new(names::APPROVAL_DECISION, "withdrawn"),
        ];
        let span = turn.begin(parent, Operation::Approval, kind, attributes);
        self.approvals.insert(request, span);
    }

    /// A client answered.
    pub(super) fn decided(&mut self, request: u64, decision: &Decision) {
        let Some(span) = self.approvals.get_mut(&request) else { return };
        let decision = match decision {
            Decision::Accept => "accept",
            Decision::AcceptForSession => "accept_for_session",
            Decision::AcceptWithAmendment(_) => "accept_with_amendment",
            Decision::Grant(_) => "grant",
            Decision::Decline => "decline",
            Decision::Cancel => "cancel",
            Decision::Undecided(_) => "undecided",
        };
        span.set(names::APPROVAL_DECISION, decision);
    }
}

/// The tool of an item, and what else is exported of its call; `None` for items that are no calls.
fn described(item: &Item) -> Option<(&str, Vec<Attribute>)> {
    let call = item.call()?;
    let type_name = if call.is_extension { "extension" } else { "function" };
    let mut attributes = vec![
        Attribute::new(names::TOOL_TYPE, type_name),
        Attribute::new(names::TOOL_KIND, call.kind),
    ];
    if let Item::ServerCall(call) = item {
        attributes.push(Attribute::new(names::MCP_METHOD, "tools/call"));
        attributes.push(Attribute::new(names::MCP_SERVER, call.target.server.as_str()));
    }
    Some((call.tool, attributes))
}

/// `error.type` of a failure: as clients see it.
pub(super) fn error_type(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::ContextWindowExceeded => "contextWindowExceeded",
        FailureKind::UsageLimitExceeded => "usageLimitExceeded",
        FailureKind::HttpConnectionFailed => "httpConnectionFailed",
        FailureKind::ResponseStreamConnectionFailed => "responseStreamConnectionFailed",
        FailureKind::ResponseStreamDisconnected => "responseStreamDisconnected",
        FailureKind::ResponseTooManyFailedAttempts => "responseTooManyFailedAttempts",
        FailureKind::BadRequest => "badRequest",
        FailureKind::Unauthorized => "unauthorized",
        FailureKind::SandboxError => "sandboxError",
        FailureKind::ServerOverloaded => "serverOverloaded",
        FailureKind::CyberPolicy => "cyberPolicy",
        FailureKind::InternalServerError => "internalServerError",
        FailureKind::Other => "_OTHER",
    }
}
