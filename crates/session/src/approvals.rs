//! The rules for running actions: the approval policy, the grants of the session, open prompts
//! about hosts, and reviews by a model in the user's place.

mod auto_review;
mod elsewhere;
mod grants;
mod network;
mod policy;

use std::path::Path;

use serde_json::value::RawValue;

use crate::Id;
use crate::cx::Cx;
use crate::plan_mode::Reach;
use crate::port::approval::Decision;
use crate::port::auto_review::{ApprovalReview, ApprovedAction, ReviewResponse, ReviewedAction};
use crate::port::item::CommandItem;
use crate::port::model::Failure;
use crate::port::server_tool::ToolTarget;
use crate::port::settings::{ApprovalPolicy, Settings};
use crate::port::tool::{JobOutput, PatchPlan, PatchTarget};
use auto_review::AutoReviews;
pub use auto_review::user_words;
pub(crate) use auto_review::{Action, ApprovalRequest, ReviewEnd, ReviewFacts, UserWords};
use grants::Grants;
use network::Prompts;
pub(crate) use network::{Answered, Question, Withdrawn};
pub(crate) use policy::{CommandRequest, Verdict};

/// The approval policy, the grants of the session, open prompts about hosts, and reviews.
pub(crate) struct Approvals {
    grants: Grants,
    prompts: Prompts,
    reviews: AutoReviews,
    /// The user's messages in the thread at the root of the tree.
    root_words: Option<Box<RawValue>>,
}

impl Approvals {
    /// Those of a loaded thread. `approved`: what the user approved and has not run yet.
    pub(crate) fn new(approved: Vec<ApprovedAction>) -> Self {
        let reviews = AutoReviews::new(approved);
        Self { grants: Grants::default(), prompts: Prompts::default(), reviews, root_words: None }
    }

    /// Takes over what the user wrote in the thread at the root of the tree: JSON.
    pub(crate) fn set_root_words(&mut self, words: &str) {
        // It is from the machine of that thread, which writes nothing else.
        self.root_words = serde_json::from_str(words).ok();
    }

    /// Returns the user's messages in the thread at the root of the tree, when the thread is an
    /// agent.
    pub(crate) fn root_words(&self) -> Option<&RawValue> {
        self.root_words.as_deref()
    }

    /// Decides about a command of the agent.
    pub(crate) fn command(&self, settings: &Settings, request: &CommandRequest<'_>) -> Verdict {
        let verdict = policy::command(settings, &self.grants, request);
        elsewhere::about_command(verdict, request.assessment)
    }

    /// Decides about text that the agent types into a running command outside of the sandbox.
    pub(crate) fn typing(&self, settings: &Settings, session: u64, command: &str) -> Verdict {
        policy::typing(settings, session, command)
    }

    /// Decides about a patch of the agent.
    pub(crate) fn patch(&self, settings: &Settings, plan: &PatchPlan) -> Verdict {
        elsewhere::about_patch(policy::patch(settings, &self.grants, plan), &plan.targets)
    }

    /// Decides about the file that a job writes, as about a patch that writes it. A file that was
    /// approved for the job is not asked about again.
    pub(crate) fn job_output(&self, settings: &Settings, output: &JobOutput) -> Verdict {
        match self.patch(settings, &output.as_patch()) {
            Verdict::Ask { unsandboxed, .. } if self.grants.has_job_output(output) => {
                Verdict::Run { unsandboxed }
            }
            verdict => verdict,
        }
    }

    /// A job may write the file whenever it goes on.
    pub(crate) fn grant_job_output(&mut self, output: &JobOutput) {
        self.grants.allow_job_output(output);
    }

    /// Decides about a call of the tool of an MCP server.
    pub(crate) fn server_tool(&self, settings: &Settings, tool: &ToolTarget) -> Verdict {
        policy::server_tool(settings, &self.grants, tool)
    }

    /// The user allows a tool of an MCP server for the session, as it is defined now.
    pub(crate) fn grant_server_tool(&mut self, tool: &ToolTarget) {
        self.grants.allow_server_tool(tool);
    }

    /// The user allows a command for the session.
    pub(crate) fn grant_command(&mut self, identity: Vec<String>, cwd: &Path, reach: Reach) {
        self.grants.allow_command(identity, cwd, reach);
    }

    /// The user allows changes of the files that these paths lead to for the session.
    pub(crate) fn grant_changes(&mut self, targets: &[PatchTarget]) {
        self.grants.allow_changes(targets);
    }

    /// Returns whether clients are asked about a host.
    pub(crate) fn has_prompts(&self) -> bool {
        self.prompts.wait_for_clients()
    }

    /// A running command wants to reach a host. `command` is its item and its real folder: without
    /// them, or without a running turn, no approval can be requested. Returns a new prompt, which the
    /// caller puts to who decides.
    pub(crate) fn network_asked(
        &mut self,
        question: Question,
        policy: ApprovalPolicy,
        has_turn: bool,
        command: Option<(&CommandItem, &Path)>,
        cx: &mut Cx,
    ) -> Option<ApprovalRequest> {
        if self.grants.has_host(&question.target) {
            network::answer(question.key, true, cx);
            return None;
        }
        match command {
            Some(command) if allows_prompts(policy) && has_turn => {
                self.prompts.ask(question, command, cx)
            }
            _ => {
                network::answer(question.key, false, cx);
                None
            }
        }
    }

    /// The clients were asked about a host.
    pub(crate) fn prompt_put_to_clients(&mut self, request: u64) {
        self.prompts.put_to_clients(request);
    }

    /// A reviewer was asked about a host, under these settings.
    pub(crate) fn prompt_put_to_reviewer(&mut self, request: u64, settings: &Settings) {
        self.prompts.put_to_reviewer(request, settings);
    }

    /// The connection that asked is gone.
    pub(crate) fn network_withdrawn(&mut self, key: u64, cx: &mut Cx) -> Withdrawn {
        let withdrawn = self.prompts.withdraw(|_, asked| asked == key, cx);
        self.abort_reviews(withdrawn, cx)
    }

    /// A command ended: no prompt shows it.
    pub(crate) fn command_ended(&mut self, process: u64, cx: &mut Cx) -> Withdrawn {
        let withdrawn = self.prompts.withdraw(|asking, _| asking == process, cx);
        self.abort_reviews(withdrawn, cx)
    }

    fn abort_reviews(&mut self, withdrawn: Withdrawn, cx: &mut Cx) -> Withdrawn {
        withdrawn.reviews.iter().for_each(|review| self.reviews.abort(*review, cx));
        withdrawn
    }

    /// Has a reviewer decide in place of the clients. A refusal at once comes as its reason.
    pub(crate) fn review(
        &mut self,
        request: ApprovalRequest,
        turn: &Id,
        facts: &ReviewFacts<'_>,
        cx: &mut Cx,
    ) -> ReviewEnd {
        self.reviews.begin(request, turn, facts, cx)
    }

    /// A reviewer's model answered, or did not. `facts` are those of now. `None`: the review goes on, or
    /// nothing waits for it.
    pub(crate) fn reviewed(
        &mut self,
        review: u64,
        outcome: Result<&ReviewResponse, &Failure>,
        facts: &ReviewFacts<'_>,
        cx: &mut Cx,
    ) -> Option<ReviewEnd> {
        self.reviews.end(review, outcome, facts, cx)
    }

    /// The wait before a review's request is sent again is over.
    pub(crate) fn review_retry_due(&mut self, review: u64, cx: &mut Cx) {
        self.reviews.retry_due(review, cx);
    }

    /// The time of a review is over. `None`: it goes on, or has ended.
    pub(crate) fn review_overdue(&mut self, review: u64, cx: &mut Cx) -> Option<ReviewEnd> {
        self.reviews.overdue(review, cx)
    }

    /// Returns whether a reviewer decides about this request.
    pub(crate) fn is_under_review(&self, request: u64) -> bool {
        self.reviews.is_open(request)
    }

    /// The reviews under way.
    pub(crate) fn open_reviews(&self) -> impl Iterator<Item = &ApprovalReview> {
        self.reviews.open()
    }

    /// The user lets an action that a review refused run once.
    ///
    /// # Errors
    /// It is not known, or another one: a sentence for the client.
    pub(crate) fn approve_denied(
        &mut self,
        review: &str,
        action: &ReviewedAction,
        cx: &mut Cx,
    ) -> Result<(), String> {
        self.reviews.approve_denied(review, action, cx)
    }

    /// Uses up the user's approval of exactly this action, if there is one.
    pub(crate) fn take_approved(&mut self, action: &Action, cx: &mut Cx) -> bool {
        self.reviews.take_approved(action, cx)
    }

    /// A client or a reviewer answered; `None` when the request is not about a host.
    pub(crate) fn network_decided(
        &mut self,
        request: u64,
        decision: &Decision,
        settings: &Settings,
        cx: &mut Cx,
    ) -> Option<Answered> {
        let (target, answered) = self.prompts.decide(request, decision.clone(), settings, cx)?;
        if *decision == Decision::AcceptForSession {
            self.grants.allow_host(target);
        }
        Some(answered)
    }

    /// The prompts about hosts that clients have.
    pub(crate) fn prompts_of_clients(&self) -> Vec<u64> {
        self.prompts.put_to_clients_now()
    }

    /// The turn ends: withdraws every prompt, and ends every review.
    pub(crate) fn close_prompts(&mut self, cx: &mut Cx) {
        self.reviews.close(cx);
        self.prompts.close(cx);
    }
}

/// Returns whether prompts about hosts are allowed.
pub(crate) fn allows_prompts(policy: ApprovalPolicy) -> bool {
    match policy {
        ApprovalPolicy::Never => false,
        ApprovalPolicy::Granular(granular) => granular.sandbox_approval,
        ApprovalPolicy::OnRequest | ApprovalPolicy::UnlessTrusted => true,
    }
}
