//! A project's files at the upstream, whose list has the files of all projects: reads pages of one backend after the
//! other until enough files are the project's.

use std::sync::Arc;

use bytes::Bytes;
use hyper::{HeaderMap, Method, StatusCode};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::listing::Paging;
use super::{Exchange, relay};
use crate::backends::{Preference, Query};
use crate::dispatch::{Content, Forward, Repeat};
use crate::object_owners::ObjectKind;
use crate::upstream::OutBody;
use gateway_policy::error::ApiError;
use gateway_policy::settings::{Backend, NO_MODEL, Upstream};
use gateway_store::records::owned_objects;

/// Entries per page of the upstream.
const PAGE: usize = 1000;
/// Most pages read for one request of a client.
const MAX_PAGES: usize = 20;

/// An entry: its id, and its JSON.
pub(super) type Entry = (Box<str>, Box<RawValue>);

/// At most `room` files after `after`, and whether there may be more.
///
/// # Errors
/// The upstream's, except when it has no files interface.
pub(super) async fn list(
    exchange: &Exchange,
    paging: &Paging,
    mut after: Option<String>,
    room: usize,
) -> Result<(Vec<Entry>, bool), ApiError> {
    let (database, project) = (&exchange.gateway.database, &exchange.caller.project.id);
    let has_any = owned_objects::has_any(database, project).await;
    let has_any = has_any.map_err(|_| ApiError::store_unavailable())?
        || exchange.gateway.object_owners.has_any(project);
    let Some(upstream) = exchange.settings.default_upstream.clone().filter(|_| has_any) else {
        return Ok((Vec::new(), false));
    };
    if room == 0 {
        return Ok((Vec::new(), true));
    }
    exchange.check_region(&upstream, None)?;
    let region = exchange.data_region();
    let is_there = |backend: &&Arc<Backend>| backend.base_in(region).is_some();
    let mut backends = upstream.backends.iter().filter(is_there).peekable();
    if let Some(after) = &after
        && let Some(owner) = exchange.owner(ObjectKind::Object, after).await?
    {
        // Those before it have been listed.
        let named = upstream.backend(&owner.backend);
        while backends.next_if(|backend| !Arc::ptr_eq(backend, named)).is_some() {}
    }
    let mut found = Vec::new();
    let mut pages = 0..MAX_PAGES;
    for backend in backends {
        let mut has_more = true;
        while has_more {
            if pages.next().is_none() {
                return Ok((found, true));
            }
            let path = path(paging, after.as_deref());
            let Some(page) = page(exchange, &upstream, &backend.name, &path).await? else { break };
            let last = page.data.last().map(|(id, _)| id.to_string());
            for entry in owned(exchange, page.data).await? {
                if found.len() == room {
                    return Ok((found, true));
                }
                found.push(entry);
            }
            has_more = page.has_more && last.is_some();
            after = last;
        }
        after = None;
    }
    Ok((found, false))
}

/// Characters that are encoded in the value of a query.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');

fn path(paging: &Paging, after: Option<&str>) -> String {
    let order = if paging.ascending { "asc" } else { "desc" };
    let mut path = format!("/v1/files?limit={PAGE}&order={order}");
    for (key, value) in [("after", after), ("purpose", paging.purpose.as_deref())] {
        if let Some(value) = value {
            path.push('&');
            path.push_str(key);
            path.push('=');
            path.extend(utf8_percent_encode(value, RESERVED));
        }
    }
    path
}

struct Page {
    data: Vec<Entry>,
    has_more: bool,
}

/// One page; `None` when the upstream has no such interface.
async fn page(
    exchange: &Exchange,
    upstream: &Upstream,
    backend: &str,
    path: &str,
) -> Result<Option<Page>, ApiError> {
    let forward = Forward {
        query: Query {
            upstream,
            region: exchange.data_region(),
            model: NO_MODEL,
            requester: exchange.requester(),
            pinned: Some(backend),
            preference: Preference::First,
        },
        method: Method::GET,
        path,
        headers: HeaderMap::new(),
        body: Content::Fixed(OutBody::empty()),
        repeat: Repeat::Unanswered,
        first_byte_timeout: None,
    };
    let body = match relay::fetch(exchange, &forward).await {
        Ok(body) => body,
        Err(error) if is_missing(error.status()) => return Ok(None),
        Err(error) => return Err(error),
    };
    read(&body).map(Some).ok_or_else(|| {
        relay::bad_gateway(
            "The model server's list is not valid. Please report this to the gateway's operator.",
        )
    })
}

fn is_missing(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED
    )
}

fn read(body: &Bytes) -> Option<Page> {
    #[derive(Deserialize)]
    struct List {
        data: Vec<Box<RawValue>>,
        #[serde(default)]
        has_more: bool,
    }
    #[derive(Deserialize)]
    struct Named {
        id: Box<str>,
    }
    let list: List = serde_json::from_slice(body).ok()?;
    let named = |entry: Box<RawValue>| {
        let named: Named = serde_json::from_str(entry.get()).ok()?;
        Some((named.id, entry))
    };
    let data = list.data.into_iter().filter_map(named).collect();
    Some(Page { data, has_more: list.has_more })
}

/// The entries that the project owns.
async fn owned(exchange: &Exchange, entries: Vec<Entry>) -> Result<Vec<Entry>, ApiError> {
    let mut kept = Vec::new();
    let (database, project) = (&exchange.gateway.database, &exchange.caller.project.id);
    let mut entries = entries.into_iter().peekable();
    while entries.peek().is_some() {
        let chunk: Vec<Entry> = entries.by_ref().take(500).collect();
        let ids: Vec<&str> = chunk.iter().map(|(id, _)| &**id).collect();
        let ours = owned_objects::owned(database, project, &ids).await;
        let ours = ours.map_err(|_| ApiError::store_unavailable())?;
        let is_ours = |id: &str| ours.iter().any(|ours| **ours == *id) || exchange.made_lately(id);
        kept.extend(chunk.into_iter().filter(|(id, _)| is_ours(id)));
    }
    Ok(kept)
}
