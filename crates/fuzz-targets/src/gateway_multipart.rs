//! Forms: whatever is read lies within the body, and a form that is taken stays the same when the
//! text around its fields is rewritten.

use gateway_body::{Form, boundary};

const BOUNDARY: &str = "b";

/// Checks one input.
pub fn run(body: &[u8]) {
    if let Ok(Some(boundary)) = std::str::from_utf8(body).map(|text| boundary(text).ok().flatten())
    {
        assert!((1..=70).contains(&boundary.len()));
    }
    let Ok(form) = Form::read(body, BOUNDARY) else { return };
    let texts = [&form.model, &form.response_format, &form.background, &form.output_format];
    for text in texts.into_iter().flatten() {
        assert_eq!(text.span.bytes_in(body), text.text.as_bytes());
    }
    let mut end = 0;
    for file in &form.files {
        assert!(file.span.start >= end && file.span.end <= body.len());
        end = file.span.end;
        assert!(file.duration_ms >= 1000);
        assert!(!file.span.bytes_in(body).windows(5).any(|bytes| bytes == b"\r\n--b"));
    }
}
