//! `…/projects/{p}/model_permissions` and `…/projects/{p}/api_keys/{id}/model_permissions`: the
//! models that a project or a key may use. A key has no more than its project.

use axum::Json;
use axum::extract::{Path, State};
use serde_json::{Value, json};

use super::authority::{By, Subject};
use super::input::{Fields, invalid, missing};
use super::output::{self, JsonResult, Shared};
use super::projects;
use crate::Services;
use gateway_policy::error::ApiError;
use gateway_policy::settings::{NO_MODEL, Settings};
use gateway_policy::tenants::{ModelPermissions, Organization, PermissionMode};
use gateway_store::records::{self, audit::Act};

/// Most names of a list.
const MOST: usize = 1000;
/// Characters of a name that an error shows.
const SHOWN: usize = 64;

pub(super) async fn of_project(
    State(context): Shared,
    Subject(organization): Subject,
    Path(project): Path<String>,
) -> JsonResult {
    let found = projects::any(&context, &organization, &project).await?;
    Ok(Json(show("project.model_permissions", found.project.models.as_ref())))
}

pub(super) async fn set_of_project(
    State(context): Shared,
    Subject(organization): Subject,
    By(act): By,
    Path(project): Path<String>,
    fields: Fields,
) -> JsonResult {
    let permissions = read(&context.settings.load(), fields)?;
    change_project(&context, &organization, &project, Some(&permissions), act).await?;
    Ok(Json(show("project.model_permissions", Some(&permissions))))
}

pub(super) async fn delete_of_project(
    State(context): Shared,
    Subject(organization): Subject,
    By(act): By,
    Path(project): Path<String>,
) -> JsonResult {
    change_project(&context, &organization, &project, None, act).await?;
    Ok(Json(json!({ "object": "project.model_permissions.deleted", "deleted": true })))
}

async fn change_project(
    context: &Services,
    organization: &Organization,
    id: &str,
    permissions: Option<&ModelPermissions>,
    act: Act,
) -> Result<(), ApiError> {
    projects::active(context, organization, id).await?;
    let database = &context.database;
    let done =
        records::projects::set_models(database, &organization.id, id, permissions, act).await?;
    done.ok_or_else(|| projects::missing(id))?;
    context.apply_changes().await;
    Ok(())
}

pub(super) async fn of_key(
    State(context): Shared,
    Subject(organization): Subject,
    Path((project, id)): Path<(String, String)>,
) -> JsonResult {
    projects::any(&context, &organization, &project).await?;
    let found = records::keys::get(&context.database, &project, &id).await?;
    let key = found.ok_or_else(|| output::missing_key(&id))?;
    Ok(Json(show("api_key.model_permissions", key.models.as_ref())))
}

pub(super) async fn set_of_key(
    State(context): Shared,
    Subject(organization): Subject,
    By(act): By,
    Path((project, id)): Path<(String, String)>,
    fields: Fields,
) -> JsonResult {
    let permissions = read(&context.settings.load(), fields)?;
    change_key(&context, &organization, (&project, &id), Some(&permissions), act).await?;
    Ok(Json(show("api_key.model_permissions", Some(&permissions))))
}

pub(super) async fn delete_of_key(
    State(context): Shared,
    Subject(organization): Subject,
    By(act): By,
    Path((project, id)): Path<(String, String)>,
) -> JsonResult {
    change_key(&context, &organization, (&project, &id), None, act).await?;
    Ok(Json(json!({ "object": "api_key.model_permissions.deleted", "deleted": true })))
}

async fn change_key(
    context: &Services,
    organization: &Organization,
    (project, id): (&str, &str),
    permissions: Option<&ModelPermissions>,
    act: Act,
) -> Result<(), ApiError> {
    projects::active(context, organization, project).await?;
    let database = &context.database;
    let done = records::keys::set_models(database, project, id, permissions, act).await?;
    done.ok_or_else(|| output::missing_key(id))?;
    context.apply_changes().await;
    Ok(())
}

/// The member `model_permissions` of a new key.
///
/// # Errors
/// 400 for one that is not an object, or not valid.
pub(super) fn member(
    settings: &Settings,
    fields: &mut Fields,
) -> Result<Option<ModelPermissions>, ApiError> {
    const NAME: &str = "model_permissions";
    let Some(value) = fields.value(NAME) else { return Ok(None) };
    let inner = serde_json::from_value::<Fields>(value);
    read(settings, inner.map_err(|_| invalid(NAME, "an object with mode and model_ids"))?).map(Some)
}

/// Reads `mode` and `model_ids`.
fn read(settings: &Settings, mut fields: Fields) -> Result<ModelPermissions, ApiError> {
    let mode = fields.required("mode", Fields::text)?;
    let mode = PermissionMode::named(&mode);
    let mode = mode.ok_or_else(|| invalid("mode", "allow_list or deny_list"))?;
    let expected = format!("a list of at most {MOST} names of models");
    let wrong = || invalid("model_ids", &expected);
    let names = match fields.value("model_ids") {
        None => return Err(missing("model_ids")),
        Some(Value::Array(names)) if names.len() <= MOST => names,
        Some(_) => return Err(wrong()),
    };
    fields.end()?;
    let mut known = Vec::with_capacity(names.len());
    for name in names {
        let Value::String(name) = name else { return Err(wrong()) };
        if name != NO_MODEL && settings.catalog.find(&name).is_none() {
            let name: String = name.chars().take(SHOWN).collect();
            let message = format!(
                "Invalid value for `model_ids`: there is no model or alias `{name}`. Requests \
                 without a model are those of `*`."
            );
            return Err(ApiError::invalid_value("model_ids", message));
        }
        known.push(name.into());
    }
    Ok(ModelPermissions::new(mode, known))
}

/// The wire form. Without a list, none is denied.
fn show(object: &str, permissions: Option<&ModelPermissions>) -> Value {
    let all = ModelPermissions::new(PermissionMode::Deny, Vec::new());
    let permissions = permissions.unwrap_or(&all);
    json!({
        "object": object,
        "mode": permissions.mode().name(),
        "model_ids": permissions.names(),
    })
}
