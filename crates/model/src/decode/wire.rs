//! The events of a response as servers write them, and what their names say.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::lenient::{Index, Text};
use super::open_items::Part;
use super::{event_type, item, read};
use crate::Failure;

/// Members that deltas and part events share; other members are skipped.
#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
pub(super) struct Delta<'a> {
    pub(super) output_index: Index,
    pub(super) summary_index: Index,
    pub(super) content_index: Index,
    #[serde(borrow)]
    pub(super) item_id: Text<'a>,
    #[serde(borrow)]
    pub(super) delta: Text<'a>,
}

/// The whole of what deltas had in parts.
#[derive(Deserialize)]
pub(super) struct WholeText<'a> {
    #[serde(default)]
    pub(super) output_index: Index,
    #[serde(default)]
    pub(super) content_index: Index,
    #[serde(default)]
    pub(super) summary_index: Index,
    #[serde(borrow, default)]
    pub(super) item_id: Text<'a>,
    #[serde(borrow, default)]
    pub(super) text: Text<'a>,
    #[serde(borrow, default)]
    pub(super) refusal: Text<'a>,
    #[serde(borrow)]
    pub(super) part: Option<PartText<'a>>,
    /// Some servers write the arguments as an object.
    #[serde(borrow)]
    pub(super) arguments: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) input: Text<'a>,
}

/// A part of a message or of reasoning.
#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
pub(super) struct PartText<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow)]
    text: Text<'a>,
    #[serde(borrow)]
    refusal: Text<'a>,
}

impl WholeText<'_> {
    /// The part that an event of the type `event` ends.
    pub(super) fn part(&self, event: &str) -> Part {
        let (content, summary) = (self.content_index.or_first(), self.summary_index.or_first());
        let kind = self.part.as_ref().map_or("", |part| part.kind.as_str());
        match event {
            "response.reasoning_text.done" => Part::Content(content),
            "response.content_part.done" if kind == "reasoning_text" => Part::Content(content),
            event if event.starts_with("response.reasoning_summary") => Part::Summary(summary),
            event if event.contains("_call_") => Part::Input,
            _ => Part::Text(content),
        }
    }

    pub(super) fn text(self) -> String {
        if let Some(json) = self.arguments {
            return item::as_text(json.get());
        }
        let PartText { text, refusal, .. } = self.part.unwrap_or_default();
        let texts = [self.text, self.refusal, self.input, text, refusal];
        texts.into_iter().find_map(|text| text.0).map(Cow::into_owned).unwrap_or_default()
    }
}

/// A part of a call's input. Some servers write an object.
pub(super) fn input_delta(data: &[u8]) -> Result<Delta<'_>, Failure> {
    #[derive(Deserialize)]
    struct Other<'a> {
        #[serde(borrow)]
        delta: Option<&'a RawValue>,
    }
    let mut delta: Delta<'_> = read(data)?;
    if delta.delta.0.is_none() {
        let Other { delta: json } = read(data)?;
        delta.delta = Text(json.map(|json| item::as_text(json.get()).into()));
    }
    Ok(delta)
}

/// An item in place of the event around it, of which only the name of the event tells.
pub(super) fn bare_item(data: &[u8]) -> Option<&str> {
    let is_item = event_type(data).ok()?.is_some_and(|kind| !is_of_response(&kind));
    std::str::from_utf8(data).ok().filter(|_| is_item)
}

/// The name of an event, where it says more than that there is one.
pub(super) fn event_name(name: &[u8]) -> Option<&str> {
    let name = std::str::from_utf8(name).ok()?.trim();
    (is_of_response(name) || name == "error" || name.ends_with("rate_limits.updated"))
        .then_some(name)
}

pub(super) fn is_of_response(kind: &str) -> bool {
    kind.starts_with("response.")
}

#[derive(Deserialize)]
pub(super) struct ItemEvent<'a> {
    #[serde(default)]
    pub(super) output_index: Index,
    #[serde(borrow)]
    pub(super) item: Option<&'a RawValue>,
}
