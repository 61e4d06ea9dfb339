//! Reports to clients about a damaged database of threads.

use store::{Notice, Salvage};

/// The error, in the store's format, of a turn that a salvage recreated without its record.
pub(crate) fn lost_record() -> String {
    let error = protocol::TurnError {
        message:
            "the record of this turn was lost when the database of threads was damaged: how it \
                  ended, when, and what it used are not known. Its items are those that were saved"
                .to_owned(),
        agent_error_info: None,
        additional_details: None,
    };
    serde_json::to_string(&error).expect("an error of a turn is JSON")
}

/// Threads with a warning of their own, at most. The list next to the kept file has all of them.
const MAX_LOSSES_SENT: usize = 50;

/// Messages to clients about the opening of the store, each with the thread that it is about.
pub fn messages(notices: &[Notice]) -> Vec<(Option<String>, String)> {
    let of_each = notices.iter().map(|Notice::Salvaged(salvage)| of_salvage(salvage));
    of_each.flatten().collect()
}

/// Returns the reports of a damaged database: a summary, and a message for each thread that lost
/// something, with its id.
fn of_salvage(salvage: &Salvage) -> Vec<(Option<String>, String)> {
    let Salvage { files, list, damage, threads, lost, lost_unnamed, .. } = salvage;
    let more = match lost_unnamed {
        true => ", and more may be missing of which no trace is left",
        false => "",
    };
    let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    let kept = match names.as_slice() {
        [] => "Nothing of the damaged one is left to keep".to_owned(),
        [only] => format!("The damaged file is kept as {only}"),
        names => format!("The damaged files are kept as {}", names.join(", ")),
    };
    let summary = format!(
        "the database of threads was damaged ({damage}): {threads} threads were saved into a new \
         one, {} of them with known losses{more}. {kept}; `agentd doctor` shows what was lost, \
         from {}",
        lost.len(),
        list.display()
    );
    let each = lost.iter().take(MAX_LOSSES_SENT).map(|loss| {
        let message = format!(
            "thread {} lost {} when the database of threads was damaged",
            loss.thread, loss.lost
        );
        (Some(loss.thread.clone()), message)
    });
    std::iter::once((None, summary)).chain(each).collect()
}
