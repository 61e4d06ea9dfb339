//! One project: its spend, its limits with their live use, and its keys.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::Uri;
use axum::response::Html;
use maud::{Markup, html};
use ratelimit::Micros;
use serde::Deserialize;

use super::access::Access;
use super::context::Shared;
use super::live;
use super::organization::{Row, list, of_project, spent};
use super::page::{self, Failure, Frame, QueryResult, refreshes};
use super::text::{date, moment, query_value};
use crate::Services;
use gateway_policy::dates::seconds;
use gateway_policy::plan::{Dimension, Scope};
use gateway_policy::settings::Settings;
use gateway_policy::tenants::{ModelPermissions, Organization, PermissionMode, Project};
use gateway_store::records::keys::Key;
use gateway_store::records::{Listed, Page, keys, organizations, projects};

/// Keys per page.
const ROWS: u32 = 50;
/// Most models whose limits are shown; administrators set each by hand.
const MODELS: usize = 100;

/// The cursor of the list of keys.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Query {
    keys_after: Option<Box<str>>,
}

/// `GET /dashboard/organizations/{id}/projects/{project}`.
pub(super) async fn page(
    State(context): Shared,
    access: Access,
    Path((id, project)): Path<(String, String)>,
    address: Uri,
    query: QueryResult<Query>,
) -> Result<Html<String>, Failure> {
    access.check_organization(&id)?;
    let query = page::read_query(query)?;
    let services = &context.services;
    let (database, now) = (&services.database, services.clock.now());
    let found = organizations::get(database, &id).await?;
    let organization = Arc::new(found.ok_or_else(|| Failure::no_organization(&id))?);
    let stored = projects::get(database, &project).await?.filter(|it| *it.organization == *id);
    let stored = stored.ok_or_else(|| {
        Failure::NotFound(format!("no project {}", project.chars().take(80).collect::<String>()))
    })?;
    let project = Arc::new(stored.project);
    let paged = Page { after: query.keys_after, ..Page::first(ROWS) };
    let is_first = paged.after.is_none();
    let listed = keys::list(database, &project.id, &paged).await?;
    let spent = spent(services, &organization, now).await?;
    let used = spent.reserved(services, &id, &[&project.id], now).await;
    let settings = services.settings.load_full();
    let limits = limits(services, &organization, &project, &settings, now).await;
    let refresh = Some((&address, refreshes(&address)));
    let frame = Frame { title: &project.name, access: Some(&access), refresh };
    Ok(frame.around(&html! {
        (head(&organization, &project))
        (of_project(&project.spend, used.first().copied().unwrap_or(0)))
        section aria-labelledby="limits" {
            h2 #limits { "Limits" }
            (limits)
        }
        (keys_section(&listed, is_first, &address, now))
    }))
}

fn head(organization: &Organization, project: &Project) -> Markup {
    let above = format!("/dashboard/organizations/{}", query_value(&organization.id));
    html! {
        nav.crumbs aria-label="Breadcrumb" {
            a href="/dashboard" { "Organizations" }
            a href=(above) { (organization.name) }
        }
        h1 { (project.name) @if project.archived { " " span.tag { "archived" } } }
        p.hint {
            code { (project.id) } " · since " (date(project.created_at))
            " · data stays in " (project.geography.as_deref().unwrap_or("any region"))
        }
        @if let Some(models) = &project.models { p.hint { (permitted(models)) } }
    }
}

/// The models that the project may use, in a sentence.
fn permitted(models: &ModelPermissions) -> String {
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
                }
            }
        }
    }
}

fn keys_section(listed: &Listed<Key>, is_first: bool, address: &Uri, now: Micros) -> Markup {
    let path = address.path();
    html! {
        section aria-labelledby="keys" {
            h2 #keys { "Keys" }
            @if listed.items.is_empty() { p.empty { "There are none here." } }
            @else {
                div.scroll.card tabindex="0" role="region" aria-labelledby="keys" {
                    table {
                        caption { "Keys of the project; their full text is shown once, when they \
                            are made" }
                        thead {
                            tr {
                                th scope="col" { "Name" }
                                th scope="col" { "Key" }
                                th scope="col" { "Made" }
                                th scope="col" { "Last used" }
                                th scope="col" { "State" }
                            }
                        }
                        tbody { @for key in &listed.items { (row(key, now)) } }
                    }
                }
            }
            nav.pager aria-label="Pages of keys" {
                @if !is_first { a href={ (path) "#keys" } { "First page" } }
                @if let (true, Some(last)) = (listed.has_more, listed.items.last()) {
                    a rel="next" href={ (path) "?keys_after=" (query_value(&last.id)) "#keys" } {
                        "Next"
                    }
                }
            }
        }
    }
}

fn row(key: &Key, now: Micros) -> Markup {
    html! {
        tr {
            th scope="row" {
                (key.name)
                @if key.service_account.is_some() { " " span.tag { "service account" } }
                code.id { (key.id) }
            }
            td { code { (key.redacted) } }
            td { (date(key.created_at)) }
            td { @if let Some(at) = key.last_used_at { (moment(at)) } @else { "never" } }
            td {
                @match key.expires_at {
                    None => "in force",
                    Some(at) if at <= now => span.tag.full { "expired" },
                    Some(at) => { "until " (moment(seconds(at))) }
                }
            }
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
