//! An organization's usage over time and by model, from the ledger.

use maud::{Markup, html};

use super::super::chart::{Column, Columns, share};
use super::super::page::Failure;
use super::super::text::{count, date, moment, money, month_start};
use super::limits::shown;
use super::view::View;
use gateway_policy::dates::seconds;
use gateway_policy::settings::NO_MODEL;
use gateway_store::ledger::{GroupBy, Sum, UsageQuery, sums};

const HOUR: u64 = 3600;
const DAY: u64 = 86_400;
/// Models in a list of the most used.
const TOP: usize = 10;

/// The contents of the section.
pub(super) struct Usage {
    hours: Vec<Sum>,
    days: Vec<Sum>,
    /// Sums of this month; `None`: too many to compute.
    models: Option<Vec<Sum>>,
    month: String,
}

/// Reads the usage.
pub(super) async fn read(view: &View<'_>) -> Result<Usage, Failure> {
    let now = u64::try_from(seconds(view.now)).unwrap_or(0);
    let month = UsageQuery {
        start: month_start(view.now),
        end: now + 1,
        // So wide that there is only one bucket.
        width: 1_000_000_000_000,
        group_by: GroupBy { model: true, ..GroupBy::default() },
        ..query_of_organization(view)
    };
    Ok(Usage {
        hours: series(view, now, HOUR, 24).await?,
        days: series(view, now, DAY, 30).await?,
        models: sums(&view.services.database, &month).await?.ok(),
        month: super::super::text::month(view.now),
    })
}

fn query_of_organization(view: &View<'_>) -> UsageQuery {
    UsageQuery { organization: view.organization.id.clone(), ..UsageQuery::default() }
}

/// The latest buckets, empty ones included; the last one is incomplete.
async fn series(
    view: &View<'_>,
    now: u64,
    width: u64,
    buckets: u64,
) -> Result<Vec<Sum>, gateway_store::Error> {
    let last = now / width;
    let first = (last + 1).saturating_sub(buckets);
    let query =
        UsageQuery { start: first * width, end: now + 1, width, ..query_of_organization(view) };
    let found = sums(&view.services.database, &query).await?.unwrap_or_default();
    let bucket = |bucket| {
        let known = found.iter().find(|sum| sum.bucket == bucket).cloned();
        known.unwrap_or(Sum { bucket, ..Sum::default() })
    };
    Ok((first..=last).map(bucket).collect())
}

fn tokens(sum: &Sum) -> u64 {
    sum.input_tokens.saturating_add(sum.output_tokens)
}

fn totals(sums: &[Sum]) -> [u64; 2] {
    let all = |of: fn(&Sum) -> u64| sums.iter().map(of).fold(0, u64::saturating_add);
    [all(|sum| sum.requests), all(tokens)]
}

impl Usage {
    /// Requests and tokens of the last 24 hours and of the last 30 days.
    pub(super) fn totals(&self) -> ([u64; 2], [u64; 2]) {
        (totals(&self.hours), totals(&self.days))
    }

    pub(super) fn section(&self) -> Markup {
        html! {
            section aria-labelledby="usage" {
                h2 #usage { "Usage" }
                div.cards.wide {
                    (chart("hours", "Last 24 hours", &self.hours, HOUR))
                    (chart("days", "Last 30 days", &self.days, DAY))
                }
            }
            section aria-labelledby="models" {
                h2 #models { "Top models" }
                @match &self.models {
                    None => p.empty { "There are too many models to sum up." },
                    Some(sums) if sums.is_empty() => p.empty { "No usage this month." },
                    Some(sums) => div.cards {
                        (top("By tokens", &self.month, sums, tokens, count))
                        (top("By cost", &self.month, sums, |sum| sum.cost, money))
                    },
                }
            }
        }
    }
}

fn chart(id: &str, title: &str, sums: &[Sum], width: u64) -> Markup {
    let column = |sum: &Sum| Column {
        label: label(sum.bucket * width, width),
        lower: sum.input_tokens,
        upper: sum.output_tokens,
    };
    let columns = Columns {
        id,
        unit: "tokens",
        parts: ["Input tokens", "Output tokens"],
        labelled: if width == HOUR { 6 } else { 7 },
        columns: sums.iter().map(column).collect(),
    };
    html! {
        section.card {
            h3 { (title) }
            (columns.draw())
            details {
                summary { "Numbers of: " (title) }
                div.scroll tabindex="0" role="region" aria-label=(title) { (numbers(title, sums, width)) }
            }
        }
    }
}

/// `14:00`, or `11-21`.
fn label(second: u64, width: u64) -> String {
    let second = i64::try_from(second).unwrap_or(i64::MAX);
    let text = if width == HOUR { moment(second) } else { date(second) };
    text.get(if width == HOUR { 11 } else { 5 }..).unwrap_or_default().to_owned()
}

fn numbers(title: &str, sums: &[Sum], width: u64) -> Markup {
    html! {
        table {
            caption.unseen { (title) }
            thead {
                tr {
                    th scope="col" { @if width == HOUR { "Hour" } @else { "Day" } }
                    th.number scope="col" { "Requests" }
                    th.number scope="col" { "Input" }
                    th.number scope="col" { "Of it cached" }
                    th.number scope="col" { "Output" }
                    th.number scope="col" { "Images" }
                    th.number scope="col" { "Cost" }
                }
            }
            tbody {
                @for sum in sums.iter().rev() {
                    tr {
                        th scope="row" { (label(sum.bucket * width, width)) }
                        td.number { (count(sum.requests)) }
                        td.number { (count(sum.input_tokens)) }
                        td.number { (count(sum.cached_tokens)) }
                        td.number { (count(sum.output_tokens)) }
                        td.number { (count(sum.images)) }
                        td.number { (money(sum.cost)) }
                    }
                }
            }
        }
    }
}

/// The models with the largest values.
fn top(
    title: &str,
    month: &str,
    sums: &[Sum],
    of: fn(&Sum) -> u64,
    show: fn(u64) -> String,
) -> Markup {
    let mut sorted: Vec<&Sum> = sums.iter().collect();
    sorted.sort_by_key(|sum| std::cmp::Reverse(of(sum)));
    let all = sums.iter().map(of).fold(0, u64::saturating_add);
    html! {
        section.card {
            h3 { (title) }
            div.scroll tabindex="0" role="region" aria-label=(title) {
                table {
                    caption { (month) ", of " (show(all)) " in all" }
                    thead {
                        tr {
                            th scope="col" { "Model" }
                            th scope="col" { "Share" }
                            th.number scope="col" { (title) }
                            th.number scope="col" { "Requests" }
                        }
                    }
                    tbody {
                        @for sum in sorted.into_iter().take(TOP) {
                            (top_row(title, sum, of(sum), all, show))
                        }
                    }
                }
            }
        }
    }
}

fn top_row(title: &str, sum: &Sum, part: u64, all: u64, show: fn(u64) -> String) -> Markup {
    let name = shown(sum.model.as_deref().unwrap_or(NO_MODEL));
    html! {
        tr {
            th scope="row" { (name) }
            td { (share(&format!("{title}: {name}, {} of {}", show(part), show(all)), part, all)) }
            td.number { (show(part)) }
            td.number { (count(sum.requests)) }
        }
    }
}
