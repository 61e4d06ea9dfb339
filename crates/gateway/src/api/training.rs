//! Fine-tuning jobs: money is reserved for the most that one may train, until its end shows what it has trained.

use super::{Exchange, ResolvedModel};
use crate::account::{Account, ComesLater};
use crate::later_kind::LaterKind;
use gateway_policy::error::ApiError;
use gateway_policy::price::{Asked, Quantities, Sells};
use gateway_policy::settings::NO_MODEL;

/// A fine-tuning job that is charged.
pub(super) struct Job {
    asked: Asked,
    bound: Quantities,
    /// The most that it may cost.
    pub(super) cost: u64,
}

/// The job that a request creates at `path`; `None` if it costs nothing, or the operator has opened the path.
///
/// # Errors
/// 400 `price_missing`: limits apply, and training has no price.
pub(super) fn job(
    exchange: &Exchange,
    resolved: &ResolvedModel,
    path: &str,
) -> Result<Option<Job>, ApiError> {
    let ResolvedModel { name, model, price, .. } = resolved;
    let trained = model.max_trained_tokens;
    let asked = Asked { sells: Sells::Training, trained_tokens: trained, ..Asked::default() };
    if let Some(price) = price.as_ref().filter(|price| price.training.is_some()) {
        let bound = Quantities { trained, ..Quantities::default() };
        let cost = price.most(&bound, &asked);
        return Ok(Some(Job { asked, bound, cost }));
    }
    let is_open = exchange.settings.pass_through.iter().any(|named| named.contains(path));
    if is_open || model.is_free || !(exchange.has_limits() || exchange.counts_money()) {
        return Ok(None);
    }
    let which = match &*model.name {
        NO_MODEL => "The job names no model of this gateway, and other training".to_owned(),
        _ => format!("Training of the model `{name}`"),
    };
    let message = format!(
        "{which} has no price: it is not served without one, because limits apply. Please ask the gateway's operator \
         to add `training` to the prices of the model."
    );
    Err(ApiError::bad_request("price_missing", message).param("model"))
}

impl Job {
    /// Notes in the account what settles it, and when.
    pub(super) fn describe(self, account: &mut Account, region: Option<&str>) {
        let region = region.map(Into::into);
        account.comes_later(ComesLater { kind: LaterKind::FineTuning, region }, 0);
        account.asks(self.asked, self.bound);
    }
}
