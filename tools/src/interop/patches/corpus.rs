//! The cases that the ordinary tests check: a few of each verdict and each kind of patch.

use std::collections::BTreeSet;

use anyhow::Result;
use serde::Serialize;

use super::cases::Case;
use super::compare::{OurOutcome, TheirOutcome, Verdict};

/// A case with what came of it.
pub(crate) struct Compared {
    pub(crate) case: Case,
    pub(crate) ours: OurOutcome,
    pub(crate) theirs: TheirOutcome,
    pub(crate) verdict: Verdict,
}

/// A line of the corpus. Errors are not in it: their words may change.
#[derive(Serialize)]
struct Line<'a> {
    verdict: String,
    before: &'a str,
    diff: &'a str,
    ours: Option<&'a str>,
    theirs: Option<&'a str>,
}

/// So many cases of one verdict.
const OF_EACH_VERDICT: usize = 40;

/// For each verdict the smallest case of each kind of patch, evenly chosen from the small to the
/// large where there are too many; one JSON object a line.
pub(crate) fn write(mut compared: Vec<Compared>) -> Result<String> {
    compared.sort_by_key(|compared| (compared.verdict, size(&compared.case)));
    let mut seen = BTreeSet::new();
    compared.retain(|compared| seen.insert((compared.verdict, kind(&compared.case))));
    let mut text = String::new();
    for kinds in compared.chunk_by(|one, other| one.verdict == other.verdict) {
        let count = kinds.len().min(OF_EACH_VERDICT);
        for Compared { case, ours, theirs, verdict } in
            (0..count).map(|at| &kinds[at * kinds.len() / count])
        {
            let line = Line {
                verdict: format!("{verdict:?}"),
                before: &case.before,
                diff: &case.diff,
                ours: ours.as_deref().ok(),
                theirs: match theirs {
                    TheirOutcome::After(text) => Some(text),
                    TheirOutcome::Error(_) => None,
                },
            };
            text.push_str(&serde_json::to_string(&line)?);
            text.push('\n');
        }
    }
    Ok(text)
}

fn size(case: &Case) -> usize {
    case.before.len() + case.diff.len()
}

/// Returns the parts of a patch, a letter each.
fn kind(case: &Case) -> String {
    let lines: Vec<&str> = case.diff.split('\n').collect();
    let count = |start: &str| lines.iter().filter(|line| line.starts_with(start)).count();
    let mut kind = format!("{}{}", count("@@ ").min(3), count("@@").min(3));
    for (letter, has) in [
        ('-', count("-") > 0),
        ('+', count("+") > 0),
        (' ', count(" ") > 0),
        ('e', count("***") > 0),
        ('b', lines.iter().any(|line| line.is_empty())),
        ('r', case.before.contains('\r') || case.diff.contains('\r')),
        ('o', !case.before.ends_with('\n')),
        ('t', case.diff.contains(['\u{201c}', '\u{201d}', '\u{2019}', '\u{2013}'])),
    ] {
        kind.extend(has.then_some(letter));
    }
    kind
}
