//! An effect of the machine, with its item serialised once for the store and for all subscribers.

use std::sync::Arc;

use serde_json::value::RawValue;
use session::{Effect, Event, Id, Record};

use services::convert;

/// An effect of the machine, ready for the store and all subscribers.
pub(crate) struct Step {
    pub(super) effect: Effect,
    pub(super) json: Option<Arc<RawValue>>,
}

impl Step {
    /// An effect without an item.
    pub(super) fn plain(effect: Effect) -> Self {
        Self { effect, json: None }
    }
}

/// Appends `effects`. The record of an item comes before its event and shares its JSON.
pub(super) fn append_steps(effects: Vec<Effect>, steps: &mut Vec<Step>) {
    let mut last: Option<(Id, Arc<RawValue>)> = None;
    for effect in effects {
        let json = match &effect {
            Effect::Persist(Record::Item { item, .. }) => {
                let json: Arc<RawValue> = convert::item::json(item).into();
                last = Some((item.id().clone(), json.clone()));
                Some(json)
            }
            Effect::Emit(Event::ItemStarted { item, .. } | Event::ItemCompleted { item, .. }) => {
                last.take_if(|(id, _)| id == item.id()).map(|(_, json)| json)
            }
            _ => None,
        };
        steps.push(Step { effect, json });
    }
}
