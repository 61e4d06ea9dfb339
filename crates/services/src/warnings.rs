//! Warnings as clients get them: `configWarning`, `deprecationNotice` and `warning`, each once a
//! connection.

use std::collections::BTreeMap;

use config::{Error, Origin, SourceRange, Warning, WarningKind};
use jsonrpc::{Notification, Outgoing, encode_notification};
use protocol::connection::{
    ConfigWarningNotification, DeprecationNoticeNotification, TextPosition, TextRange,
    WarningNotification,
};
use protocol::{ConfigWarning, DeprecationNotice};
use serde::Serialize;

use crate::peer::Peer;

/// Sends a client the warnings that it was not sent before.
pub fn send(peer: &Peer, warnings: &[Warning]) {
    for warning in grouped(warnings) {
        if warning.kind == WarningKind::Deprecated {
            let notice = DeprecationNoticeNotification {
                summary: format!("`{}` {}", warning.key, warning.message),
                details: Some(warning.diagnostic()),
            };
            send_once::<DeprecationNotice>(peer, &warning.to_string(), &notice);
        } else {
            send_once::<ConfigWarning>(peer, &warning.to_string(), &notification(&warning));
        }
    }
}

/// Sends a client why the configuration cannot be used.
pub fn send_error(peer: &Peer, error: &Error) {
    let summary = "the configuration cannot be used".to_owned();
    send_once::<ConfigWarning>(peer, &error.to_string(), &broken(summary, error));
}

/// Sends a client a warning that is not about a position in a file.
pub fn send_plain(peer: &Peer, summary: String) {
    send_once::<ConfigWarning>(peer, &summary.clone(), &plain(summary));
}

/// Sends a client a warning that is not about the configuration.
pub fn send_warning(peer: &Peer, message: String) {
    let identity = message.clone();
    let params = WarningNotification { thread_id: None, message };
    send_once::<protocol::Warning>(peer, &identity, &params);
}

/// Sends a client a warning about a thread.
pub fn send_about_thread(peer: &Peer, thread: &str, message: String) {
    let identity = format!("{thread}: {message}");
    let params = WarningNotification { thread_id: Some(thread.to_owned()), message };
    send_once::<protocol::Warning>(peer, &identity, &params);
}

/// The notification about a broken file whose last valid content stays in use.
pub fn kept(error: &Error) -> ConfigWarningNotification {
    let summary = format!("{error}; the previous content stays in force until the file is fixed");
    broken(summary, error)
}

/// A notification that is not about a position in a file.
pub fn plain(summary: String) -> ConfigWarningNotification {
    ConfigWarningNotification { summary, details: None, path: None, range: None }
}

/// Sends a client what is wrong with a message of its own, each time that it happens.
pub fn send_to_sender(peer: &Peer, thread: &str, message: String) {
    let params = WarningNotification { thread_id: Some(thread.to_owned()), message };
    peer.notify::<protocol::Warning>(&params);
}

fn broken(summary: String, error: &Error) -> ConfigWarningNotification {
    ConfigWarningNotification {
        summary,
        details: Some(error.diagnostic()),
        path: error.path().map(|path| path.display().to_string()),
        range: error.origin().and_then(|origin| origin.range()).map(range),
    }
}

fn notification(warning: &Warning) -> ConfigWarningNotification {
    let source = warning.origin.range();
    let path = match &warning.origin {
        Origin::Folder(folder) => Some(folder.as_path()),
        origin => origin.path(),
    };
    ConfigWarningNotification {
        summary: warning.to_string(),
        details: source.map(SourceRange::snippet),
        path: path.map(|path| path.display().to_string()),
        range: source.map(range),
    }
}

fn range(source: &SourceRange) -> TextRange {
    let position = |(line, column): (usize, usize)| TextPosition {
        line: u64::try_from(line).unwrap_or(u64::MAX),
        column: u64::try_from(column).unwrap_or(u64::MAX),
    };
    TextRange { start: position(source.line_column()), end: position(source.end_line_column()) }
}

fn send_once<N: Notification<Params: Serialize>>(peer: &Peer, identity: &str, params: &N::Params) {
    let wanted = protocol::lookup_notification(N::NAME).is_some_and(|info| peer.wants(info));
    if !wanted || !peer.is_first_warning(identity) {
        return;
    }
    if let Ok(message) = encode_notification(N::NAME, params) {
        peer.send(Outgoing::from(message));
    }
}

/// Joins the warnings about keys that wait for the same part of the program.
fn grouped(warnings: &[Warning]) -> Vec<Warning> {
    let mut grouped: Vec<Warning> = Vec::new();
    let mut parts: BTreeMap<&str, usize> = BTreeMap::new();
    for warning in warnings {
        let WarningKind::Pending(part) = warning.kind else {
            grouped.push(warning.clone());
            continue;
        };
        match parts.get(part) {
            Some(at) => {
                let first = &mut grouped[*at];
                first.key = format!("{}`, `{}", first.key, warning.key);
            }
            None => {
                parts.insert(part, grouped.len());
                grouped.push(warning.clone());
            }
        }
    }
    grouped
}
