//! The completions of the composer that the server knows: files and skills.

use protocol::{
    FuzzyFileSearchParams, FuzzyFileSearchResult, SkillMetadata, SkillsListParams,
    SkillsListResponse,
};

use crate::app::own_prompts::{self, OwnPrompt};
use crate::app::program::App;
use crate::composer::{Candidate, Insertion};

/// Files that are offered.
const MAX_FILES: usize = 50;

/// Sends the search that the composer wants, once.
pub(super) fn search(app: &mut App) {
    let Some(query) = app.writing.next_search() else { return };
    let params = FuzzyFileSearchParams {
        query: query.text,
        roots: vec![app.working_folder()],
        // The next search ends this one.
        cancellation_token: Some("composer".to_owned()),
    };
    let token = query.token;
    app.call::<protocol::FuzzyFileSearch>(&params, move |app, result| match result {
        Ok(found) => {
            let files = found.files.into_iter().take(MAX_FILES).map(file).collect();
            app.writing.composer_mut().set_files(token, files);
        }
        // A search that the next one replaced.
        Err(error) => {
            tracing::debug!(target: "tui", "no files were found: {}", error.message);
        }
    });
}

/// Asks for the skills of the folder.
pub(super) fn load_skills(app: &mut App) {
    let params =
        SkillsListParams { cwds: vec![app.working_folder()], ..SkillsListParams::default() };
    app.call::<protocol::SkillsList>(&params, |app, result| match result {
        Ok(list) => set_skills(app, &list),
        Err(error) => {
            app.error(&format!("The skills cannot be listed: {}", error.message));
        }
    });
}

fn set_skills(app: &mut App, list: &SkillsListResponse) {
    let skills = list.data.iter().flat_map(|folder| &folder.skills);
    let enabled = skills.filter(|skill| skill.enabled);
    app.writing.composer_mut().set_skills(enabled.clone().map(skill).collect());
    own_prompts::set(app, enabled.map(own_prompt));
}

fn own_prompt(skill: &SkillMetadata) -> OwnPrompt {
    OwnPrompt {
        name: skill.name.clone(),
        description: skill.description.clone(),
        path: skill.path.clone(),
    }
}

fn skill(skill: &SkillMetadata) -> Candidate {
    Candidate {
        label: skill.name.clone(),
        detail: skill.description.clone(),
        matches: Vec::new(),
        insertion: Insertion::Skill { name: skill.name.clone(), path: skill.path.clone() },
    }
}

fn file(found: FuzzyFileSearchResult) -> Candidate {
    let matches = found.indices.unwrap_or_default().into_iter();
    // A path with spaces would end where the first one is.
    let quoted = match found.path.contains(char::is_whitespace) {
        true => format!("\"{}\"", found.path),
        false => found.path.clone(),
    };
    Candidate {
        label: found.path,
        detail: String::new(),
        matches: matches.filter_map(|at| usize::try_from(at).ok()).collect(),
        insertion: Insertion::Text(quoted),
    }
}
