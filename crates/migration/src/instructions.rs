//! Instructions: the text of another agent's file. Those of the user become `developer_instructions`;
//! those of a project a block of its `AGENTS.md` between two markers.
//!
//! A block is replaced by a later import when its source has changed; what stands around it is kept.

use std::path::Path;

use crate::agent::Agent;
use crate::item::{Change, Detected, Item, Kind};
use crate::source;

/// Adds an item for `file`, unless it only points to `AGENTS.md`.
pub(crate) fn detect(
    (root, file): (&Path, &Path),
    target: Option<&Path>,
    agent: Agent,
    project: Option<&Path>,
    detected: &mut Detected,
) {
    let text = match source::text(root, file) {
        Ok(Some(text)) => text,
        Ok(None) => return,
        Err(error) => return detected.problems.push(error),
    };
    let text = text.trim();
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let points_here = matches!(text, "@AGENTS.md" | "@./AGENTS.md" | "AGENTS.md");
    if text.is_empty() || points_here || Some(file) == target {
        return;
    }
    let mut item = Item::new(Kind::Instructions, agent, project);
    let imports = text.lines().filter(|line| line.starts_with('@')).count();
    if imports > 0 {
        let why = format!("its {imports} lines `@file` stay as they are: files are not included");
        item.leave_out(&name, &why);
    }
    add(&name, text, target, &mut item);
    detected.items.push(item);
}

/// Adds a text: to the file `target`, or as instructions of the user.
pub(crate) fn add(name: &str, text: &str, target: Option<&Path>, item: &mut Item) {
    if text.is_empty() {
        return;
    }
    if text.contains(BEGIN) || text.contains(END) {
        return item.leave_out(name, "it contains the markers of an import; remove them first");
    }
    let lines = text.lines().count();
    let change = match target {
        Some(path) => Change::Block {
            path: path.to_owned(),
            origin: format!("{}: {name}", item.agent.name()),
            text: text.to_owned(),
        },
        None => Change::Setting {
            key_path: vec!["developer_instructions".to_owned()],
            value: text.into(),
        },
    };
    item.add(name, format!("{lines} lines"), change);
}

const BEGIN: &str = "<!-- Imported from ";
const END: &str = "<!-- End of the import from ";

/// The file with the block; equal to `old` when it has the text already.
pub(crate) fn with_block(old: &str, origin: &str, text: &str) -> String {
    let begin = format!("{BEGIN}{origin} -->\n");
    let end = format!("{END}{origin} -->\n");
    if let Some(start) = old.find(&begin)
        && let Some(length) = old[start..].find(&end)
    {
        let after = start + length + end.len();
        return format!("{}{begin}{text}\n{end}{}", &old[..start], &old[after..]);
    }
    if old.contains(text) {
        return old.to_owned();
    }
    let gap = match old {
        "" => "",
        old if old.ends_with("\n\n") => "",
        old if old.ends_with('\n') => "\n",
        _ => "\n\n",
    };
    format!("{old}{gap}{begin}{text}\n{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_added_once_and_replaced_when_its_source_changes() {
        let first = with_block("# Mine\n", "X: Y.md", "Be kind.");
        assert!(first.starts_with("# Mine\n\n<!-- Imported from X: Y.md -->\nBe kind.\n<!--"));
        assert_eq!(with_block(&first, "X: Y.md", "Be kind."), first);
        let more = format!("{first}\nAfter.\n");
        let changed = with_block(&more, "X: Y.md", "Be quick.");
        assert_eq!(changed, more.replace("kind", "quick"));
        assert_eq!(with_block("a Be kind. b", "X: Y.md", "Be kind."), "a Be kind. b");
    }
}
