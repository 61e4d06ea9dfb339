//! Counts, logs and names what is left out of requests and answers.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use hyper::header::HeaderValue;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use wire::{Warning, Warnings, Wire};

/// Longest value of the header that names what was left out.
const MAX_SHOWN: usize = 1024;

/// Counts what translations leave out, and logs each kind of it once: names of members come from requests.
#[derive(Debug, Default)]
pub(crate) struct WarningLog {
    /// `gateway_translation_warnings_total{from,to}`.
    pub(crate) counts: Family<Wires, Counter>,
    logged: Mutex<HashSet<String>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
#[allow(missing_docs, reason = "the names of labels")]
pub(crate) struct Wires {
    pub(crate) from: &'static str,
    pub(crate) to: &'static str,
}

/// Most kinds that are logged.
const MAX_LOGGED: usize = 256;

impl WarningLog {
    pub(super) fn note(&self, caller: Wire, backend: Wire, warnings: &[Warning]) {
        for warning in warnings {
            let label = Wires { from: caller.as_str(), to: backend.as_str() };
            self.counts.get_or_create(&label).inc();
            let text = format!("between {caller} and {backend}: {warning}");
            let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
            if logged.len() < MAX_LOGGED && logged.insert(text.clone()) {
                tracing::warn!("translations leave out, {text} (logged once)");
            }
        }
    }
}

/// The value of the header that names what was left out; `None` if that is nothing.
pub(super) fn shown(warnings: &[Warning]) -> Option<HeaderValue> {
    let mut shown = String::new();
    for warning in warnings {
        let separator = if shown.is_empty() { "" } else { "; " };
        let text = format!("{separator}{warning}");
        if shown.len() + text.len() > MAX_SHOWN {
            break;
        }
        shown.push_str(&text);
    }
    let shown = shown.replace(|c: char| !(' '..='~').contains(&c), "?");
    (!shown.is_empty()).then(|| HeaderValue::from_str(&shown).ok()).flatten()
}

/// Counts the reasoning that was cut out of a request of `wire`, which else passed as it was. Returns the value of the
/// header that names it.
pub(crate) fn note_sealed(wire: Wire, log: &WarningLog) -> Option<HeaderValue> {
    let member = match wire {
        Wire::Responses => "input[]",
        Wire::Chat | Wire::Messages => "messages[]",
        Wire::Gemini => "contents[]",
    };
    let mut warnings = Warnings::default();
    warnings.add(member, "reasoning of another model is not sent");
    log.note(wire, wire, warnings.as_slice());
    shown(warnings.as_slice())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_counted_always_and_logged_once() {
        let log = WarningLog::default();
        let mut warnings = Warnings::default();
        warnings.add("temperature", "it has none");
        log.note(Wire::Chat, Wire::Messages, warnings.as_slice());
        log.note(Wire::Chat, Wire::Messages, warnings.as_slice());
        assert_eq!(log.logged.lock().unwrap().len(), 1);
        let label = Wires { from: "chat", to: "messages" };
        assert_eq!(log.counts.get_or_create(&label).get(), 2);
    }
}
