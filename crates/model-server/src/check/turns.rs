//! Messages of one role in a row, which the Messages API reads as one turn.

use serde_json::Value;

use super::fault::Path;

/// A turn.
pub(super) struct Turn<'v> {
    pub(super) role: &'v str,
    /// Position of its last message.
    pub(super) last: usize,
    pub(super) blocks: Vec<Block<'v>>,
}

/// A block of a turn; the text of a message is one, too.
pub(super) struct Block<'v> {
    pub(super) at: Path,
    pub(super) kind: &'v str,
    value: &'v Value,
}

impl<'v> Turn<'v> {
    /// Its blocks of a kind.
    pub(super) fn of<'t>(&'t self, kind: &'static str) -> impl Iterator<Item = &'t Block<'v>> {
        self.blocks.iter().filter(move |block| block.kind == kind)
    }
}

impl<'v> Block<'v> {
    /// The text of a member; empty without one.
    pub(super) fn text(&self, name: &str) -> &'v str {
        match self.value {
            Value::String(text) if name == "text" => text,
            value => value[name].as_str().unwrap_or_default(),
        }
    }
}

/// The turns of a conversation. Messages of the role `system` are left out: they stand between turns.
pub(super) fn turns(messages: &[Value]) -> Vec<Turn<'_>> {
    let mut turns: Vec<Turn<'_>> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let role = message["role"].as_str().unwrap_or_default();
        if role == "system" {
            continue;
        }
        let at = Path::of("messages").index(index).name("content");
        let blocks = match &message["content"] {
            value @ Value::String(_) => vec![Block { at, kind: "text", value }],
            Value::Array(blocks) => {
                let block = |(index, value): (usize, _)| block_of(at.index(index), value);
                blocks.iter().enumerate().map(block).collect()
            }
            _ => Vec::new(),
        };
        match turns.last_mut().filter(|turn| turn.role == role) {
            Some(turn) => {
                turn.last = index;
                turn.blocks.extend(blocks);
            }
            None => turns.push(Turn { role, last: index, blocks }),
        }
    }
    turns
}

fn block_of(at: Path, value: &Value) -> Block<'_> {
    Block { at, kind: value["type"].as_str().unwrap_or_default(), value }
}
