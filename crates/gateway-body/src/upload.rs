//! Reads the form that uploads a file: its purpose, content, name and expiry.

use std::borrow::Cow;

use super::json::Span;
use super::multipart::{FormError, Head, Parts};

/// Most bytes of a field's value.
const MAX_VALUE: usize = 256;
/// Characters of a file's name that are kept.
const MAX_NAME: usize = 512;

/// The contents of the form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upload {
    /// `purpose`.
    pub purpose: String,
    /// The name of the file.
    pub filename: String,
    /// The range of its content in the body.
    pub file: Span,
    /// `expires_after[anchor]`.
    pub anchor: Option<String>,
    /// `expires_after[seconds]`.
    pub seconds: Option<String>,
}

/// The value of `purpose`, if the first bytes of a form contain its part. Does not report errors in
/// the form, because more bytes may follow.
#[must_use]
pub fn purpose_so_far(body: &[u8], boundary: &str) -> Option<String> {
    let mut parts = Parts::new(body, boundary).ok()?;
    while let Ok(Some((head, span))) = parts.next() {
        if head.name == "purpose" {
            return text(&head, span, body, "purpose").ok();
        }
    }
    None
}

impl Upload {
    /// Reads the whole `body`, whose parts are separated by `boundary`.
    ///
    /// # Errors
    /// The form is malformed, lacks its purpose or file, or repeats a field.
    pub fn read(body: &[u8], boundary: &str) -> Result<Self, FormError> {
        const FIELDS: [&str; 3] = ["purpose", "expires_after[anchor]", "expires_after[seconds]"];
        let mut fields: [Option<String>; 3] = Default::default();
        let mut file = None;
        let mut parts = Parts::new(body, boundary)?;
        while let Some((head, span)) = parts.next()? {
            if let Some(known) = FIELDS.iter().position(|known| *known == head.name) {
                let value = text(&head, span, body, FIELDS[known])?;
                if fields[known].replace(value).is_some() {
                    return Err(FormError::Duplicate { name: FIELDS[known] });
                }
            } else if head.name == "file" {
                let filename = head.file.unwrap_or_default();
                if file.replace((filename.chars().take(MAX_NAME).collect(), span)).is_some() {
                    return Err(FormError::Duplicate { name: "file" });
                }
            }
        }
        let [purpose, anchor, seconds] = fields;
        let purpose = purpose.ok_or(FormError::Value { name: "purpose", expected: "a purpose" })?;
        let file = file.ok_or(FormError::Value { name: "file", expected: "a file" })?;
        let (filename, file) = file;
        Ok(Self { purpose, filename, file, anchor, seconds })
    }
}

fn text(head: &Head, span: Span, body: &[u8], name: &'static str) -> Result<String, FormError> {
    let text = std::str::from_utf8(span.bytes_in(body)).ok();
    let is_plain = !head.is_file() && !head.charset;
    let text = text.filter(|text| is_plain && text.len() <= MAX_VALUE);
    text.map(|text| Cow::Borrowed(text).into_owned())
        .ok_or(FormError::Value { name, expected: "short UTF-8 text" })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn form(parts: &[(&str, &str)]) -> String {
        let part = |(head, content): &(&str, &str)| {
            format!("--b\r\nContent-Disposition: form-data; {head}\r\n\r\n{content}\r\n")
        };
        parts.iter().map(part).collect::<String>() + "--b--\r\n"
    }

    const PURPOSE: (&str, &str) = ("name=\"purpose\"", "batch");
    const FILE: (&str, &str) = ("name=\"file\"; filename=\"a.jsonl\"", "{}\n");

    #[test]
    fn the_purpose_is_found_before_and_after_the_file() {
        for parts in [[PURPOSE, FILE], [FILE, PURPOSE]] {
            let body = form(&parts);
            let upload = Upload::read(body.as_bytes(), "b").unwrap();
            assert_eq!((&*upload.purpose, &*upload.filename), ("batch", "a.jsonl"));
            assert_eq!(upload.file.bytes_in(body.as_bytes()), b"{}\n");
            assert_eq!((upload.anchor, upload.seconds), (None, None));
        }
        let first = form(&[PURPOSE, FILE]);
        assert_eq!(purpose_so_far(&first.as_bytes()[..80], "b").as_deref(), Some("batch"));
        assert_eq!(purpose_so_far(&first.as_bytes()[..50], "b"), None);
    }

    #[test]
    fn invalid_uploads_are_refused() {
        let check = |parts: &[(&str, &str)], param: &str| {
            let error = Upload::read(form(parts).as_bytes(), "b").unwrap_err();
            assert_eq!(error.param(), Some(param), "{parts:?}");
        };
        check(&[FILE], "purpose");
        check(&[PURPOSE], "file");
        check(&[PURPOSE, PURPOSE, FILE], "purpose");
        check(&[PURPOSE, FILE, FILE], "file");
        check(&[("name=\"purpose\"; filename=\"x\"", "batch"), FILE], "purpose");
        assert!(Upload::read(b"--b\r\n", "b").is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_handled(body in any::<Vec<u8>>(), cut in 0_usize..200) {
            let _ = Upload::read(&body, "b");
            let good = form(&[FILE, PURPOSE]);
            let part = &good.as_bytes()[..cut.min(good.len())];
            let early = purpose_so_far(part, "b");
            prop_assert!(early.is_none() || early.as_deref() == Some("batch"));
        }
    }
}
