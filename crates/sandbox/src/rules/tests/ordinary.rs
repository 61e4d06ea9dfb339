//! How often ordinary work is interrupted: commands as a coding agent issues them, each with
//! the answer that a sensible person would give to "should I be asked about this?".

use super::at;
use crate::rules::{Invocation, Rules, assess};

/// `safe<TAB>script` or `asks<TAB>script` a line; in a script `\n` is a new line and `\\` a
/// backslash, any other backslash is itself.
///
/// `safe`: reads files, the repository or the system; runs no code of the project, writes
/// nothing, talks to no network. `asks`: changes something, runs code, could leak.
const ORDINARY: &str = include_str!("ordinary.txt");

/// How many rows there are.
const ROWS: usize = 500;
/// Most `safe` rows that may ask: a twentieth.
const MAX_NEEDLESS: usize = ROWS / 20;

struct Row {
    safe: bool,
    script: String,
}

fn rows() -> Vec<Row> {
    ORDINARY
        .lines()
        .map(|line| {
            let (label, script) = line.split_once('\t').expect("label, tab, script");
            assert!(matches!(label, "safe" | "asks"), "{line}");
            Row { safe: label == "safe", script: unescape(script) }
        })
        .collect()
}

fn unescape(script: &str) -> String {
    let mut text = String::new();
    let mut chars = script.chars().peekable();
    while let Some(c) = chars.next() {
        let escaped = (c == '\\').then(|| chars.next_if(|next| matches!(next, 'n' | '\\')));
        text.push(match escaped.flatten() {
            Some('n') => '\n',
            _ => c,
        });
    }
    text
}

fn runs(row: &Row) -> bool {
    assess(Invocation::Script(&row.script), &at("/w"), &Rules::default()).known_safe
}

#[test]
fn the_table_is_complete() {
    let rows = rows();
    assert_eq!(rows.len(), ROWS);
    let safe = rows.iter().filter(|row| row.safe).count();
    assert!(safe >= 300, "{safe}");
    let mut scripts: Vec<&str> = rows.iter().map(|row| row.script.as_str()).collect();
    scripts.sort_unstable();
    scripts.dedup();
    assert_eq!(scripts.len(), ROWS, "a script stands twice");
}

#[test]
fn commands_that_need_approval_ask() {
    let rows = rows();
    let passed: Vec<&str> =
        rows.iter().filter(|row| !row.safe && runs(row)).map(|row| row.script.as_str()).collect();
    assert_eq!(passed, Vec::<&str>::new());
}

#[test]
fn few_ask_needlessly() {
    let rows = rows();
    let needless: Vec<&str> =
        rows.iter().filter(|row| row.safe && !runs(row)).map(|row| row.script.as_str()).collect();
    println!("{} of {ROWS} ask needlessly:", needless.len());
    needless.iter().for_each(|script| println!("  {script:?}"));
    assert!(needless.len() <= MAX_NEEDLESS, "{} ask needlessly: {needless:#?}", needless.len());
}
