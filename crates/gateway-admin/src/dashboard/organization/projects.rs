//! The projects of an organization, paginated, with the spend of each.

use maud::{Markup, html};

use super::super::chart::bar;
use super::super::page::Failure;
use super::super::text::{count, date, money, query_value};
use super::spend::Spent;
use super::view::View;
use gateway_policy::tenants::MicroDollars;
use gateway_store::records::projects::Stored;
use gateway_store::records::{Listed, Page, projects, spend};

/// Projects per page.
const ROWS: u32 = 20;

/// A page of the list.
pub(super) struct Projects {
    listed: Listed<Stored>,
    /// Spend of each project.
    spent: Vec<MicroDollars>,
    is_first: bool,
}

pub(super) async fn read(
    view: &View<'_>,
    spent: &Spent,
    after: Option<Box<str>>,
) -> Result<Projects, Failure> {
    let database = &view.services.database;
    let is_first = after.is_none();
    let page = Page { after, ..Page::first(ROWS) };
    let mut listed = projects::list(database, &view.organization.id, true, &page).await?;
    for stored in &mut listed.items {
        stored.project.spend.alerts = spend::alerts_of(database, &stored.project.id).await?;
    }
    let ids: Vec<&str> = listed.items.iter().map(|stored| &*stored.project.id).collect();
    let spent = spent.reserved(view.services, &view.organization.id, &ids, view.now).await;
    Ok(Projects { listed, spent, is_first })
}

pub(super) fn section(view: &View<'_>, projects: &Projects) -> Markup {
    let path = view.page();
    let items = &projects.listed.items;
    html! {
        section aria-labelledby="projects" {
            h2 #projects { "Projects" }
            p.actions { a href={ (path) "/projects/new" } { "New project" } }
            @if items.is_empty() { p.empty { "There are none here." } }
            @else {
                div.scroll.card tabindex="0" role="region" aria-labelledby="projects" {
                    table {
                        caption { "Spend of this month; limits and keys of a project are on its \
                            page" }
                        thead {
                            tr {
                                th scope="col" { "Project" }
                                th scope="col" { "Spend" }
                                th.number scope="col" { "Spent" }
                                th.number scope="col" { "Hard limit" }
                                th scope="col" { "Data stays in" }
                                th scope="col" { "Since" }
                            }
                        }
                        tbody {
                            @for (stored, spent) in items.iter().zip(&projects.spent) {
                                (row(stored, *spent, &path))
                            }
                        }
                    }
                }
                nav.pager aria-label="Pages of projects" {
                    @if !projects.is_first { a href={ (path) "#projects" } { "First page" } }
                    @if let (true, Some(last)) = (projects.listed.has_more, items.last()) {
                        a rel="next"
                            href={ (path) "?projects_after=" (query_value(&last.project.id))
                                "#projects" } { "Next" }
                    }
                }
            }
        }
    }
}

fn row(stored: &Stored, spent: MicroDollars, path: &str) -> Markup {
    let project = &stored.project;
    let passed = project.spend.alerts.iter().filter(|alert| alert.threshold <= spent).count();
    html! {
        tr {
            th scope="row" {
                a href={ (path) "/projects/" (query_value(&project.id)) } { (project.name) }
                @if project.archived { " " span.tag { "archived" } }
                code.id { (project.id) }
            }
            td {
                @if let Some(hard) = project.spend.hard {
                    (bar(&format!("{} of {} spent by {}", money(spent), money(hard), project.name),
                        spent, hard))
                } @else { "no limit" }
                @if passed > 0 {
                    span.tag.high {
                        @if passed == 1 { "soft limit passed" }
                        @else { (count(passed as u64)) " soft limits exceeded" }
                    }
                }
            }
            td.number { (money(spent)) }
            td.number { @if let Some(hard) = project.spend.hard { (money(hard)) } @else { "–" } }
            td { (project.geography.as_deref().unwrap_or("Global")) }
            td { (date(project.created_at)) }
        }
    }
}
