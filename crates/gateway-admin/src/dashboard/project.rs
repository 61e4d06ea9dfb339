//! One project: its spend, its limits with their live use, and its keys.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::Uri;
use axum::response::{Html, Redirect};
use maud::{Markup, html};
use ratelimit::Micros;
use serde::Deserialize;

use super::access::Access;
use super::context::Shared;
use super::keys::{self, KeyList};
use super::live;
use super::notice;
use super::organization::{Row, list, of_project, spent};
use super::page::{self, Failure, Frame, QueryResult, refreshes};
use super::text::{date, query_value};
use crate::Services;
use gateway_policy::plan::{Dimension, Scope};
use gateway_policy::settings::Settings;
use gateway_policy::tenants::{ModelPermissions, Organization, PermissionMode, Project};
use gateway_store::records::{organizations, projects};

/// Most models whose limits are shown; administrators set each by hand.
const MODELS: usize = 100;

/// `GET /dashboard/organizations/{id}/projects/{project}`.
pub(super) async fn page(
    State(context): Shared,
    access: Access,
    Path((id, project)): Path<(String, String)>,
    address: Uri,
    query: QueryResult<keys::Query>,
) -> Result<Html<String>, Failure> {
    access.check_organization(&id)?;
    let query = page::read_query(query)?;
    let services = &context.services;
    let (database, now) = (&services.database, services.clock.now());
    let found = organizations::get(database, &id).await?;
    let organization = Arc::new(found.ok_or_else(|| Failure::no_organization(&id))?);
    let stored = projects::get(database, &project).await?.filter(|it| *it.organization == *id);
    let stored = stored.ok_or_else(|| Failure::missing("project", &project))?;
    let project = Arc::new(stored.project);
    let list = keys::read(services, &id, Some(&project.id), query).await?;
    let spent = spent(services, &organization, now).await?;
    let used = spent.reserved(services, &id, &[&project.id], now).await;
    let settings = services.settings.load_full();
    let path = address.path();
    let can_change = !project.archived;
    let limits = limits(services, &organization, &project, &settings, path, now).await;
    let above = format!("/dashboard/organizations/{}", query_value(&id));
    let refresh = Some((&address, refreshes(&address)));
    let frame = Frame { title: &project.name, access: Some(&access), refresh };
    Ok(frame.around(&html! {
        (head(&organization, &project, access.only().is_none(), path))
        (notice::shown(&address))
        (of_project(&project.spend, used.first().copied().unwrap_or(0), can_change.then_some(path)))
        section aria-labelledby="limits" {
            h2 #limits { "Limits" }
            @if can_change { (chooser(&settings, path)) }
            (limits)
        }
        (keys_section(&list, path, &above, can_change, now))
    }))
}

fn head(organization: &Organization, project: &Project, has_list: bool, path: &str) -> Markup {
    let above = format!("/dashboard/organizations/{}", query_value(&organization.id));
    html! {
        nav.crumbs aria-label="Breadcrumb" {
            @if has_list { a href="/dashboard" { "Organizations" } }
            a href=(above) { (organization.name) }
        }
        h1 { (project.name) @if project.archived { " " span.tag { "archived" } } }
        p.hint {
            code { (project.id) } " · since " (date(project.created_at))
            " · data stays in " (project.geography.as_deref().unwrap_or("any region"))
        }
        @if let Some(models) = &project.models { p.hint { (permitted(models)) } }
        nav.actions aria-label="Of this project" {
            @if !project.archived {
                a href={ (path) "/edit" } { "Change name or region" }
                a href={ (path) "/models" } { "Set its models" }
                a href={ (path) "/archive" } { "Archive" }
            }
            a href={ (above) "/audit?project=" (query_value(&project.id)) } { "Audit log" }
        }
    }
}

/// The models that the project may use, in a sentence.
pub(super) fn permitted(models: &ModelPermissions) -> String {
    let names = models.names().join(", ");
    match (models.mode(), models.names().is_empty()) {
        (PermissionMode::Allow, true) => "No models may be used.".to_owned(),
        (PermissionMode::Allow, false) => format!("Only these models may be used: {names}."),
        (PermissionMode::Deny, true) => "All models may be used.".to_owned(),
        (PermissionMode::Deny, false) => format!("All models may be used except {names}."),
    }
}

async fn limits(
    services: &Services,
    organization: &Arc<Organization>,
    project: &Arc<Project>,
    settings: &Settings,
    path: &str,
    now: Micros,
) -> Markup {
    let mut cards = Vec::new();
    for model in settings.catalog.models() {
        let mut meters = live::meters(organization, project, model, settings);
        meters.retain(|it| it.scope == Scope::Project && it.dimension != Dimension::Spend);
        if !meters.is_empty() && cards.len() < MODELS {
            cards.push((&*model.name, meters));
        }
    }
    if cards.is_empty() {
        return html! { p.empty { "This project has no limits of its own; the organization's limits apply." } };
    }
    let all = cards.iter().flat_map(|(_, meters)| meters.iter().cloned()).collect();
    let Ok(readings) = live::read(services, &organization.id, all, now).await else {
        return html! {
            p.notice.bad role="status" { "The store of the limits does not answer: their use is not \
                known now." }
        };
    };
    let mut rows = readings.into_iter().map(Row::from);
    html! {
        div.cards.packed {
            @for (name, meters) in &cards {
                section.card {
                    h3 { (name) }
                    (list(name, &rows.by_ref().take(meters.len()).collect::<Vec<_>>()))
                    @if !project.archived {
                        p.actions {
                            a href={ (path) "/limits/" (query_value(name)) } {
                                "Change" span.unseen { " the limits for " (name) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn keys_section(list: &KeyList, path: &str, above: &str, can_change: bool, now: Micros) -> Markup {
    html! {
        section aria-labelledby="keys" {
            h2 #keys { "Keys" }
            @if can_change { p.actions { a href={ (path) "/keys/new" } { "New key" } } }
            (list.draw(path, above, now))
        }
    }
}

/// The address of a model's limits, from the form that chooses the model.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Choice {
    model: String,
}

/// `GET /dashboard/organizations/{id}/projects/{project}/limits`: leads to the form of a model.
pub(super) async fn choose_limits(
    access: Access,
    Path((id, project)): Path<(String, String)>,
    choice: QueryResult<Choice>,
) -> Result<Redirect, Failure> {
    access.check_organization(&id)?;
    let model = page::read_query(choice)?.model;
    let (id, project) = (query_value(&id), query_value(&project));
    let page = format!("/dashboard/organizations/{id}/projects/{project}");
    Ok(Redirect::to(&match model.as_str() {
        "" => format!("{page}#limits"),
        model => format!("{page}/limits/{}", query_value(model)),
    }))
}

/// The form that chooses the model whose limits are to be set.
fn chooser(settings: &Settings, path: &str) -> Markup {
    let mut names: Vec<&str> = settings.catalog.models().map(|model| &*model.name).collect();
    names.sort_unstable();
    html! {
        form.search method="get" action={ (path) "/limits" } {
            label for="model" { "Set limits for" }
            select #model name="model" {
                @for name in names { option value=(name) { (name) } }
            }
            button type="submit" { "Choose" }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_models_is_a_sentence() {
        for (mode, names, expected) in [
            (PermissionMode::Allow, &["b", "a"][..], "Only these models may be used: a, b."),
            (PermissionMode::Allow, &[], "No models may be used."),
            (PermissionMode::Deny, &["*"], "All models may be used except *."),
            (PermissionMode::Deny, &[], "All models may be used."),
        ] {
            let names = names.iter().map(|name| (*name).into()).collect();
            assert_eq!(permitted(&ModelPermissions::new(mode, names)), expected);
        }
    }
}
