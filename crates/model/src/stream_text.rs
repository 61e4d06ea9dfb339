//! Tells a stream of events from a single document by the first bytes of a response.

/// Text without a byte order mark.
pub(crate) fn without_mark(text: &[u8]) -> &[u8] {
    text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(text)
}

/// Returns whether text is an event stream, whatever it is called.
pub(crate) fn is_stream(text: &[u8]) -> bool {
    let text = without_mark(text).trim_ascii_start();
    ["data:", "event:", "id:", ":"].iter().any(|start| text.starts_with(start.as_bytes()))
}
