//! Which notices the user has acknowledged, and which were shown.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use protocol::RateLimitSnapshot;

use crate::app::configuration::Configuration;

/// The acknowledged notices, and those that were shown since the start.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    /// `notice.hide_full_access_warning`, or acknowledged since the start.
    pub(crate) hides_full_access: bool,
    pub(crate) hides_world_writable: bool,
    pub(crate) hides_limits: bool,
    /// `notice.model_migrations`: the successors that were accepted.
    pub(crate) migrations: BTreeMap<String, String>,
    /// Models with `notice.hide_<model>_migration_prompt`.
    pub(crate) kept_models: BTreeSet<String>,
    /// `tui.model_availability_nux`: how often each model was announced.
    pub(crate) announced: BTreeMap<String, u64>,
    /// The limits that the server reported last.
    pub(crate) limits: Option<RateLimitSnapshot>,
    pub(crate) has_hinted: bool,
    /// Folders that were warned of.
    pub(crate) warned: BTreeSet<PathBuf>,
}

impl Notices {
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
