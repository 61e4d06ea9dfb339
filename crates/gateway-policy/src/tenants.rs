//! Whom the gateway serves: organizations, their projects, and who presents a key (specification:
//! Limits are defined per organization and per project). Plain data, as the store has it.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Money in micro-dollars.
pub type MicroDollars = u64;

/// The usage tiers, in their order.
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
    /// All of them, the lowest first.
    pub const ALL: [Self; 6] =
        [Self::Free, Self::One, Self::Two, Self::Three, Self::Four, Self::Five];

    /// `free`, `1` … `5`.
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
    /// What people call it.
    pub name: Box<str>,
    /// The tier in force: the highest of what was paid for and what was set by hand.
    pub tier: Tier,
    /// Sum of its payments.
    pub paid_cents: u64,
    /// Unix seconds.
    pub created_at: i64,
    /// Nothing of its requests is kept: prompts are cached in memory only.
    pub zero_data_retention: bool,
    /// Its own limits of money a month, beside the tier's.
    pub spend: SpendLimits,
}

/// A project.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Project {
    /// `proj_…`.
    pub id: Box<str>,
    /// What people call it.
    pub name: Box<str>,
    /// The region that its data stays in, as a lower-case prefix of hosts; `None`: Global.
    pub geography: Option<Box<str>>,
    /// Its keys are refused.
    pub archived: bool,
    /// Unix seconds.
    pub created_at: i64,
    /// By model, as the administrator named it: `rl-{model}`.
    pub limits: HashMap<Box<str>, ProjectLimits>,
    /// Limits of money a month.
    pub spend: SpendLimits,
}

/// What a project may use of a model. `None`: the organization's limit alone holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it; they are those of the wire")]
pub struct ProjectLimits {
    pub max_requests_per_1_minute: Option<u64>,
    pub max_requests_per_1_day: Option<u64>,
    pub max_tokens_per_1_minute: Option<u64>,
    pub max_images_per_1_minute: Option<u64>,
    pub max_audio_minutes_per_1_minute: Option<u64>,
    /// Stored and shown, not enforced: minutes are.
    pub max_audio_megabytes_per_1_minute: Option<u64>,
    pub batch_1_day_max_input_tokens: Option<u64>,
}

/// Limits of money in a calendar month (UTC).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpendLimits {
    /// Never passed.
    pub hard: Option<MicroDollars>,
    /// Soft ones: they tell, and refuse nothing.
    pub alerts: Vec<SpendAlert>,
}

/// A soft limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpendAlert {
    /// `alert_…`.
    pub id: Box<str>,
    /// From where on it tells.
    pub threshold: MicroDollars,
}

/// Who presents a key. Made once for a state of the store and shared: when anything in it changes,
/// there is another one.
#[derive(Debug)]
pub struct Caller {
    /// The key's id, `key_…`.
    pub key: Box<str>,
    /// The key's organization.
    pub organization: Arc<Organization>,
    /// The key's project.
    pub project: Arc<Project>,
    /// What others derive from it and keep with it.
    pub derived: Derived,
}

/// Names a value that is derived from a caller, and the versions of everything else it is derived
/// from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DerivedKey {
    /// What requests for a model draw on.
    Plan {
        /// Version of the settings.
        settings: u64,
        /// The model's number within the settings.
        model: u32,
    },
    /// Whether the spend of a month was read from the ledger.
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

    /// The value for `key`, made by `make` if it is missing. Each kind of key has one type of value.
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
