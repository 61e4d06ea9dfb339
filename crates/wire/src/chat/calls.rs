//! Pieces of tool calls in a Chat Completions stream. Servers leave out ids or indices, repeat them, or send the name
//! late: a piece belongs to the call with its id and its index, else to the last one with its index, else to the last
//! one. Of calls with the same id, each after the first gets a new one.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::builder::{Builder, Sink, malformed};
use crate::event::Event;
use crate::failure::Failure;
use crate::json::{Count, Lenient};
use crate::kind::Wire;

/// The calls of a response.
#[derive(Debug, Default)]
pub(super) struct Calls(Vec<Call>);

#[derive(Debug)]
struct Call {
    id: String,
    /// An earlier call has its id.
    is_repeated: bool,
    /// The server's index.
    index: Option<u64>,
    state: State,
    /// Members that must come back, with the call's id.
    extra: Option<String>,
}

#[derive(Debug)]
enum State {
    /// The name has not come: the arguments so far.
    Unnamed(String),
    /// The item, and true if its input is free text on this wire, too.
    Open(u32, bool),
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Piece<'a> {
    index: Count,
    #[serde(borrow)]
    id: Lenient<'a>,
    #[serde(borrow)]
    function: Option<Function<'a>>,
    #[serde(borrow)]
    custom: Option<Function<'a>>,
    #[serde(borrow)]
    extra_content: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Function<'a> {
    #[serde(borrow)]
    name: Lenient<'a>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
}

/// A string as text, an object as its JSON: servers have sent both.
fn as_text(raw: Option<&RawValue>) -> Cow<'_, str> {
    match raw.map(RawValue::get) {
        None | Some("null") => Cow::Borrowed(""),
        Some(json) if json.starts_with('"') => {
            serde_json::from_str::<Lenient<'_>>(json).ok().and_then(|it| it.0).unwrap_or_default()
        }
        Some(json) => Cow::Borrowed(json),
    }
}

impl Calls {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads the `tool_calls` of a delta.
    pub(super) fn read(
        &mut self,
        raw: &RawValue,
        builder: &mut Builder,
        sink: &mut Sink<'_>,
    ) -> Result<(), Failure> {
        let pieces: Vec<Piece<'_>> =
            serde_json::from_str(raw.get()).map_err(|error| malformed(Wire::Chat, error))?;
        pieces.iter().try_for_each(|piece| self.piece(piece, builder, sink))
    }

    /// Reads the `function_call` of a delta, the form before there were several.
    pub(super) fn read_single(
        &mut self,
        raw: &RawValue,
        builder: &mut Builder,
        sink: &mut Sink<'_>,
    ) -> Result<(), Failure> {
        let function =
            serde_json::from_str(raw.get()).map_err(|error| malformed(Wire::Chat, error))?;
        let piece = Piece { index: Count(Some(0)), function: Some(function), ..Piece::default() };
        self.piece(&piece, builder, sink)
    }

    fn piece(
        &mut self,
        piece: &Piece<'_>,
        builder: &mut Builder,
        sink: &mut Sink<'_>,
    ) -> Result<(), Failure> {
        let is_custom = piece.custom.is_some();
        let function = piece.custom.as_ref().or(piece.function.as_ref());
        let name = function.map(|function| function.name.as_str()).unwrap_or_default();
        let text = function.map(|it| as_text(it.input.or(it.arguments))).unwrap_or_default();
        let position = match self.position(piece, name) {
            Some(position) => position,
            None => {
                if self.0.len() >= crate::builder::MAX_OPEN_ITEMS {
                    return Err(malformed(Wire::Chat, "too many tool calls are open"));
                }
                let state = State::Unnamed(String::new());
                let id = piece.id.as_str().to_owned();
                let is_repeated = !id.is_empty() && self.0.iter().any(|call| call.id == id);
                if is_repeated {
                    let (member, reason) = ("tool_calls[].id", "an id that repeats is replaced");
                    sink(Event::Warning { member, reason });
                }
                let index = piece.index.0;
                self.0.push(Call { id, is_repeated, index, state, extra: None });
                self.0.len() - 1
            }
        };
        let call = &mut self.0[position];
        if let Some(extra) = piece.extra_content {
            builder.keep(extra.get().len())?;
            call.extra = Some(extra.get().to_owned());
        }
        if call.id.is_empty() {
            piece.id.as_str().clone_into(&mut call.id);
        }
        if let State::Unnamed(before) = &mut call.state {
            if name.is_empty() {
                builder.keep(text.len())?;
                before.push_str(&text);
                return Ok(());
            }
            let before = std::mem::take(before);
            let id = if call.is_repeated { "" } else { &call.id };
            let item = builder.open_call(id, name, sink)?;
            call.state = State::Open(item, is_custom);
            push(builder, item, is_custom, &before, sink)?;
        }
        match call.state {
            State::Open(item, is_custom) => push(builder, item, is_custom, &text, sink),
            State::Unnamed(_) => Ok(()),
        }
    }

    /// The call that a piece belongs to; `None` if it begins one.
    fn position(&self, piece: &Piece<'_>, name: &str) -> Option<usize> {
        if !piece.id.is_empty() {
            let has_id = |call: &Call| call.id == piece.id.as_str();
            let exact = |call: &Call| has_id(call) && call.index == piece.index.0;
            // A name at another index begins another call, whatever its id.
            let is_start = |call: &Call| {
                let has_index = call.index.is_some() && piece.index.0.is_some();
                has_index && !name.is_empty()
            };
            let known = self
                .0
                .iter()
                .rposition(exact)
                .or_else(|| self.0.iter().rposition(|call| has_id(call) && !is_start(call)));
            // The id may come after the first piece.
            let unnamed = |call: &Call| call.id.is_empty() && call.index == piece.index.0;
            return known.or_else(|| {
                self.0
                    .iter()
                    .rposition(unnamed)
                    .filter(|at| matches!(self.0[*at].state, State::Unnamed(_)))
            });
        }
        if piece.index.0.is_some() {
            return self.0.iter().rposition(|call| call.index == piece.index.0);
        }
        // Neither: a name begins a call.
        let last = self.0.len().checked_sub(1)?;
        (name.is_empty() || matches!(self.0[last].state, State::Unnamed(_))).then_some(last)
    }

    /// Ends the calls: any reason to finish ends them. Returns the ids and the members that must come back.
    pub(super) fn finish(
        &mut self,
        builder: &mut Builder,
        sink: &mut Sink<'_>,
    ) -> Result<Vec<(String, String)>, Failure> {
        let mut extras = Vec::new();
        for call in std::mem::take(&mut self.0) {
            let State::Open(item, _) = call.state else {
                return Err(malformed(Wire::Chat, "a tool call has no name"));
            };
            let id = builder.call_id(item).unwrap_or(call.id);
            builder.close(item, sink);
            extras.extend(call.extra.map(|extra| (id, extra)));
        }
        Ok(extras)
    }
}

fn push(
    builder: &mut Builder,
    item: u32,
    is_custom: bool,
    text: &str,
    sink: &mut Sink<'_>,
) -> Result<(), Failure> {
    if is_custom {
        builder.free_text(item, text, sink)
    } else {
        builder.arguments(item, text, sink)
    }
}
