//! The check that nothing is sold without a price where spend is limited.

use std::collections::BTreeMap;

use super::catalog::{Catalog, LimitSet, Model};
use super::error::Fault;
use super::file;
use crate::price::Price;

/// Returns whether money counts: a model has a price, or the file sets a monthly limit of a tier. Then every model needs a
/// price, or is free by name: else requests to it would pass every limit of spend.
///
/// # Errors
/// The first model that lacks a price.
pub(super) fn counts_money(
    catalog: &Catalog,
    tiers: &BTreeMap<String, file::Tier>,
) -> Result<bool, Fault> {
    let limited = tiers.iter().find(|(_, tier)| tier.monthly_limit_usd.is_some());
    let priced = catalog.models().find(|model| model.is_priced());
    let cause = match (priced, limited) {
        (Some(other), _) => format!("the model `{}` has one", other.name),
        (None, Some((tier, _))) => format!("tiers.{tier}.monthly_limit_usd limits what is spent"),
        (None, None) => return Ok(false),
    };
    for model in catalog.models() {
        if !model.is_priced() && !model.is_free {
            let message = format!(
                "has no price, though {cause}; add `price`, or `free = true` if it costs nothing"
            );
            return Err(Fault::new(&["models", &model.name], message));
        }
        for dated in &model.prices {
            check_units(model, &dated.price)?;
            check_units(model, &dated.batch)?;
        }
    }
    Ok(true)
}

/// Checks that a model whose images or audio minutes are limited has a price for them.
fn check_units(model: &Model, price: &Price) -> Result<(), Fault> {
    if price.request.is_some() || price.sells_input || price.sells_output {
        return Ok(());
    }
    let limits = |has: fn(&LimitSet) -> Option<u64>| {
        let mut sets = model.limits.iter().chain(&model.group_limits).flatten();
        sets.any(|set| has(set).is_some())
    };
    let (makes_images, hears) = (limits(|set| set.ipm), limits(|set| set.audio_minutes_per_minute));
    for (lacks, limit, member) in [
        (makes_images && price.images.is_empty(), "ipm", "image"),
        (hears && price.audio_minute.is_none(), "audio_minutes_per_minute", "audio_minute"),
    ] {
        if lacks {
            let message = format!("has no `{member}`, though the model has a limit `{limit}`");
            return Err(Fault::new(&["models", &model.name, "price"], message));
        }
    }
    Ok(())
}
