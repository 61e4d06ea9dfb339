//! The end of calls with their turn.

use super::{Asking, AtServer, Call, Calls, FileChange, State};
use crate::cx::Cx;
use crate::history::{ABORTED, CallOutput};
use crate::port::effect::Effect;
use crate::port::event::{Event, TurnStatus};
use crate::port::item::{DynamicCall, Item, ItemStatus};
use crate::port::server_tool::ServerCall;
use crate::{Id, Millis};

impl Calls {
    /// The turn ends: closes and answers every call, but for a patch that is being applied.
    pub(crate) fn abandon(&mut self, turn: &Id, status: TurnStatus, why: &str, cx: &mut Cx) {
        for call in &mut self.0 {
            call.abandon(turn, status, why, cx);
        }
    }
}

impl Call {
    fn abandon(&mut self, turn: &Id, status: TurnStatus, why: &str, cx: &mut Cx) {
        let aborted = State::Done(CallOutput::Text(ABORTED.into()));
        match std::mem::replace(&mut self.state, aborted) {
            state @ (State::Applying(_)
            | State::Done(_)
            | State::Answered(_)
            | State::AfterHooks(_)) => self.state = state,
            State::Queued(_) | State::Hooking(_) | State::Approved | State::Waiting { .. } => {}
            State::AskingHooks(held) => {
                cx.push(Effect::Discard { call: self.number });
                cx.item_completed(turn, abandoned(held.about.item(), status, why));
            }
            State::Preparing(_) => cx.push(Effect::Discard { call: self.number }),
            State::Asking(Asking { request, is_reviewed, about, .. }) => {
                if !is_reviewed {
                    cx.emit(Event::RequestResolved { request });
                }
                cx.push(Effect::Discard { call: self.number });
                cx.item_completed(turn, abandoned(about.item(), status, why));
            }
            State::CheckingGrant(item, _) => {
                cx.item_completed(
                    turn,
                    Item::DynamicCall(item).closed(ItemStatus::Failed, Some(why)),
                );
            }
            State::CheckingFolder(change, _) => {
                cx.push(Effect::Discard { call: self.number });
                cx.item_completed(turn, abandoned(change.item(), status, why));
            }
            State::AtUser { request, since, item, .. } => {
                self.state = State::Done(CallOutput::Text(format!("not answered: {why}")));
                close_at_client(request, since, item, turn, why, cx);
            }
            State::AtClient { request, since, item } => {
                close_at_client(request, since, item, turn, why, cx);
            }
            State::AtServer(called) => {
                let AtServer { request, since, call } = *called;
                cx.push(Effect::CancelServerCall { request });
                let duration_ms = Some((cx.now - since).max(0));
                let call = call.closed(ItemStatus::Failed, Some(why));
                let item = Item::ServerCall(Box::new(ServerCall { duration_ms, ..call }));
                cx.item_completed(turn, item);
            }
            State::AtAgents(call) => {
                cx.push(Effect::CancelAgents { request: call.request });
                let change = call.change.as_ref().map(FileChange::item);
                for item in change.into_iter().chain([call.item]) {
                    cx.item_completed(turn, item.closed(ItemStatus::Failed, Some(why)));
                }
            }
        }
    }
}

/// The item of a call that the user would have decided about.
fn abandoned(item: Item, status: TurnStatus, why: &str) -> Item {
    match status {
        TurnStatus::Interrupted => item.closed(ItemStatus::Declined, None),
        _ => item.closed(ItemStatus::Failed, Some(why)),
    }
}

/// Withdraws the request about a call, and closes its item.
fn close_at_client(
    request: u64,
    since: Millis,
    item: DynamicCall,
    turn: &Id,
    why: &str,
    cx: &mut Cx,
) {
    cx.emit(Event::RequestResolved { request });
    let duration_ms = Some((cx.now - since).max(0));
    let item = Item::DynamicCall(DynamicCall { duration_ms, ..item });
    cx.item_completed(turn, item.closed(ItemStatus::Failed, Some(why)));
}
