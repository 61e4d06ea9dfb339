//! Deprecated models, and the organization's projects that still use them.

use std::collections::HashMap;
use std::sync::Arc;

use maud::{Markup, html};

use super::super::deprecations::{DAYS, ending, facts, heading};
use super::super::page::Failure;
use super::super::text::{count, query_value};
use super::view::{Notice, View};
use gateway_policy::dates::seconds;
use gateway_policy::settings::Model;
use gateway_store::ledger::{GroupBy, Sum, UsageQuery, sums};
use gateway_store::records::projects;

/// Projects listed per model.
const NAMED: usize = 5;

/// The organization's use of deprecated models.
pub(super) struct Ends {
    organization: Box<str>,
    now: ratelimit::Micros,
    models: Vec<(Arc<Model>, Vec<Sum>)>,
    /// Names of projects by id.
    names: HashMap<Box<str>, Box<str>>,
    /// True if there were too many sums to compute.
    is_unknown: bool,
}

pub(super) async fn read(view: &View<'_>) -> Result<Ends, Failure> {
    let database = &view.services.database;
    let now = u64::try_from(seconds(view.now)).unwrap_or(0);
    let models = ending(view.settings);
    let mut ends = Ends {
        organization: view.organization.id.clone(),
        now: view.now,
        models: models.into_iter().map(|model| (model, Vec::new())).collect(),
        names: HashMap::new(),
        is_unknown: false,
    };
    if ends.models.is_empty() {
        return Ok(ends);
    }
    let query = UsageQuery {
        organization: view.organization.id.clone(),
        start: now.saturating_sub(DAYS * 86_400),
        end: now + 1,
        width: 1_000_000_000_000,
        models: ends.models.iter().map(|(model, _)| model.name.clone()).collect(),
        group_by: GroupBy { model: true, project: true, ..GroupBy::default() },
        ..UsageQuery::default()
    };
    match sums(database, &query).await? {
        Ok(found) => ends.sort_in(found),
        Err(_) => ends.is_unknown = true,
    }
    let users = ends.models.iter().flat_map(|(_, sums)| sums.iter().take(NAMED));
    let ids: Vec<Box<str>> = users.filter_map(|sum| sum.project.clone()).collect();
    for id in ids {
        if !ends.names.contains_key(&id)
            && let Some(stored) = projects::get(database, &id).await?
        {
            ends.names.insert(id, stored.project.name);
        }
    }
    Ok(ends)
}

impl Ends {
    fn sort_in(&mut self, found: Vec<Sum>) {
        for (model, users) in &mut self.models {
            let uses = |sum: &&Sum| sum.model.as_ref() == Some(&model.name);
            *users = found.iter().filter(uses).cloned().collect();
            users.sort_by_key(|sum| std::cmp::Reverse(sum.requests));
        }
    }
}

/// Notices about deprecated models in use.
pub(super) fn notices(ends: &Ends) -> Vec<Notice> {
    let is_announced = |model: &Model| {
        let shutdown = model.shutdown.as_ref();
        shutdown.is_some_and(|shutdown| ends.now >= shutdown.deprecated_from)
    };
    let used = ends.models.iter().filter(|(model, users)| is_announced(model) && !users.is_empty());
    let notice = |(model, users): &(Arc<Model>, Vec<Sum>)| {
        let shutdown = model.shutdown.as_ref()?;
        let is_gone = ends.now >= shutdown.at;
        let text = html! {
            code { (model.name) }
            @if is_gone { " ended on " } @else { " ends on " }
            (shutdown.date) " and was used by "
            @if users.len() == 1 { "one project" } @else { (users.len()) " projects" }
            " in the last " (DAYS) " days."
            @if let Some(successor) = &shutdown.successor { " Use " code { (successor) } "." }
        };
        Some(Notice { is_bad: is_gone, text })
    };
    used.filter_map(notice).collect()
}

pub(super) fn section(ends: &Ends) -> Markup {
    html! {
        section aria-labelledby="deprecations" {
            h2 #deprecations { "Deprecations" }
            @if ends.models.is_empty() { p.empty { "No model has a shutdown date." } }
            @else {
                @if ends.is_unknown {
                    p.notice { "Too many projects use these models to list them." }
                }
                div.scroll.card tabindex="0" role="region" aria-labelledby="deprecations" {
                    table {
                        caption { "Models with a shutdown date, and their use in the last " (DAYS)
                            " days" }
                        (heading(&["Requests", "Used by"]))
                        tbody { @for (model, users) in &ends.models { (row(ends, model, users)) } }
                    }
                }
            }
        }
    }
}

fn row(ends: &Ends, model: &Model, users: &[Sum]) -> Markup {
    let requests = users.iter().map(|sum| sum.requests).fold(0, u64::saturating_add);
    let path = format!("/dashboard/organizations/{}/projects", query_value(&ends.organization));
    html! {
        tr {
            (facts(model, ends.now))
            td.number { (count(requests)) }
            td {
                @if users.is_empty() { "nobody" }
                @for (at, project) in users.iter().take(NAMED).filter_map(|sum| sum.project.as_ref())
                    .enumerate() {
                    @if at > 0 { ", " }
                    a href={ (path) "/" (query_value(project)) } {
                        (ends.names.get(project).unwrap_or(project))
                    }
                }
                @if users.len() > NAMED { " and " (users.len() - NAMED) " more" }
            }
        }
    }
}
