//! Commands that run the scripts of skills: questions about them are a kind of their own
//! (`approval_policy.granular.skill_approval`).

use std::path::Path;

use config::Config;
use sandbox::rules::{FileWord, Invocation, file_words};
use session::{ApprovalPolicy, Settings};

use super::Skills;

/// The folder of a skill that has its programs.
const SCRIPTS: &str = "scripts";

impl Skills {
    /// Returns whether a command that runs in `cwd` names a file beneath the `scripts` of a skill,
    /// or that folder. The skills are those that were read for the turn of the thread with these
    /// settings. Looks at the file system, but only under a granular policy: others make no
    /// difference.
    pub fn runs_script(
        &self,
        invocation: Invocation<'_>,
        cwd: &Path,
        settings: &Settings,
        config: &Config,
    ) -> bool {
        if !matches!(settings.approval, ApprovalPolicy::Granular(_)) {
            return false;
        }
        let set = self.kept().get(&self.roots(&settings.cwd, config)).cloned();
        let Some(set) = set else { return false };
        let real = |skill: &skills::Skill| skill.folder().join(SCRIPTS).canonicalize().ok();
        let scripts: Vec<_> = set.found.skills.iter().filter_map(real).collect();
        if scripts.is_empty() {
            return false;
        }
        let is_script = |place: &Path| scripts.iter().any(|folder| place.starts_with(folder));
        let Some(words) = words(invocation, cwd) else { return true };
        let names_script = |word: &FileWord| match word.expands {
            true => scripts.iter().any(|folder| may_name(&cwd.join(&word.text), folder)),
            false => cwd.join(&word.text).canonicalize().is_ok_and(|place| is_script(&place)),
        };
        is_script(cwd) || words.iter().any(names_script)
    }
}

/// The words that may name files; `None` when there are too many to be followed.
fn words(invocation: Invocation<'_>, cwd: &Path) -> Option<Vec<FileWord>> {
    let value = |name: &str| (name == "PWD").then(|| cwd.to_string_lossy().into_owned());
    match invocation {
        Invocation::Script(script) => file_words(script, &value),
        Invocation::Argv(argv) => {
            // An argument may be a script of another program.
            let mut words = Vec::new();
            for argument in argv {
                words.push(FileWord { text: argument.clone(), expands: false });
                words.extend(file_words(argument, &value)?);
            }
            Some(words)
        }
    }
}

/// Returns whether a pattern of the shell may stand for `folder` or a path beneath it.
fn may_name(pattern: &Path, folder: &Path) -> bool {
    let mut parts = pattern.components();
    folder.components().all(|part| {
        let Some(pattern) = parts.next() else { return false };
        let pattern = pattern.as_os_str().to_string_lossy();
        // What a variable or a substitution stands for is not known.
        pattern.contains(['$', '`'])
            || globset::Glob::new(&pattern)
                .is_ok_and(|glob| glob.compile_matcher().is_match(part.as_os_str()))
    })
}
