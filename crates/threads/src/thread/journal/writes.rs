//! The session's records as writes to the store. An ephemeral thread keeps none.

use serde_json::value::RawValue;
use session::{Item, Record, ResponseUsage, TurnStatus, TurnView};
use store::{ThreadChanges, TurnOutcome, UsageRecord, Write};

use services::convert;
use services::stored::{self, Totals};
use services::thread_port::Extra;

/// The write that stores `record` of `thread`; `json` is the item's, when the record is one, and
/// `extra` the values that are stored with the settings, this record included.
pub(super) fn write(
    thread: &str,
    record: &Record,
    json: Option<&RawValue>,
    extra: &Extra,
) -> Write {
    let thread = thread.to_owned();
    match record {
        Record::TurnStarted { turn, at } => {
            Write::StartTurn { thread, turn: turn.to_string(), started_at_ms: *at }
        }
        Record::Item { turn, item } => put_item(thread, turn, item, json),
        Record::History { turn, fragments } => {
            let turn = turn.as_ref().map(ToString::to_string);
            Write::AppendHistory { thread, turn, fragments: stored(fragments), anew: false }
        }
        Record::HistoryReplaced { turn, fragments } => {
            let turn = Some(turn.to_string());
            Write::AppendHistory { thread, turn, fragments: stored(fragments), anew: true }
        }
        Record::TurnFinished { view, status } => finish(thread, view, *status),
        Record::Settings(settings) => update(
            thread,
            ThreadChanges {
                settings: Some(stored::settings_json(settings)),
                model: Some(settings.model.clone()),
                model_provider: Some(settings.provider.clone()),
                cwd: Some(settings.cwd.display().to_string()),
                ..ThreadChanges::default()
            },
        ),
        Record::Introduced(_)
        | Record::Goal(_)
        | Record::ProjectDocuments(_)
        | Record::ApprovedActions(_)
        | Record::Concessions(_) => {
            let extra = extra.json();
            update(thread, ThreadChanges { extra: Some(Some(extra)), ..ThreadChanges::default() })
        }
        Record::Preview(text) => update(
            thread,
            ThreadChanges { preview: Some(text.clone()), ..ThreadChanges::default() },
        ),
        Record::TokenUsage { turn, at, total, cost, last } => {
            let totals = Totals { cost: cost.thread, last: last.tokens, total: *total };
            let usage = Box::new(usage(turn, *at, last));
            Write::AddUsage { thread, token_usage: totals.json(), usage }
        }
    }
}

fn usage(turn: &str, at_ms: i64, response: &ResponseUsage) -> UsageRecord {
    let ResponseUsage { tokens, cost, source } = response;
    UsageRecord {
        turn: Some(turn.to_owned()),
        at_ms,
        provider: source.provider.to_string(),
        model: source.model.to_string(),
        service_tier: source.service_tier.as_ref().map(ToString::to_string),
        input: Some(tokens.input),
        cached_input: Some(tokens.cached_input),
        cache_write: Some(tokens.cache_write_input),
        output: Some(tokens.output),
        reasoning_output: Some(tokens.reasoning_output),
        cost: *cost,
    }
}

fn stored(fragments: &[session::Fragment]) -> Vec<store::Fragment> {
    let one = |part: &session::Fragment| store::Fragment {
        text: part.stored_text().clone(),
        mark: part.stored_code(),
    };
    fragments.iter().map(one).collect()
}

fn update(thread: String, changes: ThreadChanges) -> Write {
    Write::UpdateThread { thread, changes: Box::new(changes) }
}

fn put_item(thread: String, turn: &str, item: &Item, json: Option<&RawValue>) -> Write {
    let payload = json
        .map_or_else(|| convert::item::json(item).get().to_owned(), |json| json.get().to_owned());
    Write::PutItem {
        thread,
        turn: turn.to_owned(),
        item: item.id().to_string(),
        kind: convert::item::kind(item).name().to_owned(),
        status: item.status().map(|status| convert::item::status_name(status).to_owned()),
        payload,
    }
}

fn finish(thread: String, view: &TurnView, status: TurnStatus) -> Write {
    let completed_at_ms = view.completed_at.unwrap_or(view.started_at);
    Write::FinishTurn {
        thread,
        turn: view.id.to_string(),
        outcome: match status {
            TurnStatus::Completed => TurnOutcome::Completed,
            TurnStatus::Failed => TurnOutcome::Failed,
            // A turn that ends is no longer in progress.
            TurnStatus::Interrupted | TurnStatus::InProgress => TurnOutcome::Interrupted,
        },
        error: view.error.as_ref().map(|error| {
            serde_json::to_string(&convert::event::turn_error(error)).expect("plain data")
        }),
        completed_at_ms,
        duration_ms: (completed_at_ms - view.started_at).max(0),
        usage: None,
    }
}
