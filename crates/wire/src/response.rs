//! A response as a whole, collected from its events.

use crate::event::{End, Event, OutputItem, Usage};
use crate::failure::Failure;

/// A response whose events were collected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    pub id: String,
    pub model: String,
    /// Finished items in the order of their positions.
    pub items: Vec<(u32, OutputItem)>,
    /// `None` while the response is under way.
    pub end: Option<Result<End, Failure>>,
    /// Usage of a response that failed.
    pub failed_usage: Usage,
    pub warnings: crate::warning::Warnings,
}

impl Response {
    /// Adds an event.
    pub fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Created { id, model, .. } => {
                (*id).clone_into(&mut self.id);
                (*model).clone_into(&mut self.model);
            }
            Event::ItemDone { index, item } => {
                let at = self.items.partition_point(|(other, _)| other <= index);
                self.items.insert(at, (*index, (*item).clone()));
            }
            Event::Warning { member, reason } => self.warnings.add((*member).to_owned(), reason),
            Event::Ended(end) => self.end = Some(Ok((*end).clone())),
            Event::Failed { failure, usage } => {
                self.failed_usage = *usage;
                self.end = Some(Err((*failure).clone()));
            }
            _ => {}
        }
    }
}
