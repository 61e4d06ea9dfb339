//! `/v1/organizations`: organizations, their payments, and their data retention.

use axum::Json;
use axum::extract::{Path, State};
use serde_json::{Value, json};

use super::authority::{Authority, By, Subject, missing};
use super::input::{self, Fields, Parameters, invalid};
use super::output::{self, JsonResult, Shared};

use gateway_policy::error::ApiError;
use gateway_policy::tenants::{Organization, Tier};
use gateway_store::records::payments::{self, NewPayment, Payment};
use gateway_store::records::{DEFAULT_ORGANIZATION, organizations};

pub(super) async fn list(
    State(context): Shared,
    authority: Authority,
    mut parameters: Parameters,
) -> JsonResult {
    authority.require_everything()?;
    let page = parameters.page(false)?;
    parameters.end()?;
    output::list(&organizations::list(&context.database, &page).await?, show)
}

pub(super) async fn create(
    State(context): Shared,
    authority: Authority,
    By(act): By,
    mut fields: Fields,
) -> JsonResult {
    authority.require_everything()?;
    let name = fields.required("name", Fields::name)?;
    let tier = tier(&mut fields)?.unwrap_or_default();
    fields.end()?;
    let random = &*context.random;
    let made = organizations::create(&context.database, &name, tier, act, random).await?;
    Ok(Json(show(&made)))
}

pub(super) async fn get(
    State(context): Shared,
    authority: Authority,
    Path(id): Path<String>,
) -> JsonResult {
    authority.require_organization(&id)?;
    let found = organizations::get(&context.database, &id).await?;
    Ok(Json(show(&found.ok_or_else(|| missing(&id))?)))
}

pub(super) async fn update(
    State(context): Shared,
    authority: Authority,
    By(act): By,
    Path(id): Path<String>,
    mut fields: Fields,
) -> JsonResult {
    authority.require_everything()?;
    let (name, tier) = (fields.name("name")?, tier(&mut fields)?);
    fields.end()?;
    let done = organizations::update(&context.database, &id, name.as_deref(), tier, act).await?;
    done.ok_or_else(|| missing(&id))?;
    context.apply_changes().await;
    get(State(context), authority, Path(id)).await
}

pub(super) async fn delete(
    State(context): Shared,
    authority: Authority,
    By(act): By,
    Path(id): Path<String>,
) -> JsonResult {
    authority.require_everything()?;
    if id == DEFAULT_ORGANIZATION {
        let message = "The default organization cannot be deleted.";
        return Err(ApiError::bad_request("default_organization", message));
    }
    let done = organizations::delete(&context.database, &id, act).await?;
    output::finish_deletion(&context, done, missing, "organization.deleted", &id).await
}

pub(super) async fn payments(
    State(context): Shared,
    authority: Authority,
    Path(id): Path<String>,
    mut parameters: Parameters,
) -> JsonResult {
    authority.require_organization(&id)?;
    let page = parameters.page(false)?;
    parameters.end()?;
    organizations::get(&context.database, &id).await?.ok_or_else(|| missing(&id))?;
    output::list(&payments::list(&context.database, &id, &page).await?, show_payment)
}

pub(super) async fn pay(
    State(context): Shared,
    authority: Authority,
    By(act): By,
    Path(id): Path<String>,
    mut fields: Fields,
) -> JsonResult {
    authority.require_everything()?;
    let amount_cents = fields.required("amount_cents", Fields::signed_cents)?;
    let reason = fields.name("reason")?;
    fields.end()?;
    if amount_cents < 0 && reason.is_none() {
        return Err(input::missing("reason"));
    }
    let settings = context.settings.load_full();
    let threshold = |tier: &Tier| (*tier, settings.tier(*tier).paid_usd.saturating_mul(100));
    let thresholds: Vec<_> = Tier::ALL[1..].iter().map(threshold).collect();
    let (new, random) = (NewPayment { amount_cents, reason: reason.as_deref() }, &*context.random);
    let made = payments::create(&context.database, &id, new, &thresholds, act, random).await?;
    if made.is_none() && amount_cents < 0 {
        organizations::get(&context.database, &id).await?.ok_or_else(|| missing(&id))?;
        let message = "A correction cannot take back more than the organization has paid.";
        return Err(ApiError::invalid_value("amount_cents", message));
    }
    let payment = made.ok_or_else(|| missing(&id))?;
    context.apply_changes().await;
    let Json(organization) = get(State(context), authority, Path(id)).await?;
    let mut shown = show_payment(&payment);
    shown["organization"] = organization;
    Ok(Json(shown))
}

pub(super) async fn retention(Subject(organization): Subject) -> JsonResult {
    Ok(Json(show_retention(organization.zero_data_retention)))
}

pub(super) async fn retain(
    State(context): Shared,
    Subject(organization): Subject,
    By(act): By,
    mut fields: Fields,
) -> JsonResult {
    let retention = fields.required("retention_type", Fields::text)?;
    fields.end()?;
    let zero = match retention.as_str() {
        organizations::ZERO_DATA_RETENTION => true,
        "none" => false,
        _ => return Err(invalid("retention_type", "zero_data_retention or none")),
    };
    let stored = zero.then_some(organizations::ZERO_DATA_RETENTION);
    let id = &organization.id;
    let done = organizations::retain(&context.database, id, stored, act).await?;
    done.ok_or_else(|| missing(id))?;
    context.apply_changes().await;
    Ok(Json(show_retention(zero)))
}

/// `tier`, by its name or number.
fn tier(fields: &mut Fields) -> Result<Option<Tier>, ApiError> {
    let Some(value) = fields.value("tier") else { return Ok(None) };
    let name = value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
    let wrong = || invalid("tier", "free, 1, 2, 3, 4 or 5");
    Tier::named(&name).map(Some).ok_or_else(wrong)
}

fn show(organization: &Organization) -> Value {
    json!({
        "object": "organization",
        "id": organization.id,
        "name": organization.name,
        "tier": organization.tier.name(),
        "created_at": organization.created_at,
        "paid_cents": organization.paid_cents,
    })
}

fn show_payment(payment: &Payment) -> Value {
    json!({
        "object": "organization.payment",
        "id": payment.id,
        "amount_cents": payment.amount_cents,
        "reason": payment.reason,
        "created_at": payment.created_at,
    })
}

fn show_retention(zero: bool) -> Value {
    let kind = if zero { organizations::ZERO_DATA_RETENTION } else { "none" };
    json!({ "object": "organization.data_retention", "type": kind })
}
