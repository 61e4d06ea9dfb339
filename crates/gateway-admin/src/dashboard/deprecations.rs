//! Models with a shutdown date, and the organizations that still use them.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{Html, IntoResponse, Redirect, Response};
use maud::{Markup, html};
use ratelimit::Micros;

use super::access::Access;
use super::context::Shared;
use super::page::{Failure, Frame};
use super::text::{count, moment, query_value, span};
use gateway_policy::dates::seconds;
use gateway_policy::settings::{Model, Settings};
use gateway_store::ledger::{self, ModelUse};

/// Days that count as "still used".
pub(super) const DAYS: u64 = 30;
/// Models per page, earliest shutdown first.
const MODELS: usize = 20;
/// Organizations listed per model.
const NAMED: u32 = 10;

/// `GET /dashboard/deprecations`, for the admin token. The page of an organization has the same
/// list for its readers.
pub(super) async fn page(State(context): Shared, access: Access) -> Result<Response, Failure> {
    if access.only().is_some() {
        return Ok(Redirect::to("/dashboard").into_response());
    }
    let services = &context.services;
    let now = services.clock.now();
    let start = u64::try_from(seconds(now)).unwrap_or(0).saturating_sub(DAYS * 86_400);
    let settings = services.settings.load_full();
    let mut models = ending(&settings);
    let left = models.split_off(models.len().min(MODELS));
    let mut rows = Vec::with_capacity(models.len());
    for model in &models {
        // One more than is listed shows whether there are more.
        let users = ledger::users_of(&services.database, &model.name, start, NAMED + 1).await?;
        rows.push((&**model, users));
    }
    Ok(show(&access, &rows, &left, now).into_response())
}

/// Models with a shutdown date, earliest first.
pub(super) fn ending(settings: &Settings) -> Vec<Arc<Model>> {
    let mut models: Vec<Arc<Model>> =
        settings.catalog.models().filter(|model| model.shutdown.is_some()).cloned().collect();
    models.sort_by_key(|model| model.shutdown.as_ref().map(|shutdown| shutdown.at));
    models
}

fn show(
    access: &Access,
    rows: &[(&Model, Vec<ModelUse>)],
    left: &[Arc<Model>],
    now: Micros,
) -> Html<String> {
    let frame = Frame { title: "Deprecations", access: Some(access), refresh: None };
    frame.around(&html! {
        h1 { "Deprecations" }
        @if rows.is_empty() { p.empty { "No model has a shutdown date." } }
        @else {
            div.scroll.card tabindex="0" role="region" aria-label="Deprecations" {
                table {
                    caption { "Models with a shutdown date, and who used them in the last " (DAYS)
                        " days" }
                    (heading(&["Used by"]))
                    tbody {
                        @for (model, users) in rows {
                            tr { (facts(model, now)) td { (named(users)) } }
                        }
                    }
                }
            }
        }
        @if !left.is_empty() {
            p.hint {
                "Later: "
                @for (at, model) in left.iter().enumerate() {
                    @if at > 0 { ", " } code { (model.name) }
                }
                "."
            }
        }
    })
}

fn named(users: &[ModelUse]) -> Markup {
    html! {
        @if users.is_empty() { "nobody" }
        @else {
            ul.plain {
                @for user in users.iter().take(NAMED as usize) {
                    li {
                        a href={ "/dashboard/organizations/" (query_value(&user.organization)) } {
                            (user.name)
                        }
                        ": " (count(user.requests)) " requests, the last on " (moment(user.last))
                    }
                }
                @if users.len() > NAMED as usize { li { "and others" } }
            }
        }
    }
}

/// The head of a table of deprecated models.
pub(super) fn heading(more: &[&str]) -> Markup {
    html! {
        thead {
            tr {
                th scope="col" { "Model" }
                th scope="col" { "State" }
                th scope="col" { "Shutdown" }
                th scope="col" { "Successor" }
                @for name in more { th.number[*name == "Requests"] scope="col" { (name) } }
            }
        }
    }
}

/// The first cells of its rows.
pub(super) fn facts(model: &Model, now: Micros) -> Markup {
    let Some(shutdown) = &model.shutdown else { return html! {} };
    html! {
        th scope="row" { (model.name) }
        td {
            @if now >= shutdown.at { span.tag.full { "shut down" } }
            @else if now >= shutdown.deprecated_from { span.tag.high { "deprecated" } }
            @else { span.tag { "announced later" } }
        }
        td {
            (shutdown.date)
            @if now < shutdown.at { span.hint { " in " (span(shutdown.at - now)) } }
        }
        td { @if let Some(successor) = &shutdown.successor { code { (successor) } } @else { "–" } }
    }
}
