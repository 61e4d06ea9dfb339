//! `/v1/organization/admin_api_keys`: keys for the administration of one organization.

use axum::Json;
use axum::extract::{Path, State};
use serde_json::{Value, json};

use super::authority;
use super::authority::{By, Subject};
use super::input::{self, Fields, Parameters};
use super::output::{self, JsonResult, Shared};

use gateway_store::records::admin_keys::{self, AdminKey};

pub(super) async fn list(
    State(context): Shared,
    Subject(organization): Subject,
    mut parameters: Parameters,
) -> JsonResult {
    let page = parameters.page(false)?;
    parameters.end()?;
    output::list(&admin_keys::list(&context.database, &organization.id, &page).await?, show)
}

pub(super) async fn create(
    State(context): Shared,
    Subject(organization): Subject,
    By(act): By,
    mut fields: Fields,
) -> JsonResult {
    let now = act.at();
    let name = fields.required("name", Fields::name)?;
    let end = input::end_of(&mut fields, now)?;
    fields.end()?;
    let (id, random) = (&organization.id, &*context.random);
    let made = admin_keys::create(&context.database, id, &name, end, act, random).await?;
    let (key, text) = made.ok_or_else(|| authority::missing(id))?;
    Ok(Json(output::with_key_text(show(&key), &text)))
}

pub(super) async fn get(
    State(context): Shared,
    Subject(organization): Subject,
    Path(id): Path<String>,
) -> JsonResult {
    let found = admin_keys::get(&context.database, &organization.id, &id).await?;
    Ok(Json(show(&found.ok_or_else(|| output::not_found("admin key", &id))?)))
}

pub(super) async fn revoke(
    State(context): Shared,
    Subject(organization): Subject,
    By(act): By,
    Path(id): Path<String>,
) -> JsonResult {
    let done = admin_keys::revoke(&context.database, &organization.id, &id, act).await?;
    done.ok_or_else(|| output::not_found("admin key", &id))?;
    output::deleted("organization.admin_api_key.deleted", &id)
}

fn show(key: &AdminKey) -> Value {
    json!({
        "object": "organization.admin_api_key",
        "id": key.id,
        "name": key.name,
        "redacted_value": key.redacted,
        "created_at": key.created_at,
        "expires_at": output::moment(key.expires_at),
        "last_used_at": key.last_used_at,
        // There are no users: the organization counts as the owner.
        "owner": { "object": "organization", "id": key.organization, "role": "owner" },
    })
}
