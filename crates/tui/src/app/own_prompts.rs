//! The user's own prompts: each skill that can be used is a command, too. `/name …` sends the rest of the line
//! with the skill. The commands of the program come first.

use crate::app::program::App;
use crate::composer::{ChipKind, Command, Draft, DraftElement};

/// Characters of a description that the list of `/help` has.
const DESCRIPTION: usize = 60;

/// The prompts that can be used in the folder of the thread.
#[derive(Debug)]
pub(super) struct OwnPrompts {
    /// The commands of the program.
    built_in: Vec<Command>,
    own: Vec<OwnPrompt>,
}

/// A skill as a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OwnPrompt {
    /// That of the skill, which is also that of the command.
    pub(super) name: String,
    pub(super) description: String,
    /// The definition file of the skill.
    pub(super) path: String,
}

impl OwnPrompts {
    /// None yet, next to the commands of the program.
    pub(super) fn new(built_in: Vec<Command>) -> Self {
        Self { built_in, own: Vec::new() }
    }

    /// The rows of `/help`; empty if there are none.
    pub(super) fn help(&self) -> String {
        let row = |prompt: &OwnPrompt| {
            let description: String = prompt.description.chars().take(DESCRIPTION).collect();
            format!("{:<42} {description}\n", format!("/{} [MESSAGE]", prompt.name))
        };
        self.own.iter().map(row).collect()
    }

    fn of_name(&self, name: &str) -> Option<&OwnPrompt> {
        self.own.iter().find(|prompt| prompt.name == name)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.own.iter().map(|prompt| prompt.name.as_str())
    }
}

/// Takes the skills that can be used. Those that have the name of a command of the program, or a name that no
/// command can have, are used with `$` alone.
pub(super) fn set(app: &mut App, prompts: impl Iterator<Item = OwnPrompt>) {
    let mut commands = app.own_prompts.built_in.clone();
    let is_free = |prompt: &OwnPrompt| {
        let text = Draft::plain(format!("/{}", prompt.name));
        text.command().is_some_and(|(name, _)| name == prompt.name)
            && !commands.iter().any(|command| command.name == prompt.name)
    };
    let mut own: Vec<OwnPrompt> = prompts.filter(is_free).collect();
    own.sort_by(|one, other| one.name.cmp(&other.name));
    own.dedup_by(|one, other| one.name == other.name);
    commands.extend(own.iter().map(|prompt| Command {
        name: prompt.name.clone(),
        description: prompt.description.clone(),
        hint: Some("[MESSAGE]".to_owned()),
        is_available: true,
    }));
    app.writing.composer_mut().set_commands(commands);
    app.own_prompts.own = own;
}

/// The message that `/name …` stands for, if there is such a prompt.
pub(super) fn message(app: &App, name: &str, draft: &Draft) -> Option<Draft> {
    let prompt = app.own_prompts.of_name(name)?;
    let label = format!("${name}");
    let skill = ChipKind::Skill { name: name.to_owned(), path: prompt.path.clone() };
    let element = DraftElement { range: 0..label.len(), label: label.clone(), kind: skill };
    let rest = draft.text.get(label.len()..)?;
    // The sign is as long as the one that was written, so that the other elements stay where they are.
    let elements = std::iter::once(element).chain(draft.elements.iter().cloned()).collect();
    Some(Draft { text: format!("{label}{rest}"), elements })
}
