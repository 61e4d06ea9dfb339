//! `/feedback`: a report for the developers, which the user sees before it is written. It is sent nowhere.

use protocol::FeedbackUploadParams;
use serde_json::Value;

use crate::app::program::App;
use crate::ask::{Ask, Offer};
use crate::palette::Palette;
use crate::text::Line;

/// Lines of a report that are shown.
const MAX_LINES: usize = 400;

/// `/feedback [NOTE]`.
pub(super) fn give_feedback(app: &mut App, note: &str) {
    if !app.settings.feedback {
        return app
            .info("Feedback is switched off: `feedback.enabled` is false in the configuration.");
    }
    let offers = vec![
        Offer::new("bug", 'b', "Something does not work"),
        Offer::new("bad_result", 'r', "The agent's result is bad"),
        Offer::new("good_result", 'g', "The agent's result is good"),
        Offer::new("other", 'o', "Something else"),
    ];
    let facts = vec![Line::plain(
        "The report is written to a file for you to check and share. Nothing is sent.",
    )];
    let note = note.to_owned();
    app.open_dialog(Ask::offer("What is your feedback about?", facts, offers), |app, reply| {
        let Some(kind) = reply.as_str().map(str::to_owned) else { return };
        match note.is_empty() {
            true => ask_for_note(app, kind),
            false => ask_for_logs(app, kind, note),
        }
    });
}

fn ask_for_note(app: &mut App, kind: String) {
    let facts = vec![Line::plain("What happened, and what did you expect? (optional)")];
    let ask = Ask::entry("Feedback: a note", facts, "note", false);
    app.open_dialog(ask, |app, reply| match reply.as_str() {
        Some(note) => ask_for_logs(app, kind, note.to_owned()),
        None => give_feedback(app, ""),
    });
}

fn ask_for_logs(app: &mut App, kind: String, note: String) {
    let offers = vec![
        Offer::new("with", 'w', "With this thread and the log")
            .with_effect("messages, commands and their output; the last MiB of the server's log"),
        Offer::new("without", 'o', "Without them")
            .with_effect("your note, the version and the system"),
    ];
    let facts = vec![Line::plain(
        "Known forms of secrets are removed. You see the report before it is written.",
    )];
    app.open_dialog(
        Ask::offer("What should the report include?", facts, offers),
        move |app, reply| {
            let Some(with) = reply.as_str() else { return ask_for_note(app, kind) };
            let thread_id = app.session.id.clone().filter(|_| app.session.has_turns);
            preview_feedback(
                app,
                FeedbackUploadParams {
                    classification: kind,
                    reason: Some(note.trim().to_owned()).filter(|note| !note.is_empty()),
                    thread_id,
                    include_logs: with == "with",
                    extra_log_files: None,
                    tags: None,
                    dry_run: false,
                },
            );
        },
    );
}

fn preview_feedback(app: &mut App, params: FeedbackUploadParams) {
    let dry = FeedbackUploadParams { dry_run: true, ..params.clone() };
    app.call::<protocol::FeedbackUpload>(&dry, |app, result| match result {
        Ok(preview) => show_feedback(app, &preview.report.unwrap_or_default(), params),
        Err(error) => app.error(&format!("The report could not be made: {}", error.message)),
    });
}

fn show_feedback(app: &mut App, report: &Value, params: FeedbackUploadParams) {
    let text = format!("{report:#}");
    let count = text.lines().count();
    let removed = report.get("redacted").and_then(Value::as_u64).unwrap_or(0);
    let size = text.len().div_ceil(1_024);
    let mut facts = vec![Line::new(
        format!(
            "{count} lines, {size} KiB; {removed} secrets were removed. Check it before you share it."
        ),
        Palette::STRONG,
    )];
    let shown = text.lines().take(MAX_LINES);
    facts.extend(shown.map(|line| {
        // A log is one long text.
        let start: String = line.chars().take(1_000).collect();
        let cut = if start.len() < line.len() { " …" } else { "" };
        Line::plain(format!("{start}{cut}"))
    }));
    if count > MAX_LINES {
        let text = format!("… {} more lines in the file", count - MAX_LINES);
        facts.push(Line::new(text, Palette::WARNING));
    }
    let offers = vec![
        Offer::new("write", 'w', "Write the report to a file"),
        Offer::new("no", 'n', "Write nothing").on_escape(),
    ];
    app.open_dialog(Ask::offer("Feedback: the report", facts, offers), move |app, reply| {
        if reply != "write" {
            return app.info("No report was written.");
        }
        app.call::<protocol::FeedbackUpload>(&params, |app, result| match result {
            Ok(written) => {
                let path = app.folder(written.path.as_deref().unwrap_or_default());
                let id = written.thread_id;
                app.info(&format!(
                    "The report is in {path}. Attach it to a message or an issue, and quote {id}."
                ));
            }
            Err(error) => app.error(&format!("No report was written: {}", error.message)),
        });
    });
}
