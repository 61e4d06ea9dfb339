//! Spend of this month against all limits, and the tier.

use std::collections::HashMap;

use maud::{Markup, html};
use ratelimit::Micros;

use super::super::chart::{bar, share, soft_bar};
use super::super::text::{cents, money, month};
use super::super::{live, page::Failure};
use super::view::{Notice, View, tier_name};
use crate::Services;
use gateway_policy::dates;
use gateway_policy::plan::{Meter, ORGANIZATION_SPEND, Scope, spend_meter};
use gateway_policy::tenants::{MicroDollars, Organization, SpendAlert, SpendLimits, Tier};
use gateway_store::ledger;

/// Spend of an organization and of its projects this month.
pub(crate) struct Spent {
    organization: MicroDollars,
    projects: HashMap<Box<str>, MicroDollars>,
}

impl Spent {
    /// All projects together.
    pub(crate) fn of_organization(&self) -> MicroDollars {
        self.organization
    }

    /// One project.
    fn of_project(&self, id: &str) -> MicroDollars {
        self.projects.get(id).copied().unwrap_or(0)
    }
}

/// Reads the spend. The ledger is exact, but the meters also include the reservations of open
/// requests: the larger of both is used, or the ledger's alone when the meters are unavailable.
pub(crate) async fn spent(
    services: &Services,
    organization: &Organization,
    now: Micros,
) -> Result<Spent, Failure> {
    let sums = ledger::month_spend(&services.database, &organization.id, dates::month(now)).await?;
    let mut spent = Spent { organization: 0, projects: HashMap::with_capacity(sums.len()) };
    for sum in sums {
        match sum.project {
            None => spent.organization = sum.cost,
            Some(project) => drop(spent.projects.insert(project, sum.cost)),
        }
    }
    let meter = Meter::of_spend(ORGANIZATION_SPEND, Scope::Organization);
    if let Ok(readings) = live::read(services, &organization.id, vec![meter], now).await {
        let used = readings.first().map_or(0, |reading| reading.state.used);
        spent.organization = spent.organization.max(used);
    }
    Ok(spent)
}

impl Spent {
    /// Spend of these projects, including the reservations of open requests, in the given order.
    pub(crate) async fn reserved(
        &self,
        services: &Services,
        organization: &str,
        projects: &[&str],
        now: Micros,
    ) -> Vec<MicroDollars> {
        let meter = |project: &&str| Meter::of_spend(&spend_meter(project), Scope::Project);
        let meters = projects.iter().map(meter).collect();
        let known = projects.iter().map(|project| self.of_project(project));
        match live::read(services, organization, meters, now).await {
            Ok(readings) => {
                known.zip(readings).map(|(known, reading)| known.max(reading.state.used)).collect()
            }
            Err(_) => known.collect(),
        }
    }
}

/// The largest monthly spend of the organization.
pub(super) fn limit(view: &View<'_>) -> MicroDollars {
    let of_tier = view.settings.tier(view.organization.tier).monthly_limit;
    view.organization.spend.hard.unwrap_or(u64::MAX).min(of_tier)
}

pub(super) fn notices(view: &View<'_>, spent: &Spent) -> Vec<Notice> {
    let used = spent.of_organization();
    let mut notices = Vec::new();
    let limit = limit(view);
    if used >= limit {
        let whose = match view.organization.spend.hard {
            Some(hard) if hard == limit => "the organization's hard limit",
            _ => "the monthly limit of the tier",
        };
        let text = html! { (money(used)) " is spent, and " (whose) " is " (money(limit))
        ": requests that cost are refused until the month is over or the limit is raised." };
        notices.push(Notice { is_bad: true, text });
    }
    let mut passed = view.organization.spend.alerts.iter().filter(|alert| alert.threshold <= used);
    if let Some(alert) = passed.next_back() {
        let text = html! { "the soft limit of " (money(alert.threshold)) " is passed: "
        (money(used)) " is spent." };
        notices.push(Notice { is_bad: false, text });
    }
    notices
}

pub(super) fn section(view: &View<'_>, spent: &Spent) -> Markup {
    let used = spent.of_organization();
    let of_tier = view.settings.tier(view.organization.tier).monthly_limit;
    html! {
        section aria-labelledby="spend" {
            h2 #spend { "Spend" }
            div.scroll.card tabindex="0" role="region" aria-labelledby="spend" {
                table {
                    caption { "Spent in " (month(view.now)) ", with what requests under way have \
                        reserved" }
                    (heading())
                    tbody {
                        (line(&format!("Monthly limit of {}", tier_name(view.organization.tier)),
                            used, of_tier))
                        (own(&view.organization.spend, used, Some(&view.page())))
                    }
                }
            }
            (changes(Some(&view.page())))
        }
    }
}

/// The head of a table of [`line`]s.
fn heading() -> Markup {
    html! {
        thead {
            tr {
                th scope="col" { "Limit" }
                th scope="col" { "Use" }
                th.number scope="col" { "Spent" }
                th.number scope="col" { "Limit" }
                th.number scope="col" { "Left" }
            }
        }
    }
}

/// Links to the forms of limits; `page` is the address of their owner's page, if it can be changed.
fn changes(page: Option<&str>) -> Markup {
    html! {
        @if let Some(page) = page {
            p.actions {
                a href={ (page) "/spend-limit" } { "Change the hard limit" }
                a href={ (page) "/spend-alerts/new" } { "New spend alert" }
            }
        }
    }
}

/// The limits that administrators set.
fn own(limits: &SpendLimits, used: MicroDollars, page: Option<&str>) -> Markup {
    html! {
        @if let Some(hard) = limits.hard { (line("Hard limit", used, hard)) }
        @else { tr { th scope="row" { "Hard limit" } td colspan="4" { "none set" } } }
        @for alert in &limits.alerts { (soft(used, alert, page)) }
    }
}

fn soft(used: MicroDollars, alert: &SpendAlert, page: Option<&str>) -> Markup {
    let threshold = alert.threshold;
    let what = format!("{} of the soft limit of {} spent", money(used), money(threshold));
    html! {
        tr {
            th scope="row" {
                "Soft limit "
                @if used >= threshold { span.tag.high { "passed" } }
                @if let Some(page) = page {
                    span.actions {
                        a href={ (page) "/spend-alerts/" (alert.id) } {
                            "Change" span.unseen { " the alert at " (money(threshold)) }
                        }
                        a href={ (page) "/spend-alerts/" (alert.id) "/delete" } {
                            "Delete" span.unseen { " the alert at " (money(threshold)) }
                        }
                    }
                }
            }
            td { (soft_bar(&what, used, threshold)) }
            td.number { (money(used)) }
            td.number { (money(threshold)) }
            td.number { (money(threshold.saturating_sub(used))) }
        }
    }
}

/// A row for a hard limit.
pub(crate) fn line(name: &str, used: MicroDollars, limit: MicroDollars) -> Markup {
    let what = format!("{name}: {} of {} spent", money(used), money(limit));
    html! {
        tr {
            th scope="row" { (name) }
            td { (bar(&what, used, limit)) }
            td.number { (money(used)) }
            td.number { (money(limit)) }
            td.number { (money(limit.saturating_sub(used))) }
        }
    }
}

/// All limits of a project.
pub(crate) fn of_project(limits: &SpendLimits, used: MicroDollars, page: Option<&str>) -> Markup {
    html! {
        section aria-labelledby="spend" {
            h2 #spend { "Spend" }
            div.scroll.card tabindex="0" role="region" aria-labelledby="spend" {
                table {
                    caption { "Spent this month, with what requests under way have reserved: "
                        (money(used)) }
                    (heading())
                    tbody { (own(limits, used, page)) }
                }
            }
            (changes(page))
        }
    }
}

/// The next tier that payments lead to, and the payment that it requires.
fn next(view: &View<'_>) -> Option<(Tier, u64)> {
    let higher = Tier::ALL.into_iter().find(|tier| *tier > view.organization.tier)?;
    Some((higher, view.settings.tier(higher).paid_usd.saturating_mul(100)))
}

/// The requirement of the next tier, as text.
pub(super) fn next_tier(view: &View<'_>) -> Markup {
    match next(view) {
        None => html! { "the highest one" },
        Some((tier, needs)) => {
            let missing = needs.saturating_sub(view.organization.paid_cents);
            html! { (cents(missing)) " more paid leads to " (tier_name(tier)) }
        }
    }
}

pub(super) fn tier(view: &View<'_>) -> Markup {
    let organization = view.organization;
    html! {
        section aria-labelledby="tier" {
            h2 #tier { "Tier" }
            div.card {
                p {
                    strong { (tier_name(organization.tier)) } " · "
                    (cents(organization.paid_cents)) " paid in all · " (next_tier(view)) "."
                    @if organization.tier > view.settings.tier_for(organization.paid_cents) {
                        " It was set by hand: payments alone would not have led here."
                    }
                }
                @if let Some((next, needs)) = next(view) {
                    (share(
                        &format!("{} of the {} paid that {} needs",
                            cents(organization.paid_cents), cents(needs), tier_name(next)),
                        organization.paid_cents, needs))
                }
                div.scroll tabindex="0" role="region" aria-label="Tiers" {
                    table {
                        caption { "Tiers of this gateway" }
                        thead {
                            tr {
                                th scope="col" { "Tier" }
                                th.number scope="col" { "Needs paid" }
                                th.number scope="col" { "Monthly limit" }
                            }
                        }
                        tbody {
                            @for tier in Tier::ALL {
                                tr.current[tier == organization.tier] {
                                    th scope="row" {
                                        (tier_name(tier))
                                        @if tier == organization.tier {
                                            " " span.tag { "current" }
                                        }
                                    }
                                    td.number { (cents(view.settings.tier(tier).paid_usd * 100)) }
                                    td.number { (money(view.settings.tier(tier).monthly_limit)) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
