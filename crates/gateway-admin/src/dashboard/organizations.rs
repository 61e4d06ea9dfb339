//! The list of organizations: paginated, searchable by name or id, with the spend of this month.

use std::collections::HashMap;

use axum::extract::State;
use axum::http::Uri;
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde::Deserialize;

use super::access::Access;
use super::chart::bar;
use super::context::Shared;
use super::notice;
use super::page::{self, Failure, Frame, QueryResult, refreshes};
use super::text::{date, money, month, query_value};
use gateway_policy::dates;
use gateway_policy::settings::Settings;
use gateway_policy::tenants::{MicroDollars, Organization};
use gateway_store::ledger;
use gateway_store::records::{Listed, Page, organizations};

/// Organizations per page.
const ROWS: u32 = 25;
/// Longest search text, in characters.
const LONGEST: usize = 100;

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Query {
    q: String,
    after: Option<Box<str>>,
    before: Option<Box<str>>,
}

/// `GET /dashboard`. Readers of a single organization are redirected to it.
pub(super) async fn page(
    State(context): Shared,
    access: Access,
    address: Uri,
    query: QueryResult<Query>,
) -> Result<Response, Failure> {
    if let Some(only) = access.only() {
        let target = format!("/dashboard/organizations/{}", query_value(only));
        return Ok(Redirect::to(&target).into_response());
    }
    let query = page::read_query(query)?;
    let services = &context.services;
    let now = services.clock.now();
    let text: String = query.q.trim().chars().take(LONGEST).collect();
    let from_behind = query.before.is_some();
    let paged =
        Page { after: query.after.clone(), before: query.before, limit: ROWS, descending: false };
    let listed = match text.is_empty() {
        true => organizations::list(&services.database, &paged).await?,
        false => organizations::search(&services.database, &text, &paged).await?,
    };
    let ids: Vec<&str> = listed.items.iter().map(|organization| &*organization.id).collect();
    let spent = ledger::month_spend_by(&services.database, &ids, dates::month(now)).await?;
    let settings = services.settings.load();
    let refresh = Some((&address, refreshes(&address)));
    let frame = Frame { title: "Organizations", access: Some(&access), refresh };
    let is_first = query.after.is_none() && !from_behind;
    Ok(frame
        .around(&html! {
            h1 { "Organizations" }
            (notice::shown(&address))
            (search(&text))
            p.actions { a href="/dashboard/organizations/new" { "New organization" } }
            @if listed.items.is_empty() {
                (nothing(&text))
            } @else {
                (table(&listed.items, &spent, &settings, &month(now)))
                (pager(&listed, &text, is_first, from_behind))
            }
        })
        .into_response())
}

fn search(text: &str) -> Markup {
    html! {
        search {
            form.search method="get" action="/dashboard" {
                label for="q" { "Name or id" }
                input #q type="search" name="q" value=(text) maxlength=(LONGEST);
                button type="submit" { "Search" }
                @if !text.is_empty() { a href="/dashboard" { "All organizations" } }
            }
        }
    }
}

fn nothing(text: &str) -> Markup {
    html! {
        p.empty {
            @if text.is_empty() { "There are none here." }
            @else { "No name or id contains “" (text) "”." }
        }
    }
}

fn table(
    organizations: &[Organization],
    spent: &HashMap<Box<str>, MicroDollars>,
    settings: &Settings,
    month: &str,
) -> Markup {
    html! {
        div.scroll.card tabindex="0" role="region" aria-label="Organizations" {
            table {
                caption { "Spend in " (month) " against the smaller of the tier's monthly limit and \
                    the organization's own" }
                thead {
                    tr {
                        th scope="col" { "Organization" }
                        th scope="col" { "Tier" }
                        th scope="col" { "Spend" }
                        th.number scope="col" { "Spent" }
                        th.number scope="col" { "Limit" }
                        th scope="col" { "Since" }
                    }
                }
                tbody {
                    @for organization in organizations {
                        (row(organization, spent.get(&organization.id).copied().unwrap_or(0), settings))
                    }
                }
            }
        }
    }
}

fn row(organization: &Organization, spent: MicroDollars, settings: &Settings) -> Markup {
    let of_tier = settings.tier(organization.tier).monthly_limit;
    let limit = organization.spend.hard.unwrap_or(u64::MAX).min(of_tier);
    let what = format!("{} of {} spent by {}", money(spent), money(limit), organization.name);
    html! {
        tr {
            th scope="row" {
                a href={ "/dashboard/organizations/" (query_value(&organization.id)) } {
                    (organization.name)
                }
                code.id { (organization.id) }
            }
            td { (super::organization::tier_name(organization.tier)) }
            td { (bar(&what, spent, limit)) }
            td.number { (money(spent)) }
            td.number { (money(limit)) }
            td { (date(organization.created_at)) }
        }
    }
}

fn pager(listed: &Listed<Organization>, text: &str, is_first: bool, from_behind: bool) -> Markup {
    let (Some(first), Some(last)) = (listed.items.first(), listed.items.last()) else {
        return html! {};
    };
    let has_previous = if from_behind { listed.has_more } else { !is_first };
    let has_next = from_behind || listed.has_more;
    let link = |name: &str, id: &str| {
        let search = match text.is_empty() {
            true => String::new(),
            false => format!("&q={}", query_value(text)),
        };
        format!("/dashboard?{name}={}{search}", query_value(id))
    };
    html! {
        nav.pager aria-label="Pages of the list" {
            @if has_previous { a rel="prev" href=(link("before", &first.id)) { "Previous" } }
            @if has_next { a rel="next" href=(link("after", &last.id)) { "Next" } }
        }
    }
}
