//! The skills of a plugin, what they need, and their faults, for the person who decides about the plugin.
//! Waits for the file system.

use std::path::Path;

use plugins::Contents;
use protocol::skills::SkillSummary;
use skills::{Dependency, Problem, Root, Scope, Skill};

/// The skills of a plugin. Sentences name the plugin's folder as `shown`.
pub(super) struct PluginSkills {
    skills: Vec<Skill>,
    /// The needs of each, a sentence each.
    pub(super) needs: Vec<String>,
    /// The faults of the skills.
    pub(super) problems: Vec<String>,
}

impl PluginSkills {
    /// `folder` has the plugin's files.
    pub(super) fn read(contents: &Contents, folder: &Path, shown: &Path) -> Self {
        let root = |path: &std::path::PathBuf| Root {
            path: path.clone(),
            scope: Scope::User,
            boundary: folder.to_owned(),
            prefix: Some(contents.manifest.name.clone()),
        };
        let roots: Vec<Root> = contents.skills.iter().map(root).collect();
        let found = skills::discover(&roots, &|_| {});
        let needs = found.skills.iter().flat_map(|skill| {
            let tools = skill.dependencies.iter().flat_map(|needed| &needed.tools);
            tools.map(|needed| need(&skill.name, needed))
        });
        let (folder, shown) = (folder.to_string_lossy(), shown.to_string_lossy());
        let problem = |problem: &Problem| problem.to_string().replace(&*folder, &shown);
        Self {
            needs: needs.collect(),
            problems: found.problems.iter().map(problem).collect(),
            skills: found.skills,
        }
    }

    /// The skills by their names in threads. `place` is the folder that clients are to see, if there is one.
    pub(super) fn summaries(self, folder: &Path, place: Option<&Path>) -> Vec<SkillSummary> {
        let summary = |skill: Skill| {
            let path = skill.path.strip_prefix(folder).ok();
            let path = path.and_then(|path| Some(place?.join(path).display().to_string()));
            SkillSummary {
                name: skill.name,
                description: skill.description,
                short_description: skill.short_description,
                interface: None,
                path,
                enabled: true,
            }
        };
        self.skills.into_iter().map(summary).collect()
    }
}

fn need(skill: &str, needed: &Dependency) -> String {
    let Dependency { kind, value, description, url, command, .. } = needed;
    let why = description.as_ref().map(|text| format!(" ({text})")).unwrap_or_default();
    if kind == "env_var" {
        return format!(
            "the skill `{skill}` asks you for the environment variable `{value}`, for the commands of \
             the thread{why}"
        );
    }
    let what = match (url, command) {
        (Some(url), _) => format!(", which is reached at {url}"),
        (None, Some(command)) => format!(", which runs: {command}"),
        (None, None) => String::new(),
    };
    format!(
        "the skill `{skill}` needs the MCP server `{value}`{what}; it is added once you agree{why}"
    )
}
