//! Applies the hunks of one file to its text. Touches nothing but the lines that the hunks
//! remove and add: everything else stays as it is to the byte, line ends included. A last line
//! that is new ends with a line end.

use crate::edit::Edit;
use crate::error::ApplyError;
use crate::lines;
use crate::mismatch::Failure;
use crate::parse::Hunk;

const BYTE_ORDER_MARK: char = '\u{feff}';

/// The text of `path` after `hunks`, which stand in the order of the file.
pub(crate) fn apply_hunks(path: &str, old: &str, hunks: &[Hunk]) -> Result<String, ApplyError> {
    let mut text = String::new();
    let mut body = old;
    // A byte order mark stays before whatever the first line becomes, unless the patch names it.
    if let Some(rest) = old.strip_prefix(BYTE_ORDER_MARK)
        && !names_byte_order_mark(hunks)
    {
        text.push(BYTE_ORDER_MARK);
        body = rest;
    }
    let file = lines::lines(body);
    let mut edit = Edit::new(&file, body);
    for (at, hunk) in hunks.iter().enumerate() {
        match edit.locate(hunk) {
            Ok(place) => edit.apply(hunk, &place),
            Err(Failure::TooCostly) => return Err(ApplyError::TooCostly(path.to_owned())),
            Err(Failure::NotFound { line, why }) => {
                return Err(ApplyError::NotFound {
                    path: path.to_owned(),
                    hunk: at + 1,
                    line,
                    why,
                });
            }
        }
    }
    edit.finish(&mut text);
    Ok(text)
}

fn names_byte_order_mark(hunks: &[Hunk]) -> bool {
    let mut lines = hunks.iter().flat_map(|hunk| &hunk.lines);
    lines.any(|line| line.text.starts_with(BYTE_ORDER_MARK))
}
