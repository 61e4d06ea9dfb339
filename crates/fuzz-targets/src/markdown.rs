//! Messages in Markdown: whatever the text and however it arrives, the lines are the same, and nothing
//! in them is for the terminal to act on.

use tui::context::Context;
use tui::markdown::Stream;

use crate::input::text;

/// Checks one input.
pub fn run(bytes: &[u8]) {
    let [columns, size, rest @ ..] = bytes else { return };
    let (columns, size, text) = (*columns, *size, text(rest));
    let context = Context { columns: usize::from(columns), ..Context::default() };
    let mut whole = Stream::default();
    whole.push(text);
    whole.end();
    let whole = whole.finished(&context);

    let mut stream = Stream::default();
    let mut lines = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (delta, left) = rest.split_at(rest.ceil_char_boundary(usize::from(size) + 1));
        stream.push(delta);
        lines.extend(stream.finished(&context));
        assert!(stream.open(&context, 4).len() <= 4);
        rest = left;
    }
    stream.end();
    lines.extend(stream.finished(&context));
    assert_eq!(lines, whole);
    assert!(lines.iter().all(|line| !line.text().contains(char::is_control)));
}
