//! Which notices the user has acknowledged, and which were shown.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use protocol::RateLimitSnapshot;

use crate::app::configuration::Configuration;

/// From so many per cent of a limit on, there is a hint.
const NEARLY_USED: i32 = 90;
/// Below so many, the next time counts as another one.
const USED_LESS: i32 = 75;

/// The notices that were acknowledged, and those shown since the start.
#[derive(Debug, Default)]
pub(super) struct Notices {
    /// `notice.hide_full_access_warning`, or acknowledged since the start.
    hides_full_access: bool,
    hides_world_writable: bool,
    hides_limits: bool,
    /// `notice.model_migrations`: the successors that were accepted.
    migrations: BTreeMap<String, String>,
    /// Models with `notice.hide_<model>_migration_prompt`.
    kept_models: BTreeSet<String>,
    /// `tui.model_availability_nux`: how often each model was announced.
    announced: BTreeMap<String, u64>,
    /// The limits that the server reported last.
    limits: Option<RateLimitSnapshot>,
    has_hinted: bool,
    /// Folders that were warned of.
    warned: BTreeSet<PathBuf>,
    /// The model that was named last and is not in the list.
    doubted_model: Option<String>,
    /// True if the news of models were looked at.
    has_checked_models: bool,
}

impl Notices {
    pub(super) fn hides_full_access(&self) -> bool {
        self.hides_full_access
    }

    /// The warning of full access was acknowledged for good.
    pub(super) fn hide_full_access(&mut self) {
        self.hides_full_access = true;
    }

    pub(super) fn hides_world_writable(&self) -> bool {
        self.hides_world_writable
    }

    /// True if the folder was warned of.
    pub(super) fn is_warned_of(&self, folder: &Path) -> bool {
        self.warned.contains(folder)
    }

    /// These folders were warned of.
    pub(super) fn warned_of(&mut self, folders: Vec<PathBuf>) {
        self.warned.extend(folders);
    }

    /// The limits that the server reported last.
    pub(super) fn limits(&self) -> Option<&RateLimitSnapshot> {
        self.limits.as_ref()
    }

    pub(super) fn set_limits(&mut self, limits: RateLimitSnapshot) {
        self.limits = Some(limits);
    }

    /// So many per cent of a limit are used. Returns whether that is to be hinted at.
    pub(super) fn takes_limit_hint(&mut self, used: i32) -> bool {
        if used < USED_LESS {
            self.has_hinted = false;
        }
        let hints = used >= NEARLY_USED && !self.has_hinted && !self.hides_limits;
        self.has_hinted |= hints;
        hints
    }

    /// Keeps that this model was named and is not in the list.
    pub(super) fn doubt_model(&mut self, model: String) {
        self.doubted_model = Some(model);
    }

    /// The model that was named last and is not in the list.
    pub(super) fn take_doubted_model(&mut self) -> Option<String> {
        self.doubted_model.take()
    }

    /// True if the news of models are to be looked at, which they are once.
    pub(super) fn takes_model_check(&mut self) -> bool {
        !std::mem::replace(&mut self.has_checked_models, true)
    }

    /// True if the user has answered that `old` has the successor `new`.
    pub(super) fn has_answered(&self, old: &str, new: &str) -> bool {
        let is_accepted = self.migrations.get(old).is_some_and(|accepted| accepted == new);
        is_accepted || self.kept_models.contains(old)
    }

    /// Number of announcements of the model.
    pub(super) fn announcements(&self, model: &str) -> u64 {
        self.announced.get(model).copied().unwrap_or(0)
    }

    /// The model was announced so many times.
    pub(super) fn set_announcements(&mut self, model: String, count: u64) {
        self.announced.insert(model, count);
    }

    /// Takes what `config/read` answers with.
    pub(super) fn read(&mut self, config: Configuration<'_>) {
        let is_set = |key: &str| config.flag(key) == Some(true);
        self.hides_full_access |= is_set("notice.hide_full_access_warning");
        self.hides_world_writable = is_set("notice.hide_world_writable_warning");
        self.hides_limits = is_set("notice.hide_rate_limit_model_nudge");
        self.migrations = config
            .table("notice.model_migrations")
            .filter_map(|(old, new)| Some((old.clone(), new.as_str()?.to_owned())))
            .collect();
        let model = |key: &String| {
            let model = key.strip_prefix("hide_")?.strip_suffix("_migration_prompt")?;
            Some(model.to_owned())
        };
        let hidden = config.table("notice").filter(|(_, is_hidden)| **is_hidden == true);
        self.kept_models = hidden.filter_map(|(key, _)| model(key)).collect();
        self.announced = config
            .table("tui.model_availability_nux")
            .filter_map(|(model, count)| Some((model.clone(), count.as_u64()?)))
            .collect();
    }
}
