//! A cause is shown once: an error whose message contains it does not return it as `source()` too,
//! because a printer of the chain of causes would print it twice.

use std::path::Path;

use super::finding::Finding;

const ADVICE: &str = "the message contains the cause, and `source()` returns it too: name the field \
     `cause`, without `#[from]` and `#[source]`";

/// Every derived error in one file that shows its cause twice.
pub(crate) fn check(file: &Path, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    // Put together here so that this file does not find itself.
    let begin = concat!("#[err", "or(");
    let lines: Vec<&str> = text.lines().collect();
    for (at, line) in lines.iter().enumerate() {
        if !line.trim_start().starts_with(begin) {
            continue;
        }
        let Some(length) = lines[at..].iter().position(|line| line.trim_end().ends_with(")]"))
        else {
            continue;
        };
        let message = lines[at..=at + length].concat();
        let shown = &lines[at + length + 1..];
        let shown = shown.iter().take_while(|line| !line.trim_start().starts_with(begin));
        let is_doubled = shown.take(FIELDS).any(|field| is_shown(&message, field.trim_start()));
        if is_doubled {
            findings.push(Finding::error(file, at + 1, "doubled-cause", ADVICE));
        }
    }
    findings
}

/// Most lines of a variant.
const FIELDS: usize = 16;

/// Returns whether the field in this line is a source that the message shows.
fn is_shown(message: &str, field: &str) -> bool {
    let is_source = field.contains("#[from]") || field.contains("#[source]");
    if field.starts_with("source:") || field.contains(" source: ") {
        return ["{source", "source)", "source,"].iter().any(|use_| message.contains(use_));
    }
    is_source && (message.contains("{0") || message.contains(".0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_shown_by_the_message_or_by_the_chain() {
        let check = |message: &str, field: &str, expected: usize| {
            let text =
                format!("enum E {{\n    {}{message})]\n    {field}\n}}", concat!("#[err", "or("));
            let found = check(Path::new("a.rs"), &text);
            assert_eq!(found.len(), expected, "{text}");
        };
        check("\"{source}\"", "Io { path: PathBuf, source: io::Error },", 1);
        check("\"{}\", advice(source)", "Io {\n        source: io::Error,\n    },", 1);
        check("\"cannot read\"", "Io { source: io::Error },", 0);
        check("\"{cause}\"", "Io { cause: io::Error },", 0);
        check("\"bad: {0}\"", "Bad(#[from] io::Error),", 1);
        check("\"bad: {0}\"", "Bad(#[source] io::Error),", 1);
        check("\"bad: {0}\"", "Bad(io::Error),", 0);
        check("\"bad\"", "Bad(#[from] io::Error),", 0);
        check("transparent", "Bad(#[from] io::Error),", 0);
    }
}
