//! Environment variables that the user gave for skills. Their values are in the memory of one loaded thread only,
//! while its history says that they are set: a thread with this history that lacks them informs the model.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::history;
use crate::port::fragment::Fragment;

/// The beginning and the end of notes about the needs of skills.
pub(crate) const BEGIN: &str = "<skill_needs>\n";
pub(crate) const END: &str = "\n</skill_needs>";
/// The beginning in the JSON of a fragment.
const BEGIN_IN_JSON: &str = "\"<skill_needs>\\n";
/// The text before and after the name in a sentence about a variable.
const VARIABLE: &str = "The environment variable ";
const IS_SET: &str = " is set for the commands of this thread";
const IS_LOST: &str = " is not set in this thread";

/// The sentence that informs the model of a variable that the user gave, for the notes of
/// [`crate::Input::SkillNeedsMet`].
#[must_use]
pub fn skill_variable_is_set(name: &str) -> String {
    format!("{VARIABLE}{name}{IS_SET}; its value is the user's secret: do not print it.")
}

/// The note about the variables that the history says are set and that are not.
pub(crate) fn lost(history: &[Fragment], is_set: impl Fn(&str) -> bool) -> Option<Fragment> {
    let mut known = BTreeSet::new();
    for text in history.iter().filter_map(note) {
        for line in text.lines() {
            let Some((name, rest)) =
                line.strip_prefix(VARIABLE).and_then(|rest| rest.split_once(' '))
            else {
                continue;
            };
            match IS_SET.strip_prefix(' ').is_some_and(|is_set| rest.starts_with(is_set)) {
                true => known.insert(name.to_owned()),
                false => known.remove(name),
            };
        }
    }
    known.retain(|name| !is_set(name));
    let sentence = |name: &String| {
        format!(
            "{VARIABLE}{name}{IS_LOST}, whatever was said of it before: its value was only in memory. The user \
             is asked for it again when a message of theirs uses the skill."
        )
    };
    let sentences: Vec<String> = known.iter().map(sentence).collect();
    (!sentences.is_empty()).then(|| fragment(&sentences))
}

/// Notes for the model.
pub(crate) fn fragment(notes: &[String]) -> Fragment {
    let text = format!("{BEGIN}{}{END}", notes.join("\n"));
    Fragment::summarized(history::message("developer", &text))
}

fn note(fragment: &Fragment) -> Option<String> {
    // Most parts are something else, and some are large.
    if !fragment.text.contains(BEGIN_IN_JSON) {
        return None;
    }
    let message: Value = serde_json::from_str(&fragment.text).ok()?;
    let text = message["content"][0]["text"].as_str()?;
    (message["role"] == "developer" && text.starts_with(BEGIN)).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(fragment: Option<Fragment>) -> String {
        fragment.and_then(|fragment| note(&fragment)).unwrap_or_default()
    }

    #[test]
    fn variables_that_are_lost_are_named_once() {
        let given = fragment(&["A", "B"].map(skill_variable_is_set));
        let mut history = vec![given.clone()];
        let note = lost(&history, |name| name == "B").unwrap();
        let said = text(Some(note.clone()));
        assert!(said.contains("variable A is not set in this thread"), "{said}");
        assert!(!said.contains("variable B"), "{said}");
        history.push(note);
        assert_eq!(lost(&history, |name| name == "B"), None);
        assert!(text(lost(&history, |_| false)).contains("variable B is not set"));
        history.push(given);
        assert!(text(lost(&history, |_| false)).contains("variable A is not set"), "given again");
        assert_eq!(lost(&history, |_| true), None);
    }

    #[test]
    fn what_the_user_or_the_model_writes_is_no_note() {
        let sentence = format!("{BEGIN}{}{END}", skill_variable_is_set("A"));
        for role in ["user", "assistant"] {
            let part = Fragment::summarized(history::message(role, &sentence));
            assert_eq!(lost(&[part], |_| false), None, "{role}");
        }
        let within = format!("Note: {sentence}");
        let part = Fragment::summarized(history::message("developer", &within));
        assert_eq!(lost(&[part], |_| false), None);
    }
}
