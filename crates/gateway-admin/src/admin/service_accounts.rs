//! `/v1/organization/projects/{p}/service_accounts`: owners of keys.

use axum::Json;
use axum::extract::{Path, State};
use serde_json::{Value, json};

use super::authority::{By, Subject};
use super::input::{self, Fields, Parameters, invalid};
use super::output::{self, JsonResult, Shared};
use super::{model_permissions, projects};
use crate::Services;
use gateway_policy::error::ApiError;
use gateway_policy::settings::Secret;
use gateway_store::records::keys::{Key, NewKey};
use gateway_store::records::service_accounts::{self, FirstKey, ServiceAccount};

pub(super) async fn list(
    State(context): Shared,
    Subject(organization): Subject,
    Path(project): Path<String>,
    mut parameters: Parameters,
) -> JsonResult {
    let page = parameters.page(false)?;
    parameters.end()?;
    projects::any(&context, &organization, &project).await?;
    output::list(&service_accounts::list(&context.database, &project, &page).await?, show)
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
    let end = input::end_of(&mut fields, now)?;
    let alone = fields.boolean("create_service_account_only")?.unwrap_or(false);
    let models = model_permissions::member(&context.settings.load(), &mut fields)?;
    fields.end()?;
    if alone && end.is_some() {
        let expected = "no value: with create_service_account_only there is no key";
        return Err(invalid("expires_in_seconds", expected));
    }
    if alone && models.is_some() {
        let expected = "no value: with create_service_account_only there is no key";
        return Err(invalid("model_permissions", expected));
    }
    projects::active(&context, &organization, &project).await?;
    let key = (!alone).then_some(FirstKey { expires_at: end, models: models.as_ref() });
    let (database, random) = (&context.database, &*context.random);
    let made = service_accounts::create(database, &project, &name, key, act, random).await?;
    let (account, key) = made.ok_or_else(|| projects::missing(&project))?;
    let mut shown = show(&account);
    shown["api_key"] = key.map(|(key, text)| show_key(&key, &text)).into();
    Ok(Json(shown))
}

pub(super) async fn get(
    State(context): Shared,
    Subject(organization): Subject,
    Path((project, id)): Path<(String, String)>,
) -> JsonResult {
    projects::any(&context, &organization, &project).await?;
    Ok(Json(show(&find(&context, &project, &id).await?)))
}

pub(super) async fn update(
    State(context): Shared,
    Subject(organization): Subject,
    By(act): By,
    Path((project, id)): Path<(String, String)>,
    mut fields: Fields,
) -> JsonResult {
    let (name, role) = (fields.name("name")?, fields.text("role")?);
    fields.end()?;
    if !matches!(role.as_deref(), None | Some("member" | "owner")) {
        return Err(invalid("role", "member or owner"));
    }
    projects::active(&context, &organization, &project).await?;
    let (name, role) = (name.as_deref(), role.as_deref());
    let done = service_accounts::update(&context.database, &project, &id, name, role, act).await?;
    done.ok_or_else(|| missing(&id))?;
    Ok(Json(show(&find(&context, &project, &id).await?)))
}

pub(super) async fn delete(
    State(context): Shared,
    Subject(organization): Subject,
    By(act): By,
    Path((project, id)): Path<(String, String)>,
) -> JsonResult {
    projects::any(&context, &organization, &project).await?;
    let done = service_accounts::delete(&context.database, &project, &id, act).await?;
    let object = "organization.project.service_account.deleted";
    output::finish_deletion(&context, done, missing, object, &id).await
}

pub(super) async fn create_key(
    State(context): Shared,
    Subject(organization): Subject,
    By(act): By,
    Path((project, id)): Path<(String, String)>,
    mut fields: Fields,
) -> JsonResult {
    let now = act.at();
    let (name, end) = (fields.name("name")?, input::end_of(&mut fields, now)?);
    let models = model_permissions::member(&context.settings.load(), &mut fields)?;
    fields.end()?;
    projects::active(&context, &organization, &project).await?;
    let account = find(&context, &project, &id).await?;
    let new = NewKey {
        project: &project,
        service_account: Some(&id),
        name: name.as_deref().unwrap_or(&account.name),
        expires_at: end,
        models: models.as_ref(),
    };
    let made = service_accounts::create_key(&context.database, new, act, &*context.random);
    let (key, text) = made.await?.ok_or_else(|| {
        let most = service_accounts::MAX_KEYS;
        let message = format!("A service account has at most {most} keys: revoke one first.");
        ApiError::bad_request("too_many_keys", message)
    })?;
    Ok(Json(show_key(&key, &text)))
}

async fn find(context: &Services, project: &str, id: &str) -> Result<ServiceAccount, ApiError> {
    let found = service_accounts::get(&context.database, project, id).await?;
    found.ok_or_else(|| missing(id))
}

pub(super) fn show(account: &ServiceAccount) -> Value {
    json!({
        "object": "organization.project.service_account",
        "id": account.id,
        "name": account.name,
        "role": account.role,
        "created_at": account.created_at,
    })
}

fn show_key(key: &Key, text: &Secret) -> Value {
    let shown = json!({
        "object": "organization.project.service_account.api_key",
        "id": key.id,
        "name": key.name,
        "created_at": key.created_at,
        "expires_at": output::moment(key.expires_at),
    });
    output::with_key_text(shown, text)
}

fn missing(id: &str) -> ApiError {
    output::not_found("service account", id)
}
