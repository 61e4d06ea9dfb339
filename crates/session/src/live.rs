//! What of a running turn is not final yet, for a client that joins in the middle.

use crate::Id;
use crate::event::TurnView;
use crate::item::Item;
use crate::machine::Machine;

/// The turns that run, and the items that are not final, each with its turn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Live {
    /// The running turn, then those that joined it.
    pub turns: Vec<TurnView>,
    /// Items in the order in which they began, as far as is known; deltas that follow go on from
    /// their text.
    pub items: Vec<(Id, Item)>,
}

impl Machine {
    /// See [`Live`].
    pub fn live(&self) -> Live {
        let Some(turn) = &self.turn else { return Live::default() };
        let id = &turn.view.id;
        let mut items = Vec::new();
        items.extend(turn.calls.iter().filter_map(|call| call.item.clone()));
        items.extend(self.processes.values().map(|process| process.shown(self.now)));
        items.extend(turn.compaction_item());
        items.extend(turn.sample.iter().flat_map(|sample| sample.shown()));
        let of = |item: &Item| match item {
            Item::Command(command) => self
                .processes
                .values()
                .find(|process| process.item.id == command.id)
                .map_or_else(|| id.clone(), |process| process.turn.clone()),
            _ => id.clone(),
        };
        let items = items.into_iter().map(|item| (of(&item), item)).collect();
        let turns = std::iter::once(&turn.view).chain(&turn.joined).cloned().collect();
        Live { turns, items }
    }
}
