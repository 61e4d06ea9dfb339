//! The tool calls of a response and where each stands: begun in order, in parallel where they may
//! be, answered in order.
//!
//! Which calls may begin is decided here; what a call does is its tool's, and the turn carries it
//! out.

mod abandoned;
mod asking;
mod elsewhere;
mod hooked;
mod hooking;

use std::sync::Arc;

use crate::history::{self, CallKind, CallOutput};
use crate::port::fragment::Fragment;
use crate::port::hook::HookEvents;
use crate::port::item::{DynamicCall, Item};
use crate::port::question::UserQuestion;
use crate::terms::Terms;
use crate::tools::{CallCx, Found, Step, ToolCall};
use crate::{Id, Millis};
pub(crate) use asking::{
    AskedAbout, Asking, FileChange, JobOutputRequest, PermissionRequest, TypingRequest,
};
pub(crate) use elsewhere::{AgentsCall, AskedUser, AtServer};
use hooked::Hooked;
pub(crate) use hooking::{Begun, HeldQuestion};

/// The tool calls of a response, in order.
#[derive(Default)]
pub(crate) struct Calls(Vec<Call>);

struct Call {
    number: u64,
    /// The provider's id.
    call_id: String,
    kind: CallKind,
    /// True if nothing may run at the same time.
    is_exclusive: bool,
    state: State,
    /// The facts about it for hooks; `None`: no hook is about calls.
    hooked: Option<Box<Hooked>>,
    /// The item that clients were shown changes of while the call streamed in.
    previewed: Option<Id>,
}

enum State {
    /// Not begun.
    Queued(Arc<dyn ToolCall>),
    /// Hooks look at it before it begins.
    Hooking(Arc<dyn ToolCall>),
    /// The driver looks at it.
    Preparing(Arc<dyn ToolCall>),
    /// Hooks may decide in place of the user.
    AskingHooks(Box<HeldQuestion>),
    /// The user is asked, or a reviewer in the user's place.
    Asking(Asking),
    /// It was allowed; the next state follows within the same step.
    Approved,
    /// A client runs its tool.
    AtClient { request: u64, since: Millis, item: DynamicCall },
    /// The user is asked questions.
    AtUser { request: u64, since: Millis, item: DynamicCall, questions: Arc<[UserQuestion]> },
    /// The driver carries out what the call asks of other agents.
    AtAgents(Box<AgentsCall>),
    /// The tool of an MCP server is called.
    AtServer(Box<AtServer>),
    /// The driver checks what the user granted.
    CheckingGrant(DynamicCall, Terms),
    /// The driver checks the folder that the user made writable with a patch, which is applied then.
    CheckingFolder(FileChange, Terms),
    /// A patch is being applied.
    Applying(FileChange),
    /// Its command runs.
    Waiting { process: u64 },
    /// Answered, by a tool whose results hooks read.
    Answered(CallOutput),
    /// Hooks look at the answer.
    AfterHooks(CallOutput),
    /// Answered.
    Done(CallOutput),
}

/// A call as the model made it.
pub(crate) struct Called {
    /// The provider's id.
    pub(crate) call_id: String,
    /// The type of the item that called it: says whether `input` is free text rather than JSON.
    pub(crate) kind: CallKind,
    /// The tool.
    pub(crate) name: String,
    /// Its arguments.
    pub(crate) input: String,
    /// The item that clients were shown changes of while it streamed in.
    pub(crate) previewed: Option<Id>,
}

impl Calls {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether every call is answered.
    pub(crate) fn are_done(&self) -> bool {
        self.0.iter().all(|call| matches!(call.state, State::Done(_)))
    }

    /// Returns whether the user is asked about any.
    pub(crate) fn are_asked_about(&self) -> bool {
        let asks_user =
            |call: &Call| matches!(&call.state, State::Asking(asking) if !asking.is_reviewed);
        self.0.iter().any(asks_user)
    }

    /// The requests for approval that clients have.
    pub(crate) fn asked_about(&self) -> Vec<u64> {
        let request = |call: &Call| match &call.state {
            State::Asking(asking) if !asking.is_reviewed => Some(asking.request),
            _ => None,
        };
        self.0.iter().filter_map(request).collect()
    }

    /// Returns whether the user is asked questions.
    pub(crate) fn wait_for_user(&self) -> bool {
        self.0.iter().any(|call| matches!(call.state, State::AtUser { .. }))
    }

    /// Returns whether a patch is being applied.
    pub(crate) fn is_applying(&self) -> bool {
        self.0.iter().any(|call| matches!(call.state, State::Applying(_)))
    }

    /// Returns whether ending the calls now would cut work short. A call that only waits for an answer
    /// may wait forever.
    pub(crate) fn are_working(&self) -> bool {
        let works = |call: &Call| {
            matches!(call.state, State::Applying(_) | State::Waiting { .. } | State::AtServer(_))
        };
        self.0.iter().any(works)
    }

    /// Queues a call.
    pub(crate) fn push(
        &mut self,
        number: u64,
        called: Called,
        tool: Box<dyn ToolCall>,
        events: HookEvents,
    ) {
        let hooked = Hooked::new(&called, events);
        let Called { call_id, kind, previewed, .. } = called;
        let is_exclusive = tool.is_exclusive();
        let state = State::Queued(tool.into());
        self.0.push(Call { number, call_id, kind, is_exclusive, state, hooked, previewed });
    }

    /// Adds a call that is answered already, because it cannot be read.
    pub(crate) fn push_answered(&mut self, number: u64, called: Called, message: String) {
        let Called { call_id, kind, .. } = called;
        let state = State::Done(CallOutput::Text(message));
        let (is_exclusive, hooked, previewed) = (false, None, None);
        self.0.push(Call { number, call_id, kind, is_exclusive, state, hooked, previewed });
    }

    /// Takes the item that clients were shown changes of while the call streamed in.
    pub(crate) fn take_previewed(&mut self, number: u64) -> Option<Id> {
        self.0.iter_mut().find(|call| call.number == number)?.previewed.take()
    }

    /// Begins the next call, when it may run in parallel with the running ones.
    pub(crate) fn begin_next(&mut self, cx: &mut CallCx<'_>) -> Option<(u64, Begun)> {
        let is_queued = |call: &Call| matches!(call.state, State::Queued(_));
        let next = self.0.iter().find(|call| is_queued(call))?;
        let mut running = self.0.iter().filter(|call| !call.is_done() && !is_queued(call));
        let may_begin = match next.is_exclusive {
            true => running.next().is_none(),
            false => !running.any(|call| call.is_exclusive),
        };
        if !may_begin {
            return None;
        }
        self.0.iter_mut().find_map(|call| call.begin(cx))
    }

    /// Continues a call that was being prepared; `None` when it is not, or `found` does not fit.
    pub(crate) fn prepared(
        &mut self,
        number: u64,
        found: Found,
        cx: &mut CallCx<'_>,
    ) -> Option<Step> {
        let tool = self.preparing(number)?;
        cx.number = number;
        tool.prepared(found, cx)
    }

    /// The call of this number, while it is being prepared.
    pub(crate) fn preparing(&self, number: u64) -> Option<Arc<dyn ToolCall>> {
        self.0.iter().find_map(|call| match &call.state {
            State::Preparing(tool) if call.number == number => Some(tool.clone()),
            _ => None,
        })
    }

    /// A call turned out to be a patch, which runs alone. When another one runs or comes before it,
    /// it goes back into the queue, to be prepared again when it is alone: by then the files may
    /// have changed. Returns whether it is alone.
    pub(crate) fn hides_patch(&mut self, number: u64) -> bool {
        let is_alone = self.0.iter().all(|call| {
            let is_behind = call.number > number && matches!(call.state, State::Queued(_));
            call.number == number || call.is_done() || is_behind
        });
        for call in self.0.iter_mut().filter(|call| call.number == number) {
            call.is_exclusive = true;
            if let (false, State::Preparing(tool)) = (is_alone, &call.state) {
                call.state = State::Queued(tool.clone());
            }
        }
        is_alone
    }

    /// The user is asked about a call.
    pub(crate) fn ask(&mut self, number: u64, asking: Asking) {
        self.set(number, State::Asking(asking));
    }

    /// A client runs the tool of a call.
    pub(crate) fn delegate(&mut self, number: u64, request: u64, item: DynamicCall, now: Millis) {
        self.set(number, State::AtClient { request, since: now, item });
    }

    /// The driver checks what the user granted.
    pub(crate) fn check_grant(&mut self, number: u64, item: DynamicCall, terms: Terms) {
        self.set(number, State::CheckingGrant(item, terms));
    }

    /// Takes out the call whose grant was checked.
    pub(crate) fn take_checked_grant(&mut self, number: u64) -> Option<(DynamicCall, Terms)> {
        let call = self.0.iter_mut().find(|call| call.number == number)?;
        match call.take_if(|state| matches!(state, State::CheckingGrant(..)))? {
            (_, State::CheckingGrant(item, terms)) => Some((item, terms)),
            _ => None,
        }
    }

    /// The driver checks the folder that the user made writable with a patch.
    pub(crate) fn check_folder(&mut self, number: u64, change: FileChange, terms: Terms) {
        self.set(number, State::CheckingFolder(change, terms));
    }

    /// Takes out the patch whose folder was checked.
    pub(crate) fn take_checked_folder(&mut self, number: u64) -> Option<(FileChange, Terms)> {
        let call = self.0.iter_mut().find(|call| call.number == number)?;
        match call.take_if(|state| matches!(state, State::CheckingFolder(..)))? {
            (_, State::CheckingFolder(change, terms)) => Some((change, terms)),
            _ => None,
        }
    }

    /// The user is asked the questions of a call.
    pub(crate) fn ask_user(&mut self, asked: AskedUser) {
        let AskedUser { number, request, since, item, questions } = asked;
        self.set(number, State::AtUser { request, since, item, questions });
    }

    /// The driver carries out what a call asks of other agents.
    pub(crate) fn call_agents(&mut self, number: u64, call: AgentsCall) {
        self.set(number, State::AtAgents(Box::new(call)));
    }

    /// The tool of an MCP server is called.
    pub(crate) fn call_server(&mut self, number: u64, call: AtServer) {
        self.set(number, State::AtServer(Box::new(call)));
    }

    /// Takes out the call that the server's answer to `request` is for.
    pub(crate) fn take_server_call(&mut self, request: u64) -> Option<(u64, AtServer)> {
        let is_it =
            |state: &State| matches!(state, State::AtServer(call) if call.request == request);
        match self.take_if(is_it)? {
            (number, State::AtServer(call)) => Some((number, *call)),
            _ => None,
        }
    }

    /// The item of the call that `request` is for.
    pub(crate) fn server_call_item(&self, request: u64) -> Option<&Id> {
        self.0.iter().find_map(|call| match &call.state {
            State::AtServer(called) if called.request == request => Some(&called.call.id),
            _ => None,
        })
    }

    /// The patch of a call is being applied.
    pub(crate) fn apply(&mut self, number: u64, change: FileChange) {
        self.set(number, State::Applying(change));
    }

    /// A call waits for a running command.
    pub(crate) fn wait_for(&mut self, number: u64, process: u64) {
        self.set(number, State::Waiting { process });
    }

    /// Answers a call whose tool was reached. Returns whether there is such a call.
    pub(crate) fn answer(&mut self, number: u64, output: CallOutput) -> bool {
        let Some(call) = self.0.iter_mut().find(|call| call.number == number) else { return false };
        let is_read = call.hooked.as_ref().is_some_and(|hooked| hooked.reads_answer);
        call.state = if is_read { State::Answered(output) } else { State::Done(output) };
        true
    }

    /// Answers a call that did not run.
    pub(crate) fn answer_unrun(&mut self, number: u64, message: String) {
        self.set(number, State::Done(CallOutput::Text(message)));
    }

    fn set(&mut self, number: u64, state: State) -> bool {
        let call = self.0.iter_mut().find(|call| call.number == number);
        call.map(|call| call.state = state).is_some()
    }

    /// The command that a call waits for.
    pub(crate) fn awaited(&self, number: u64) -> Option<u64> {
        self.0.iter().find_map(|call| match call.state {
            State::Waiting { process } if call.number == number => Some(process),
            _ => None,
        })
    }

    /// Takes out the call that the answer to `request` is about.
    pub(crate) fn take_asked(&mut self, request: u64) -> Option<(u64, Asking)> {
        let is_it = |state: &State| matches!(state, State::Asking(it) if it.request == request);
        match self.take_if(is_it)? {
            (number, State::Asking(asking)) => Some((number, asking)),
            _ => None,
        }
    }

    /// Takes out the call that a client answered with `request`, and when it was delegated.
    pub(crate) fn take_delegated(&mut self, request: u64) -> Option<(u64, DynamicCall, Millis)> {
        let is_it =
            |state: &State| matches!(state, State::AtClient { request: it, .. } if *it == request);
        match self.take_if(is_it)? {
            (number, State::AtClient { item, since, .. }) => Some((number, item, since)),
            _ => None,
        }
    }

    /// Takes out the call whose questions `request` asks.
    pub(crate) fn take_asked_user(&mut self, request: u64) -> Option<AskedUser> {
        self.take_user_if(
            |state| matches!(state, State::AtUser { request: it, .. } if *it == request),
        )
    }

    /// Takes out a call whose questions the user is asked.
    pub(crate) fn take_any_asked_user(&mut self) -> Option<AskedUser> {
        self.take_user_if(|state| matches!(state, State::AtUser { .. }))
    }

    fn take_user_if(&mut self, is_it: impl Fn(&State) -> bool) -> Option<AskedUser> {
        match self.take_if(is_it)? {
            (number, State::AtUser { request, since, item, questions }) => {
                Some(AskedUser { number, request, since, item, questions })
            }
            _ => None,
        }
    }

    /// Takes out the call whose request to other agents was carried out.
    pub(crate) fn take_agent_call(&mut self, request: u64) -> Option<(u64, AgentsCall)> {
        let is_it =
            |state: &State| matches!(state, State::AtAgents(call) if call.request == request);
        match self.take_if(is_it)? {
            (number, State::AtAgents(call)) => Some((number, *call)),
            _ => None,
        }
    }

    /// The item of the call whose request to other agents is being carried out.
    pub(crate) fn agent_call_item(&self, request: u64) -> Option<&Id> {
        self.0.iter().find_map(|call| match &call.state {
            State::AtAgents(called) if called.request == request => Some(called.item.id()),
            _ => None,
        })
    }

    /// Takes out the patch that a call applied.
    pub(crate) fn take_applied(&mut self, number: u64) -> Option<FileChange> {
        let call = self.0.iter_mut().find(|call| call.number == number)?;
        match call.take_if(|state| matches!(state, State::Applying(_)))? {
            (_, State::Applying(change)) => Some(change),
            _ => None,
        }
    }

    fn take_if(&mut self, is_it: impl Fn(&State) -> bool) -> Option<(u64, State)> {
        self.0.iter_mut().find_map(|call| call.take_if(&is_it))
    }

    /// The items that are not final, but for those of running commands.
    pub(crate) fn items(&self) -> impl Iterator<Item = Item> + '_ {
        self.0
            .iter()
            .flat_map(|call| match &call.state {
                State::Asking(asking) => [Some(asking.about.item()), None],
                State::AskingHooks(held) => [Some(held.about.item()), None],
                State::AtClient { item, .. }
                | State::AtUser { item, .. }
                | State::CheckingGrant(item, _) => [Some(Item::DynamicCall(item.clone())), None],
                State::AtAgents(call) => {
                    [call.change.as_ref().map(FileChange::item), Some(call.item.clone())]
                }
                State::AtServer(called) => {
                    [Some(Item::ServerCall(Box::new(called.call.clone()))), None]
                }
                State::Applying(change) | State::CheckingFolder(change, _) => {
                    [Some(change.item()), None]
                }
                State::Queued(_)
                | State::Hooking(_)
                | State::Preparing(_)
                | State::Approved
                | State::Waiting { .. }
                | State::Answered(_)
                | State::AfterHooks(_)
                | State::Done(_) => [None, None],
            })
            .flatten()
    }

    /// Takes the calls out, and returns their outputs for the history.
    pub(crate) fn take_outputs(&mut self) -> Vec<Fragment> {
        let outputs = |call: Call| match call.state {
            State::Done(output) | State::Answered(output) | State::AfterHooks(output) => {
                let failure = history::failed_search(&call.kind, &output);
                let output = history::call_output(&call.call_id, &call.kind, &output);
                std::iter::once(output).chain(failure).collect()
            }
            _ => Vec::new(),
        };
        self.0.drain(..).flat_map(outputs).collect()
    }
}

impl Call {
    fn is_done(&self) -> bool {
        matches!(self.state, State::Done(_))
    }

    fn begin(&mut self, cx: &mut CallCx<'_>) -> Option<(u64, Begun)> {
        let State::Queued(tool) = &self.state else { return None };
        let tool = tool.clone();
        if let Some(hooked) = self.hooked.as_mut().filter(|hooked| hooked.is_unchecked) {
            hooked.is_unchecked = false;
            self.state = State::Hooking(tool);
            return Some((
                self.number,
                Begun::Hooks(hooks::Event::PreToolUse(hooked.tool.clone())),
            ));
        }
        self.state = State::Preparing(tool.clone());
        cx.number = self.number;
        Some((self.number, Begun::Call(tool.begin(cx))))
    }

    fn take_if(&mut self, is_it: impl Fn(&State) -> bool) -> Option<(u64, State)> {
        let take = is_it(&self.state);
        take.then(|| (self.number, std::mem::replace(&mut self.state, State::Approved)))
    }
}
