//! Conversations with other agents as stored threads: turns with items for clients, and a history for
//! the model, in which calls of tools are text, because the tools no longer exist.

use migration::sessions::{Call, Entry, Session, SessionFile, Turn};
use protocol::item::{
    AgentMessageItem, DynamicToolCallItem, DynamicToolCallStatus, UserMessageItem,
};
use protocol::tool::DynamicToolCallOutputContentItem;
use protocol::{ThreadItem, UserInput};
use serde_json::{Value, json};
use store::{Fragment, ThreadChanges, ThreadRecord, TurnOutcome, Write};

use services::convert;
use services::error::Error;

/// Bytes of a call's arguments and of its output in the model's history.
const MAX_CALL_TEXT: usize = 2 << 10;

/// The settings of a thread that its session does not say.
pub(crate) struct Defaults {
    pub(crate) model: String,
    pub(crate) model_provider: String,
    pub(crate) version: String,
    /// The kind of client that imports.
    pub(crate) source: String,
    /// Unix seconds.
    pub(crate) now: i64,
}

/// The changes that store a session as a thread, to be committed at once.
///
/// # Errors
/// The session does not name an absolute folder.
pub(crate) fn writes(
    file: &SessionFile,
    session: &Session,
    defaults: Defaults,
) -> Result<Vec<Write>, Error> {
    let thread = file.thread_id();
    let cwd = session.cwd.clone().filter(|cwd| std::path::Path::new(cwd).is_absolute());
    let cwd = cwd.ok_or_else(|| {
        let path = file.path.display();
        Error::invalid_params(format!("{path}: the session does not name its working folder"))
    })?;
    let seconds = |millis: Option<i64>| {
        millis.filter(|millis| *millis > 0).map_or(defaults.now, |millis| millis / 1000)
    };
    let created_at = seconds(session.turns.first().map(|turn| turn.started_at_ms));
    let updated_at = seconds(session.turns.last().map(|turn| turn.ended_at_ms));
    let record = ThreadRecord {
        id: thread.clone(),
        session_id: thread.clone(),
        preview: preview(session),
        name: session.title.clone(),
        model: defaults.model,
        model_provider: defaults.model_provider,
        cwd,
        created_at,
        updated_at,
        source_kind: convert::thread::source_kind(&defaults.source),
        source: convert::thread::source_json(&defaults.source),
        cli_version: defaults.version,
        ..ThreadRecord::default()
    };
    let mut writes = vec![Write::CreateThread(Box::new(record))];
    for (at, turn) in session.turns.iter().enumerate() {
        add_turn(&thread, at, turn, created_at * 1000, &mut writes)?;
    }
    let changes = ThreadChanges { updated_at: Some(updated_at), ..ThreadChanges::default() };
    writes.push(Write::UpdateThread { thread, changes: Box::new(changes) });
    Ok(writes)
}

fn preview(session: &Session) -> String {
    let entries = session.turns.iter().flat_map(|turn| &turn.entries);
    let mut texts = entries.filter_map(|entry| match entry {
        Entry::User(text) => Some(text.chars().take(1000).collect()),
        _ => None,
    });
    texts.next().unwrap_or_default()
}

fn add_turn(
    thread: &str,
    at: usize,
    turn: &Turn,
    created_at_ms: i64,
    writes: &mut Vec<Write>,
) -> Result<(), Error> {
    let id = format!("{thread}-{at}");
    let known = |millis: i64| if millis > 0 { millis } else { created_at_ms };
    let started_at_ms = known(turn.started_at_ms);
    let completed_at_ms = known(turn.ended_at_ms).max(started_at_ms);
    writes.push(Write::StartTurn { thread: thread.to_owned(), turn: id.clone(), started_at_ms });
    let mut fragments = Vec::with_capacity(turn.entries.len());
    for (place, entry) in turn.entries.iter().enumerate() {
        let item = format!("{id}-{place}");
        let (kind, status) = kind_and_status(entry);
        let payload = serde_json::to_string(&wire_item(&item, entry))
            .map_err(|error| Error::failed(error.to_string()))?;
        writes.push(Write::PutItem {
            thread: thread.to_owned(),
            turn: id.clone(),
            item,
            kind: kind.to_owned(),
            status: status.map(str::to_owned),
            payload,
        });
        let text = model_item(entry).to_string().into();
        fragments.push(Fragment { text, mark: 0 });
    }
    let turn = Some(id.clone());
    writes.push(Write::AppendHistory { thread: thread.to_owned(), turn, fragments, anew: false });
    writes.push(Write::FinishTurn {
        thread: thread.to_owned(),
        turn: id,
        outcome: TurnOutcome::Completed,
        error: None,
        completed_at_ms,
        duration_ms: completed_at_ms - started_at_ms,
        usage: None,
    });
    Ok(())
}

fn kind_and_status(entry: &Entry) -> (&'static str, Option<&'static str>) {
    match entry {
        Entry::User(_) => ("userMessage", None),
        Entry::Assistant(_) => ("agentMessage", None),
        Entry::Call(call) if has_failed(call) => ("dynamicToolCall", Some("failed")),
        Entry::Call(_) => ("dynamicToolCall", Some("completed")),
    }
}

fn has_failed(call: &Call) -> bool {
    call.is_failed || call.output.is_none()
}

fn wire_item(id: &str, entry: &Entry) -> ThreadItem {
    let id = id.to_owned();
    match entry {
        Entry::User(text) => {
            let content = vec![UserInput::Text { text: text.clone(), text_elements: Vec::new() }];
            ThreadItem::UserMessage(UserMessageItem { id, content, client_id: None })
        }
        Entry::Assistant(text) => ThreadItem::AgentMessage(AgentMessageItem {
            id,
            text: text.clone(),
            phase: None,
            memory_citation: None,
            reason: None,
        }),
        Entry::Call(call) => {
            let output = call.output.clone();
            let text = |text| vec![DynamicToolCallOutputContentItem::InputText { text }];
            ThreadItem::DynamicToolCall(DynamicToolCallItem {
                id,
                namespace: None,
                tool: call.tool.clone(),
                arguments: call.arguments.clone().into(),
                status: match has_failed(call) {
                    true => DynamicToolCallStatus::Failed,
                    false => DynamicToolCallStatus::Completed,
                },
                content_items: output.map(text),
                success: Some(!has_failed(call)),
                duration_ms: None,
            })
        }
    }
}

fn model_item(entry: &Entry) -> Value {
    let (role, kind, text) = match entry {
        Entry::User(text) => ("user", "input_text", text.clone()),
        Entry::Assistant(text) => ("assistant", "output_text", text.clone()),
        Entry::Call(call) => {
            let arguments = start(&call.arguments.to_string()).to_owned();
            let output = start(call.output.as_deref().unwrap_or("no answer")).to_owned();
            let tool = &call.tool;
            ("assistant", "output_text", format!("[Called {tool} with {arguments}]\n{output}"))
        }
    };
    json!({ "type": "message", "role": role, "content": [{ "type": kind, "text": text }] })
}

fn start(text: &str) -> &str {
    let mut end = text.len().min(MAX_CALL_TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
