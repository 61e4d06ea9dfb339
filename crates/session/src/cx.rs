//! The context of every part of a thread: the time, ids, bounds, and the list of effects.

use crate::port::effect::{Answer, Effect, Record, Refusal};
use crate::port::event::{Event, Status};
use crate::port::item::{Item, ItemStatus};
use crate::port::thread::{Ids, Limits};
use crate::unstored_text::UnstoredTexts;
use crate::{Id, Millis};

/// Passed to the parts of a thread in each step.
pub(crate) struct Cx {
    /// The time of this step.
    pub(crate) now: Millis,
    /// Bounds of the thread's work.
    pub(crate) limits: Limits,
    ids: Box<dyn Ids>,
    next_number: u64,
    status: Status,
    effects: Vec<Effect>,
    /// Of running items.
    pub(crate) unstored: UnstoredTexts,
    /// Items that began and of which nothing is stored, in the order in which they began.
    begun: Vec<(Id, Item)>,
}

impl Cx {
    pub(crate) fn new(ids: Box<dyn Ids>, limits: Limits, status: Status) -> Self {
        let unstored = UnstoredTexts::default();
        let (effects, begun) = (Vec::new(), Vec::new());
        Self { now: 0, limits, ids, next_number: 1, status, effects, unstored, begun }
    }

    /// A new turn id.
    pub(crate) fn turn_id(&mut self) -> Id {
        self.ids.turn()
    }

    /// A new item id.
    pub(crate) fn item_id(&mut self) -> Id {
        self.ids.item()
    }

    /// A number for a sample, call, process or request: unique in this thread's life.
    pub(crate) fn number(&mut self) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        number
    }

    /// Makes every number from now on at least `number`.
    pub(crate) fn skip_numbers(&mut self, number: u64) {
        self.next_number = self.next_number.max(number);
    }

    /// The runtime status that was last reported.
    pub(crate) fn status(&self) -> Status {
        self.status
    }

    /// Reports the runtime status when it changed.
    pub(crate) fn set_status(&mut self, status: Status) {
        if self.status != status {
            self.status = status;
            self.emit(Event::StatusChanged(status));
        }
    }

    /// Reports that an approval is pending.
    pub(crate) fn show_approval(&mut self) {
        let waiting_on_user_input =
            matches!(self.status, Status::Active { waiting_on_user_input: true, .. });
        self.set_status(Status::Active { waiting_on_approval: true, waiting_on_user_input });
    }

    /// Corrects the status without an event: the driver reports it.
    pub(crate) fn correct_status(&mut self, status: Status) {
        self.status = status;
    }

    /// Adds an effect.
    pub(crate) fn push(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    /// Sends an event to the subscribers.
    pub(crate) fn emit(&mut self, event: Event) {
        self.push(Effect::Emit(event));
    }

    /// Stores a record. The first record of an item decides its place in the thread, so the items of the turn
    /// that began before it are stored first.
    pub(crate) fn persist(&mut self, record: Record) {
        match &record {
            Record::Item { turn, item } if !self.begun.is_empty() => self.store_begun(turn, item),
            Record::TurnFinished { view, .. } => self.begun.retain(|(turn, _)| *turn != view.id),
            _ => {}
        }
        self.push(Effect::Persist(record));
    }

    /// Stores the items of the turn that began before `next`, which is about to be stored.
    fn store_begun(&mut self, of_turn: &Id, next: &Item) {
        let before = self.begun.iter().position(|(_, item)| item.id() == next.id());
        let before = before.unwrap_or(self.begun.len());
        let mut place = 0;
        let earlier = self.begun.extract_if(.., |(turn, _)| {
            place += 1;
            place <= before && turn == of_turn
        });
        let earlier = earlier.map(|(turn, item)| Effect::Persist(Record::Item { turn, item }));
        self.effects.extend(earlier);
        self.begun.retain(|(_, item)| item.id() != next.id());
    }

    /// Answers the caller that waits for `reply`.
    pub(crate) fn reply(&mut self, reply: u64, answer: Answer) {
        self.push(Effect::Reply { reply, result: Ok(answer) });
    }

    /// Refuses the request of the caller that waits for `reply`.
    pub(crate) fn refuse(&mut self, reply: u64, refusal: impl Into<Refusal>) {
        self.push(Effect::Reply { reply, result: Err(refusal.into()) });
    }

    /// Reports that work on an item began.
    pub(crate) fn item_started(&mut self, turn: &Id, item: Item) {
        self.begun.push((turn.clone(), item.clone()));
        self.report_start(turn, item);
    }

    fn report_start(&mut self, turn: &Id, item: Item) {
        let at = self.now;
        self.emit(Event::ItemStarted { turn: turn.clone(), item, at });
    }

    /// As [`Cx::item_started`], for an item that is stored when it begins too: a crash must not
    /// hide that a command ran or a file changed.
    pub(crate) fn stored_item_started(&mut self, turn: &Id, item: Item) {
        self.persist(Record::Item { turn: turn.clone(), item: item.clone() });
        self.report_start(turn, item);
    }

    /// Stores the final item, then reports it.
    pub(crate) fn item_completed(&mut self, turn: &Id, item: Item) {
        self.persist(Record::Item { turn: turn.clone(), item: item.clone() });
        let at = self.now;
        self.emit(Event::ItemCompleted { turn: turn.clone(), item, at });
    }

    /// Reports an item that begins and completes at once.
    pub(crate) fn whole_item(&mut self, turn: &Id, item: Item) {
        self.report_start(turn, item.clone());
        self.item_completed(turn, item);
    }

    /// Reports an item that begins and fails at once.
    pub(crate) fn failed_item(&mut self, turn: &Id, item: Item, reason: &str) {
        self.report_start(turn, item.clone());
        self.item_completed(turn, item.closed(ItemStatus::Failed, Some(reason)));
    }

    /// The effects of this step.
    pub(crate) fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }
}
