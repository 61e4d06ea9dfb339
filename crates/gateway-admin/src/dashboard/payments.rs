//! The payments of an organization and their corrections.

use axum::extract::{Path, State};
use axum::http::Uri;
use axum::response::Html;
use maud::{Markup, html};
use serde::Deserialize;

use super::access::Access;
use super::context::Shared;
use super::notice;
use super::page::{self, Failure, Frame, QueryResult};
use super::text::{cents, moment, query_value};
use gateway_store::records::payments::{self, Payment};
use gateway_store::records::{Page, organizations};

/// Payments per page.
const ROWS: u32 = 50;

/// The cursor of the list.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Query {
    after: Option<Box<str>>,
}

/// `GET /dashboard/organizations/{id}/payments`, newest first.
pub(super) async fn page(
    State(context): Shared,
    access: Access,
    Path(id): Path<String>,
    address: Uri,
    query: QueryResult<Query>,
) -> Result<Html<String>, Failure> {
    access.check_organization(&id)?;
    let query = page::read_query(query)?;
    let database = &context.services.database;
    let found = organizations::get(database, &id).await?;
    let organization = found.ok_or_else(|| Failure::no_organization(&id))?;
    let is_first = query.after.is_none();
    let paged = Page { after: query.after, descending: true, ..Page::first(ROWS) };
    let listed = payments::list(database, &id, &paged).await?;
    let frame = Frame { title: "Payments", access: Some(&access), refresh: None };
    let path = address.path();
    Ok(frame.around(&html! {
        nav.crumbs aria-label="Breadcrumb" {
            @if access.only().is_none() { a href="/dashboard" { "Organizations" } }
            a href={ "/dashboard/organizations/" (query_value(&id)) } { (organization.name) }
        }
        h1 { "Payments of " (organization.name) }
        (notice::shown(&address))
        p.hint { (cents(organization.paid_cents)) " in all." }
        @if access.only().is_none() {
            p.actions { a href={ (path) "/new" } { "Record a payment or a correction" } }
        }
        @if listed.items.is_empty() { p.empty { "There are none here." } }
        @else { (table(&listed.items)) }
        nav.pager aria-label="Pages of payments" {
            @if !is_first { a href=(path) { "First page" } }
            @if let (true, Some(last)) = (listed.has_more, listed.items.last()) {
                a rel="next" href={ (path) "?after=" (query_value(&last.id)) } { "Next" }
            }
        }
    }))
}

fn table(payments: &[Payment]) -> Markup {
    html! {
        div.scroll.card tabindex="0" role="region" aria-label="Payments" {
            table {
                caption { "Payments and their corrections, newest first" }
                thead {
                    tr {
                        th scope="col" { "Payment" }
                        th.number scope="col" { "Amount" }
                        th scope="col" { "Reason" }
                        th scope="col" { "Recorded" }
                    }
                }
                tbody {
                    @for payment in payments {
                        tr {
                            th scope="row" { code { (payment.id) } }
                            td.number {
                                @if payment.amount_cents < 0 { "\u{2212}" }
                                (cents(payment.amount_cents.unsigned_abs()))
                            }
                            td { (payment.reason.as_deref().unwrap_or("–")) }
                            td { (moment(payment.created_at)) }
                        }
                    }
                }
            }
        }
    }
}
