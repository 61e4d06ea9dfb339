//! A panic: the terminal is restored, the message that was being written is kept, and the user learns what
//! happened and where the log is.

use std::any::Any;
use std::panic::PanicHookInfo;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::thread::ThreadId;

use crate::terminal;

/// Where the drawing thread panicked.
static PLACE: Mutex<String> = Mutex::new(String::new());

/// Restores the terminal when this thread panics, before anything is printed. A panic of another thread is
/// one of the server, which goes on: it is logged, and the screen stays as it is.
pub(super) fn catch() {
    let drawing = std::thread::current().id();
    std::panic::set_hook(Box::new(move |panic| caught(panic, drawing)));
}

fn caught(panic: &PanicHookInfo<'_>, drawing: ThreadId) {
    let place = panic.location().map_or_else(String::new, |at| format!(" at {at}"));
    if std::thread::current().id() == drawing {
        terminal::restore();
        PLACE.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&place);
    }
    let backtrace = std::backtrace::Backtrace::capture();
    tracing::error!(target: "tui", "panic{place}: {}\n{backtrace}", message(panic.payload()));
}

/// Returns the report about a panic of the terminal program, after it ended.
#[must_use]
pub fn crash_report(payload: &(dyn Any + Send), log: Option<&Path>) -> String {
    let log = match log {
        Some(log) => format!("The log is {}.", log.display()),
        None => "There is no log here, because the server runs elsewhere.".to_owned(),
    };
    let place = PLACE.lock().unwrap_or_else(PoisonError::into_inner);
    format!(
        "the terminal program failed{place}: {}. {log} The thread is stored. Your unsent message \
         is back when you start agentd in this folder. /feedback makes a report.",
        message(payload)
    )
}

fn message(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no reason given")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crash_names_the_reason_the_log_and_the_draft() {
        let crash = std::panic::catch_unwind(|| panic!("row {} is missing", 3)).unwrap_err();
        let text = crash_report(&*crash, Some(Path::new("/home/u/.agent/log/agentd.log")));
        for part in
            ["row 3 is missing", "/home/u/.agent/log/agentd.log", "Your unsent message is back"]
        {
            assert!(text.contains(part), "{text}");
        }
        assert!(crash_report(&*crash, None).contains("no log"));
    }
}
