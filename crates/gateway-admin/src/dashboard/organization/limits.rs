//! Limits with their live use: of each model, of groups of models, and of the batch queue.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::http::Uri;
use maud::{Markup, html};
use ratelimit::Micros;

use super::super::chart::bar;
use super::super::live::{self, Reading};
use super::super::page::Failure;
use super::super::text::{count, minutes, query_value, span};
use super::view::View;
use gateway_policy::plan::{Dimension, Meter, Scope};
use gateway_policy::settings::{LimitsUrl, Model, NO_MODEL};
use gateway_policy::tenants::Project;
use gateway_store::records::batches;

/// Models or groups per page.
const CARDS: usize = 24;

/// The contents of the section.
pub(super) struct Limits {
    /// True if limits are switched off.
    is_off: bool,
    /// True if the store of the limits is unreachable.
    is_away: bool,
    models: Part,
    groups: Part,
    /// Models without a limit of their own.
    unlimited: Vec<Box<str>>,
    queue: Vec<Queue>,
}

/// A page of cards.
struct Part {
    cards: Vec<Card>,
    /// The name after which the next page starts.
    next: Option<Box<str>>,
}

struct Card {
    name: Box<str>,
    /// A model's aliases, or a group's models.
    names: Vec<Box<str>>,
    /// The number of tokens from which a request draws on the long-context limit.
    long_context: Option<u64>,
    is_ending: bool,
    meters: Vec<Meter>,
    rows: Vec<Row>,
}

/// A row of the queue.
struct Queue {
    name: Box<str>,
    is_group: bool,
    tokens: u64,
    batches: u64,
    limit: Option<u64>,
}

/// A limit and its use.
pub(crate) struct Row {
    name: &'static str,
    dimension: Dimension,
    used: u64,
    limit: u64,
    left: u64,
    until_full: Micros,
}

impl From<Reading> for Row {
    fn from(Reading { meter, state }: Reading) -> Self {
        let (used, left) = (state.used, state.remaining);
        let (dimension, limit) = (meter.dimension, meter.limit);
        Self { name: name(dimension), dimension, used, limit, left, until_full: state.until_full }
    }
}

pub(super) async fn read(
    view: &View<'_>,
    models_after: &str,
    groups_after: &str,
) -> Result<Limits, Failure> {
    let (mut models, mut groups) = (BTreeMap::new(), BTreeMap::new());
    let mut unlimited = Vec::new();
    let catalog = &view.settings.catalog;
    for model in catalog.models().chain(catalog.no_model()) {
        let (own, shared) = of_model(view, model);
        if own.is_empty() && shared.is_empty() {
            unlimited.push(model.name.clone());
        } else if !own.is_empty() {
            models.insert(model.name.clone(), model_card(model, own, view.now));
        }
        if let Some(group) = &model.shared_limit {
            let card = groups.entry(group.clone()).or_insert_with(|| Card::of_group(group, shared));
            card.names.push(model.name.clone());
        }
    }
    let (models, groups) = (part(models, models_after), part(groups, groups_after));
    let mut limits = Limits {
        is_off: view.settings.limits == LimitsUrl::Off,
        is_away: false,
        models,
        groups,
        unlimited,
        queue: queue(view).await?,
    };
    limits.fill(view).await;
    Ok(limits)
}

impl Limits {
    /// Reads the live use of all rows in one call.
    async fn fill(&mut self, view: &View<'_>) {
        let cards = || self.models.cards.iter().chain(&self.groups.cards);
        let meters: Vec<Meter> = cards().flat_map(|card| card.meters.iter().cloned()).collect();
        let readings = live::read(view.services, &view.organization.id, meters, view.now).await;
        let Ok(readings) = readings else {
            self.is_away = true;
            return;
        };
        let mut rows = readings.into_iter().map(Row::from);
        for card in self.models.cards.iter_mut().chain(&mut self.groups.cards) {
            card.rows = rows.by_ref().take(card.meters.len()).collect();
        }
    }
}

/// The organization's meters of a model: the model's own, and its group's.
fn of_model(view: &View<'_>, model: &Model) -> (Vec<Meter>, Vec<Meter>) {
    let no_project = Arc::new(Project::default());
    let mut meters = live::meters(view.organization, &no_project, model, view.settings);
    meters
        .retain(|meter| meter.scope == Scope::Organization && meter.dimension != Dimension::Spend);
    meters.into_iter().partition(|meter| meter.name.starts_with("m:"))
}

fn model_card(model: &Model, meters: Vec<Meter>, now: Micros) -> Card {
    let shutdown = model.shutdown.as_ref();
    Card {
        name: model.name.clone(),
        names: model.aliases.clone(),
        long_context: model.long_context_tokens,
        is_ending: shutdown.is_some_and(|shutdown| now >= shutdown.deprecated_from),
        meters,
        rows: Vec::new(),
    }
}

impl Card {
    fn of_group(name: &str, meters: Vec<Meter>) -> Self {
        let (names, rows) = (Vec::new(), Vec::new());
        Self { name: name.into(), names, long_context: None, is_ending: false, meters, rows }
    }
}

fn part(cards: BTreeMap<Box<str>, Card>, after: &str) -> Part {
    let mut cards: Vec<Card> =
        cards.into_values().filter(|card| *card.name > *after).take(CARDS + 1).collect();
    let has_more = cards.len() > CARDS;
    cards.truncate(CARDS);
    let next = cards.last().filter(|_| has_more).map(|card| card.name.clone());
    Part { cards, next }
}

/// The tokens that batches hold in each queue, by model and by group.
async fn queue(view: &View<'_>) -> Result<Vec<Queue>, Failure> {
    let queued = batches::queued(&view.services.database, &view.organization.id).await?;
    let tier = view.organization.tier;
    let mut lines: BTreeMap<(bool, Box<str>), Queue> = BTreeMap::new();
    let mut add = |is_group: bool, name: &str, limit: Option<u64>, tokens: u64, batches: u64| {
        let empty = || Queue { name: name.into(), is_group, tokens: 0, batches: 0, limit };
        let line = lines.entry((is_group, name.into())).or_insert_with(empty);
        line.tokens = line.tokens.saturating_add(tokens);
        line.batches += batches;
    };
    for model in view.settings.catalog.models() {
        let limit = model.limits(tier).batch_queue_tokens;
        if limit.is_some() {
            add(false, &model.name, limit, 0, 0);
        }
        let limit = model.group_limits(tier).batch_queue_tokens;
        if let (Some(group), Some(_)) = (&model.shared_limit, limit) {
            add(true, group, limit, 0, 0);
        }
    }
    for line in &queued {
        let model = view.settings.catalog.find(&line.model);
        let name = model.map_or(&line.model, |model| &model.name);
        let limit = model.and_then(|model| model.limits(tier).batch_queue_tokens);
        add(false, name, limit, line.tokens, line.batches);
        let Some(model) = model else { continue };
        let limit = model.group_limits(tier).batch_queue_tokens;
        if let (Some(group), Some(_)) = (&model.shared_limit, limit) {
            add(true, group, limit, line.tokens, line.batches);
        }
    }
    Ok(lines.into_values().collect())
}

pub(super) fn sections(limits: &Limits, address: &Uri) -> Markup {
    html! {
        section aria-labelledby="limits" {
            h2 #limits { "Limits" }
            @if limits.is_off {
                p.notice { "Limits are turned off in this gateway's configuration; nothing is counted." }
            }
            @if limits.is_away {
                p.notice.bad role="status" { "The store of the limits does not answer: their use is \
                    not known now." }
            }
            @if limits.models.cards.is_empty() {
                p.empty { "No model has a limit of its own in this tier." }
            }
            (cards(&limits.models, address, "models_after"))
            @if !limits.unlimited.is_empty() {
                p.hint { "Without a limit in this tier: " (listing(&limits.unlimited)) "." }
            }
        }
        div.pair.reversed {
            section aria-labelledby="groups" {
                h2 #groups { "Shared limits" }
                @if limits.groups.cards.is_empty() {
                    p.empty { "No models share a limit." }
                }
                (cards(&limits.groups, address, "groups_after"))
            }
            (queue_section(&limits.queue))
        }
    }
}

fn cards(part: &Part, address: &Uri, next: &str) -> Markup {
    let is_group = next == "groups_after";
    html! {
        div.cards.packed {
            @for card in &part.cards {
                section.card {
                    h3 {
                        (shown(&card.name))
                        @if card.is_ending { " " span.tag.high { "deprecated" } }
                    }
                    @if !card.names.is_empty() {
                        p.hint {
                            @if is_group { "Shared by " } @else { "Also called " }
                            (listing(&card.names))
                        }
                    }
                    @if let Some(tokens) = card.long_context {
                        p.hint { "Above " (count(tokens)) " tokens a request draws on the \
                            long-context limit." }
                    }
                    @if card.meters.is_empty() { p.empty { "No limit in this tier." } }
                    @else if !card.rows.is_empty() { (list(&card.name, &card.rows)) }
                }
            }
        }
        @if let Some(last) = &part.next {
            nav.pager aria-label=(if is_group { "More groups" } else { "More models" }) {
                a href={ (address.path()) "?" (next) "=" (query_value(last)) } { "More" }
            }
        }
    }
}

/// The display name; requests without a model have a meter whose name is not meaningful.
pub(crate) fn shown(name: &str) -> &str {
    if name == NO_MODEL { "requests without a model" } else { name }
}

/// The first names, and the number of the remaining ones.
fn listing(names: &[Box<str>]) -> Markup {
    const SHOWN: usize = 20;
    html! {
        @for (at, name) in names.iter().take(SHOWN).enumerate() {
            @if at > 0 { ", " } code { (shown(name)) }
        }
        @if names.len() > SHOWN { " and " (count((names.len() - SHOWN) as u64)) " more" }
    }
}

/// A list of limits with their bars.
pub(crate) fn list(of: &str, rows: &[Row]) -> Markup {
    html! { ul.limits { @for row in rows { li { (show(of, row)) } } } }
}

fn show(of: &str, row: &Row) -> Markup {
    let number = |value: u64| match row.dimension {
        Dimension::AudioPerMinute => minutes(value),
        _ => count(value),
    };
    let (used, limit, left) = (number(row.used), number(row.limit), number(row.left));
    let what = format!("{}, {of}: {used} of {limit} used, {left} left", row.name);
    html! {
        p.what { span { (row.name) } span.number { (used) " of " (limit) } }
        (bar(&what, row.used, row.limit))
        p.hint {
            (left) " left"
            @if row.used > 0 { " · resets in " (span(row.until_full)) }
        }
    }
}

fn name(dimension: Dimension) -> &'static str {
    match dimension {
        Dimension::RequestsPerMinute => "Requests a minute",
        Dimension::RequestsPerDay => "Requests a day",
        Dimension::TokensPerMinute => "Tokens a minute",
        Dimension::LongContextTokensPerMinute => "Long-context tokens a minute",
        Dimension::TokensPerDay => "Tokens a day",
        Dimension::ImagesPerMinute => "Images a minute",
        Dimension::AudioPerMinute => "Audio minutes a minute",
        Dimension::IngestionPerMinute => "Ingestions a minute",
        Dimension::Spend => "Spend",
    }
}

fn queue_section(lines: &[Queue]) -> Markup {
    html! {
        section aria-labelledby="queue" {
            h2 #queue { "Batch queue" }
            @if lines.is_empty() {
                p.empty { "No batch is queued, and no model has a limit for its queue." }
            } @else {
                div.scroll.card tabindex="0" role="region" aria-labelledby="queue" {
                    table {
                        caption { "Input tokens of batches that have not ended" }
                        thead {
                            tr {
                                th scope="col" { "Model or group" }
                                th scope="col" { "Use" }
                                th.number scope="col" { "Batches" }
                                th.number scope="col" { "Queued" }
                                th.number scope="col" { "Of" }
                            }
                        }
                        tbody { @for line in lines { (queue_line(line)) } }
                    }
                }
            }
        }
    }
}

fn queue_line(line: &Queue) -> Markup {
    let queued = count(line.tokens);
    html! {
        tr {
            th scope="row" { (line.name) @if line.is_group { " " span.tag { "group" } } }
            @if let Some(limit) = line.limit {
                td { (bar(&format!("{}: {queued} of {} tokens queued", line.name, count(limit)),
                    line.tokens, limit)) }
            } @else { td { "no limit" } }
            td.number { (count(line.batches)) }
            td.number { (queued) }
            td.number { @if let Some(limit) = line.limit { (count(limit)) } @else { "–" } }
        }
    }
}
