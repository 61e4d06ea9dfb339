//! Applies the hunks of a file to its text. Changes only the lines that the hunks remove and add;
//! all other bytes stay, including line ends. A new last line ends with a line end.

use crate::edit::Edit;
use crate::error::Error;
use crate::lines;
use crate::mismatch::Failure;
use crate::parse::Hunk;

const BYTE_ORDER_MARK: char = '\u{feff}';

/// Applies `hunks`, which are in the order of the file, to `old`, the text of `path`.
pub(crate) fn apply_hunks(path: &str, old: &str, hunks: &[Hunk]) -> Result<String, Error> {
    let mut text = String::new();
    let mut body = old;
    // A byte order mark stays before the first line, unless the patch contains it.
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
            Ok(position) => edit.apply(hunk, &position),
            Err(Failure::TooCostly) => return Err(Error::too_costly(path)),
            Err(Failure::Mismatch(mismatch)) => {
                return Err(Error::mismatch(path, at + 1, &mismatch));
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
