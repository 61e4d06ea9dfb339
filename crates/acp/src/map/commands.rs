//! The commands that can be typed after a slash: a few commands of this program, and the skills of
//! the folder.

use protocol::SkillsListResponse;

use crate::schema::update::{AvailableCommand, CommandInput, SessionUpdate};

/// A command of this program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// Summarise the conversation.
    Compact,
    /// Have the changes reviewed: all of them without instructions.
    Review { instructions: String },
    /// Take back the latest turn and what it changed in files.
    Undo,
    /// Set the title.
    Rename { name: String },
}

/// A skill that applies in the session's folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Skill {
    pub(crate) name: String,
    pub(crate) description: String,
    /// Its definition file.
    pub(crate) path: String,
}

/// The meaning of a prompt that begins with a slash.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Typed<'t, 's> {
    Command(Command),
    /// A skill, and the text that goes with it.
    Skill(&'s Skill, &'t str),
    /// A message: the slash is part of the text.
    Text,
}

const INIT: &str = "init";
/// The prompt of `/init`.
pub(crate) const INIT_PROMPT: &str = "Write an AGENTS.md for this folder: how it is organised, how it is built and tested, and the \
     conventions that a new contributor has to know. Read what is there first, and keep it short.";

/// Name, description and the hint for what follows.
const COMMANDS: &[(&str, &str, Option<&str>)] = &[
    ("compact", "summarise the conversation to free the context", None),
    (INIT, "let the agent write an AGENTS.md for this folder", None),
    ("rename", "set the title of the session", Some("the new title")),
    ("review", "review the uncommitted changes", Some("optional: what to review instead")),
    ("undo", "take back the latest turn and its changes of files", None),
];

/// The list for the client.
pub(crate) fn available(skills: &[Skill]) -> SessionUpdate {
    let command = |name: &str, description: &str, hint: Option<&str>| AvailableCommand {
        name: name.to_owned(),
        description: description.to_owned(),
        input: hint.map(|hint| CommandInput { hint: hint.to_owned() }),
    };
    let own = COMMANDS.iter().map(|(name, description, hint)| command(name, description, *hint));
    let skills = skills
        .iter()
        .filter(|skill| !COMMANDS.iter().any(|(name, ..)| *name == skill.name))
        .map(|skill| command(&skill.name, &skill.description, Some("what the skill is used for")));
    SessionUpdate::AvailableCommandsUpdate { available_commands: own.chain(skills).collect() }
}

/// The enabled skills in the answer to `skills/list`.
pub(crate) fn skills(listed: &SkillsListResponse) -> Vec<Skill> {
    let all = listed.data.iter().flat_map(|folder| &folder.skills);
    all.filter(|skill| skill.enabled)
        .map(|skill| Skill {
            name: skill.name.clone(),
            description: skill.short_description.as_ref().unwrap_or(&skill.description).clone(),
            path: skill.path.clone(),
        })
        .collect()
}

/// Reads what was typed. `/init` is a message with a text of its own, see [`INIT_PROMPT`].
pub(crate) fn typed<'t, 's>(text: &'t str, skills: &'s [Skill]) -> Typed<'t, 's> {
    let Some(rest) = text.strip_prefix('/') else { return Typed::Text };
    let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
    let (name, rest) = rest.split_at(end);
    let rest = rest.trim();
    match name {
        "compact" => Typed::Command(Command::Compact),
        "review" => Typed::Command(Command::Review { instructions: rest.to_owned() }),
        "undo" => Typed::Command(Command::Undo),
        "rename" => Typed::Command(Command::Rename { name: rest.to_owned() }),
        _ => match skills.iter().find(|skill| skill.name == name) {
            Some(skill) => Typed::Skill(skill, rest),
            None => Typed::Text,
        },
    }
}

/// Returns whether the text is `/init` alone.
pub(crate) fn is_init(text: &str) -> bool {
    text.trim().strip_prefix('/') == Some(INIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_skills_and_texts() {
        let skill =
            Skill { name: "lint".into(), description: "d".into(), path: "/s/SKILL.md".into() };
        let skills = [skill.clone()];
        let check = |text: &str, expect: Typed<'_, '_>| assert_eq!(typed(text, &skills), expect);
        check("/compact", Typed::Command(Command::Compact));
        check("/review", Typed::Command(Command::Review { instructions: String::new() }));
        check(
            "/review the  docs ",
            Typed::Command(Command::Review { instructions: "the  docs".into() }),
        );
        check("/rename New name", Typed::Command(Command::Rename { name: "New name".into() }));
        check("/rename ", Typed::Command(Command::Rename { name: String::new() }));
        check("/lint src", Typed::Skill(&skill, "src"));
        for text in ["/usr/bin/env", "/lintx", "a /compact", "/", ""] {
            check(text, Typed::Text);
        }
        assert!(is_init("/init ") && !is_init("/init now"));
    }

    #[test]
    fn a_skill_does_not_hide_a_command() {
        let skill =
            |name: &str| Skill { name: name.into(), description: "d".into(), path: "p".into() };
        let update = available(&[skill("review"), skill("lint")]);
        let SessionUpdate::AvailableCommandsUpdate { available_commands } = update else {
            panic!()
        };
        let names: Vec<_> = available_commands.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["compact", "init", "rename", "review", "undo", "lint"]);
    }
}
