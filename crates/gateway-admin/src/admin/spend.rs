//! `spend_limit` and `spend_alerts` of an organization and of a project: the hard limit, and alerts
//! without enforcement.

use std::collections::HashMap;

use axum::Json;
use axum::extract::{Path, State};
use serde_json::{Value, json};

use super::authority::{By, Subject};
use super::input::{Fields, Parameters, invalid};
use super::output::{self, JsonResult, Shared};
use super::projects;
use crate::Services;
use gateway_policy::dates::month;
use gateway_policy::error::ApiError;
use gateway_policy::tenants::{MicroDollars, Organization};
use gateway_store::ledger::month_commitment_of;
use gateway_store::records::audit::Act;
use gateway_store::records::spend::{self, Alert, MAX_ALERTS, Scope};

/// Largest threshold: ten billion dollars.
const MAX_CENTS: u64 = 1_000_000_000_000;

/// Path parameters: `p` is the id of a project, `id` that of an alert.
type Names = Path<HashMap<String, String>>;

/// The owner of the limits that a request concerns.
struct Target {
    organization: Organization,
    project: Option<String>,
    hard: Option<MicroDollars>,
}

impl Target {
    async fn find(
        context: &Services,
        organization: Organization,
        names: &HashMap<String, String>,
        to_change: bool,
    ) -> Result<Self, ApiError> {
        let Some(id) = names.get("p") else {
            let hard = organization.spend.hard;
            return Ok(Self { organization, project: None, hard });
        };
        let found = match to_change {
            true => projects::active(context, &organization, id).await?,
            false => projects::any(context, &organization, id).await?,
        };
        let hard = found.project.spend.hard;
        Ok(Self { organization, project: Some(id.clone()), hard })
    }

    fn scope(&self) -> Scope<'_> {
        match &self.project {
            Some(id) => Scope::Project(id),
            None => Scope::Organization(&self.organization.id),
        }
    }

    fn id(&self) -> &str {
        self.project.as_deref().unwrap_or(&self.organization.id)
    }

    /// `project.spend_limit` and the like.
    fn object(&self, what: &str) -> String {
        let of = if self.project.is_some() { "project" } else { "organization" };
        format!("{of}.{what}")
    }
}

pub(super) async fn limit(
    State(context): Shared,
    Subject(organization): Subject,
    Path(names): Names,
) -> JsonResult {
    let target = Target::find(&context, organization, &names, false).await?;
    let hard = target.hard.ok_or_else(no_limit)?;
    show_limit(&context, &target, hard).await
}

pub(super) async fn set_limit(
    State(context): Shared,
    Subject(organization): Subject,
    By(act): By,
    Path(names): Names,
    mut fields: Fields,
) -> JsonResult {
    let cents = threshold(&mut fields)?;
    fields.end()?;
    let target = Target::find(&context, organization, &names, true).await?;
    check_prices(&context)?;
    set(&context, &target, Some(cents), act).await?;
    show_limit(&context, &target, spend::from_cents(cents)).await
}

pub(super) async fn delete_limit(
    State(context): Shared,
    Subject(organization): Subject,
    By(act): By,
    Path(names): Names,
) -> JsonResult {
    let target = Target::find(&context, organization, &names, true).await?;
    target.hard.ok_or_else(no_limit)?;
    set(&context, &target, None, act).await?;
    Ok(Json(json!({ "object": target.object("spend_limit.deleted"), "deleted": true })))
}

pub(super) async fn alerts(
    State(context): Shared,
    Subject(organization): Subject,
    Path(names): Names,
    mut parameters: Parameters,
) -> JsonResult {
    let page = parameters.page(false)?;
    parameters.end()?;
    let target = Target::find(&context, organization, &names, false).await?;
    let listed = spend::list_alerts(&context.database, target.id(), &page).await?;
    output::list(&listed, |alert| show_alert(&target, alert))
}

pub(super) async fn alert(
    State(context): Shared,
    Subject(organization): Subject,
    Path(names): Names,
) -> JsonResult {
    let target = Target::find(&context, organization, &names, false).await?;
    let id = &names["id"];
    let found = spend::alert(&context.database, target.id(), id).await?;
    Ok(Json(show_alert(&target, &found.ok_or_else(|| no_alert(id))?)))
}

pub(super) async fn create_alert(
    State(context): Shared,
    Subject(organization): Subject,
    By(act): By,
    Path(names): Names,
    mut fields: Fields,
) -> JsonResult {
    let cents = threshold(&mut fields)?;
    let channel = channel(&mut fields)?.unwrap_or(Value::Null).to_string();
    fields.end()?;
    let target = Target::find(&context, organization, &names, true).await?;
    let (database, scope, random) = (&context.database, target.scope(), &*context.random);
    let made = spend::add_alert(database, scope, cents, &channel, act, random).await?;
    let alert = made.ok_or_else(|| {
        let message = format!("There can be at most {MAX_ALERTS} spend alerts: delete one first.");
        ApiError::bad_request("too_many_spend_alerts", message)
    })?;
    context.apply_changes().await;
    Ok(Json(show_alert(&target, &alert)))
}

pub(super) async fn update_alert(
    State(context): Shared,
    Subject(organization): Subject,
    By(act): By,
    Path(names): Names,
    mut fields: Fields,
) -> JsonResult {
    let threshold_cents = threshold(&mut fields)?;
    let channel = channel(&mut fields)?.unwrap_or(Value::Null).to_string().into();
    fields.end()?;
    let target = Target::find(&context, organization, &names, true).await?;
    let id = &names["id"];
    let alert = Alert { id: id.as_str().into(), threshold_cents, channel };
    let done = spend::set_alert(&context.database, target.scope(), &alert, act).await?;
    done.ok_or_else(|| no_alert(id))?;
    context.apply_changes().await;
    Ok(Json(show_alert(&target, &alert)))
}

pub(super) async fn delete_alert(
    State(context): Shared,
    Subject(organization): Subject,
    By(act): By,
    Path(names): Names,
) -> JsonResult {
    let target = Target::find(&context, organization, &names, true).await?;
    let id = &names["id"];
    let done = spend::delete_alert(&context.database, target.scope(), id, act).await?;
    let object = target.object("spend_alert.deleted");
    output::finish_deletion(&context, done, no_alert, &object, id).await
}

async fn set(
    context: &Services,
    target: &Target,
    cents: Option<u64>,
    act: Act,
) -> Result<(), ApiError> {
    let done = spend::set_hard(&context.database, target.scope(), cents, act).await?;
    done.ok_or_else(|| output::not_found("organization or project", target.id()))?;
    context.apply_changes().await;
    Ok(())
}

/// `threshold_amount`, in US dollars per month; other currencies and intervals do not exist.
fn threshold(fields: &mut Fields) -> Result<u64, ApiError> {
    for (name, only) in [("currency", "USD"), ("interval", "month")] {
        if fields.required(name, Fields::text)? != only {
            return Err(invalid(name, only));
        }
    }
    fields.required("threshold_amount", |fields, name| fields.integer(name, 0..=MAX_CENTS))
}

/// `notification_channel`. The gateway sends no mail, so it takes no recipients: alerts are
/// delivered to the webhook of the configuration.
fn channel(fields: &mut Fields) -> Result<Option<Value>, ApiError> {
    let name = "notification_channel";
    let Some(channel) = fields.value(name) else { return Ok(None) };
    let recipients = channel["recipients"].as_array();
    let recipients = recipients.filter(|_| channel["type"] == "email");
    let Some(recipients) = recipients else {
        return Err(invalid(name, "{\"type\": \"email\", \"recipients\": []}"));
    };
    if !recipients.is_empty() || !channel["subject_prefix"].is_null() {
        let message = "This gateway sends no e-mail. Leave out `notification_channel`, or its recipients: \
                       alerts are delivered to `webhook_url` in [alerts] of the gateway's configuration.";
        return Err(ApiError::bad_request("email_not_supported", message).param(name));
    }
    Ok(Some(json!({ "type": "email", "recipients": [], "subject_prefix": null })))
}

/// Checks that the limit holds for every model.
fn check_prices(context: &Services) -> Result<(), ApiError> {
    let settings = context.settings.load();
    let Some(model) = settings.catalog.unpriced() else { return Ok(()) };
    let message = format!(
        "A hard spend limit cannot hold for the model `{}`, which has no price. Please have `price`, \
         or `free = true` if it costs nothing, added to it in the gateway's configuration first.",
        model.name
    );
    Err(ApiError::bad_request("price_missing", message).param("threshold_amount"))
}

async fn show_limit(context: &Services, target: &Target, hard: MicroDollars) -> JsonResult {
    let month = month(context.clock.now());
    context.write_ledger().await?;
    let (organization, project) = (&target.organization.id, target.project.as_deref());
    let spent = month_commitment_of(&context.database, organization, project, month).await?;
    Ok(Json(json!({
        "object": target.object("spend_limit"),
        "currency": "USD",
        "interval": "month",
        "threshold_amount": hard / 10_000,
        "enforcement": { "status": if spent >= hard { "enforcing" } else { "inactive" } },
    })))
}

fn show_alert(target: &Target, alert: &Alert) -> Value {
    let channel: Value = serde_json::from_str(&alert.channel).unwrap_or_default();
    json!({
        "object": target.object("spend_alert"),
        "id": alert.id,
        "currency": "USD",
        "interval": "month",
        "threshold_amount": alert.threshold_cents,
        "notification_channel": channel,
    })
}

fn no_limit() -> ApiError {
    ApiError::not_found("not_found", "There is no spend limit.")
}

fn no_alert(id: &str) -> ApiError {
    output::not_found("spend alert", id)
}
