//! The content of the composer: text and the elements in it, as it is sent, kept over a crash, or
//! put back to be edited.

use std::ops::Range;

use protocol::{ByteRange, TextElement, UserInput};
use serde::{Deserialize, Serialize};

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
