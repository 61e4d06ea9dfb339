//! The input of a request as turns that alternate: the form that Messages and Gemini demand. Neighbours of one author
//! are one turn, every call has its output in the next turn before anything else, and nothing is empty.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::envelope::{Envelope, Payload};
use crate::error::Error;
use crate::kind::Wire;
use crate::names::{wire_call_id, wire_name};
use crate::request::{CallKind, Content, Item, Output, Role};
use crate::target::Target;
use crate::warning::Warnings;

/// The turns of a conversation, and the instructions before them.
#[derive(Debug, Default)]
pub(crate) struct Conversation<'r> {
    /// Texts of system and developer messages before the first turn.
    pub(crate) system: Vec<&'r str>,
    pub(crate) turns: Vec<Turn<'r>>,
}

/// A turn.
#[derive(Debug)]
pub(crate) struct Turn<'r> {
    pub(crate) parts: Parts<'r>,
    /// Number of items of the input up to the end of each part of a user's turn; empty for the assistant's.
    pub(crate) ends: Vec<usize>,
}

#[derive(Debug)]
pub(crate) enum Parts<'r> {
    User(Vec<Heard<'r>>),
    Assistant(Vec<Said<'r>>),
}

/// A part of a user's turn.
#[derive(Debug)]
pub(crate) enum Heard<'r> {
    Output(Answered<'r>),
    Message(Vec<&'r Content<'r>>),
    /// A developer's message after the first turn.
    Instruction(Vec<&'r Content<'r>>),
    /// Base64 of an image that an earlier call generated.
    GeneratedImage(&'r str),
}

/// The output of a call; `None` where the input has none.
#[derive(Clone, Debug)]
pub(crate) struct Answered<'r> {
    pub(crate) id: Cow<'r, str>,
    pub(crate) name: Cow<'r, str>,
    pub(crate) output: Option<&'r Output<'r>>,
}

impl Answered<'_> {
    /// Text of an output that is missing or empty.
    pub(crate) const MISSING: &'static str = "(no output was recorded)";
}

/// A part of the assistant's turn.
#[derive(Debug)]
pub(crate) enum Said<'r> {
    Text(&'r str),
    Reasoning(Payload),
    /// `is_text` if the input is free text and not JSON.
    Call {
        id: Cow<'r, str>,
        name: Cow<'r, str>,
        input: &'r str,
        is_text: bool,
    },
}

impl<'r> Conversation<'r> {
    /// Reads the items of an input. Reasoning of another wire, provider or model is left out.
    pub(crate) fn read(
        input: &'r [Item<'r>],
        wire: Wire,
        target: &Target,
        warnings: &mut Warnings,
    ) -> Result<Self, Error> {
        let mut reader = Reader::new(input);
        for (index, item) in input.iter().enumerate() {
            reader.index = index;
            match item {
                Item::Message(message) => {
                    let parts = message.content.iter().filter(|part| !is_empty(part));
                    if message.phase.is_some() {
                        warnings.add("input[].phase", "other wires have no phases");
                    }
                    match message.role {
                        Role::User => reader.hear(Heard::Message(parts.collect())),
                        Role::System | Role::Developer => reader.instruct(parts.collect()),
                        Role::Assistant => parts.for_each(|part| match part {
                            Content::Text(text) | Content::Refusal(text) => {
                                reader.say(Said::Text(text));
                            }
                            _ => warnings.add("input[].content", "an assistant's message is text"),
                        }),
                    }
                }
                Item::Reasoning(reasoning) => {
                    let envelope = reasoning.encrypted.as_deref().and_then(Envelope::read);
                    match envelope.filter(|it| it.is_for(wire, &target.provider, target.model())) {
                        Some(envelope) => reader.say(Said::Reasoning(envelope.payload)),
                        // A summary alone is for people.
                        None if reasoning.encrypted.is_none() => {}
                        None => warnings.add("input[]", "reasoning of another model is not sent"),
                    }
                }
                Item::Call(call) => {
                    let name = wire_name(call.namespace.as_deref(), &call.name);
                    let is_text = call.kind == CallKind::Custom;
                    reader.call(&call.id, name, &call.input, is_text, warnings);
                }
                Item::Output(_) if reader.is_taken[index] => reader.has_output = true,
                Item::Output(output) => {
                    warnings.add("input[]", "an output without its call is sent as text");
                    let parts = output.content.iter().filter(|part| !is_empty(part));
                    reader.hear(Heard::Message(parts.collect()));
                }
                Item::Hosted { image: Some(image), .. } => {
                    reader.hear(Heard::GeneratedImage(image));
                }
                Item::Hosted { .. } => {
                    warnings.add("input[]", "calls of the provider's own tools are not sent");
                }
                Item::Opaque { kind } => {
                    let reason = format!("an item `{kind}` is readable by its maker alone");
                    return Err(Error::unsupported(&format!("input[{index}]"), wire, &reason));
                }
            }
        }
        reader.index = input.len();
        reader.answer();
        Ok(reader.conversation)
    }
}

fn is_empty(part: &Content<'_>) -> bool {
    matches!(part, Content::Text(text) | Content::Refusal(text) if text.is_empty())
}

/// The reading of an input.
struct Reader<'r> {
    conversation: Conversation<'r>,
    input: &'r [Item<'r>],
    index: usize,
    /// Positions of the outputs of each id, the last one first.
    outputs: HashMap<&'r str, Vec<usize>>,
    /// True at each position of an output that a call has taken.
    is_taken: Vec<bool>,
    /// Number of calls of each id so far.
    calls: HashMap<&'r str, usize>,
    /// Calls of the last turn, in order, with their outputs.
    open: Vec<Answered<'r>>,
    /// An output of the open calls was passed: what the assistant says next is a new turn.
    has_output: bool,
}

impl<'r> Reader<'r> {
    fn new(input: &'r [Item<'r>]) -> Self {
        let mut outputs: HashMap<&str, Vec<usize>> = HashMap::new();
        for (index, item) in input.iter().enumerate().rev() {
            if let Item::Output(output) = item {
                outputs.entry(&output.call_id).or_default().push(index);
            }
        }
        Self {
            conversation: Conversation::default(),
            input,
            index: 0,
            outputs,
            is_taken: vec![false; input.len()],
            calls: HashMap::new(),
            open: Vec::new(),
            has_output: false,
        }
    }

    fn instruct(&mut self, parts: Vec<&'r Content<'r>>) {
        if !self.conversation.turns.is_empty() {
            return self.hear(Heard::Instruction(parts));
        }
        let texts = parts.into_iter().filter_map(|part| match part {
            Content::Text(text) => Some(text.as_ref()),
            _ => None,
        });
        self.conversation.system.extend(texts);
    }

    fn call(
        &mut self,
        id: &'r str,
        name: Cow<'r, str>,
        input: &'r str,
        is_text: bool,
        warnings: &mut Warnings,
    ) {
        let repeated = self.calls.entry(id).or_default();
        let wire_id = wire_call_id(id, *repeated);
        *repeated += 1;
        let outputs = self.outputs.get_mut(id);
        // Outputs before the call are of no call.
        let position = outputs.and_then(|list| {
            while list.pop_if(|position| *position < self.index).is_some() {}
            list.pop()
        });
        let output = position.and_then(|position| match &self.input[position] {
            Item::Output(output) => Some(output),
            _ => None,
        });
        match position {
            Some(position) => self.is_taken[position] = true,
            None => warnings.add("input[]", "a call without its output gets a note in its place"),
        }
        self.say(Said::Call { id: wire_id.clone(), name: name.clone(), input, is_text });
        self.open.push(Answered { id: wire_id, name, output });
    }

    fn say(&mut self, said: Said<'r>) {
        if self.has_output {
            self.answer();
        }
        if let Some(Turn { parts: Parts::Assistant(parts), .. }) =
            self.conversation.turns.last_mut()
        {
            return parts.push(said);
        }
        let (parts, ends) = (Parts::Assistant(vec![said]), Vec::new());
        self.conversation.turns.push(Turn { parts, ends });
    }

    fn hear(&mut self, heard: Heard<'r>) {
        self.answer();
        if !matches!(&heard, Heard::Message(parts) | Heard::Instruction(parts) if parts.is_empty())
        {
            self.push_heard(heard, self.index + 1);
        }
    }

    /// Ends the calls of the last turn with their outputs, in the order of the calls.
    fn answer(&mut self) {
        self.has_output = false;
        for answered in std::mem::take(&mut self.open) {
            self.push_heard(Heard::Output(answered), self.index);
        }
    }

    fn push_heard(&mut self, heard: Heard<'r>, end: usize) {
        if let Some(Turn { parts: Parts::User(parts), ends }) = self.conversation.turns.last_mut() {
            parts.push(heard);
            return ends.push(end);
        }
        let (parts, ends) = (Parts::User(vec![heard]), vec![end]);
        self.conversation.turns.push(Turn { parts, ends });
    }
}
