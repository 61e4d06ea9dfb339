//! The needs of a thread's skills, between the search for them and their use; and the environment
//! variables that the user gave, which are kept in memory only.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use session::{UserAnswers, skill_variable_is_set};

use services::skills::{INSTALL, NeedKind, Needs};

/// Variables of a thread.
const MAX_VARIABLES: usize = 256;
/// Skills that the model can open with the user being asked for what they need.
const MAX_OPENED: usize = 256;

/// The needs of a thread's skills.
#[derive(Default)]
pub struct SkillNeeds {
    /// By the session's number; `None` while they are looked for.
    open: BTreeMap<u64, Option<Needs>>,
    variables: SecretVariables,
    /// Definition files that the model has opened by itself.
    opened: BTreeSet<PathBuf>,
}

/// Environment variables whose values appear in no log.
#[derive(Clone, Default)]
pub(crate) struct SecretVariables(BTreeMap<String, String>);

impl fmt::Debug for SecretVariables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl SecretVariables {
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Adds the variables to those of a command, in place of others of their names.
    pub(crate) fn add_to(&self, environment: &mut Vec<(OsString, OsString)>) {
        environment.retain(|(name, _)| name.to_str().is_none_or(|name| !self.has(name)));
        environment.extend(self.0.iter().map(|(name, value)| (name.into(), value.into())));
    }

    /// # Errors
    /// Why it cannot be set.
    fn set(&mut self, name: &str, value: &str) -> Result<(), &'static str> {
        if value.contains('\0') {
            return Err("the value has a NUL character");
        }
        if self.0.len() >= MAX_VARIABLES && !self.has(name) {
            return Err("the thread has too many variables");
        }
        self.0.insert(name.to_owned(), value.to_owned());
        Ok(())
    }
}

/// The needs that the answers allow to meet.
#[derive(Debug, Default)]
pub(super) struct Met {
    /// For the model.
    pub(super) notes: Vec<String>,
    /// Servers that the user consents to, with their entries in the configuration.
    pub(super) servers: Vec<(String, serde_json::Value)>,
}

impl SkillNeeds {
    /// The variables that the user gave.
    pub(super) fn variables(&self) -> &SecretVariables {
        &self.variables
    }

    /// Notes that the model opens a skill. Returns whether it is the first time: the user is asked once.
    pub(super) fn is_opened_first(&mut self, file: &Path) -> bool {
        self.opened.len() < MAX_OPENED && self.opened.insert(file.to_owned())
    }

    pub(super) fn begin(&mut self, request: u64) {
        self.open.insert(request, None);
    }

    /// They were found. Returns whether they still matter.
    pub(super) fn found(&mut self, request: u64, needs: Needs) -> bool {
        let open = self.open.get_mut(&request);
        open.map(|open| *open = Some(needs)).is_some()
    }

    pub(super) fn forget(&mut self, request: u64) {
        self.open.remove(&request);
    }

    /// Takes the user's answers: sets variables, and returns the rest. `unanswered`: why answers are
    /// missing.
    pub(super) fn meet(
        &mut self,
        request: u64,
        answers: &UserAnswers,
        unanswered: Option<&str>,
    ) -> Met {
        let Some(Some(needs)) = self.open.remove(&request) else { return Met::default() };
        let mut met = Met { notes: needs.notes, servers: Vec::new() };
        for needed in needs.needed {
            let answer = answers.get(&needed.question.id).and_then(|given| given.first());
            let answer = answer.map(String::as_str).filter(|answer| !answer.is_empty());
            match needed.kind {
                NeedKind::Variable(name) => {
                    let set = answer.map(|value| self.variables.set(&name, value));
                    met.notes.push(match (set, unanswered) {
                        (Some(Ok(())), _) => skill_variable_is_set(&name),
                        (Some(Err(why)), _) => format!("{name} is not set: {why}."),
                        (None, Some(why)) => format!("{name} is not set: {why}."),
                        (None, None) => format!("{name} is not set: the user gave no value."),
                    });
                }
                NeedKind::Server { name, entry } => match (answer, unanswered) {
                    (Some(INSTALL), _) => met.servers.push((name, entry)),
                    (None, Some(why)) => {
                        met.notes.push(format!("The MCP server `{name}` is not installed: {why}."));
                    }
                    (Some(_), _) | (None, None) => met.notes.push(format!(
                        "The MCP server `{name}` is not installed: the user declined."
                    )),
                },
            }
        }
        met
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_replace_others_and_are_not_shown() {
        let mut variables = SecretVariables::default();
        variables.set("KEY", "s3cret").unwrap();
        assert!(variables.set("KEY", "a\0b").is_err());
        let mut environment = vec![("KEY".into(), "old".into()), ("A".into(), "1".into())];
        variables.add_to(&mut environment);
        assert_eq!(environment, [("A".into(), "1".into()), ("KEY".into(), "s3cret".into())]);
        assert_eq!(format!("{variables:?}"), "{\"KEY\"}");
    }
}
