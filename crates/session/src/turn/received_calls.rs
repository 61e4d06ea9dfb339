//! Recognizes calls that a provider sends repeatedly, so that no call runs twice.
//!
//! A response has each call id once. A request that is sent again because its response was cut can
//! return calls that have run; a call with the same id and another content is a new one, because some
//! model servers count their calls from zero in each response.

use std::collections::BTreeMap;

use crate::calls::Called;
use crate::history::{CallKind, is_output};
use crate::port::model::ModelItem;
use crate::port::tool_set::TOOL_SEARCH;
use crate::processes::output;

/// Bytes shown of a call that only the provider knows.
const MAX_SHOWN: usize = 4_096;

/// The calls of the current response and of its tries that were cut, by the provider's id.
#[derive(Default)]
pub(super) struct ReceivedCalls(BTreeMap<String, Received>);

struct Received {
    /// The try that it last came with.
    sample: u64,
    call: ModelItem,
    /// True if a repetition was shown to the clients.
    is_reported: bool,
}

/// The relation of a call to those before it.
pub(super) enum Occurrence {
    New,
    /// It must not run; the clients are shown the reason, once for each id.
    Repeated(Option<String>),
}

impl ReceivedCalls {
    /// Takes a call of the try `sample`. Calls without an id cannot be told apart: each is new.
    pub(super) fn receive(&mut self, sample: u64, call_id: &str, call: &ModelItem) -> Occurrence {
        if call_id.is_empty() {
            return Occurrence::New;
        }
        let repeated = match self.0.get_mut(call_id) {
            Some(earlier) if earlier.sample == sample => Some((earlier, "")),
            Some(earlier) if earlier.call == *call => Some((earlier, " before it was cut")),
            _ => None,
        };
        let Some((earlier, when)) = repeated else {
            let received = Received { sample, call: call.clone(), is_reported: false };
            self.0.insert(call_id.to_owned(), received);
            return Occurrence::New;
        };
        let is_reported = std::mem::replace(&mut earlier.is_reported, true);
        let reason = format!(
            "the provider sent a call with the id `{call_id}` in this response already{when}; this \
             repetition was not carried out"
        );
        Occurrence::Repeated((!is_reported).then_some(reason))
    }

    /// The response is whole: the next one is about something else.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

/// The id of a call whose output the model waits for.
pub(super) fn call_id(item: &mut ModelItem) -> Option<&mut String> {
    match item {
        ModelItem::FunctionCall { call_id, .. }
        | ModelItem::CustomToolCall { call_id, .. }
        | ModelItem::ToolSearchCall { call_id, .. } => Some(call_id),
        ModelItem::Other { kind, call_id } if !is_output(kind) => call_id.as_mut(),
        ModelItem::Other { .. }
        | ModelItem::Message { .. }
        | ModelItem::Reasoning { .. }
        | ModelItem::WebSearch { .. }
        | ModelItem::ImageGeneration(_) => None,
    }
}

/// The call that an item is, as it is shown.
pub(super) fn called(item: ModelItem, raw: &str) -> Option<Called> {
    Some(match item {
        ModelItem::FunctionCall { call_id, name, arguments } => {
            Called { call_id, kind: CallKind::Function, name, input: arguments, previewed: None }
        }
        ModelItem::CustomToolCall { call_id, name, input } => {
            Called { call_id, kind: CallKind::Custom, name, input, previewed: None }
        }
        ModelItem::ToolSearchCall { call_id, arguments } => {
            let name = TOOL_SEARCH.to_owned();
            Called { call_id, kind: CallKind::ToolSearch, name, input: arguments, previewed: None }
        }
        ModelItem::Other { kind, call_id } => {
            let (call_id, input) = (call_id?, output::shorten(raw, MAX_SHOWN));
            Called {
                call_id,
                kind: CallKind::Other(kind.clone()),
                name: kind,
                input,
                previewed: None,
            }
        }
        ModelItem::Message { .. }
        | ModelItem::Reasoning { .. }
        | ModelItem::WebSearch { .. }
        | ModelItem::ImageGeneration(_) => return None,
    })
}
