//! The audit log of an organization, as the administration API lists and exports it: newest first,
//! by filters, with the values before and after each act.

use axum::extract::{Path, State};
use axum::http::Uri;
use axum::response::{Html, Response};
use jiff::civil::DateTime;
use jiff::tz::Offset;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::access::Access;
use super::api::{Call, Refusal};
use super::context::{Context, Shared};
use super::page::{self, Failure, Frame, QueryResult};
use super::text::{moment, query_value};
use gateway_store::records::conditions::Conditions;
use gateway_store::records::organizations;

/// Rows per page.
const ROWS: u32 = 25;
/// Longest value of a filter, in characters.
const LONGEST: usize = 100;

/// The filters, and the cursor of the list.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Query {
    actor: String,
    action: String,
    object: String,
    project: String,
    from: String,
    until: String,
    after: String,
    before: String,
    format: String,
}

/// A filter of a text: its name in the address and at the API, its label, and an example.
struct Filter {
    name: &'static str,
    wire: &'static str,
    label: &'static str,
    example: &'static str,
    get: fn(&Query) -> &str,
}

const FILTERS: [Filter; 4] = [
    Filter {
        name: "actor",
        wire: "actor_ids[]",
        label: "Actor",
        example: "admin_token",
        get: |query| &query.actor,
    },
    Filter {
        name: "action",
        wire: "event_types[]",
        label: "Action",
        example: "api_key.created",
        get: |query| &query.action,
    },
    Filter {
        name: "object",
        wire: "resource_ids[]",
        label: "Object",
        example: "key_…",
        get: |query| &query.object,
    },
    Filter {
        name: "project",
        wire: "project_ids[]",
        label: "Project",
        example: "proj_…",
        get: |query| &query.project,
    },
];

/// A bound of time: its name in the address and at the API, and its label.
type Bound = (&'static str, &'static str, &'static str, fn(&Query) -> &str);

const BOUNDS: [Bound; 2] = [
    ("from", "effective_at[gte]", "From (UTC)", |query| &query.from),
    ("until", "effective_at[lt]", "Before (UTC)", |query| &query.until),
];

/// `GET /dashboard/organizations/{id}/audit`.
pub(super) async fn page(
    State(context): Shared,
    access: Access,
    Path(id): Path<String>,
    address: Uri,
    query: QueryResult<Query>,
) -> Result<Html<String>, Failure> {
    access.check_organization(&id)?;
    let query = page::read_query(query)?;
    let found = organizations::get(&context.services.database, &id).await?;
    let name = found.map_or_else(|| id.clone().into(), |organization| organization.name);
    let listed = match query.filters() {
        Ok(filters) => list(&context, &access, &id, &query, &filters).await?,
        Err(_) => Value::Null,
    };
    let frame = Frame { title: "Audit log", access: Some(&access), refresh: None };
    Ok(frame.around(&html! {
        nav.crumbs aria-label="Breadcrumb" {
            @if access.only().is_none() { a href="/dashboard" { "Organizations" } }
            a href={ "/dashboard/organizations/" (query_value(&id)) } { (name) }
        }
        h1 { "Audit log of " (name) }
        p.hint { "Each act of an administrator, newest first. Rows stay forever." }
        (query.form(address.path()))
        (rows(&query, address.path(), &listed))
    }))
}

/// `GET /dashboard/organizations/{id}/audit/export`: all rows of the filters, oldest first.
pub(super) async fn export(
    State(context): Shared,
    access: Access,
    Path(id): Path<String>,
    query: QueryResult<Query>,
) -> Result<Response, Failure> {
    access.check_organization(&id)?;
    let query = page::read_query(query)?;
    let filters = query.filters().map_err(|_| Failure::Query)?;
    let format = query_value(&query.format);
    let path = format!("/v1/organization/audit_logs/export?format={format}{filters}");
    let (authority, call) = (access.authority(), Call::get(path));
    let response = context.api.send(authority, &id, call, Conditions::default()).await;
    match response.status().as_u16() {
        200 => Ok(response),
        404 => Err(Failure::no_organization(&id)),
        503 => Err(Failure::Unavailable),
        500.. => Err(Failure::Fault("the audit log cannot be exported".to_owned())),
        _ => Err(Failure::Query),
    }
}

async fn list(
    context: &Context,
    access: &Access,
    id: &str,
    query: &Query,
    filters: &str,
) -> Result<Value, Failure> {
    let cursor = match (&*query.after, &*query.before) {
        ("", "") => String::new(),
        ("", before) => format!("&before={}", query_value(before)),
        (after, _) => format!("&after={}", query_value(after)),
    };
    let path = format!("/v1/organization/audit_logs?limit={ROWS}{cursor}{filters}");
    let call = context.api.call(access.authority(), id, Call::get(path), Conditions::default());
    call.await.map_err(|refusal: Refusal| match refusal.status.as_u16() {
        404 => Failure::no_organization(id),
        _ => refusal.into(),
    })
}

impl Query {
    /// The filters for the API, to be added to a query.
    ///
    /// # Errors
    /// The name of a bound of time that cannot be read.
    fn filters(&self) -> Result<String, &'static str> {
        let mut text = String::new();
        for filter in &FILTERS {
            let value = (filter.get)(self).trim();
            if !value.is_empty() {
                text += &format!("&{}={}", query_value(filter.wire), query_value(&short(value)));
            }
        }
        for (name, wire, _, get) in BOUNDS {
            let value = get(self).trim();
            if !value.is_empty() {
                let second = second(value).ok_or(name)?;
                text += &format!("&{}={second}", query_value(wire));
            }
        }
        Ok(text)
    }

    /// The filters as the address has them.
    fn kept(&self) -> String {
        let texts = FILTERS.iter().map(|filter| (filter.name, (filter.get)(self)));
        let bounds = BOUNDS.iter().map(|(name, _, _, get)| (*name, get(self)));
        let given = texts.chain(bounds).filter(|(_, value)| !value.is_empty());
        given.map(|(name, value)| format!("&{name}={}", query_value(&short(value)))).collect()
    }

    fn form(&self, path: &str) -> Markup {
        let wrong = self.filters().err();
        html! {
            search {
                form.filter method="get" action=(path) {
                    @for filter in &FILTERS {
                        div.field {
                            label for=(filter.name) { (filter.label) }
                            input id=(filter.name) type="text" name=(filter.name)
                                value=((filter.get)(self)) maxlength=(LONGEST)
                                placeholder=(filter.example) autocomplete="off";
                        }
                    }
                    @for (name, _, label, get) in BOUNDS {
                        @let is_wrong = wrong == Some(name);
                        div.field {
                            label for=(name) { (label) }
                            @if is_wrong {
                                p.error id={ (name) "-error" } {
                                    "Expected a moment such as 2026-11-19T16:04."
                                }
                            }
                            input id=(name) type="datetime-local" name=(name) value=(get(self))
                                aria-invalid=[is_wrong.then_some("true")]
                                aria-describedby=[is_wrong.then(|| format!("{name}-error"))];
                        }
                    }
                    div.actions {
                        button type="submit" { "Filter" }
                        @if !self.kept().is_empty() { a href=(path) { "All acts" } }
                    }
                }
            }
        }
    }
}

fn short(value: &str) -> String {
    value.trim().chars().take(LONGEST).collect()
}

/// The Unix second of a moment as browsers write it, in UTC; none before 1970.
fn second(text: &str) -> Option<i64> {
    let at: DateTime = text.parse().ok()?;
    let second = Offset::UTC.to_timestamp(at).ok()?.as_second();
    Some(second).filter(|second| *second >= 0)
}

fn rows(query: &Query, path: &str, listed: &Value) -> Markup {
    let items = listed["data"].as_array().map(Vec::as_slice).unwrap_or_default();
    let kept = query.kept();
    let (has_more, is_backward) =
        (listed["has_more"] == true, query.after.is_empty() && !query.before.is_empty());
    let has_previous = if is_backward { has_more } else { !query.after.is_empty() };
    let cursor = |name: &str| query_value(listed[name].as_str().unwrap_or_default()).to_string();
    html! {
        @if items.is_empty() { p.empty { "No act matches." } }
        @else {
            p.actions {
                a href={ (path) "/export?format=csv" (kept) } { "Export as CSV" }
                a href={ (path) "/export?format=jsonl" (kept) } { "Export as JSON lines" }
            }
            ol.log { @for item in items { li.card { (act(item)) } } }
            nav.pager aria-label="Pages of the audit log" {
                @if has_previous {
                    a rel="prev" href={ (path) "?before=" (cursor("first_id")) (kept) } { "Newer" }
                }
                @if is_backward || has_more {
                    a rel="next" href={ (path) "?after=" (cursor("last_id")) (kept) } { "Older" }
                }
            }
        }
    }
}

fn act(item: &Value) -> Markup {
    let kind = item["type"].as_str().unwrap_or_default();
    let object = item[kind]["id"].as_str();
    let actor = &item["actor"];
    let is_session = actor["type"] == "session";
    let by = match (is_session, actor["api_key"]["id"].as_str()) {
        (true, _) => Some("the dashboard"),
        // What its first start makes, by no request.
        (false, Some("gateway")) => None,
        (false, _) => Some("the API"),
    };
    let place = if is_session { &actor["session"] } else { actor };
    html! {
        h2 { (kind) }
        dl.facts {
            (fact("Time", Some(&moment(item["effective_at"].as_i64().unwrap_or(0)))))
            (fact("Actor", Some(actor["api_key"]["id"].as_str().unwrap_or("unknown"))))
            (fact("By", by))
            (fact("Object", object))
            (fact("Project", item["project"]["id"].as_str()))
            (fact("Address", place["ip_address"].as_str()))
            (fact("User agent", place["user_agent"].as_str()))
        }
        (values(kind, &item["before"], &item["after"]))
    }
}

fn fact(name: &str, value: Option<&str>) -> Markup {
    html! { @if let Some(value) = value { div { dt { (name) } dd { (value) } } } }
}

/// The values before and after.
fn values(kind: &str, before: &Value, after: &Value) -> Markup {
    let nothing = Map::new();
    let (before, after) =
        (before.as_object().unwrap_or(&nothing), after.as_object().unwrap_or(&nothing));
    let mut names: Vec<&String> = before.keys().collect();
    names.extend(after.keys().filter(|name| !before.contains_key(*name)));
    html! {
        @if !names.is_empty() {
            details {
                summary { "Before and after" span.unseen { " of " (kind) } }
                div.scroll tabindex="0" role="region" aria-label={ "Values of " (kind) } {
                    table {
                        thead {
                            tr {
                                th scope="col" { "Value" }
                                th scope="col" { "Before" }
                                th scope="col" { "After" }
                            }
                        }
                        tbody {
                            @for name in names {
                                @let (old, new) = (before.get(name), after.get(name));
                                tr.current[old != new] {
                                    th scope="row" {
                                        (name) @if old != new { " " span.tag.high { "changed" } }
                                    }
                                    td { (text(old)) }
                                    td { (text(new)) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn text(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => "–".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_as_browsers_write_them() {
        let check = |text, expected| assert_eq!(second(text), expected, "{text}");
        check("2026-11-19T16:04", Some(1_795_104_240));
        check("2026-11-19T16:04:30", Some(1_795_104_270));
        check("2026-11-19", Some(1_795_046_400));
        check("1969-12-31T23:59", None);
        check("yesterday", None);
        check("", None);
    }

    #[test]
    fn filters_are_escaped() {
        let query = Query { actor: " a&b=c ".into(), from: "x".into(), ..Query::default() };
        assert_eq!(query.filters(), Err("from"));
        let query = Query { from: "1970-01-01T00:01".into(), ..query };
        let filters = "&actor_ids%5B%5D=a%26b%3Dc&effective_at%5Bgte%5D=60";
        assert_eq!(query.filters().as_deref(), Ok(filters));
        assert_eq!(query.kept(), "&actor=a%26b%3Dc&from=1970-01-01T00%3A01");
    }
}
