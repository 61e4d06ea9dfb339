//! Both implementations' outcomes of a case, and the reasons why they may differ.

use std::path::Path;

use patch::ErrorKind;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::cases::Case;

/// The text after the patch, or an error of the other implementation.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum TheirOutcome {
    After(String),
    Error(IgnoredAny),
}

/// The text after the patch, or why the patch fails.
pub(crate) type OurOutcome = Result<String, patch::Error>;

/// The result of comparing the outcomes. All but `Unexplained` are in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verdict {
    Same,
    BothRefuse,
    /// A file whose end changed ends with a line end; there it ends as before.
    FinalLineEnd,
    /// Lines that the patch does not touch keep their line ends; there all of them become alike.
    LineEnds,
    /// Lines without context go to the end of the file; there, to where the hunk before ended.
    UnplacedLines,
    /// The line after `@@` is looked for after the hunk before, as a beginning of a line too;
    /// there, one that is not found does not count.
    Anchor,
    /// A blank line at the end of a hunk is the end of the file only when no other line matches;
    /// there, it is before lines that match loosely.
    BlankEnd,
    /// `*** End of File` where the file does not end; there, the first place counts.
    NotAtEnd,
    /// After a second `*** End of File`, or one with white space, the other one reads no further.
    DoubledEnd,
    /// Refused there.
    UnderstoodHere,
    /// Refused here: there are several places that could be meant.
    Ambiguous,
    /// Refused here: the line after `@@` is not in the file, and nothing else says where.
    NoAnchor,
    /// Refused here: a hunk stands before, or in, the one before it.
    Order,
    /// Refused here: a hunk without lines.
    EmptyHunk,
    Unexplained,
}

/// Returns our crate's outcome of a case.
pub(crate) fn ours(case: &Case) -> OurOutcome {
    // The other one takes one line end at the end for that of the last line.
    let diff = case.diff.strip_suffix('\n').unwrap_or(&case.diff);
    let text = format!("*** Begin Patch\n*** Update File: f\n{diff}\n*** End Patch");
    let patch = patch::parse(&text)?;
    let mut read = |_: &Path| Ok(Some(case.before.clone()));
    let mut changes = patch::plan(&patch, Path::new("/w"), &mut read)?;
    Ok(changes.pop().and_then(|change| change.after).unwrap_or_default())
}

pub(crate) fn compare(case: &Case, ours: &OurOutcome, theirs: &TheirOutcome) -> Verdict {
    use TheirOutcome::{After, Error};
    match (ours, theirs) {
        (Ok(ours), After(theirs)) if ours == theirs => Verdict::Same,
        (Ok(ours), After(theirs)) => differing(case, ours, theirs),
        (Ok(_), Error(_)) => Verdict::UnderstoodHere,
        (Err(error), After(_)) => refused(case, error.kind()),
        (Err(_), Error(_)) => Verdict::BothRefuse,
    }
}

fn differing(case: &Case, ours: &str, theirs: &str) -> Verdict {
    if is_same_but_end(ours, theirs) {
        return Verdict::FinalLineEnd;
    }
    let plain = |text: &str| text.replace("\r\n", "\n");
    let hunks = hunks(case);
    let is_anchored = hunks.iter().any(|hunk| !hunk.anchors.is_empty());
    let ends = hunks.iter().filter(|hunk| hunk.end_marks > 0).count();
    if is_same_but_end(&plain(ours), &plain(theirs)) {
        Verdict::LineEnds
    } else if hunks.iter().any(Hunk::is_unplaced) {
        Verdict::UnplacedLines
    } else if hunks.iter().any(|hunk| hunk.end_marks > 1) {
        Verdict::DoubledEnd
    } else if hunks.iter().any(Hunk::ends_blank) {
        Verdict::BlankEnd
    } else if ends > 0 && !is_anchored {
        Verdict::NotAtEnd
    } else if is_anchored {
        Verdict::Anchor
    } else {
        Verdict::Unexplained
    }
}

fn refused(case: &Case, kind: ErrorKind) -> Verdict {
    let hunks = hunks(case);
    let is_doubled_end = hunks.iter().any(|hunk| hunk.end_marks > 1);
    match kind {
        ErrorKind::Ambiguous => Verdict::Ambiguous,
        ErrorKind::AnchorNotFound => Verdict::NoAnchor,
        ErrorKind::EmptyHunk => Verdict::EmptyHunk,
        _ if is_doubled_end => Verdict::DoubledEnd,
        ErrorKind::OutOfOrder => Verdict::Order,
        _ if hunks.iter().any(Hunk::is_unplaced) => Verdict::UnplacedLines,
        _ if hunks.iter().any(|hunk| hunk.has_partial_anchor(&case.before)) => Verdict::Anchor,
        _ => Verdict::Unexplained,
    }
}

/// The same lines, perhaps with a line end after the last one on one side.
fn is_same_but_end(one: &str, other: &str) -> bool {
    let ended = |text: &str, other: &str| text.strip_suffix('\n') == Some(other);
    one == other || ended(one, other) || ended(other, one)
}

/// Enough of a hunk to show why outcomes differ.
#[derive(Default)]
struct Hunk {
    anchors: Vec<String>,
    lines: Vec<String>,
    /// More than one: the other one reads no further.
    end_marks: usize,
}

impl Hunk {
    /// Returns whether its position follows from nothing but blank lines.
    fn is_unplaced(&self) -> bool {
        let old = self.lines.iter().filter(|line| !line.starts_with('+'));
        old.clone().all(|line| line.is_empty()) && !self.lines.is_empty()
    }

    /// Returns whether the text after `@@` is no whole line of the file.
    fn has_partial_anchor(&self, file: &str) -> bool {
        self.anchors.iter().any(|anchor| file.lines().all(|line| line.trim() != anchor))
    }

    fn ends_blank(&self) -> bool {
        let last = self.lines.iter().rfind(|line| !line.starts_with('+'));
        last.is_some_and(|line| line.get(1..).unwrap_or_default().trim().is_empty())
    }
}

fn hunks(case: &Case) -> Vec<Hunk> {
    let mut hunks = vec![Hunk::default()];
    for line in case.diff.split('\n').map(|line| line.trim_end_matches('\r')) {
        let Some(last) = hunks.last_mut() else { break };
        if line.trim() == "*** End of File" {
            last.end_marks += if line == line.trim() { 1 } else { 2 };
        } else if let Some(anchor) = line.strip_prefix("@@") {
            let mut hunk = Hunk::default();
            if last.lines.is_empty() && last.end_marks == 0 {
                hunk = std::mem::take(last);
                hunks.pop();
            }
            hunk.anchors.extend(Some(anchor.trim().to_owned()).filter(|text| !text.is_empty()));
            hunks.push(hunk);
        } else if last.end_marks > 0 {
            hunks.push(Hunk { lines: vec![line.to_owned()], ..Hunk::default() });
        } else {
            last.lines.push(line.to_owned());
        }
    }
    hunks
}
