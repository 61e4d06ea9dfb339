//! `/v1/organization/projects`.

use axum::Json;
use axum::extract::{Path, State};
use serde_json::{Value, json};

use super::authority;
use super::authority::{By, Subject};
use super::input::{Fields, Parameters, invalid};
use super::output::{self, JsonResult, Shared};
use crate::Services;
use gateway_policy::error::ApiError;
use gateway_policy::tenants::Organization;
use gateway_store::records::projects::{self, Stored};

pub(super) async fn list(
    State(context): Shared,
    Subject(organization): Subject,
    mut parameters: Parameters,
) -> JsonResult {
    let with_archived = parameters.boolean("include_archived")?.unwrap_or(false);
    let page = parameters.page(false)?;
    parameters.end()?;
    let listed = projects::list(&context.database, &organization.id, with_archived, &page).await?;
    output::list(&listed, show)
}

pub(super) async fn create(
    State(context): Shared,
    Subject(organization): Subject,
    By(act): By,
    mut fields: Fields,
) -> JsonResult {
    let name = fields.required("name", Fields::name)?;
    let region = region(&context, &mut fields)?.flatten();
    fields.end()?;
    let (id, region, random) = (&organization.id, region.as_deref(), &*context.random);
    let made = projects::create(&context.database, id, &name, region, act, random).await?;
    Ok(Json(show(&made.ok_or_else(|| authority::missing(id))?)))
}

pub(super) async fn get(
    State(context): Shared,
    Subject(organization): Subject,
    Path(id): Path<String>,
) -> JsonResult {
    Ok(Json(show(&any(&context, &organization, &id).await?)))
}

pub(super) async fn update(
    State(context): Shared,
    Subject(organization): Subject,
    By(act): By,
    Path(id): Path<String>,
    mut fields: Fields,
) -> JsonResult {
    let name = fields.name("name")?;
    let region = region(&context, &mut fields)?;
    fields.end()?;
    let (name, region) = (name.as_deref(), region.as_ref().map(Option::as_deref));
    active(&context, &organization, &id).await?;
    let done =
        projects::update(&context.database, &organization.id, &id, name, region, act).await?;
    done.ok_or_else(|| missing(&id))?;
    context.apply_changes().await;
    Ok(Json(show(&any(&context, &organization, &id).await?)))
}

pub(super) async fn archive(
    State(context): Shared,
    Subject(organization): Subject,
    By(act): By,
    Path(id): Path<String>,
    fields: Fields,
) -> JsonResult {
    fields.end()?;
    active(&context, &organization, &id).await?;
    // A concurrent request may have archived the project: the result is as requested.
    projects::archive(&context.database, &organization.id, &id, act).await?;
    context.apply_changes().await;
    Ok(Json(show(&any(&context, &organization, &id).await?)))
}

/// The organization's project of that id.
pub(super) async fn any(
    context: &Services,
    organization: &Organization,
    id: &str,
) -> Result<Stored, ApiError> {
    let found = projects::get(&context.database, id).await?;
    found.filter(|found| found.organization == organization.id).ok_or_else(|| missing(id))
}

/// The same, if it is not archived.
pub(super) async fn active(
    context: &Services,
    organization: &Organization,
    id: &str,
) -> Result<Stored, ApiError> {
    let found = any(context, organization, id).await?;
    if found.project.archived {
        let message = format!("The project `{id}` is archived and cannot be changed.");
        return Err(ApiError::bad_request("project_archived", message));
    }
    Ok(found)
}

pub(super) fn missing(id: &str) -> ApiError {
    output::not_found("project", id)
}

/// `geography` or `residency`. The inner `None` means global.
fn region(context: &Services, fields: &mut Fields) -> Result<Option<Option<String>>, ApiError> {
    let settings = context.settings.load();
    let known = |name: &str| settings.regions.iter().any(|region| **region == *name);
    let (geography, residency) = (fields.text("geography")?, fields.text("residency")?);
    let (field, value) = match (geography, residency) {
        (None, None) => return Ok(None),
        (Some(_), Some(_)) => return Err(invalid("residency", "given without geography")),
        (Some(value), None) => ("geography", value),
        (None, Some(value)) => ("residency", value),
    };
    let value = value.to_lowercase();
    let region = match field {
        "residency" => value.strip_suffix("_storage_processing").unwrap_or(&value),
        _ => &value,
    };
    if region == "global" {
        return Ok(Some(None));
    }
    if !known(region) {
        let regions: Vec<&str> = settings.regions.iter().map(|region| &**region).collect();
        let expected = match regions.is_empty() {
            true => "GLOBAL: the configuration names no regions".to_owned(),
            false => format!("GLOBAL or a region of the configuration: {}", regions.join(", ")),
        };
        return Err(invalid(field, &expected));
    }
    Ok(Some(Some(region.to_owned())))
}

fn show(stored: &Stored) -> Value {
    let project = &stored.project;
    let residency = match &project.geography {
        None => "GLOBAL".to_owned(),
        Some(region) => format!("{}_STORAGE_PROCESSING", region.to_uppercase()),
    };
    json!({
        "object": "organization.project",
        "id": project.id,
        "name": project.name,
        "created_at": project.created_at,
        "archived_at": stored.archived_at,
        "status": if project.archived { "archived" } else { "active" },
        "geography": project.geography,
        "residency": residency,
    })
}
