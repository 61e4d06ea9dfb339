//! Reads the configuration of other coding agents, and says what to write so that this one works the
//! same way.
//!
//! [`detect`] reads the files of the other agents and returns [`Item`]s. Each has [`Part`]s, which say
//! what they are and which [`Change`] takes them over; no two of them need the same place. [`plan`] compares the changes with the files that
//! exist, and returns what is still to be written. This crate writes nothing and runs nothing.

mod agent;
mod bounds;
mod claude;
mod codex;
mod collisions;
mod command_scope;
mod cursor;
mod error;
mod front_matter;
mod gemini;
mod hook_groups;
mod instructions;
mod item;
mod leftovers;
mod markdown;
mod mcp;
mod permissions;
mod plan;
mod plugins;
mod refusals;
mod rule_files;
pub mod sessions;
mod settings;
mod skill_folders;
mod source;

pub use agent::Agent;
pub use error::Error;
pub use item::{Change, Detected, Item, Kind, Part, Roots};
pub use leftovers::leftovers;
pub use plan::{
    FileWrite, IsChosen, Plan, Setting, configuration, configuration_text, plan, plan_together,
};
pub use source::unlinked;

/// Reads what the other agents have for the user (`project` is `None`) or for a project.
///
/// Blocks while it reads. A file that cannot be used hides no other: see [`Detected::problems`].
#[must_use]
pub fn detect(roots: &Roots, project: Option<&std::path::Path>) -> Detected {
    let mut detected = Detected::default();
    claude::detect(roots, project, &mut detected);
    codex::detect(roots, project, &mut detected);
    gemini::detect(roots, project, &mut detected);
    cursor::detect(roots, project, &mut detected);
    collisions::resolve(&mut detected.items);
    let (items, empty): (Vec<Item>, Vec<Item>) =
        detected.items.into_iter().partition(|item| !item.parts.is_empty());
    detected.items = items;
    detected.problems.extend(empty.iter().filter_map(without_parts));
    detected
}

/// Returns the message about an item that is not shown.
fn without_parts(item: &Item) -> Option<Error> {
    const MAX: usize = 5;
    let mut why: Vec<&str> = item.left_out.iter().take(MAX).map(String::as_str).collect();
    let more = item.left_out.len().saturating_sub(MAX);
    let more = format!("and {more} more");
    if item.left_out.len() > MAX {
        why.push(&more);
    }
    let what = format!("{} of {}", item.kind.noun(), item.agent.name());
    (!why.is_empty()).then(|| Error::NoPart { what, why: why.join("; ") })
}
