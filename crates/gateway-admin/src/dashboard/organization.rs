//! One organization: notices, spend and tier, limits with their live use, the batch queue,
//! projects, usage and deprecated models.

mod deprecations;
mod limits;
mod projects;
mod spend;
mod usage;
mod view;

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::Uri;
use axum::response::Html;
use maud::{Markup, html};
use serde::Deserialize;

use super::access::Access;
use super::context::Shared;
use super::notice;
use super::page::{self, Failure, Frame, QueryResult, refreshes};
use super::text::{count, date, money, percent, short};
use gateway_store::records::organizations;
pub(super) use limits::{Row, list};
pub(super) use spend::{Spent, of_project, spent};
pub(super) use view::tier_name;
use view::{Notice, View};

/// The cursors of the page's lists.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Query {
    models_after: String,
    groups_after: String,
    projects_after: Option<Box<str>>,
}

/// `GET /dashboard/organizations/{id}`.
pub(super) async fn page(
    State(context): Shared,
    access: Access,
    Path(id): Path<String>,
    address: Uri,
    query: QueryResult<Query>,
) -> Result<Html<String>, Failure> {
    access.check_organization(&id)?;
    let query = page::read_query(query)?;
    let services = &context.services;
    let found = organizations::get(&services.database, &id).await?;
    let organization = Arc::new(found.ok_or_else(|| Failure::no_organization(&id))?);
    let settings = services.settings.load_full();
    let now = services.clock.now();
    let view = View { services, settings: &settings, organization: &organization, now };

    let spent = spent(services, &organization, now).await?;
    let projects = projects::read(&view, &spent, query.projects_after).await?;
    let limits = limits::read(&view, &query.models_after, &query.groups_after).await?;
    let usage = usage::read(&view).await?;
    let ends = deprecations::read(&view).await?;

    let mut notices = spend::notices(&view, &spent);
    notices.extend(deprecations::notices(&ends));
    let refresh = Some((&address, refreshes(&address)));
    let frame = Frame { title: &organization.name, access: Some(&access), refresh };
    Ok(frame.around(&html! {
        (head(&view, access.only().is_none()))
        (notice::shown(&address))
        (attention(&notices))
        (tiles(&view, &spent, &usage))
        (contents())
        div.pair { (spend::section(&view, &spent)) (spend::tier(&view)) }
        (limits::sections(&limits, &address))
        (projects::section(&view, &projects))
        (usage.section())
        (deprecations::section(&ends))
    }))
}

fn head(view: &View<'_>, has_list: bool) -> Markup {
    let organization = view.organization;
    html! {
        @if has_list {
            nav.crumbs aria-label="Breadcrumb" { a href="/dashboard" { "Organizations" } }
        }
        h1 { (organization.name) }
        p.hint {
            code { (organization.id) } " · since " span.nowrap { (date(organization.created_at)) }
            @if organization.zero_data_retention { " · zero data retention" }
        }
        (actions(&view.page(), has_list))
    }
}

/// Links to the pages of an organization; those for the admin token only if `has_all`.
fn actions(page: &str, has_all: bool) -> Markup {
    let links = [
        ("keys", "Keys", true),
        ("payments", "Payments", true),
        ("audit", "Audit log", true),
        ("edit", "Change name or tier", has_all),
    ];
    html! {
        nav.actions aria-label="Of this organization" {
            @for (below, name, is_shown) in links {
                @if is_shown { a href={ (page) "/" (below) } { (name) } }
            }
        }
    }
}

fn attention(notices: &[Notice]) -> Markup {
    html! {
        @if !notices.is_empty() {
            section aria-labelledby="attention" {
                h2 #attention .unseen { "Needs attention" }
                ul.notices {
                    @for notice in notices {
                        li.notice.bad[notice.is_bad] {
                            strong { @if notice.is_bad { "Refused: " } @else { "Note: " } }
                            (notice.text)
                        }
                    }
                }
            }
        }
    }
}

fn tiles(view: &View<'_>, spent: &Spent, usage: &usage::Usage) -> Markup {
    let limit = spend::limit(view);
    let ([requests, tokens], [requests_before, tokens_before]) = usage.totals();
    html! {
        dl.tiles {
            div {
                dt { "Spent this month" }
                dd { (money(spent.of_organization())) }
                dd.hint { "of " (money(limit)) ", "
                    (percent(spent.of_organization(), limit)) "\u{a0}%" }
            }
            div {
                dt { "Tier" }
                dd { (tier_name(view.organization.tier)) }
                dd.hint { (spend::next_tier(view)) }
            }
            div {
                dt { "Requests, last 24 hours" }
                dd { (count(requests)) }
                dd.hint { (count(requests_before)) " in 30 days" }
            }
            div {
                dt { "Tokens, last 24 hours" }
                dd { (short(tokens)) }
                dd.hint { (short(tokens_before)) " in 30 days" }
            }
        }
    }
}

fn contents() -> Markup {
    let sections = [
        ("spend", "Spend"),
        ("tier", "Tier"),
        ("limits", "Limits"),
        ("groups", "Shared limits"),
        ("queue", "Batch queue"),
        ("projects", "Projects"),
        ("usage", "Usage"),
        ("models", "Top models"),
        ("deprecations", "Deprecations"),
    ];
    html! {
        nav.contents aria-label="On this page" {
            ul { @for (id, name) in sections { li { a href={ "#" (id) } { (name) } } } }
        }
    }
}
