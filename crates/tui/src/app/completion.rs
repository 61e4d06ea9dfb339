//! What the composer completes and the server knows: files and skills.

use protocol::{FuzzyFileSearchParams, FuzzyFileSearchResponse, FuzzyFileSearchResult};
use serde_json::{Value, json};

use crate::app::App;
use crate::app::then::Then;
use crate::composer::{Candidate, Insertion};

/// Files that are offered.
const MAX_FILES: usize = 50;

impl App {
    /// Sends the search that the composer wants, once.
    pub(super) fn search(&mut self) {
        let Some(query) = self.composer.query() else { return };
        if self.searched == Some(query.token) {
            return;
        }
        self.searched = Some(query.token);
        let cwd = self.session.cwd.as_ref().unwrap_or(&self.cwd);
        let params = FuzzyFileSearchParams {
            query: query.text,
            roots: vec![cwd.to_string_lossy().into_owned()],
            // The next search ends this one.
            cancellation_token: Some("composer".to_owned()),
        };
        self.call::<protocol::FuzzyFileSearch>(&params, Then::Files(query.token));
    }

    pub(super) fn found(&mut self, token: u64, value: Value) {
        let files = match serde_json::from_value::<FuzzyFileSearchResponse>(value) {
            Ok(found) => found.files,
            Err(error) => {
                tracing::warn!(target: "tui", "`fuzzyFileSearch` cannot be read: {error}");
                return;
            }
        };
        self.composer.set_files(token, files.into_iter().take(MAX_FILES).map(file).collect());
    }

    /// Asks for the skills of the folder.
    pub(super) fn load_skills(&mut self) {
        let cwd = self.session.cwd.as_ref().unwrap_or(&self.cwd).to_string_lossy().into_owned();
        self.call_with("skills/list", json!({ "cwds": [cwd] }), Then::Skills);
    }

    pub(super) fn set_skills(&mut self, value: &Value) {
        let skills = value["data"][0]["skills"].as_array().map(Vec::as_slice).unwrap_or_default();
        let text =
            |skill: &Value, member: &str| skill[member].as_str().unwrap_or_default().to_owned();
        let offered =
            skills.iter().filter(|skill| skill["enabled"] != false).map(|skill| Candidate {
                label: text(skill, "name"),
                detail: text(skill, "description"),
                matches: Vec::new(),
                insertion: Insertion::Skill {
                    name: text(skill, "name"),
                    path: text(skill, "path"),
                },
            });
        self.composer.set_skills(offered.collect());
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
