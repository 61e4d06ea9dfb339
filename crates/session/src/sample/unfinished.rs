//! Texts of a response that broke off, while the model is asked again. They stay open: a next response that begins
//! as they do goes on with them, so that clients get no text twice.

use super::message::Message;
use super::reasoning::Reasoning;
use super::{Closed, Sample, Streaming};
use crate::Id;
use crate::cx::Cx;
use crate::port::item::Item;
use crate::unstored_text::Portions;

/// The open texts, in their order, and why they are not whole.
#[derive(Default)]
pub(crate) struct Unfinished {
    texts: Vec<Streaming>,
    reason: String,
}

impl Unfinished {
    /// Ends a response for `reason`: closes what is not text, and adds what is.
    pub(crate) fn add(&mut self, sample: Sample, reason: &str, cx: &mut Cx) {
        let Sample { turn, items, unfinished, .. } = sample;
        reason.clone_into(&mut self.reason);
        self.texts.extend(unfinished.texts);
        for streaming in items.into_values() {
            match streaming {
                Streaming::Message(message) if message.can_go_on() => {
                    self.texts.push(Streaming::Message(message.broken_off(reason)));
                }
                Streaming::Reasoning(reasoning) => {
                    self.texts.push(Streaming::Reasoning(reasoning.broken_off(reason)));
                }
                other => other.close(&turn, Closed::Failed(reason), cx),
            }
        }
    }

    /// The message that a new one may go on with.
    pub(super) fn take_message(&mut self) -> Option<Message> {
        let at = self.texts.iter().position(|text| matches!(text, Streaming::Message(_)))?;
        match self.texts.remove(at) {
            Streaming::Message(message) => Some(message),
            _ => None,
        }
    }

    /// The reasoning that new reasoning may go on with.
    pub(super) fn take_reasoning(&mut self) -> Option<Reasoning> {
        let at = self.texts.iter().position(|text| matches!(text, Streaming::Reasoning(_)))?;
        match self.texts.remove(at) {
            Streaming::Reasoning(reasoning) => Some(reasoning),
            _ => None,
        }
    }

    pub(crate) fn items(&self) -> Vec<Item> {
        self.texts.iter().flat_map(Streaming::items).collect()
    }

    /// The items with text to store.
    pub(crate) fn with_new_text(&mut self, portions: Portions) -> Vec<Item> {
        self.texts.iter_mut().flat_map(|text| text.with_new_text(portions)).collect()
    }

    /// The next response has nothing of them.
    pub(crate) fn close(self, turn: &Id, cx: &mut Cx) {
        for text in self.texts {
            text.close(turn, Closed::Failed(&self.reason), cx);
        }
    }
}
