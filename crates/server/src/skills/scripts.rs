//! Commands that run the scripts of skills: questions about them are a kind of their own
//! (`approval_policy.granular.skill_approval`).

use std::path::Path;

use config::Config;

use super::Skills;

/// The folder of a skill that has its programs.
const SCRIPTS: &str = "scripts";
/// Words of a command that are looked at.
const MAX_WORDS: usize = 1_024;

impl Skills {
    /// Whether a command that runs in `cwd` names a file beneath the `scripts` of a skill, or that folder.
    /// `folder` is that of the thread, whose skills are those that were read for its turn. Looks at the file
    /// system.
    pub(crate) fn runs_script<'w>(
        &self,
        texts: impl IntoIterator<Item = &'w str>,
        cwd: &Path,
        folder: &Path,
        config: &Config,
    ) -> bool {
        let set = self.kept().get(&self.roots(folder, config)).cloned();
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
