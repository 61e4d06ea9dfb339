//! One key: its facts, and the links to what can be done with it.

use axum::extract::{Path, State};
use axum::http::Uri;
use axum::response::Html;
use maud::{Markup, html};

use super::access::Access;
use super::context::Shared;
use super::keys::{last_used, state};
use super::notice;
use super::page::{Failure, Frame};
use super::project::permitted;
use super::text::{moment, query_value};
use gateway_store::records::{keys, organizations, projects, service_accounts};

/// `GET /dashboard/organizations/{id}/projects/{project}/keys/{key}`.
pub(super) async fn page(
    State(context): Shared,
    access: Access,
    Path((id, project, key)): Path<(String, String, String)>,
    address: Uri,
) -> Result<Html<String>, Failure> {
    access.check_organization(&id)?;
    let services = &context.services;
    let database = &services.database;
    let found = organizations::get(database, &id).await?;
    let organization = found.ok_or_else(|| Failure::no_organization(&id))?;
    let stored = projects::get(database, &project).await?.filter(|it| *it.organization == *id);
    let project = stored.ok_or_else(|| Failure::missing("project", &project))?.project;
    let found = keys::get(database, &project.id, &key).await?;
    let key = found.ok_or_else(|| Failure::missing("key", &key))?;
    let owner = match &key.service_account {
        Some(account) => service_accounts::get(database, &project.id, account).await?,
        None => None,
    };
    let organization_page = format!("/dashboard/organizations/{}", query_value(&id));
    let project_page = format!("{organization_page}/projects/{}", query_value(&project.id));
    let models = key.models.as_ref().map_or_else(|| "All models of the project.".into(), permitted);
    let frame = Frame { title: &key.name, access: Some(&access), refresh: None };
    let fact = |name: &str, value: Markup| html! { div { dt { (name) } dd { (value) } } };
    Ok(frame.around(&html! {
        nav.crumbs aria-label="Breadcrumb" {
            @if access.only().is_none() { a href="/dashboard" { "Organizations" } }
            a href=(organization_page) { (organization.name) }
            a href=(project_page) { (project.name) }
        }
        h1 { (key.name) }
        (notice::shown(&address))
        dl.facts.card {
            (fact("Key", html! { code { (key.redacted) } }))
            (fact("Id", html! { code { (key.id) } }))
            (fact("Owner", html! {
                @match &owner { Some(owner) => (owner.name), None => "the project" }
            }))
            (fact("Made", html! { (moment(key.created_at)) }))
            (fact("Last used", html! { (last_used(&key)) }))
            (fact("State", state(&key, services.clock.now())))
            (fact("Models", html! { (models) }))
        }
        nav.actions aria-label="Of this key" {
            @if !project.archived {
                a href={ (address.path()) "/rotate" } { "Rotate" }
                a href={ (address.path()) "/expiry" } { "Set an expiry" }
                a href={ (address.path()) "/models" } { "Set its models" }
            }
            a href={ (address.path()) "/revoke" } { "Revoke" }
            a href={ (organization_page) "/audit?object=" (query_value(&key.id)) } { "Audit log" }
        }
    }))
}
