//! Splits a text into lines with their line ends, so that bytes outside of a patch stay unchanged.

/// A line and its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileLine<'t> {
    /// Without the line end.
    pub(crate) text: &'t str,
    /// `"\n"`, `"\r\n"`, or empty for a last line without a line end.
    pub(crate) end: &'static str,
}

/// The lines of `text`; none when it is empty.
pub(crate) fn lines(text: &str) -> Vec<FileLine<'_>> {
    text.split_inclusive('\n').map(line).collect()
}

fn line(text: &str) -> FileLine<'_> {
    if let Some(text) = text.strip_suffix("\r\n") {
        return FileLine { text, end: "\r\n" };
    }
    match text.strip_suffix('\n') {
        Some(text) => FileLine { text, end: "\n" },
        None => FileLine { text, end: "" },
    }
}

/// Appends `lines` to `text`. A line without a line end gets `usual_end`, unless it is the last.
pub(crate) fn append(text: &mut String, lines: &[FileLine<'_>], usual_end: &str) {
    text.reserve(lines.iter().map(|line| line.text.len() + 2).sum());
    for (at, line) in lines.iter().enumerate() {
        text.push_str(line.text);
        let is_open = line.end.is_empty() && at + 1 < lines.len();
        text.push_str(if is_open { usual_end } else { line.end });
    }
}
