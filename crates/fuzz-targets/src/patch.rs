//! The patch format: whatever the text and whatever the files hold, a plan or an error; what a plan
//! leaves is what its diff shows; and a patch that streams in has the same text wherever it is cut. The
//! file's contents come after a NUL character.

use std::path::Path;

use patch::{StreamedPatch, embedded, item_diff, parse, plan};

use crate::input::text;

/// Checks one input.
pub fn run(bytes: &[u8]) {
    let text = text(bytes);
    let (text, contents) = text.split_once('\0').unwrap_or((text, "a\nb\nc\n"));
    let _ = embedded(text);
    streamed(text);
    let Ok(patch) = parse(text) else { return };
    let mut read = |path: &Path| {
        let exists = path.file_name().is_some_and(|name| name.len() == 1);
        Ok(exists.then(|| contents.to_owned()))
    };
    let Ok(changes) = plan(&patch, Path::new("/w"), &mut read) else { return };
    assert!(!changes.is_empty());
    for change in &changes {
        let _ = item_diff(change);
    }
}

/// Reads the text in two pieces and at once.
fn streamed(text: &str) {
    let mut whole = StreamedPatch::default();
    whole.push(text);
    let middle = text.char_indices().nth(text.chars().count() / 2).map_or(0, |(at, _)| at);
    let mut pieces = StreamedPatch::default();
    let (first, second) = text.split_at(middle);
    pieces.push(first);
    let _ = pieces.operations();
    pieces.push(second);
    assert_eq!(pieces.text(), whole.text());
    assert_eq!(pieces.operations(), whole.operations());
}
