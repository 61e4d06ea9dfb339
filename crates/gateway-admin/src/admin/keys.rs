//! `/v1/organization/projects/{p}/api_keys`: keys of projects. The text of a key is returned only
//! once.

use axum::Json;
use axum::extract::{Path, State};
use serde_json::{Value, json};

use super::authority::{By, Subject};
use super::input::{self, Fields, Parameters, invalid};
use super::output::{self, JsonResult, Shared};
use super::{model_permissions, projects};
use crate::Services;
use gateway_policy::error::ApiError;
use gateway_store::records::keys::{self, Key, NewKey};
use gateway_store::records::service_accounts::{self, ServiceAccount};

pub(super) async fn list(
    State(context): Shared,
    Subject(organization): Subject,
    Path(project): Path<String>,
    mut parameters: Parameters,
) -> JsonResult {
    let page = parameters.page(false)?;
    let access = parameters.one("owner_project_access")?;
    parameters.end()?;
    projects::any(&context, &organization, &project).await?;
    // All owners have access: an owner that loses access loses its keys.
    match access.as_deref() {
        None | Some("active" | "any") => {}
        Some("inactive") => return Ok(Json(output::list_of(Vec::new(), false))),
        Some(_) => return Err(invalid("owner_project_access", "active, inactive or any")),
    }
    let listed = service_accounts::list_keys(&context.database, &project, &page).await?;
    output::list(&listed, |(key, owner)| show_with_owner(key, owner.as_ref()))
}

pub(super) async fn create(
    State(context): Shared,
    Subject(organization): Subject,
    By(act): By,
    Path(project): Path<String>,
    mut fields: Fields,
) -> JsonResult {
    let now = act.at();
    let name = fields.required("name", Fields::name)?;
    let expires_at = input::end_of(&mut fields, now)?;
    let models = model_permissions::member(&context.settings.load(), &mut fields)?;
    fields.end()?;
    projects::active(&context, &organization, &project).await?;
    let models = models.as_ref();
    let new = NewKey { project: &project, service_account: None, name: &name, expires_at, models };
    let made = keys::create(&context.database, new, act, &*context.random).await?;
    let (key, text) = made.ok_or_else(|| projects::missing(&project))?;
    Ok(Json(output::with_key_text(show(&context, &key).await?, &text)))
}

pub(super) async fn get(
    State(context): Shared,
    Subject(organization): Subject,
    Path((project, id)): Path<(String, String)>,
) -> JsonResult {
    projects::any(&context, &organization, &project).await?;
    show_found(&context, keys::get(&context.database, &project, &id).await?, &id).await
}

/// Changes when a key expires.
pub(super) async fn update(
    State(context): Shared,
    Subject(organization): Subject,
    By(act): By,
    Path((project, id)): Path<(String, String)>,
    mut fields: Fields,
) -> JsonResult {
    let now = act.at();
    let end = input::end_of(&mut fields, now)?;
    fields.end()?;
    projects::active(&context, &organization, &project).await?;
    let found = match end {
        None => keys::get(&context.database, &project, &id).await?,
        end => keys::expire(&context.database, &project, &id, end, act).await?,
    };
    context.apply_changes().await;
    show_found(&context, found, &id).await
}

pub(super) async fn revoke(
    State(context): Shared,
    Subject(organization): Subject,
    By(act): By,
    Path((project, id)): Path<(String, String)>,
) -> JsonResult {
    projects::any(&context, &organization, &project).await?;
    let done = keys::revoke(&context.database, &project, &id, act).await?;
    let object = "organization.project.api_key.deleted";
    output::finish_deletion(&context, done, output::missing_key, object, &id).await
}

pub(super) async fn rotate(
    State(context): Shared,
    Subject(organization): Subject,
    By(act): By,
    Path((project, id)): Path<(String, String)>,
    mut fields: Fields,
) -> JsonResult {
    let grace = fields.integer("grace_seconds", 0..=input::MAX_SECONDS)?.unwrap_or(0) * 1_000_000;
    fields.end()?;
    projects::active(&context, &organization, &project).await?;
    let random = &*context.random;
    let made = keys::rotate(&context.database, &project, &id, grace, act, random).await?;
    let (key, text) = made.ok_or_else(|| output::missing_key(&id))?;
    context.apply_changes().await;
    Ok(Json(output::with_key_text(show(&context, &key).await?, &text)))
}

async fn show_found(context: &Services, found: Option<Key>, id: &str) -> JsonResult {
    let key = found.ok_or_else(|| output::missing_key(id))?;
    Ok(Json(show(context, &key).await?))
}

async fn show(context: &Services, key: &Key) -> Result<Value, ApiError> {
    let account = match &key.service_account {
        Some(id) => service_accounts::get(&context.database, &key.project, id).await?,
        None => None,
    };
    Ok(show_with_owner(key, account.as_ref()))
}

fn show_with_owner(key: &Key, owner: Option<&ServiceAccount>) -> Value {
    let account = owner.map(super::service_accounts::show);
    // A key without a service account belongs to the project, because there are no users.
    let owner = account.as_ref().map(|_| "service_account");
    json!({
        "object": "organization.project.api_key",
        "id": key.id,
        "name": key.name,
        "redacted_value": key.redacted,
        "created_at": key.created_at,
        "expires_at": output::moment(key.expires_at),
        "last_used_at": key.last_used_at,
        "owner": { "type": owner, "service_account": account, "user": null },
        "owner_project_access": "active",
    })
}
