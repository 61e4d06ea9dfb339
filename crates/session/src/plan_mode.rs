//! Plan mode: the agent explores and changes nothing, whatever the thread's policy allows and
//! no matter who approves. The reach of a command is decided here, in one place, for every mode.

use std::borrow::Cow;
use std::path::Path;

use crate::port::settings::{Mode, Settings};

/// Refuses a tool that changes something.
pub(crate) const CHANGES_NOTHING: &str =
    "plan mode changes nothing: explore, and propose the change in the plan";
/// Refuses a command that asks to leave the sandbox.
pub(crate) const STAYS_CONFINED: &str = "plan mode runs commands read-only: none leaves the \
     sandbox, no matter who approves it; do without, and put the command into the plan";

/// The reach of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reach {
    /// It reads.
    ReadOnly,
    /// Everything that the sandbox policy allows.
    Sandbox,
    /// Everything.
    Outside,
}

impl Reach {
    /// `unsandboxed`: the command is to leave the sandbox.
    pub(crate) fn new(mode: Mode, unsandboxed: bool) -> Self {
        match (mode, unsandboxed) {
            (Mode::Plan, _) => Self::ReadOnly,
            (Mode::Default, true) => Self::Outside,
            (Mode::Default, false) => Self::Sandbox,
        }
    }
}

impl Settings {
    /// The settings as they hold for the agent in its mode. `tmpdir` is the `$TMPDIR` of its commands.
    pub(crate) fn in_force(&self, tmpdir: Option<&Path>) -> Cow<'_, Self> {
        match self.mode {
            Mode::Default => Cow::Borrowed(self),
            Mode::Plan => {
                let sandbox = self.sandbox.reading_only(&self.cwd, tmpdir);
                Cow::Owned(Self { sandbox, ..self.clone() })
            }
        }
    }

    /// Returns whether commands run without any confinement of ours.
    pub(crate) fn is_unconfined(&self) -> bool {
        self.mode == Mode::Default && self.sandbox.is_unconfined()
    }
}
