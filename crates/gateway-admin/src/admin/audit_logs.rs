//! `/v1/organization/audit_logs`: the acts of administrators, in the shape of the public API, with
//! `before` and `after` in addition; and their export.

use std::fmt::Write;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequestParts, State};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use hyper::http::request::Parts;
use serde_json::{Map, Value, json};

use super::authority::{Authority, missing};
use super::export_format::{Format, quote, time};
use super::input::{Parameters, invalid};
use super::output::{self, JsonResult, Shared};
use crate::Services;
use gateway_policy::dates::seconds;
use gateway_policy::error::ApiError;
use gateway_store::records::audit::Actor;
use gateway_store::records::audit_logs::{self, Filter, Logged};
use gateway_store::records::{DEFAULT_ORGANIZATION, organizations};

/// Most values of one filter.
const MOST: usize = 100;
/// Latest moment of a filter, in Unix seconds: far in the future, and no overflow.
const LATEST: u64 = 100_000_000_000;

const HEADER: &str = "time,id,type,organization_id,project_id,object_id,actor_type,actor_id,ip_address,user_agent,\
    before,after\n";

/// The organization whose audit log is read. The admin token also reads those of organizations that
/// have ended, and with the default organization what concerns the gateway as a whole.
pub(super) struct Scope(Filter);

impl FromRequestParts<Arc<Services>> for Scope {
    type Rejection = ApiError;

    async fn from_request_parts(
        parts: &mut Parts,
        context: &Arc<Services>,
    ) -> Result<Self, ApiError> {
        let authority = Authority::from_request_parts(parts, context).await?;
        let id = authority.organization(&parts.headers)?;
        if !organizations::has_existed(&context.database, id).await? {
            return Err(missing(id));
        }
        let with_gateway = authority.is_everything() && id == DEFAULT_ORGANIZATION;
        Ok(Self(Filter { organization: id.into(), with_gateway, ..Filter::default() }))
    }
}

pub(super) async fn list(
    State(context): Shared,
    Scope(mut filter): Scope,
    mut parameters: Parameters,
) -> JsonResult {
    let nothing = fill(&mut filter, &mut parameters)?;
    let page = parameters.page_without_order()?;
    parameters.end()?;
    if nothing {
        return Ok(axum::Json(output::list_of(Vec::new(), false)));
    }
    output::list(&audit_logs::list(&context.database, &filter, &page).await?, show)
}

pub(super) async fn export(
    State(context): Shared,
    Scope(mut filter): Scope,
    mut parameters: Parameters,
) -> Result<Response, ApiError> {
    let format = Format::take(&mut parameters)?;
    let nothing = fill(&mut filter, &mut parameters)?;
    parameters.end()?;
    // The first part is read before the response starts, so that an error gets a response of its
    // own.
    let first = match nothing {
        true => Vec::new(),
        false => audit_logs::export(&context.database, &filter, "").await?,
    };
    let head = if format == Format::Csv { HEADER } else { "" };
    let state = (context, filter, Some((head, first)));
    let parts = stream::try_unfold(state, move |state| next(state, format));
    Ok((format.headers("audit_logs"), Body::from_stream(parts)).into_response())
}

/// The next part: its head and rows; `None` after the last one.
type Export = (Arc<Services>, Filter, Option<(&'static str, Vec<Logged>)>);

async fn next(
    (context, filter, part): Export,
    format: Format,
) -> Result<Option<(Bytes, Export)>, gateway_store::Error> {
    let Some((head, rows)) = part else { return Ok(None) };
    let mut text = head.to_owned();
    for row in &rows {
        match format {
            Format::Csv => push_csv(&mut text, row),
            Format::JsonLines => {
                // Writing to a string cannot fail.
                let _ = writeln!(text, "{}", show(row));
            }
        }
    }
    let next = match rows.last() {
        Some(last) => Some(("", audit_logs::export(&context.database, &filter, &last.id).await?)),
        None => None,
    };
    let next = next.filter(|(_, rows)| !rows.is_empty());
    Ok(Some((text.into(), (context, filter, next))))
}

fn push_csv(text: &mut String, row: &Logged) {
    let optional = |text: &Option<Box<str>>| quote(text.as_deref().unwrap_or_default());
    let fields = [
        time(row.at),
        quote(&row.id),
        quote(&row.kind),
        quote(&row.organization),
        optional(&row.project),
        quote(&row.object),
        quote(row.actor.kind()),
        quote(row.actor.id()),
        optional(&row.address),
        optional(&row.user_agent),
        optional(&row.before),
        optional(&row.after),
    ];
    let _ = writeln!(text, "{}", fields.join(","));
}

/// Fills a filter from the query. Returns whether no row can match: there are no users, so none of
/// that address.
fn fill(filter: &mut Filter, parameters: &mut Parameters) -> Result<bool, ApiError> {
    for (name, is_start, offset) in [
        ("effective_at[gte]", true, 0),
        ("effective_at[gt]", true, 1),
        ("effective_at[lt]", false, 0),
        ("effective_at[lte]", false, 1),
    ] {
        let Some(second) = parameters.integer(name, 0..=LATEST)? else { continue };
        let moment = (second + offset) * 1_000_000;
        match is_start {
            true => filter.from = Some(filter.from.map_or(moment, |known| known.max(moment))),
            false => filter.until = Some(filter.until.map_or(moment, |known| known.min(moment))),
        }
    }
    for (name, values) in [
        ("project_ids", &mut filter.projects),
        ("event_types", &mut filter.kinds),
        ("actor_ids", &mut filter.actors),
        ("resource_ids", &mut filter.objects),
    ] {
        *values = few(parameters, name)?;
    }
    Ok(!few(parameters, "actor_emails")?.is_empty())
}

fn few(parameters: &mut Parameters, name: &'static str) -> Result<Vec<String>, ApiError> {
    let values = parameters.all(name);
    match values.len() > MOST || values.iter().any(|value| value.len() > 256) {
        true => Err(invalid(name, "at most 100 values of at most 256 bytes")),
        false => Ok(values),
    }
}

fn show(row: &Logged) -> Value {
    let parsed = |text: &Option<Box<str>>| -> Value {
        text.as_deref().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    };
    let (before, after) = (parsed(&row.before), parsed(&row.after));
    let mut shown = json!({
        "object": "organization.audit_log",
        "id": row.id,
        "type": row.kind,
        "effective_at": seconds(row.at),
    });
    if let Some(project) = &row.project {
        shown["project"] = json!({ "id": project });
    }
    shown["actor"] = show_actor(row);
    shown[&*row.kind] = details(row, &before, &after);
    shown["before"] = before;
    shown["after"] = after;
    shown
}

/// The member that is named after the type: the object's id, and what was created or changed.
fn details(row: &Logged, before: &Value, after: &Value) -> Value {
    if row.object.is_empty() {
        return after.clone();
    }
    let mut details = json!({ "id": row.object });
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            let changed = after.iter().filter(|(name, value)| before.get(*name) != Some(value));
            let changed = changed.map(|(name, value)| (name.clone(), value.clone())).collect();
            details["changes_requested"] = titled(&row.kind, changed);
        }
        (_, Value::Object(after)) => details["data"] = titled(&row.kind, after.clone()),
        _ => {}
    }
    details
}

/// Adds `title`, by which the public API also calls the name of an organization and of a project.
fn titled(kind: &str, mut members: Map<String, Value>) -> Value {
    let has_title = kind.starts_with("project.") || kind.starts_with("organization.");
    if let Some(name) = members.get("name").filter(|_| has_title).cloned() {
        members.insert("title".to_owned(), name);
    }
    members.into()
}

/// There are no users: the admin token, admin keys and the gateway itself count as service accounts.
fn show_actor(row: &Logged) -> Value {
    let (address, user_agent) = (&row.address, &row.user_agent);
    let id = row.actor.id();
    let account = json!({ "id": id });
    let key =
        json!({ "id": id, "type": "service_account", "service_account": account, "user": null });
    let place = json!({ "user": null, "ip_address": address, "user_agent": user_agent });
    match &row.actor {
        Actor::Key(_) | Actor::Gateway => json!({
            "type": "api_key",
            "api_key": key,
            "ip_address": address,
            "user_agent": user_agent,
        }),
        Actor::Session(_) => json!({ "type": "session", "session": place, "api_key": key }),
        Actor::Unknown => json!({ "type": "session", "session": place }),
    }
}
