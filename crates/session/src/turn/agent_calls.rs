//! Calls that concern other agents: the driver carries them out, and their items show what came of
//! them.

use super::Turn;
use crate::approvals::Verdict;
use crate::calls::{AgentsCall, AskedAbout, FileChange, JobOutputRequest};
use crate::history::{self, CallOutput};
use crate::plan_mode::CHANGES_NOTHING;
use crate::port::agent_request::{AgentJob, AgentRequest};
use crate::port::agents::AgentOutcome;
use crate::port::approval::Ask;
use crate::port::effect::Effect;
use crate::port::event::Event;
use crate::port::item::ItemStatus;
use crate::port::tool::JobOutput;
use crate::processes::output;
use crate::thread::Thread;

/// Why the file of a job is asked about.
const WRITES_RESULTS: &str = "spawn_agents_on_csv writes the results of its agents to this file \
                              when they have ended";

/// About how many bytes make a token.
const BYTES_A_TOKEN: u64 = 4;

impl Turn {
    /// Decides about the file that a job writes before the job begins. Only a question shows the
    /// file as a change: its item ends with the job, which writes the file.
    pub(super) fn decide_job(
        &mut self,
        number: u64,
        job: Box<AgentJob>,
        output: Box<JobOutput>,
        thread: &mut Thread,
    ) {
        let verdict = thread.approvals.job_output(thread.configuration.settings(), &output);
        match self.weigh(number, verdict, thread) {
            Verdict::Run { .. } => {
                self.call_agents(number, AgentRequest::RunJob { job, output }, None, thread);
            }
            Verdict::Refuse(message) => {
                let change = FileChange::new(thread.cx.item_id(), output.as_patch());
                thread.cx.item_started(&self.view.id, change.item());
                self.close_call(number, change.item(), ItemStatus::Declined, message, thread);
            }
            Verdict::Fail(message) => {
                let call = AgentRequest::RunJob { job, output };
                let item = call.item(thread.cx.item_id(), thread.id.clone());
                thread.cx.failed_item(&self.view.id, item, &message);
                self.answer_last(number, message);
            }
            Verdict::Ask { reason, unsandboxed } => {
                let change = FileChange::new(thread.cx.item_id(), output.as_patch());
                thread.cx.stored_item_started(&self.view.id, change.item());
                let reason = match reason {
                    Some(reason) => format!("{WRITES_RESULTS}\n{reason}"),
                    None => WRITES_RESULTS.to_owned(),
                };
                let about = AskedAbout::JobOutput(JobOutputRequest { change, job, output });
                let ask = Ask::Patch { reason: Some(reason), grant_root: None };
                self.ask(number, unsandboxed, about, ask, thread);
            }
        }
    }

    /// Runs a job whose file was approved.
    pub(super) fn run_job(&mut self, number: u64, request: JobOutputRequest, thread: &mut Thread) {
        let JobOutputRequest { change, job, output } = request;
        // While the user was asked, the mode may have changed.
        if thread.configuration.is_planning() {
            let message = CHANGES_NOTHING.to_owned();
            return self.close_call(number, change.item(), ItemStatus::Failed, message, thread);
        }
        thread.approvals.grant_job_output(&output);
        self.call_agents(number, AgentRequest::RunJob { job, output }, Some(change), thread);
    }

    /// `change`: the file of a job that was asked about.
    pub(super) fn call_agents(
        &mut self,
        number: u64,
        mut call: AgentRequest,
        change: Option<FileChange>,
        thread: &mut Thread,
    ) {
        let request = thread.cx.number();
        let id = thread.cx.item_id();
        let item = call.item(id.clone(), thread.id.clone());
        let ends_turn = call.ends_turn();
        self.calls
            .call_agents(number, AgentsCall { request, item: item.clone(), change, ends_turn });
        thread.cx.stored_item_started(&self.view.id, item);
        if let AgentRequest::Spawn(agent) = &mut call
            && agent.fork_context
        {
            let fragments = thread.conversation.history().fragments();
            agent.history = history::before_last_response(fragments).to_vec();
        }
        let (turn, call) = (self.view.id.clone(), Box::new(call));
        thread.cx.push(Effect::CallAgents { request, turn, item: id, call });
    }

    /// The driver reports how far a call has come.
    pub(crate) fn agents_progressed(&self, request: u64, message: String, thread: &mut Thread) {
        let Some(item) = self.calls.agent_call_item(request).cloned() else { return };
        let turn = self.view.id.clone();
        thread.cx.emit(Event::CallProgress { turn, item, message });
    }

    /// The driver carried out what a call asks of other agents.
    pub(crate) fn agents_answered(
        &mut self,
        request: u64,
        outcome: AgentOutcome,
        thread: &mut Thread,
    ) {
        let Some((number, call)) = self.calls.take_agent_call(request) else { return };
        self.is_finished |= call.ends_turn && outcome.output.is_ok();
        if let Some(change) = &call.change {
            let item = match &outcome.output {
                Ok(_) => change.item().closed(ItemStatus::Completed, None),
                Err(error) => change.item().closed(ItemStatus::Failed, Some(error.message())),
            };
            thread.cx.item_completed(&self.view.id, item);
        }
        thread.cx.item_completed(&self.view.id, call.item.answered(&outcome));
        let most = thread.cx.limits.tool_output_tokens.saturating_mul(BYTES_A_TOKEN);
        let text = match &outcome.output {
            Ok(text) => text,
            Err(error) => error.message(),
        };
        let text = output::shorten(text, usize::try_from(most).unwrap_or(usize::MAX));
        self.calls.answer(number, CallOutput::Text(text));
        self.go_on(thread);
    }
}
