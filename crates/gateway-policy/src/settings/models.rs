//! Models in the configuration: aliases, limits by tier, prices, shutdown; and the tiers.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use ratelimit::Micros;

use super::catalog::{Catalog, DatedPrice, LimitSet, Model, NO_MODEL, Shutdown, TierSettings};
use super::date::midnight;
use super::error::Fault;
use super::price::{self, Around, Dated};
use super::resolve::upstream_named;
use super::resolve_upstreams::first_byte_timeout;
use super::{Upstream, file};
use crate::price::TOOLS;
use crate::tenants::Tier;

/// Qualification in dollars paid and monthly limit in dollars, by tier (specification: Usage
/// tiers).
const TIERS: [(u64, u64); 6] =
    [(0, 100), (5, 100), (50, 500), (100, 1_000), (250, 5_000), (1_000, 200_000)];
/// The period before its shutdown in which a model is deprecated.
const NOTICE: Micros = 180 * ratelimit::DAY;
/// Longest name of a model, in bytes: it must fit into a slot of the journal of open requests.
const MAX_NAME: usize = 256;
const MAX_OUTPUT_TOKENS: u64 = 4096;
/// Far above any context, also of a request in which the server's own tools read it many times.
const MAX_REPORTED_TOKENS: u64 = 10_000_000;
/// Larger numbers in a file are rejected as typing errors.
const MOST: u64 = 1_000_000_000_000;

/// Resolves all models, with their names and limits.
///
/// # Errors
/// The first error found.
pub(super) fn resolve(
    models: &BTreeMap<String, file::Model>,
    tiers: &BTreeMap<String, file::Tier>,
    upstreams: &[Arc<Upstream>],
    default: Option<&Arc<Upstream>>,
    calls: [Option<u64>; TOOLS.len()],
) -> Result<Catalog, Fault> {
    let names = names(models)?;
    for (name, model) in models {
        let (Some(_), Some(successor)) = (&model.shutdown_date, &model.successor) else { continue };
        let message = match names.get(successor.as_str()) {
            Some(other) if *other != name => continue,
            Some(_) => "is the model itself".to_owned(),
            None => format!("there is no model or alias `{successor}`"),
        };
        return Err(Fault::new(&["models", name, "successor"], message));
    }
    let mut limits = limits_by_bucket(tiers, models, &names)?;
    let mut catalog = Catalog::default();
    for (number, (name, model)) in (1..).zip(models) {
        let upstream = match (&model.upstream, default) {
            (Some(upstream), _) => {
                upstream_named(upstreams, upstream, &["models", name, "upstream"])?
            }
            (None, Some(default)) => Arc::clone(default),
            (None, None) => {
                return Err(Fault::new(
                    &["models", name],
                    "has no upstream; set `upstream` or `default_upstream`",
                ));
            }
        };
        let own = limits.remove(&Bucket::Model(name)).unwrap_or_default();
        let group = model.shared_limit.as_deref();
        let group = group.and_then(|group| limits.get(&Bucket::Group(group)).copied());
        let resolved = resolve_model(name, model, upstream, own, group.unwrap_or_default())?;
        let around = Around { long_above: model.long_context_tokens, calls };
        let prices = prices(name, model, around)?;
        let resolved = Model { number, prices, ..resolved };
        catalog.models.insert(name.as_str().into(), Arc::new(resolved));
    }
    for (name, model) in &names {
        if let Some(model) = catalog.models.get(*model) {
            catalog.by_name.insert((*name).into(), Arc::clone(model));
        }
    }
    if let Some(default) = default {
        let own = limits.remove(&Bucket::Model(NO_MODEL)).unwrap_or_default();
        let nothing = file::Model::default();
        let model =
            resolve_model(NO_MODEL, &nothing, Arc::clone(default), own, Default::default())?;
        catalog.no_model = Some(Arc::new(model));
    }
    Ok(catalog)
}

/// All names and aliases with their models.
fn names(models: &BTreeMap<String, file::Model>) -> Result<HashMap<&str, &str>, Fault> {
    let mut names: HashMap<&str, &str> =
        models.keys().map(|name| (name.as_str(), name.as_str())).collect();
    if models.contains_key(NO_MODEL) {
        return Err(Fault::new(&["models", NO_MODEL], "is reserved for requests without a model"));
    }
    for (name, model) in models {
        for alias in &model.aliases {
            let key = ["models", name, "aliases"];
            match names.insert(alias, name) {
                None if alias == NO_MODEL || alias.is_empty() => {
                    return Err(Fault::new(
                        &key,
                        format!("`{alias}` is not a valid name for a model"),
                    ));
                }
                None => {}
                Some(other) => {
                    let message = format!("`{alias}` is already a name of the model `{other}`");
                    return Err(Fault::new(&key, message));
                }
            }
        }
    }
    Ok(names)
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Bucket<'a> {
    Model(&'a str),
    Group(&'a str),
}

type ByTier = [Option<LimitSet>; 6];

fn limits_by_bucket<'a>(
    tiers: &'a BTreeMap<String, file::Tier>,
    models: &'a BTreeMap<String, file::Model>,
    names: &HashMap<&'a str, &'a str>,
) -> Result<HashMap<Bucket<'a>, ByTier>, Fault> {
    let mut limits: HashMap<Bucket<'a>, ByTier> = HashMap::new();
    for (tier_name, tier) in tiers {
        let Some(known) = Tier::named(tier_name) else {
            let message = "is not a tier; the tiers are free, 1, 2, 3, 4 and 5";
            return Err(Fault::new(&["tiers", tier_name], message));
        };
        for (name, set) in &tier.limits {
            let key = ["tiers", tier_name, "limits", name];
            let is_group = models.values().any(|model| model.shared_limit.as_ref() == Some(name));
            let bucket = match names.get(name.as_str()) {
                Some(_) if is_group => {
                    let message = "names both a model and a shared limit; rename one of them";
                    return Err(Fault::new(&key, message));
                }
                Some(model) => Bucket::Model(model),
                None if is_group => Bucket::Group(name),
                None if name == NO_MODEL => Bucket::Model(NO_MODEL),
                None => {
                    let message = format!("there is no model, alias or shared limit `{name}`");
                    return Err(Fault::new(&key, message));
                }
            };
            check_amounts(&key, set)?;
            let place = &mut limits.entry(bucket).or_default()[known as usize];
            if place.replace(*set).is_some() {
                let message = "its model has limits in this tier already, under another of its \
                               names: they are one bucket, so give one of them";
                return Err(Fault::new(&key, message));
            }
        }
    }
    Ok(limits)
}

fn check_amounts(key: &[&str], set: &LimitSet) -> Result<(), Fault> {
    let all = [
        set.rpm,
        set.rpd,
        set.tpm,
        set.tpd,
        set.ipm,
        set.audio_minutes_per_minute,
        set.batch_queue_tokens,
        set.long_context_tpm,
    ];
    match all.into_iter().flatten().find(|amount| *amount > MOST) {
        Some(amount) => Err(Fault::new(key, format!("{amount} is more than {MOST}"))),
        None => Ok(()),
    }
}

fn resolve_model(
    name: &str,
    model: &file::Model,
    upstream: Arc<Upstream>,
    limits: ByTier,
    group_limits: ByTier,
) -> Result<Model, Fault> {
    if name.len() > MAX_NAME {
        return Err(Fault::new(
            &["models", name],
            format!("its name must have at most {MAX_NAME} bytes"),
        ));
    }
    let key = |last| ["models", name, last];
    let upstream_model = model.upstream_model.as_deref().unwrap_or(name);
    if upstream_model.is_empty() {
        let empty = if name.is_empty() {
            Fault::new(&["models", name], "has an empty name")
        } else {
            Fault::new(&key("upstream_model"), "is empty")
        };
        return Err(empty);
    }
    let max_output_tokens = model.max_output_tokens.unwrap_or(MAX_OUTPUT_TOKENS);
    if !(1..=MOST).contains(&max_output_tokens) {
        return Err(Fault::new(&key("max_output_tokens"), format!("must be 1 to {MOST}")));
    }
    let max_reported_tokens = model.max_reported_tokens.unwrap_or(MAX_REPORTED_TOKENS);
    if !(1..=MOST).contains(&max_reported_tokens) {
        return Err(Fault::new(&key("max_reported_tokens"), format!("must be 1 to {MOST}")));
    }
    let max_trained_tokens = model.max_trained_tokens.unwrap_or(0);
    if model.max_trained_tokens.is_some_and(|most| !(1..=MOST).contains(&most)) {
        return Err(Fault::new(&key("max_trained_tokens"), format!("must be 1 to {MOST}")));
    }
    let wait = model.first_byte_timeout_ms;
    let first_byte_timeout = first_byte_timeout(wait, upstream.timeout)
        .map_err(|why| Fault::new(&key("first_byte_timeout_ms"), why))?;
    Ok(Model {
        first_byte_timeout,
        number: 0,
        name: name.into(),
        aliases: model.aliases.iter().map(|alias| alias.as_str().into()).collect(),
        upstream,
        upstream_model: upstream_model.into(),
        shared_limit: model.shared_limit.as_deref().map(Into::into),
        long_context_tokens: model.long_context_tokens,
        max_output_tokens,
        max_reported_tokens,
        max_trained_tokens,
        shutdown: shutdown(name, model)?,
        is_free: model.free,
        prices: Vec::new(),
        limits,
        group_limits,
    })
}

fn shutdown(name: &str, model: &file::Model) -> Result<Option<Shutdown>, Fault> {
    let key = |last| ["models", name, last];
    let Some(date) = &model.shutdown_date else {
        let alone = [
            (model.deprecation_date.is_some(), "deprecation_date"),
            (model.successor.is_some(), "successor"),
        ];
        return match alone.into_iter().find(|(is_there, _)| *is_there) {
            Some((_, last)) => Err(Fault::new(&key(last), "requires a shutdown_date")),
            None => Ok(None),
        };
    };
    let at = midnight(date, &key("shutdown_date"))?;
    let deprecated_from = match &model.deprecation_date {
        Some(date) => midnight(date, &key("deprecation_date"))?,
        None => at.saturating_sub(NOTICE),
    };
    if deprecated_from > at {
        return Err(Fault::new(&key("deprecation_date"), "is after the shutdown_date"));
    }
    let successor = model.successor.as_deref().map(Into::into);
    Ok(Some(Shutdown { deprecated_from, at, date: date.as_str().into(), successor }))
}

/// All prices of a model: `price`, and `prices` by their dates.
fn prices(name: &str, model: &file::Model, around: Around) -> Result<Vec<DatedPrice>, Fault> {
    let key = |last| ["models", name, last];
    let batch_alone = match &model.batch_price {
        Some(value) => {
            let (price, batch) = price::resolve(&key("batch_price"), value, around)?;
            if batch.is_some() {
                let key = ["models", name, "batch_price", "service_tiers", "batch"];
                return Err(Fault::new(&key, "is the price of `batch_price` itself"));
            }
            Some(Arc::new(price))
        }
        None => None,
    };
    let mut all = Vec::new();
    let mut add = |from, price: crate::price::Price, batch: Option<crate::price::Price>| {
        let price = Arc::new(price);
        let batch = batch_alone.clone().or(batch.map(Arc::new));
        let batch = batch.unwrap_or_else(|| Arc::clone(&price));
        all.push(DatedPrice { from, price, batch });
    };
    if let Some(value) = &model.price {
        let (price, batch) = price::resolve(&key("price"), value, around)?;
        add(0, price, batch);
    }
    if let Some(value) = &model.prices {
        for Dated { from, price, batch } in price::dated(&key("prices"), value, around)? {
            add(from, price, batch);
        }
    }
    let fault = |last, message: &str| Err(Fault::new(&key(last), message));
    let is_trained = all.iter().any(|dated| dated.price.training.is_some_and(|price| price > 0));
    if is_trained && model.max_trained_tokens.is_none() {
        let message = "is missing, though `training` has a price: that many tokens are reserved for each fine-tuning job";
        return fault("max_trained_tokens", message);
    }
    if all.is_empty() && model.batch_price.is_some() {
        return fault("batch_price", "needs `price`: lines of batches are not the only requests");
    }
    if model.free && !all.is_empty() {
        return fault("free", "contradicts the prices of the model; leave one of them out");
    }
    Ok(all)
}

/// The qualification and monthly limit of each tier.
///
/// # Errors
/// The first error found.
pub(super) fn tiers(tiers: &BTreeMap<String, file::Tier>) -> Result<[TierSettings; 6], Fault> {
    let mut all =
        TIERS.map(|(paid_usd, limit)| TierSettings { paid_usd, monthly_limit: limit * 1_000_000 });
    for (name, tier) in tiers {
        let Some(place) = Tier::named(name).map(|tier| &mut all[tier as usize]) else { continue };
        for (amount, key) in
            [(tier.paid_usd, "paid_usd"), (tier.monthly_limit_usd, "monthly_limit_usd")]
        {
            if amount.is_some_and(|amount| amount > MOST) {
                return Err(Fault::new(&["tiers", name, key], format!("is more than {MOST}")));
            }
        }
        place.paid_usd = tier.paid_usd.unwrap_or(place.paid_usd);
        if let Some(limit) = tier.monthly_limit_usd {
            place.monthly_limit = limit * 1_000_000;
        }
    }
    Ok(all)
}
