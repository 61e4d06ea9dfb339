//! The models that the gateway serves: names and aliases, prices, dates, and limits by tier
//! (specification: Limits, Versioning).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use ratelimit::Micros;
use serde::Deserialize;

use super::Upstream;
use crate::price::Price;
use crate::tenants::{MicroDollars, Tier};

/// The model name under which requests without a model are counted.
pub const NO_MODEL: &str = "*";

/// All models.
#[derive(Debug, Default)]
pub struct Catalog {
    pub(super) models: BTreeMap<Box<str>, Arc<Model>>,
    /// Model names and aliases.
    pub(super) by_name: HashMap<Box<str>, Arc<Model>>,
    /// The entry for requests without a model.
    pub(super) no_model: Option<Arc<Model>>,
}

/// A dated snapshot, or a model without a date in its name.
#[derive(Clone, Debug)]
pub struct Model {
    /// Its index in the settings.
    pub number: u32,
    /// Its own name, by which meters are named.
    pub name: Box<str>,
    /// Its aliases.
    pub aliases: Vec<Box<str>>,
    /// The upstream that serves it.
    pub upstream: Arc<Upstream>,
    /// Its name at the upstream.
    pub upstream_model: Box<str>,
    /// The group whose limits it shares.
    pub shared_limit: Option<Box<str>>,
    /// A longer input, in estimated tokens, draws on the long-context limit.
    pub long_context_tokens: Option<u64>,
    /// Output tokens reserved for a request without a maximum.
    pub max_output_tokens: u64,
    /// Larger numbers of tokens that an upstream reports for a request are not believed.
    pub max_reported_tokens: u64,
    /// Most tokens of a fine-tuning job, which are reserved for it; larger numbers are not believed.
    pub max_trained_tokens: u64,
    /// The wait for the first byte of an answer after which another backend gets the request; `None`: that of the backend.
    pub first_byte_timeout: Option<Duration>,
    /// Its shutdown, if announced.
    pub shutdown: Option<Shutdown>,
    /// True if it costs nothing, as the configuration says.
    pub is_free: bool,
    /// Its prices, by the dates from which they hold.
    pub prices: Vec<DatedPrice>,
    /// Its own limits, by tier.
    pub(super) limits: [Option<LimitSet>; 6],
    /// The limits of its group, by tier.
    pub(super) group_limits: [Option<LimitSet>; 6],
}

/// The prices of a model from a date on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatedPrice {
    /// The moment from which they hold.
    pub from: Micros,
    /// The price of requests.
    pub price: Arc<Price>,
    /// The price of lines of batches.
    pub batch: Arc<Price>,
}

/// A model's shutdown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shutdown {
    /// Start of its deprecation.
    pub deprecated_from: Micros,
    /// The moment of its shutdown.
    pub at: Micros,
    /// `2027-02-26`.
    pub date: Box<str>,
    /// The model that replaces it.
    pub successor: Option<Box<str>>,
}

/// Limits of a model in a tier. `None`: unlimited.
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

/// `[tiers.X]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TierSettings {
    /// Paid dollars that qualify an organization for the tier.
    pub paid_usd: u64,
    /// Monthly spend limit of an organization in the tier.
    pub monthly_limit: MicroDollars,
}

impl Catalog {
    /// The model of that name or alias, even after its shutdown.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Arc<Model>> {
        self.by_name.get(name)
    }

    /// The entry for requests without a model; `None` without an upstream for them.
    #[must_use]
    pub fn no_model(&self) -> Option<&Arc<Model>> {
        self.no_model.as_ref()
    }

    /// A model that has no price and is not free by name: no limit of spend holds for it.
    #[must_use]
    pub fn unpriced(&self) -> Option<&Arc<Model>> {
        self.models().find(|model| !model.is_priced() && !model.is_free)
    }

    /// All models, by name.
    pub fn models(&self) -> impl Iterator<Item = &Arc<Model>> {
        self.models.values()
    }
}

impl Model {
    /// The model's own limits in a tier; where it has none, those of the nearest lower tier.
    #[must_use]
    pub fn limits(&self, tier: Tier) -> LimitSet {
        nearest(&self.limits, tier)
    }

    /// The limits of its group.
    #[must_use]
    pub fn group_limits(&self, tier: Tier) -> LimitSet {
        nearest(&self.group_limits, tier)
    }

    /// Returns whether it has a price, at some time.
    #[must_use]
    pub fn is_priced(&self) -> bool {
        !self.prices.is_empty()
    }

    /// Its price at that time, for a request or for a line of a batch. `None`: it has no price then.
    #[must_use]
    pub fn price_at(&self, now: Micros, batch: bool) -> Option<&Arc<Price>> {
        let valid = self.prices.iter().rev().find(|dated| dated.from <= now)?;
        Some(if batch { &valid.batch } else { &valid.price })
    }

    /// The same model at another upstream.
    #[must_use]
    pub fn at(&self, upstream: &Arc<Upstream>) -> Self {
        Self { upstream: Arc::clone(upstream), ..self.clone() }
    }

    /// Returns whether requests may use it at that time.
    #[must_use]
    pub fn is_served(&self, now: Micros) -> bool {
        self.shutdown.as_ref().is_none_or(|shutdown| now < shutdown.at)
    }
}

fn nearest(limits: &[Option<LimitSet>; 6], tier: Tier) -> LimitSet {
    limits[..=tier as usize].iter().rev().find_map(|set| *set).unwrap_or_default()
}
