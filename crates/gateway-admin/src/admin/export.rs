//! `GET /v1/organization/usage/export`: the ledger, one row per request, as CSV or JSON lines. The
//! response is streamed part by part; if the store becomes unreachable halfway, the response is cut
//! off.

use std::fmt::Write;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde_json::json;

use super::authority::Subject;
use super::export_format::{Format, quote, time};
use super::input::Parameters;
use super::output::Shared;
use super::usage::span;
use crate::Services;
use gateway_policy::error::ApiError;
use gateway_store::ledger::{self, Cursor, Exported};

const HEADER: &str = "time,request_id,project_id,api_key_id,model,endpoint,status,batch,requests,\
    input_tokens,cached_tokens,output_tokens,images,audio_seconds,cost_usd,ended,cache_write_tokens,\
    cache_write_1h_tokens,web_searches,backend\n";

pub(super) async fn export(
    State(context): Shared,
    Subject(organization): Subject,
    mut parameters: Parameters,
) -> Result<Response, ApiError> {
    let format = Format::take(&mut parameters)?;
    let (start, end) = span(&context, &mut parameters)?;
    parameters.end()?;
    context.write_ledger().await?;
    let cursor = Cursor::new(start, end);
    // The first part is read before the response starts, so that an error gets a response of its
    // own.
    let first = ledger::export(&context.database, &organization.id, cursor).await?;
    let state = (context, organization.id, Next::Rows(first));
    let parts = stream::try_unfold(state, move |state| next(state, format));
    Ok((format.headers("usage"), Body::from_stream(parts)).into_response())
}

enum Next {
    /// Rows to send, and the cursor after them.
    Rows((Vec<Exported>, Cursor)),
    Read(Cursor),
    End,
}

type Export = (Arc<Services>, Box<str>, Next);

async fn next(
    (context, organization, next): Export,
    format: Format,
) -> Result<Option<(Bytes, Export)>, gateway_store::Error> {
    let (head, (rows, cursor)) = match next {
        Next::End => return Ok(None),
        Next::Rows(part) => (true, part),
        Next::Read(cursor) => {
            (false, ledger::export(&context.database, &organization, cursor).await?)
        }
    };
    let mut text = String::new();
    if head && matches!(format, Format::Csv) {
        text.push_str(HEADER);
    }
    for row in &rows {
        match format {
            Format::Csv => push_csv(&mut text, row),
            Format::JsonLines => push_json(&mut text, row),
        }
    }
    let next = if rows.is_empty() { Next::End } else { Next::Read(cursor) };
    Ok(Some((text.into(), (context, organization, next))))
}

fn push_csv(text: &mut String, Exported { entry, requests }: &Exported) {
    let texts = [&entry.request, &entry.project, &entry.key, &entry.model].map(|text| quote(text));
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "{},{},{},{},{},{requests},{},{},{},{},{},{},{},{},{},{},{}",
        time(entry.at),
        texts.join(","),
        entry.endpoint.name(),
        entry.status,
        entry.batch,
        entry.input_tokens,
        entry.cached_tokens,
        entry.output_tokens,
        entry.images,
        thousandths(entry.audio_milliseconds),
        dollars(entry.cost),
        entry.ended.name(),
        entry.cache_write_tokens,
        entry.cache_write_1h_tokens,
        entry.web_searches,
        quote(&entry.backend),
    );
}

fn push_json(text: &mut String, Exported { entry, requests }: &Exported) {
    let line = json!({
        "time": time(entry.at),
        "request_id": entry.request,
        "project_id": entry.project,
        "api_key_id": entry.key,
        "model": entry.model,
        "endpoint": entry.endpoint.name(),
        "status": entry.status,
        "batch": entry.batch,
        "requests": requests,
        "input_tokens": entry.input_tokens,
        "cached_tokens": entry.cached_tokens,
        "output_tokens": entry.output_tokens,
        "images": entry.images,
        "audio_seconds": thousandths(entry.audio_milliseconds),
        "cost_usd": dollars(entry.cost),
        "ended": entry.ended.name(),
        "cache_write_tokens": entry.cache_write_tokens,
        "cache_write_1h_tokens": entry.cache_write_1h_tokens,
        "web_searches": entry.web_searches,
        "backend": entry.backend,
    });
    let _ = writeln!(text, "{line}");
}

/// The exact amount as a text, which a spreadsheet or parser does not round.
fn dollars(micros: u64) -> String {
    format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

fn thousandths(milliseconds: u64) -> String {
    format!("{}.{:03}", milliseconds / 1000, milliseconds % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_are_exact() {
        assert_eq!((dollars(1_000_007), thousandths(59)), ("1.000007".into(), "0.059".into()));
    }
}
