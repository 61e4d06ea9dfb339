//! The models that the gateway serves: names and aliases, prices, dates, and the limits of each by
//! tier (specification: Limits, Versioning).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use ratelimit::Micros;
use serde::Deserialize;

use super::Upstream;
use crate::tenants::{MicroDollars, Tier};

/// The name that requests without a model draw on.
pub const NO_MODEL: &str = "*";

/// All models.
#[derive(Debug, Default)]
pub struct Catalog {
    pub(super) models: BTreeMap<Box<str>, Arc<Model>>,
    /// Model names and aliases.
    pub(super) by_name: HashMap<Box<str>, Arc<Model>>,
    /// What stands for requests without a model.
    pub(super) no_model: Option<Arc<Model>>,
}

/// A dated snapshot, or a model without a date in its name.
#[derive(Clone, Debug)]
pub struct Model {
    /// Its number within the settings.
    pub number: u32,
    /// Its own name: buckets are named by it.
    pub name: Box<str>,
    /// Other names that lead here.
    pub aliases: Vec<Box<str>>,
    /// Who serves it.
    pub upstream: Arc<Upstream>,
    /// What it is called there.
    pub upstream_model: Box<str>,
    /// The group whose limits it shares.
    pub shared_limit: Option<Box<str>>,
    /// An estimate above it draws on the long-context limit.
    pub long_context_tokens: Option<u64>,
    /// What is reserved for an answer where the request names no maximum.
    pub max_output_tokens: u64,
    /// When it ends, and how that is announced.
    pub shutdown: Option<Shutdown>,
    /// What a request costs.
    pub price: Option<Price>,
    /// What a line of a batch costs, if that differs.
    pub batch_price: Option<Price>,
    /// Its own limits, by tier.
    pub(super) limits: [Option<LimitSet>; 6],
    /// Those of its group.
    pub(super) group_limits: [Option<LimitSet>; 6],
}

/// A model's end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shutdown {
    /// From when on answers say that it is deprecated.
    pub deprecated_from: Micros,
    /// From when on it is gone.
    pub at: Micros,
    /// `2027-02-26`.
    pub date: Box<str>,
    /// What replaces it.
    pub successor: Option<Box<str>>,
}

/// What may be used. `None`: as much as one likes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[allow(missing_docs, reason = "the names are those of the configuration")]
pub struct LimitSet {
    pub rpm: Option<u64>,
    pub rpd: Option<u64>,
    pub tpm: Option<u64>,
    pub tpd: Option<u64>,
    pub ipm: Option<u64>,
    pub audio_minutes_per_minute: Option<u64>,
    pub batch_queue_tokens: Option<u64>,
    pub long_context_tpm: Option<u64>,
}

/// Prices in millionths of a micro-dollar per token, which USD per million tokens are exactly up to
/// six decimals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Price {
    pub input: u64,
    pub cached_input: u64,
    pub output: u64,
}

impl Price {
    /// The price of so many tokens, rounded up. `cached` are among `input`.
    #[must_use]
    pub fn of(&self, input: u64, cached: u64, output: u64) -> MicroDollars {
        let cached = cached.min(input);
        let sum = u128::from(input - cached) * u128::from(self.input)
            + u128::from(cached) * u128::from(self.cached_input)
            + u128::from(output) * u128::from(self.output);
        u64::try_from(sum.div_ceil(1_000_000)).unwrap_or(u64::MAX)
    }
}

/// `[tiers.X]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TierSettings {
    /// From how many dollars paid on an organization is in it.
    pub paid_usd: u64,
    /// What an organization in it may spend a month.
    pub monthly_limit: MicroDollars,
}

impl Catalog {
    /// The model of that name or alias, whether it is still served or not.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Arc<Model>> {
        self.by_name.get(name)
    }

    /// What requests without a model draw on; `None` without an upstream for them.
    #[must_use]
    pub fn no_model(&self) -> Option<&Arc<Model>> {
        self.no_model.as_ref()
    }

    /// All models, by name.
    pub fn models(&self) -> impl Iterator<Item = &Arc<Model>> {
        self.models.values()
    }
}

impl Model {
    /// The limits of the model itself in a tier: those of the nearest lower tier where it has none.
    #[must_use]
    pub fn limits(&self, tier: Tier) -> LimitSet {
        nearest(&self.limits, tier)
    }

    /// The limits of the group that it shares.
    #[must_use]
    pub fn group_limits(&self, tier: Tier) -> LimitSet {
        nearest(&self.group_limits, tier)
    }

    /// The same model at another upstream.
    #[must_use]
    pub fn at(&self, upstream: &Arc<Upstream>) -> Self {
        Self { upstream: Arc::clone(upstream), ..self.clone() }
    }

    /// Whether requests may use it at that time.
    #[must_use]
    pub fn is_served(&self, now: Micros) -> bool {
        self.shutdown.as_ref().is_none_or(|shutdown| now < shutdown.at)
    }
}

fn nearest(limits: &[Option<LimitSet>; 6], tier: Tier) -> LimitSet {
    limits[..=tier as usize].iter().rev().find_map(|set| *set).unwrap_or_default()
}
