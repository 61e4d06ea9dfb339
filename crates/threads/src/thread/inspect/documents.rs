//! The project documents of the folders below the working folder that a call works in, and the skills that it
//! opens.

use std::path::{Path, PathBuf};

use session::{Prepared, ToolRequest};

use super::{Found, Inspection};
use services::allowed::MachineInput;
use services::project_doc::nested::{self, NestedDocs};
use services::thread_port::Command;

/// The result of an inspection, with the documents of the folders that the call works in and the
/// definition files of skills that it names.
pub(super) struct Inspected {
    pub(super) skills: Vec<PathBuf>,
    /// `None` when there is nothing to report.
    pub(super) documents: Option<NestedDocs>,
    pub(super) found: Found,
}

impl<T: Into<Found>> From<T> for Inspected {
    fn from(found: T) -> Self {
        Self { skills: Vec::new(), documents: None, found: found.into() }
    }
}

impl Inspection {
    /// The file or folder that a request names by itself; `None` for one that is about no place.
    pub(super) fn place(&self, request: &ToolRequest) -> Option<PathBuf> {
        match request {
            ToolRequest::Script { workdir, .. } | ToolRequest::Argv { workdir, .. } => {
                Some(self.workdir(workdir.as_deref()))
            }
            ToolRequest::Image { path } => Some(self.settings.cwd.join(path)),
            ToolRequest::Patch { .. } | ToolRequest::Permissions { .. } => None,
        }
    }

    /// Adds the documents of the folders that a call works in: of the place that it names, and of those
    /// that were found in it.
    pub(super) fn with_documents(&self, place: Option<PathBuf>, found: Found) -> Inspected {
        let cwd = &self.settings.cwd;
        let mut places: Vec<PathBuf> = place.into_iter().collect();
        if let Found::Command(command) = &found {
            places.extend(places_of(command));
        }
        // A patch writes a skill, and uses none.
        let is_patch =
            matches!(&found, Found::Command(it) if matches!(**it, Command::Planned { .. }));
        let is_skill = |place: &&PathBuf| !is_patch && place.ends_with(skills::SKILL_FILE);
        let skills = places.iter().filter(is_skill).cloned().collect();
        places.retain(|place| place != cwd && place.starts_with(cwd));
        if places.is_empty() || *self.config.project_doc_max_bytes == 0 {
            return Inspected { skills, documents: None, found };
        }
        let policy = self.policy().settle();
        let check_read = |path: &Path| policy.check_read(path).map_err(|denied| denied.to_string());
        let known = &self.known_documents;
        let documents = nested::read(&self.config, cwd, places, known, check_read);
        let documents = Some(documents).filter(|found| *found != NestedDocs::default());
        Inspected { skills, documents, found }
    }
}

/// The files and folders that a command works with or a patch changes.
fn places_of(command: &Command) -> Vec<PathBuf> {
    match command {
        Command::Planned { plan, .. } => {
            plan.targets.iter().map(|target| target.path.clone()).collect()
        }
        Command::Input(MachineInput::Prepared { outcome: Prepared::Command(command), .. }) => {
            nested::named_places(&command.amendable, &command.cwd)
        }
        _ => Vec::new(),
    }
}
