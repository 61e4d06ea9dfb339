//! The tenants of the gateway: organizations, their projects, and callers (specification: Limits
//! are defined per organization and per project). Plain data, as stored.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Money in micro-dollars.
pub type MicroDollars = u64;

/// The usage tiers, in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// `free`.
    #[default]
    Free,
    /// `1`, and so on.
    One,
    #[allow(missing_docs)]
    Two,
    #[allow(missing_docs)]
    Three,
    #[allow(missing_docs)]
    Four,
    #[allow(missing_docs)]
    Five,
}

impl Tier {
    /// All tiers, lowest first.
    pub const ALL: [Self; 6] =
        [Self::Free, Self::One, Self::Two, Self::Three, Self::Four, Self::Five];

    /// The name: `free`, `1` … `5`.
    #[must_use]
    pub fn name(self) -> &'static str {
        ["free", "1", "2", "3", "4", "5"][self as usize]
    }

    /// The tier of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tier| tier.name() == name)
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An organization.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Organization {
    /// `org-…`.
    pub id: Box<str>,
    /// Display name.
    pub name: Box<str>,
    /// The tier in force: the higher of the paid one and the manual one.
    pub tier: Tier,
    /// Sum of its payments.
    pub paid_cents: u64,
    /// Unix seconds.
    pub created_at: i64,
    /// Zero data retention: nothing of its requests is stored, and prompts are cached only in
    /// memory.
    pub zero_data_retention: bool,
    /// Its own monthly spend limits, in addition to the tier's.
    pub spend: SpendLimits,
}

/// A project.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Project {
    /// `proj_…`.
    pub id: Box<str>,
    /// Display name.
    pub name: Box<str>,
    /// The region that its data stays in, as a lower-case prefix of host names; `None`: global.
    pub geography: Option<Box<str>>,
    /// True if it is archived: its keys are refused.
    pub archived: bool,
    /// Unix seconds.
    pub created_at: i64,
    /// Limits by model, as the administrator named it: `rl-{model}`.
    pub limits: HashMap<Box<str>, ProjectLimits>,
    /// Its monthly spend limits.
    pub spend: SpendLimits,
    /// The models that it may use; `None`: all.
    pub models: Option<ModelPermissions>,
}

/// A list of models that may be used, or of those that may not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelPermissions {
    mode: PermissionMode,
    /// Sorted, each once.
    names: Vec<Box<str>>,
}

/// The meaning of a list of models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PermissionMode {
    /// Only these models may be used.
    Allow,
    /// All models but these may be used.
    Deny,
}

impl PermissionMode {
    /// The name: `allow_list`, `deny_list`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Allow => "allow_list",
            Self::Deny => "deny_list",
        }
    }

    /// The mode of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [Self::Allow, Self::Deny].into_iter().find(|mode| mode.name() == name)
    }
}

impl ModelPermissions {
    /// A list of names, of models or aliases; `*` are requests without a model.
    #[must_use]
    pub fn new(mode: PermissionMode, mut names: Vec<Box<str>>) -> Self {
        names.sort_unstable();
        names.dedup();
        Self { mode, names }
    }

    /// The meaning of the list.
    #[must_use]
    pub fn mode(&self) -> PermissionMode {
        self.mode
    }

    /// The list.
    #[must_use]
    pub fn names(&self) -> &[Box<str>] {
        &self.names
    }

    /// Returns whether a model may be used. Its own name and its aliases are one model.
    #[must_use]
    pub fn allows(&self, model: &str, aliases: &[Box<str>]) -> bool {
        let mut all = std::iter::once(model).chain(aliases.iter().map(|alias| &**alias));
        let is_listed =
            all.any(|name| self.names.binary_search_by(|known| (**known).cmp(name)).is_ok());
        is_listed == (self.mode == PermissionMode::Allow)
    }
}

/// A project's limits for a model. `None`: only the organization's limit applies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it; they are those of the wire")]
pub struct ProjectLimits {
    pub max_requests_per_1_minute: Option<u64>,
    pub max_requests_per_1_day: Option<u64>,
    pub max_tokens_per_1_minute: Option<u64>,
    pub max_images_per_1_minute: Option<u64>,
    pub max_audio_minutes_per_1_minute: Option<u64>,
    /// Stored and shown, but not enforced: minutes of audio are.
    pub max_audio_megabytes_per_1_minute: Option<u64>,
    pub batch_1_day_max_input_tokens: Option<u64>,
}

/// Spend limits per calendar month (UTC).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpendLimits {
    /// The limit that is never exceeded.
    pub hard: Option<MicroDollars>,
    /// Soft limits, which are reported and refuse nothing.
    pub alerts: Vec<SpendAlert>,
}

/// A soft limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpendAlert {
    /// `alert_…`.
    pub id: Box<str>,
    /// The spend at which it is reported.
    pub threshold: MicroDollars,
}

/// The owner of a presented key. Immutable and shared: a change in the store creates a new one.
#[derive(Debug)]
pub struct Caller {
    /// The key's id, `key_…`.
    pub key: Box<str>,
    /// The key's organization.
    pub organization: Arc<Organization>,
    /// The key's project.
    pub project: Arc<Project>,
    /// The models that the key may use, of those of its project; `None`: all.
    pub models: Option<ModelPermissions>,
    /// Cached values that are derived from it.
    pub derived: Derived,
}

/// Names a value that is derived from a caller, and the versions of everything else it is derived
/// from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DerivedKey {
    /// The plan of requests for a model.
    Plan {
        /// Version of the settings.
        settings: u64,
        /// The model's number within the settings.
        model: u32,
    },
    /// The spend of a month was read from the ledger.
    Seeded {
        /// The month.
        month: u32,
    },
}

/// Values that are computed once per caller, not once per request. At most [`Derived::MOST`]: when
/// full, all of them are dropped.
#[derive(Debug, Default)]
pub struct Derived(Mutex<Vec<(DerivedKey, Arc<dyn std::any::Any + Send + Sync>)>>);

impl Derived {
    /// Most values kept.
    pub const MOST: usize = 64;

    /// The value for `key`, computed with `make` if it is missing. Each kind of key has one type of
    /// value.
    pub fn get<T: Send + Sync + 'static>(
        &self,
        key: DerivedKey,
        make: impl FnOnce() -> T,
    ) -> Arc<T> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = kept.iter().find(|(known, _)| *known == key);
        if let Some(Ok(value)) = known.map(|(_, value)| Arc::clone(value).downcast()) {
            return value;
        }
        let value = Arc::new(make());
        if kept.len() >= Self::MOST {
            kept.clear();
        }
        kept.push((key, Arc::clone(&value) as _));
        value
    }
}
