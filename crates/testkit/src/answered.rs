//! Notes which methods the tests call and how the server answers, for `docs/protocol-status.md`: one
//! line `result METHOD TEST` or `error METHOD TEST` each, when a variable names the file.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::sync::{Mutex, PoisonError};

/// Names the file.
const VARIABLE: &str = "AGENTD_ANSWERED_METHODS";

/// The notes of this process.
static NOTED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Notes an answer to a request of the test on this thread.
#[allow(clippy::disallowed_methods, reason = "the caller of the tests names the file")]
pub(crate) fn note(method: &str, is_error: bool) {
    let Some(file) = std::env::var_os(VARIABLE) else { return };
    let Some(test) = running_test() else { return };
    let outcome = if is_error { "error" } else { "result" };
    let line = format!("{outcome} {method} {test}\n");
    let mut noted = NOTED.lock().unwrap_or_else(PoisonError::into_inner);
    if noted.insert(line.clone()) {
        let opened = std::fs::File::options().create(true).append(true).open(&file);
        let written = opened.and_then(|mut file| file.write_all(line.as_bytes()));
        written.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    }
}

/// The test on this thread. Tests run on threads of their names; a client elsewhere belongs to none.
pub(crate) fn running_test() -> Option<String> {
    let thread = std::thread::current();
    thread.name().filter(|name| name.contains("::")).map(str::to_owned)
}
