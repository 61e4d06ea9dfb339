//! The content of the composer: text and the elements in it, as it is sent, kept over a crash, or
//! put back to be edited.

use std::ops::Range;

use protocol::{ByteRange, TextElement, UserInput};
use serde::{Deserialize, Serialize};

use super::chip::Chip;
pub use super::chip::ChipKind;

/// A message that was written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Draft {
    /// The text as it is sent, pasted text included.
    pub text: String,
    /// The elements of the text, in its order. Elements do not overlap.
    #[serde(default)]
    pub elements: Vec<DraftElement>,
}

/// A part of the text that is shown as one element.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DraftElement {
    /// Bytes of the text.
    pub range: Range<usize>,
    /// The text shown in its place.
    pub label: String,
    /// Its kind.
    pub kind: ChipKind,
}

impl Draft {
    /// A draft of text alone.
    pub fn plain(text: impl Into<String>) -> Self {
        Self { text: text.into(), elements: Vec::new() }
    }

    /// A message that was sent, to be edited; `None` if it has a part that cannot be written here, such as an image
    /// by its address.
    #[must_use]
    pub fn received(input: &[UserInput]) -> Option<Self> {
        let mut parts = Vec::new();
        let mut others = Vec::new();
        for part in input {
            match part {
                UserInput::Text { text, text_elements } => {
                    parts.push(Self::with_labels(text, text_elements));
                }
                UserInput::LocalImage { path } => {
                    let is_image = |it: &&Chip| matches!(it.kind, ChipKind::Image { .. });
                    let number = others.iter().filter(is_image).count() + 1;
                    others.push(Chip::image(number, path.clone(), None));
                }
                UserInput::Mention { name, path } => {
                    others.push(Chip::mention(name.clone(), path.clone()));
                }
                UserInput::Skill { name, path } => {
                    others.push(Chip::skill(name.clone(), path.clone()));
                }
                UserInput::Image { .. } => return None,
            }
        }
        let mut draft = Self::joined(parts);
        for chip in others {
            draft.set_kind(chip);
        }
        Some(draft)
    }

    /// The text of a message that was sent.
    #[must_use]
    pub fn text_of(input: &[UserInput]) -> String {
        let texts = input.iter().filter_map(|part| match part {
            UserInput::Text { text, .. } => Some(text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n\n")
    }

    /// A text whose labelled spans are elements, as pasted text is.
    fn with_labels(text: &str, elements: &[TextElement]) -> Self {
        let mut draft = Self::plain(text);
        let mut end = 0;
        for element in elements {
            let bound = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
            let range = bound(element.byte_range.start)..bound(element.byte_range.end);
            let Some(label) = &element.placeholder else { continue };
            if range.is_empty() || range.start < end || text.get(range.clone()).is_none() {
                continue;
            }
            end = range.end;
            let (label, kind) = (label.clone(), ChipKind::Pasted);
            draft.elements.push(DraftElement { range, label, kind });
        }
        draft
    }

    /// Marks the element that stands for a file, a skill or an image. One that is not in the text follows it.
    fn set_kind(&mut self, chip: Chip) {
        let is_image = |it: &ChipKind| matches!(it, ChipKind::Image { .. });
        let found = self.elements.iter_mut().find(|it| {
            let sent = &self.text[it.range.clone()];
            let names =
                if is_image(&chip.kind) { sent.starts_with("[Image #") } else { sent == chip.text };
            it.kind == ChipKind::Pasted && names
        });
        if let Some(element) = found {
            element.kind = chip.kind;
            return;
        }
        if !self.text.is_empty() {
            self.text.push(' ');
        }
        let start = self.text.len();
        self.text.push_str(&chip.text);
        let range = start..self.text.len();
        self.elements.push(DraftElement { range, label: chip.label, kind: chip.kind });
    }

    /// Several messages as one, with an empty line between them. Blank ones are left out.
    #[must_use]
    pub fn joined(drafts: impl IntoIterator<Item = Self>) -> Self {
        let mut joined = Self::default();
        for draft in drafts.into_iter().filter(|draft| !draft.is_blank()) {
            if !joined.is_blank() {
                joined.text.push_str("\n\n");
            }
            let start = joined.text.len();
            joined.text.push_str(&draft.text);
            joined.elements.extend(draft.elements.into_iter().map(|mut element| {
                element.range = element.range.start + start..element.range.end + start;
                element
            }));
        }
        joined
    }

    /// The text as it is shown: elements by their labels.
    #[must_use]
    pub fn shown(&self) -> String {
        let mut shown = String::new();
        let mut done = 0;
        for element in &self.elements {
            let before = self.text.get(done..element.range.start);
            let (Some(before), Some(_)) = (before, self.text.get(element.range.clone())) else {
                continue;
            };
            shown.push_str(before);
            shown.push_str(&element.label);
            done = element.range.end;
        }
        shown.push_str(&self.text[done..]);
        shown
    }

    /// Returns whether there is nothing to send.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        self.elements.is_empty() && self.text.trim().is_empty()
    }

    /// The command after a `!` at the start, which is for the shell.
    #[must_use]
    pub fn shell(&self) -> Option<&str> {
        self.text.strip_prefix('!').map(str::trim).filter(|command| !command.is_empty())
    }

    /// Name and arguments of a command after a `/` at the start. Paths are no commands: a name holds
    /// letters, digits, `-`, `_` and `:` only.
    #[must_use]
    pub fn command(&self) -> Option<(&str, &str)> {
        let rest = self.text.strip_prefix('/')?;
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let (name, arguments) = rest.split_at(end);
        let is_name = |c: char| c.is_alphanumeric() || "-_:".contains(c);
        (!name.is_empty() && name.chars().all(is_name)).then(|| (name, arguments.trim()))
    }

    /// The input of a turn: images, the text with its elements, skills and mentions.
    #[must_use]
    pub fn inputs(&self) -> Vec<UserInput> {
        let mut inputs = Vec::new();
        let mut named = Vec::new();
        for element in &self.elements {
            let input = match &element.kind {
                ChipKind::Image { path } => {
                    inputs.push(UserInput::LocalImage { path: path.clone() });
                    continue;
                }
                ChipKind::Mention { name, path } => {
                    UserInput::Mention { name: name.clone(), path: path.clone() }
                }
                ChipKind::Skill { name, path } => {
                    UserInput::Skill { name: name.clone(), path: path.clone() }
                }
                ChipKind::Pasted | ChipKind::Character => continue,
            };
            if !named.contains(&input) {
                named.push(input);
            }
        }
        if !self.text.is_empty() {
            inputs.push(UserInput::Text {
                text: self.text.clone(),
                text_elements: self.text_elements(),
            });
        }
        inputs.append(&mut named);
        inputs
    }

    fn text_elements(&self) -> Vec<TextElement> {
        let shown = self.elements.iter().filter(|it| it.kind != ChipKind::Character);
        shown
            .map(|element| TextElement {
                byte_range: ByteRange {
                    start: element.range.start as u64,
                    end: element.range.end as u64,
                },
                placeholder: Some(element.label.clone()),
            })
            .collect()
    }
}
