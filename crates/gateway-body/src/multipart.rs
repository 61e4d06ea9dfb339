//! Reads a `multipart/form-data` request in memory: the text fields that the gateway needs, and the
//! length and duration of each file. A form that two parsers could read in two ways is refused, so
//! that the gateway charges for what the upstream serves.

use memchr::memmem;

use super::form_ids::FormIds;
use super::json::Span;
use super::scan::seconds;
use super::wav::{self, Duration};

/// Most parts of a form.
const MAX_PARTS: usize = 256;
/// Most bytes of a part's headers.
const MAX_HEAD: usize = 8 << 10;
/// Most bytes of a field's value.
const MAX_VALUE: usize = 1024;
const MAX_BOUNDARY: usize = 70;
const MAX_N: u32 = 1000;
/// Assumed bytes per second of audio in an unknown format.
const BYTES_PER_SECOND: u64 = 16_000;
const SHORTEST_MS: u64 = 1000;

/// The value of a text field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldText {
    /// Its range in the body.
    pub span: Span,
    /// The value.
    pub text: String,
}

/// A part with a file name, or with the name `file`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePart {
    /// The field, as in `file` and `image[]`.
    pub name: String,
    /// The range of its content in the body.
    pub span: Span,
    /// Its duration as audio, in milliseconds: from a WAV header, bounded by the actual length, or
    /// else its length at 16,000 bytes per second; at least one second. Of compressed audio in a WAV file, the larger
    /// of both.
    pub duration_ms: u64,
}

impl FilePart {
    /// Length of the content in bytes.
    pub fn length(&self) -> usize {
        self.span.end - self.span.start
    }
}

/// The parts of a form that the gateway needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Form {
    /// `model`.
    pub model: Option<FieldText>,
    /// `n`, from 1 to 1000.
    pub n: Option<u32>,
    /// `stream`: `true` or `false`, ignoring case.
    pub stream: bool,
    /// `response_format`.
    pub response_format: Option<FieldText>,
    /// `background`.
    pub background: Option<FieldText>,
    /// `output_format`.
    pub output_format: Option<FieldText>,
    /// `size`.
    pub size: Option<FieldText>,
    /// `quality`.
    pub quality: Option<FieldText>,
    /// `seconds` of a video, from 1 to [`crate::MOST_SECONDS`].
    pub seconds: Option<u32>,
    /// Length of `prompt`, in Unicode scalar values.
    pub prompt_chars: u64,
    /// Ids in other text fields.
    pub ids: FormIds,
    /// The files, in order.
    pub files: Vec<FilePart>,
    /// The name and the range of each part, with the boundary before it.
    pub parts: Vec<(String, Span)>,
}

/// Why a form is refused. The messages are sentences for the client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormError {
    /// `Content-Type` has no boundary, two, or one with invalid bytes.
    #[error("The content type needs one boundary of 1 to 70 plain characters.")]
    Boundary,
    /// The form is malformed or ambiguous.
    #[error("The form is not valid: {reason} at byte {at}.")]
    Malformed {
        /// Offset in bytes.
        at: usize,
        /// The mistake at that offset.
        reason: &'static str,
    },
    /// A unique field occurs twice.
    #[error("The form contains the field `{name}` more than once.")]
    Duplicate {
        /// The field.
        name: &'static str,
    },
    /// A field has an invalid value.
    #[error("Invalid value for `{name}`: expected {expected}.")]
    Value {
        /// The field.
        name: &'static str,
        /// The expected value.
        expected: &'static str,
    },
}

impl FormError {
    /// The field at fault; `None` for the whole form.
    pub fn param(&self) -> Option<&'static str> {
        match self {
            FormError::Duplicate { name } | FormError::Value { name, .. } => Some(name),
            FormError::Boundary | FormError::Malformed { .. } => None,
        }
    }
}

/// The boundary in a `Content-Type` of `multipart/form-data`; `None` for other types.
///
/// # Errors
/// There is no boundary, there are two, or it is invalid.
pub fn boundary(content_type: &str) -> Result<Option<&str>, FormError> {
    let mut parts = content_type.split(';');
    let kind = parts.next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("multipart/form-data") {
        return Ok(None);
    }
    let mut found = None;
    for part in parts {
        let Some((name, value)) = part.split_once('=') else { continue };
        if !name.trim().eq_ignore_ascii_case("boundary") {
            continue;
        }
        let value = value.trim();
        let inner = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
        if found.replace(inner.unwrap_or(value)).is_some() {
            return Err(FormError::Boundary);
        }
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"'()+_,-./:=?".contains(&byte);
    match found {
        Some(found) if (1..=MAX_BOUNDARY).contains(&found.len()) && found.bytes().all(plain) => {
            Ok(Some(found))
        }
        _ => Err(FormError::Boundary),
    }
}

impl Form {
    /// Reads the whole `body`, whose parts are separated by `boundary`.
    ///
    /// # Errors
    /// The form is malformed or ambiguous, or a known field occurs twice, occurs as a file, or has
    /// an invalid value.
    pub fn read(body: &[u8], boundary: &str) -> Result<Form, FormError> {
        let mut form = Form::default();
        let mut fields = Fields::default();
        let mut parts = Parts::new(body, boundary)?;
        let mut start = 0;
        while let Some((head, span)) = parts.next()? {
            // The next boundary begins after a line feed.
            let end = span.end + 2;
            form.parts.push((head.name.clone(), Span { start, end }));
            start = end;
            form.part(body, head, span, &mut fields)?;
        }
        form.with(fields)
    }

    fn part(
        &mut self,
        body: &[u8],
        head: Head,
        span: Span,
        fields: &mut Fields,
    ) -> Result<(), FormError> {
        let content = span.bytes_in(body);
        let known = FIELDS.iter().position(|known| *known == head.name);
        if let Some(known) = known {
            let name = FIELDS[known];
            if head.is_file() || head.charset {
                return Err(FormError::Value { name, expected: "plain UTF-8 text" });
            }
            let longest = if name == "prompt" { usize::MAX } else { MAX_VALUE };
            let text = std::str::from_utf8(content).ok().filter(|text| text.len() <= longest);
            let Some(text) = text else {
                return Err(FormError::Value { name, expected: "short UTF-8 text" });
            };
            if name == "prompt" {
                self.prompt_chars = text.chars().count() as u64;
            }
            let text = if name == "prompt" { String::new() } else { text.to_owned() };
            let field = FieldText { span, text };
            return match fields[known].replace(field) {
                Some(_) => Err(FormError::Duplicate { name }),
                None => Ok(()),
            };
        }
        // Some servers take this field as a file even where it has no file name.
        if head.is_file() || head.name == "file" {
            if head.name == "file" && self.files.iter().any(|file| file.name == "file") {
                return Err(FormError::Duplicate { name: "file" });
            }
            let guess = (content.len() as u64 * 1000).div_ceil(BYTES_PER_SECOND);
            let duration_ms = match wav::duration(content) {
                Some(Duration::Exact(length)) => length,
                Some(Duration::Claimed(length)) => length.max(guess),
                None => guess,
            };
            let duration_ms = duration_ms.max(SHORTEST_MS);
            self.files.push(FilePart { name: head.name, span, duration_ms });
        } else {
            self.ids.add(&head.name, content);
        }
        Ok(())
    }

    fn with(mut self, fields: Fields) -> Result<Form, FormError> {
        let [
            model,
            n,
            stream,
            response_format,
            background,
            output_format,
            _prompt,
            size,
            quality,
            seconds,
        ] = fields;
        self.seconds = seconds.map(|seconds| duration(&seconds.text)).transpose()?;
        self.n = n.map(|n| count(&n.text)).transpose()?;
        self.stream = stream.map_or(Ok(false), |stream| flag(&stream.text))?;
        Ok(Form { model, response_format, background, output_format, size, quality, ..self })
    }
}

/// The known fields.
const FIELDS: [&str; 10] = [
    "model",
    "n",
    "stream",
    "response_format",
    "background",
    "output_format",
    "prompt",
    "size",
    "quality",
    "seconds",
];
type Fields = [Option<FieldText>; FIELDS.len()];

fn count(text: &str) -> Result<u32, FormError> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|n| digits && (1..=MAX_N).contains(n));
    number.ok_or(FormError::Value { name: "n", expected: "an integer from 1 to 1000" })
}

fn duration(text: &str) -> Result<u32, FormError> {
    let expected = "a whole number of seconds from 1 to 3600";
    seconds(text.as_bytes()).ok_or(FormError::Value { name: "seconds", expected })
}

fn flag(text: &str) -> Result<bool, FormError> {
    match text {
        _ if text.eq_ignore_ascii_case("true") => Ok(true),
        _ if text.eq_ignore_ascii_case("false") => Ok(false),
        _ => Err(FormError::Value { name: "stream", expected: "true or false" }),
    }
}

/// An iterator over the parts of a form.
pub(super) struct Parts<'a> {
    body: &'a [u8],
    delimiter: Box<[u8]>,
    finder: memmem::Finder<'static>,
    at: usize,
    read: usize,
}

impl<'a> Parts<'a> {
    pub(super) fn new(body: &'a [u8], boundary: &str) -> Result<Self, FormError> {
        let delimiter: Box<[u8]> = [b"\r\n--", boundary.as_bytes()].concat().into();
        if !body.starts_with(&delimiter[2..]) {
            return Err(malformed(0, "the boundary was expected"));
        }
        let finder = memmem::Finder::new(&delimiter).into_owned();
        let at = delimiter.len() - 2;
        Ok(Self { body, delimiter, finder, at, read: 0 })
    }

    /// The next part and the range of its content; `None` after the last boundary.
    pub(super) fn next(&mut self) -> Result<Option<(Head, Span)>, FormError> {
        let Self { body, delimiter, finder, at, read } = self;
        match &body[*at..] {
            [b'-', b'-'] | [b'-', b'-', b'\r', b'\n'] => return Ok(None),
            _ if *read >= MAX_PARTS => return Err(malformed(*at, "there are too many parts")),
            [b'\r', b'\n', ..] => *at += 2,
            _ => return Err(malformed(*at, "the boundary is followed by something")),
        }
        *read += 1;
        let head = Head::read(body, at)?;
        if body[*at..].starts_with(&delimiter[2..]) {
            return Err(malformed(*at, "a boundary within a line"));
        }
        let length = finder.find(&body[*at..]);
        let end = *at + length.ok_or(malformed(body.len(), "the last boundary is missing"))?;
        let span = Span { start: *at, end };
        *at = end + delimiter.len();
        Ok(Some((head, span)))
    }
}

/// The headers of a part.
pub(super) struct Head {
    pub(super) name: String,
    /// The file name as written, if the part is a file.
    pub(super) file: Option<String>,
    /// True if its text is in another charset than UTF-8.
    pub(super) charset: bool,
}

impl Head {
    pub(super) fn is_file(&self) -> bool {
        self.file.is_some()
    }

    /// Reads the headers at `at`, and moves `at` past the empty line.
    fn read(body: &[u8], at: &mut usize) -> Result<Head, FormError> {
        let start = *at;
        let mut disposition = None;
        let mut charset = false;
        loop {
            let rest = &body[*at..body.len().min(start + MAX_HEAD)];
            let end = memmem::find(rest, b"\r\n");
            let end = end.ok_or(malformed(*at, "the headers of a part do not end"))?;
            let line = &rest[..end];
            let line_at = *at;
            *at += end + 2;
            if line.is_empty() {
                break;
            }
            let (name, value) = header(line).ok_or(malformed(line_at, "a header is malformed"))?;
            match name.to_ascii_lowercase().as_str() {
                "content-disposition" if disposition.is_some() => {
                    return Err(malformed(line_at, "a part has two dispositions"));
                }
                "content-disposition" => disposition = Some((line_at, value)),
                "content-transfer-encoding" => {
                    let value = value.to_ascii_lowercase();
                    if !["7bit", "8bit", "binary"].contains(&value.as_str()) {
                        return Err(malformed(line_at, "a part is encoded"));
                    }
                }
                "content-type" => charset |= names_other_charset(value),
                _ => {}
            }
        }
        let (place, value) = disposition.ok_or(malformed(start, "a part has no disposition"))?;
        let (name, file) =
            disposed(value).ok_or(malformed(place, "a disposition is malformed or ambiguous"))?;
        if name == "_charset_" {
            return Err(malformed(place, "the form changes its character set"));
        }
        Ok(Head { name, file, charset })
    }
}

/// A header's name and its trimmed value.
fn header(line: &[u8]) -> Option<(&str, &str)> {
    let (name, value) = std::str::from_utf8(line).ok()?.split_once(':')?;
    let token = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    let plain = !name.is_empty() && name.bytes().all(token);
    let value = value.trim_matches([' ', '\t']);
    (plain && !value.chars().any(char::is_control)).then_some((name, value))
}

fn names_other_charset(content_type: &str) -> bool {
    let lower = content_type.to_ascii_lowercase();
    let Some((_, charset)) = lower.split_once("charset") else { return false };
    let charset = charset.trim_start_matches([' ', '=']).trim_matches([' ', '"']);
    !["utf-8", "utf8", "us-ascii"].contains(&charset)
}

/// The names of the field and of the file; `None` when two parsers could differ.
fn disposed(value: &str) -> Option<(String, Option<String>)> {
    let mut rest = value
        .get(..9)
        .filter(|kind| kind.eq_ignore_ascii_case("form-data"))
        .map(|_| &value[9..])?;
    let (mut name, mut file) = (None, None);
    loop {
        rest = rest.trim_start_matches([' ', '\t']);
        if rest.is_empty() {
            return Some((name?, file));
        }
        rest = rest.strip_prefix(';')?.trim_start_matches([' ', '\t']);
        let (key, after) = rest.split_once('=')?;
        let (text, after) = parameter(after)?;
        match key.to_ascii_lowercase().as_str() {
            "name" if !text.contains('\\') && name.replace(text.to_owned()).is_none() => {}
            "filename" if file.replace(text.to_owned()).is_none() => {}
            _ => return None,
        }
        rest = after;
    }
}

/// A parameter's value, and the rest. In quotes, a backslash is accepted only before another
/// backslash: some parsers end the text at `\"`, others do not.
fn parameter(text: &str) -> Option<(&str, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        let token = |c: char| c.is_ascii_alphanumeric() || "-_.[]".contains(c);
        let end = text.find(|c| !token(c)).unwrap_or(text.len());
        return (end > 0).then(|| text.split_at(end));
    };
    let mut bytes = quoted.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'"' => return Some((&quoted[..at], &quoted[at + 1..])),
            b'\\' if quoted.as_bytes().get(at + 1) == Some(&b'"') => return None,
            b'\\' if quoted.as_bytes().get(at + 1) == Some(&b'\\') => drop(bytes.next()),
            _ => {}
        }
    }
    None
}

fn malformed(at: usize, reason: &'static str) -> FormError {
    FormError::Malformed { at, reason }
}

#[cfg(test)]
#[path = "multipart_tests.rs"]
mod tests;
