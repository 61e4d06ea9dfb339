//! Which notices the user has acknowledged, and which were shown.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use protocol::RateLimitSnapshot;

use crate::app::configuration::Configuration;

/// What was acknowledged, and what was shown since the start.
#[derive(Debug, Default)]
pub(in crate::app) struct Notices {
    /// `notice.hide_full_access_warning`, or acknowledged since the start.
    pub(super) hides_full_access: bool,
    pub(super) hides_world_writable: bool,
    pub(super) hides_limits: bool,
    /// `notice.model_migrations`: the successors that were accepted.
    pub(super) migrations: BTreeMap<String, String>,
    /// Models with `notice.hide_<model>_migration_prompt`.
    pub(super) kept_models: BTreeSet<String>,
    /// `tui.model_availability_nux`: how often each model was announced.
    pub(super) announced: BTreeMap<String, u64>,
    /// The limits that the server reported last.
    pub(super) limits: Option<RateLimitSnapshot>,
    pub(super) has_hinted: bool,
    /// Folders that were warned of.
    pub(super) warned: BTreeSet<PathBuf>,
    /// The model that was named last and is not in the list.
    doubted_model: Option<String>,
    /// Whether the news of models were looked at.
    has_checked_models: bool,
}

impl Notices {
    /// Keeps that this model was named and is not in the list.
    pub(in crate::app) fn doubt_model(&mut self, model: String) {
        self.doubted_model = Some(model);
    }

    /// The model that was named last and is not in the list.
    pub(in crate::app) fn take_doubted_model(&mut self) -> Option<String> {
        self.doubted_model.take()
    }

    /// Whether the news of models are to be looked at, which they are once.
    pub(in crate::app) fn takes_model_check(&mut self) -> bool {
        !std::mem::replace(&mut self.has_checked_models, true)
    }

    /// Whether the user has answered that `old` has the successor `new`.
    pub(in crate::app) fn has_answered(&self, old: &str, new: &str) -> bool {
        let is_accepted = self.migrations.get(old).is_some_and(|accepted| accepted == new);
        is_accepted || self.kept_models.contains(old)
    }

    /// How often the model was announced.
    pub(in crate::app) fn announcements(&self, model: &str) -> u64 {
        self.announced.get(model).copied().unwrap_or(0)
    }

    /// The model was announced so many times.
    pub(in crate::app) fn set_announcements(&mut self, model: String, count: u64) {
        self.announced.insert(model, count);
    }

    /// Takes what `config/read` answers with.
    pub(in crate::app) fn read(&mut self, config: Configuration<'_>) {
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
