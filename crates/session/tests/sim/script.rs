//! What happens outside of the session in one run: turns, responses, decisions, settings.

use std::sync::Arc;

use hooks::{EventName, Outcome};
use session::{
    ApprovalPolicy, ApprovalsReviewer, Author, Decision, DynamicTool, Fragment, Limits, Mark, Mode,
    Overrides, Permissions, ReadAccess, Restored, SandboxPolicy, ServerTool, Settings,
    ToolApproval, ToolEffect, ToolTarget, UserContent,
};

use crate::response::{Output, Response, respond};

/// One run's script. When the responses are used up, the model says a closing word.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) settings: Settings,
    pub(crate) limits: Limits,
    pub(crate) restored: Restored,
    /// Started one after another, each when the one before has ended.
    pub(crate) turns: Vec<Start>,
    /// One a request to the model.
    pub(crate) responses: Vec<Response>,
    /// One an approval request; then everything is accepted.
    pub(crate) decisions: Vec<Decision>,
    /// One a request to the reviewer of approvals; then everything is approved.
    pub(crate) reviews: Vec<Review>,
    /// Who starts the turns.
    pub(crate) author: Author,
    /// What a second client answers to every approval request.
    pub(crate) second_answer: Option<Decision>,
    /// Tools that a client runs, named after what they do: `works`, `fails`, `breaks`.
    pub(crate) tools: Vec<DynamicTool>,
    /// Tools of an MCP server, named after what they do.
    pub(crate) server_tools: Vec<ServerTool>,
    /// The events that have hooks.
    pub(crate) hook_events: Vec<EventName>,
    /// What hooks say, in order for each event; then nothing.
    pub(crate) hooks: Vec<(EventName, Outcome)>,
    /// Whether deltas and final texts of the model agree.
    pub(crate) coherent: bool,
}

/// What the reviewer of approvals does.
#[derive(Clone, Debug)]
pub(crate) enum Review {
    /// Answers with these messages, after so many milliseconds. `ID` stands for the review's id.
    Says(i64, Vec<String>),
    /// Calls a tool.
    Calls,
    /// The request fails for good.
    Fails,
    /// The request fails after so many milliseconds; the provider may ask for a wait.
    IsBusy(i64, Option<u64>),
    /// Never answers.
    IsSilent,
}

/// A usable answer.
pub(crate) fn verdict(verdict: &str, risk: &str, authorization: &str) -> String {
    format!(
        r#"{{"reviewId":"ID","verdict":"{verdict}","riskLevel":"{risk}","userAuthorization":"{authorization}","rationale":"because"}}"#
    )
}

/// A reviewer that answers once.
pub(crate) fn judged(answer: String) -> Review {
    Review::Says(7, vec![answer])
}

/// A turn that a client starts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Start {
    pub(crate) text: String,
    pub(crate) overrides: Overrides,
    pub(crate) output_schema: Option<Arc<str>>,
}

impl Script {
    /// One turn, answered with `responses`.
    pub(crate) fn new(responses: &[&[Output]]) -> Self {
        Self {
            settings: settings(),
            limits: Limits::default(),
            restored: Restored { history: Some(Vec::new()), ..Restored::default() },
            turns: vec![Start { text: "go".into(), ..Start::default() }],
            responses: responses.iter().map(|outputs| respond(outputs)).collect(),
            decisions: Vec::new(),
            reviews: Vec::new(),
            author: Author::User,
            second_answer: None,
            tools: ["works", "fails", "breaks"].map(tool).into(),
            server_tools: Vec::new(),
            hook_events: Vec::new(),
            hooks: Vec::new(),
            coherent: true,
        }
    }

    /// Under another approval policy.
    pub(crate) fn asking(mut self, approval: ApprovalPolicy) -> Self {
        self.settings.approval = approval;
        self
    }

    /// With these answers to approval requests.
    pub(crate) fn deciding(mut self, decisions: &[Decision]) -> Self {
        self.decisions = decisions.to_vec();
        self
    }

    /// With a reviewer of approvals that answers this.
    pub(crate) fn reviewed(mut self, reviews: &[Review]) -> Self {
        self.settings.reviewer = ApprovalsReviewer::AutoReview;
        self.reviews = reviews.to_vec();
        self
    }

    /// With the tools of an MCP server.
    pub(crate) fn with_server(mut self) -> Self {
        self.server_tools = server_tools();
        self
    }

    /// With hooks for every event, which say this.
    pub(crate) fn hooked(mut self, hooks: &[(EventName, Outcome)]) -> Self {
        self.hook_events = EventName::ALL.to_vec();
        self.hooks = hooks.to_vec();
        self
    }

    /// With one more turn.
    pub(crate) fn then(mut self, text: &str) -> Self {
        self.turns.push(Start { text: text.into(), ..Start::default() });
        self
    }
}

/// What the tools of the MCP server `s` are called there.
pub(crate) const SERVER_TOOLS: [&str; 6] =
    ["reads", "adds", "asks", "destroys", "breaks", "floods"];

pub(crate) fn server_tools() -> Vec<ServerTool> {
    let tool = |(number, name): (u8, &str)| ServerTool {
        name: format!("mcp__s__{name}"),
        description: name.to_owned(),
        schema: "{}".to_owned(),
        target: Arc::new(ToolTarget {
            server: "s".to_owned(),
            tool: name.to_owned(),
            title: None,
            digest: [number; 16],
            server_digest: [0; 16],
            effect: match name {
                "adds" => ToolEffect::Additive,
                "asks" => ToolEffect::Unknown,
                "destroys" => ToolEffect::Destructive,
                _ => ToolEffect::ReadOnly,
            },
            approval: ToolApproval::Auto,
            connector: None,
            app_resource: None,
        }),
    };
    (0..).zip(SERVER_TOOLS).map(tool).collect()
}

fn tool(name: &str) -> DynamicTool {
    DynamicTool {
        namespace: None,
        name: name.into(),
        description: String::new(),
        schema: "{}".into(),
        defer_loading: false,
    }
}

/// Settings of a confined thread that asks when something lies outside.
pub(crate) fn settings() -> Settings {
    Settings {
        model: "m".into(),
        provider: "p".into(),
        cwd: "/w".into(),
        approval: ApprovalPolicy::OnRequest,
        reviewer: ApprovalsReviewer::User,
        sandbox: SandboxPolicy::WorkspaceWrite {
            writable_roots: Vec::new(),
            read: ReadAccess::Full,
            network: false,
            exclude_slash_tmp: false,
            exclude_tmpdir: false,
        },
        granted: Permissions::default(),
        effort: None,
        summary: None,
        verbosity: None,
        personality: None,
        service_tier: None,
        mode: Mode::Default,
        mode_instructions: None,
    }
}

/// A user's text as turn input.
pub(crate) fn text(text: &str) -> Vec<UserContent> {
    vec![UserContent::Text { text: text.to_owned(), elements: Vec::new() }]
}

/// A stored part of the history, of a version that made no marks.
pub(crate) fn fragment(text: &str) -> Fragment {
    Fragment { text: text.into(), mark: Mark::Unknown, stored: None, is_waiting: false }
}
