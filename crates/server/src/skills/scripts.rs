//! Commands that run the scripts of skills: questions about them are a kind of their own
//! (`approval_policy.granular.skill_approval`).

use std::path::Path;

use config::Config;
use sandbox::rules::Invocation;
use session::{ApprovalPolicy, Settings};

use super::Skills;

/// The folder of a skill that has its programs.
const SCRIPTS: &str = "scripts";
/// Words of a command that are looked at.
const MAX_WORDS: usize = 1_024;

impl Skills {
    /// Whether a command that runs in `cwd` names a file beneath the `scripts` of a skill, or that folder.
    /// The skills are those that were read for the turn of the thread with these settings. Looks at the
    /// file system, but only under a granular policy: others make no difference.
    pub(crate) fn runs_script(
        &self,
        invocation: Invocation<'_>,
        cwd: &Path,
        settings: &Settings,
        config: &Config,
    ) -> bool {
        if !matches!(settings.approval, ApprovalPolicy::Granular(_)) {
            return false;
        }
        let texts: Vec<&str> = match invocation {
            Invocation::Script(script) => vec![script],
            Invocation::Argv(argv) => argv.iter().map(String::as_str).collect(),
        };
        let set = self.kept().get(&self.roots(&settings.cwd, config)).cloned();
        let Some(set) = set else { return false };
        let real = |skill: &skills::Skill| skill.folder().join(SCRIPTS).canonicalize().ok();
        let scripts: Vec<_> = set.found.skills.iter().filter_map(real).collect();
        if scripts.is_empty() {
            return false;
        }
        let is_script = |place: &Path| scripts.iter().any(|folder| place.starts_with(folder));
        let words = texts.into_iter().flat_map(words).take(MAX_WORDS);
        is_script(cwd)
            || words
                .filter_map(|word| cwd.join(word).canonicalize().ok())
                .any(|place| is_script(&place))
    }
}

/// What stands between blanks and the punctuation of a shell.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let ends = |c: char| c.is_whitespace() || "\"';|&<>()=`".contains(c);
    text.split(ends).filter(|word| !word.is_empty())
}
