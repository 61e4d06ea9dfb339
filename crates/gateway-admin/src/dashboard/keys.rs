//! Lists of keys: of an organization, on a page of its own, and of a project. Both are searched by
//! name, id, prefix, last four characters and owner.

use axum::extract::{Path, State};
use axum::http::Uri;
use axum::response::Html;
use maud::{Markup, html};
use ratelimit::Micros;
use serde::Deserialize;

use super::access::Access;
use super::context::Shared;
use super::page::{self, Failure, Frame, QueryResult};
use super::text::{date, moment, query_value};
use crate::Services;
use gateway_policy::dates::seconds;
use gateway_store::records::key_search::{self, Found, Keys};
use gateway_store::records::keys::Key;
use gateway_store::records::{Listed, Page, key_text, organizations};

/// Keys per page.
const ROWS: u32 = 50;
/// Longest search text, in characters.
const LONGEST: usize = 100;

/// The search and the cursors of a list of keys.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Query {
    q: String,
    keys_after: Option<Box<str>>,
    keys_before: Option<Box<str>>,
}

/// A page of keys.
pub(super) struct KeyList {
    listed: Listed<Found>,
    text: String,
    /// True if the text is a whole key, which is not searched and not shown again.
    is_secret: bool,
    is_first: bool,
    is_backward: bool,
    of_project: bool,
}

/// `GET /dashboard/organizations/{id}/keys`.
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
    let organization = found.ok_or_else(|| Failure::no_organization(&id))?;
    let list = read(services, &organization.id, None, query).await?;
    let above = format!("/dashboard/organizations/{}", query_value(&organization.id));
    let frame = Frame { title: "Keys", access: Some(&access), refresh: None };
    Ok(frame.around(&html! {
        nav.crumbs aria-label="Breadcrumb" {
            @if access.only().is_none() { a href="/dashboard" { "Organizations" } }
            a href=(above) { (organization.name) }
        }
        h1 #keys { "Keys of " (organization.name) }
        (list.draw(address.path(), &above, services.clock.now()))
    }))
}

/// Reads a page of the keys of an organization or of one of its projects.
pub(super) async fn read(
    services: &Services,
    organization: &str,
    project: Option<&str>,
    query: Query,
) -> Result<KeyList, Failure> {
    let text: String = query.q.trim().chars().take(LONGEST).collect();
    let is_secret = key_text::kind(&text).is_some();
    let text = if is_secret { String::new() } else { text };
    let (is_first, is_backward) =
        (query.keys_after.is_none() && query.keys_before.is_none(), query.keys_before.is_some());
    let page =
        Page { after: query.keys_after, before: query.keys_before, limit: ROWS, descending: false };
    let listed = match is_secret {
        true => Listed { items: Vec::new(), has_more: false },
        false => {
            let keys = Keys { organization, project, text: &text };
            key_search::search(&services.database, keys, &page).await?
        }
    };
    let of_project = project.is_some();
    Ok(KeyList { listed, text, is_secret, is_first, is_backward, of_project })
}

impl KeyList {
    /// The search form, the table and the pager. `organization` is the address of the page of the
    /// organization.
    pub(super) fn draw(&self, path: &str, organization: &str, now: Micros) -> Markup {
        html! {
            (self.search(path))
            @if self.is_secret {
                p.notice.bad role="status" {
                    strong { "Not searched. " }
                    "This is a whole key, and addresses are kept in histories and logs: consider to rotate it. \
                    Search for its last four characters."
                }
            } @else if self.listed.items.is_empty() {
                p.empty {
                    @if self.text.is_empty() { "There are none here." }
                    @else { "No name, id, prefix, ending or owner of a key contains “" (self.text) "”." }
                }
            } @else {
                (self.table(organization, now))
                (self.pager(path))
            }
        }
    }

    fn search(&self, path: &str) -> Markup {
        html! {
            search {
                form.search method="get" action={ (path) "#keys" } {
                    label for="q" { "Name, id, last four or owner" }
                    input #q type="search" name="q" value=(self.text) maxlength=(LONGEST);
                    button type="submit" { "Search" }
                    @if !self.text.is_empty() || self.is_secret {
                        a href={ (path) "#keys" } { "All keys" }
                    }
                }
            }
        }
    }

    fn table(&self, organization: &str, now: Micros) -> Markup {
        html! {
            div.scroll.card tabindex="0" role="region" aria-labelledby="keys" {
                table {
                    caption { "The full text of a key is shown once, when it is made" }
                    thead {
                        tr {
                            th scope="col" { "Name" }
                            th scope="col" { "Key" }
                            @if !self.of_project { th scope="col" { "Project" } }
                            th scope="col" { "Owner" }
                            th scope="col" { "Made" }
                            th scope="col" { "Last used" }
                            th scope="col" { "State" }
                        }
                    }
                    tbody {
                        @for found in &self.listed.items {
                            (self.row(found, organization, now))
                        }
                    }
                }
            }
        }
    }

    fn row(&self, found: &Found, organization: &str, now: Micros) -> Markup {
        let key = &found.key;
        let project = format!("{organization}/projects/{}", query_value(&key.project));
        html! {
            tr {
                th scope="row" {
                    a href={ (project) "/keys/" (query_value(&key.id)) } { (key.name) }
                    code.id { (key.id) }
                }
                td.nowrap { code { (key.redacted) } }
                @if !self.of_project { td { a href=(project) { (found.project) } } }
                td { @if let Some(owner) = &found.owner { (owner) } @else { "the project" } }
                td { (date(key.created_at)) }
                td { (last_used(key)) }
                td { (state(key, now)) }
            }
        }
    }

    fn pager(&self, path: &str) -> Markup {
        let items = &self.listed.items;
        let has_previous = if self.is_backward { self.listed.has_more } else { !self.is_first };
        let has_next = self.is_backward || self.listed.has_more;
        let link = |name: &str, found: &Found| {
            let search = match self.text.is_empty() {
                true => String::new(),
                false => format!("&q={}", query_value(&self.text)),
            };
            format!("{path}?{name}={}{search}#keys", query_value(&found.key.id))
        };
        html! {
            nav.pager aria-label="Pages of keys" {
                @if let (true, Some(first)) = (has_previous, items.first()) {
                    a rel="prev" href=(link("keys_before", first)) { "Previous" }
                }
                @if let (true, Some(last)) = (has_next, items.last()) {
                    a rel="next" href=(link("keys_after", last)) { "Next" }
                }
            }
        }
    }
}

/// When a key was last used.
pub(super) fn last_used(key: &Key) -> String {
    key.last_used_at.map_or_else(|| "never".to_owned(), moment)
}

/// The state of a key: accepted, and until when, or expired.
pub(super) fn state(key: &Key, now: Micros) -> Markup {
    html! {
        @match key.expires_at {
            None => "in force",
            Some(at) if at <= now => span.tag.full { "expired" },
            Some(at) => { "until " (moment(seconds(at))) }
        }
    }
}
