//! Parts that would be written to one place, such as an MCP server that two agents call by the same name: the
//! first one is offered, and the others are left out with the reason.

use std::collections::HashMap;
use std::path::PathBuf;

use crate::item::{Change, Item};

/// A place that only one part can have.
#[derive(PartialEq, Eq, Hash)]
enum Place {
    Key(Vec<String>),
    Path(PathBuf),
}

/// Leaves the later parts out. The reasons depend on the sources alone, so that an item is the same before and
/// after an import.
pub(crate) fn resolve(items: &mut [Item]) {
    let mut taken: HashMap<Place, (usize, Change)> = HashMap::new();
    for at in 0..items.len() {
        let Some(item) = items.get_mut(at) else { continue };
        let mut reasons = Vec::new();
        let mut winner = at;
        for part in std::mem::take(&mut item.parts) {
            let places = places(&part.change);
            let Some((of, other)) = places.iter().find_map(|place| taken.get(place)) else {
                taken.extend(places.into_iter().map(|place| (place, (at, part.change.clone()))));
                item.parts.push(part);
                continue;
            };
            winner = *of;
            reasons.push((part.name, *of, is_same(other, &part.change)));
        }
        // An item without parts is not shown: its reasons are those of the other item then.
        let shown_at = if item.parts.is_empty() { winner } else { at };
        let loser = (item.agent, item.kind.noun());
        for (name, of, is_same) in reasons {
            let Some(other) = items.get(of) else { continue };
            let (agent, noun) = (other.agent.name(), other.kind.noun());
            let why = match is_same {
                true => format!("it is the same as that of the {noun} of {agent}"),
                false => format!(
                    "it would have the place of one of the {noun} of {agent}, which is imported instead; \
                     rename one of them to have both"
                ),
            };
            let name = match shown_at == at {
                true => name,
                false => format!("{name} of the {} of {}", loser.1, loser.0.name()),
            };
            if let Some(item) = items.get_mut(shown_at) {
                item.leave_out(&name, &why);
            }
        }
    }
}

fn places(change: &Change) -> Vec<Place> {
    match change {
        Change::Setting { key_path, .. } => vec![Place::Key(key_path.clone())],
        Change::Files { at, role, .. } => {
            let role = role.iter().map(|(role, _)| Place::Key(vec!["agents".into(), role.clone()]));
            std::iter::once(Place::Path(at.clone())).chain(role).collect()
        }
        // These add to a file, and leave room for more.
        Change::Block { .. } | Change::Hook { .. } | Change::Rule { .. } => Vec::new(),
    }
}

/// Returns whether both write the same.
fn is_same(one: &Change, other: &Change) -> bool {
    match (one, other) {
        (Change::Setting { value, .. }, Change::Setting { value: other, .. }) => value == other,
        (
            Change::Files { files, role, .. },
            Change::Files { files: other, role: other_role, .. },
        ) => (files, role) == (other, other_role),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;
    use crate::agent::Agent;
    use crate::item::Kind;

    fn item(kind: Kind, agent: Agent, parts: &[(&str, &str, &str)]) -> Item {
        let mut item = Item::new(kind, agent, None);
        for (name, at, value) in parts {
            let change = match kind {
                Kind::McpServers | Kind::Instructions => {
                    Change::Setting { key_path: vec![(*at).to_owned()], value: json!(value) }
                }
                _ => Change::Files {
                    at: Path::new("/skills").join(at),
                    files: vec![("SKILL.md".into(), (*value).into())],
                    from: Some((*name).into()),
                    role: None,
                },
            };
            item.add(name, String::new(), change);
        }
        item
    }

    #[test]
    fn the_first_part_has_the_place() {
        use Agent::{ClaudeCode, Codex};
        let mut items = vec![
            item(Kind::Instructions, ClaudeCode, &[("CLAUDE.md", "instructions", "a")]),
            item(Kind::McpServers, ClaudeCode, &[("gh", "gh", "1"), ("same", "same", "1")]),
            item(Kind::Skills, ClaudeCode, &[("pdf", "pdf", "x")]),
            item(
                Kind::Commands,
                ClaudeCode,
                &[("pdf", "pdf", "y"), ("b_c", "b-c", "z"), ("b.c", "b-c", "w")],
            ),
            item(Kind::Instructions, Codex, &[("AGENTS.md", "instructions", "b")]),
            item(
                Kind::McpServers,
                Codex,
                &[("gh", "gh", "2"), ("same", "same", "1"), ("new", "new", "1")],
            ),
            item(Kind::Skills, Codex, &[("pdf", "pdf", "x")]),
        ];
        resolve(&mut items);
        let parts: Vec<Vec<&str>> = items
            .iter()
            .map(|item| item.parts.iter().map(|part| part.name.as_str()).collect())
            .collect();
        assert_eq!(
            parts,
            [
                vec!["CLAUDE.md"],
                vec!["gh", "same"],
                vec!["pdf"],
                vec!["b_c"],
                vec![],
                vec!["new"],
                vec![]
            ]
        );
        let said = |at: usize| items[at].left_out.join("\n");
        assert!(said(0).starts_with("`AGENTS.md of the instructions of Codex`: it would have"));
        assert_eq!(said(1), "");
        assert_eq!(
            said(2),
            "`pdf of the skills of Codex`: it is the same as that of the skills of Claude Code"
        );
        assert!(said(3).contains("`pdf`: it would have the place of one of the skills of Claude"));
        assert!(
            said(3).contains("`b.c`: it would have the place of one of the commands of Claude")
        );
        assert!(
            said(5).contains("`gh`: it would have the place of one of the MCP servers of Claude")
        );
        assert!(said(5).contains("`same`: it is the same as that of the MCP servers of Claude"));
    }
}
