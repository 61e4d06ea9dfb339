//! The answer of a server that refuses the handshake: its status, the reason in its body, and what to do about it.

use std::time::Duration;

use httparse::{Header, Response};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::timeout;

use crate::{Error, ErrorKind};

/// Bytes of a body that are read; the rest would not be shown.
const BODY_BYTES: usize = 16 << 10;
/// Time for the body: a server may keep the connection open without sending the rest.
const BODY_TIME: Duration = Duration::from_secs(2);
/// Longest text of a server that is repeated, in characters.
const SHOWN: usize = 300;

/// The head of such an answer.
pub(super) struct Refusal {
    status: u16,
    location: Option<String>,
    retry_after: Option<String>,
    is_html: bool,
    length: Length,
}

enum Length {
    Bytes(usize),
    Chunked,
    UntilTheEnd,
}

impl Refusal {
    pub(super) fn new(response: &Response<'_, '_>) -> Self {
        let value = |name| header(response.headers, name);
        let chunked = value("transfer-encoding").is_some_and(|coding| {
            coding
                .rsplit(',')
                .next()
                .is_some_and(|last| last.trim().eq_ignore_ascii_case("chunked"))
        });
        let length = value("content-length").and_then(|length| length.parse().ok());
        Self {
            status: response.code.unwrap_or(0),
            location: value("location").map(shown),
            retry_after: value("retry-after").map(shown),
            is_html: value("content-type").is_some_and(|kind| kind.contains("html")),
            length: match length {
                _ if chunked => Length::Chunked,
                Some(bytes) => Length::Bytes(bytes),
                None => Length::UntilTheEnd,
            },
        }
    }

    /// The error, with the reason that the body gives. `body` is what was read of it with the head.
    pub(super) async fn error(&self, body: Vec<u8>, reader: impl AsyncRead + Unpin) -> Error {
        let status = self.status;
        let kind = ErrorKind::UpgradeRefused { status };
        if let (300..400, Some(location)) = (status, &self.location) {
            let message = format!(
                "the server redirects to {location} (status {status}), and redirections are not followed"
            );
            return Error::new(kind, message).next_step("if that is the server, give its address");
        }
        let reason = self.reason(body, reader).await;
        let colon = if reason.is_empty() { "" } else { ": " };
        let message =
            format!("the server refused the connection with status {status}{colon}{reason}");
        let error = Error::new(kind, message);
        match (status, &self.retry_after) {
            (401, _) => error.next_step("give the token of this server, or a newer one"),
            (403, _) => error.next_step("ask the operator of the server to admit this client"),
            (404, _) => error.next_step("check the path of the address"),
            (426, _) => error.next_step("the server wants another protocol at this address"),
            (429 | 503, Some(after)) => {
                error.next_step(format!("try again later; the server names {after} (Retry-After)"))
            }
            (429 | 503, None) => error.next_step("try again later"),
            _ => error,
        }
    }

    async fn reason(&self, mut body: Vec<u8>, mut reader: impl AsyncRead + Unpin) -> String {
        // A page for people's browsers explains nothing in one line.
        if self.is_html {
            return String::new();
        }
        let reading = async {
            while body.len() < BODY_BYTES && !self.is_whole(&body) {
                // A truncated body still explains the refusal.
                if reader.read_buf(&mut body).await.unwrap_or(0) == 0 {
                    break;
                }
            }
        };
        // So does the part that came in time.
        let _ = timeout(BODY_TIME, reading).await;
        let text = match self.length {
            Length::Bytes(bytes) => body.get(..bytes).unwrap_or(&body).to_owned(),
            Length::Chunked => joined(&body).0,
            Length::UntilTheEnd => body,
        };
        shown(&String::from_utf8_lossy(&text))
    }

    fn is_whole(&self, body: &[u8]) -> bool {
        match self.length {
            Length::Bytes(bytes) => body.len() >= bytes,
            Length::Chunked => joined(body).1,
            Length::UntilTheEnd => false,
        }
    }
}

/// The contents of the chunks that are there, and whether the last one is.
fn joined(mut body: &[u8]) -> (Vec<u8>, bool) {
    let mut all = Vec::new();
    while let Ok(httparse::Status::Complete((start, length))) = httparse::parse_chunk_size(body) {
        if length == 0 {
            return (all, true);
        }
        let rest = body.get(start..).unwrap_or_default();
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let Some((chunk, after)) = rest.split_at_checked(length) else {
            all.extend_from_slice(rest);
            break;
        };
        all.extend_from_slice(chunk);
        body = after.strip_prefix(b"\r\n").unwrap_or_default();
    }
    (all, false)
}

/// The value of a header, if it is text.
pub(super) fn header<'h>(headers: &[Header<'h>], name: &str) -> Option<&'h str> {
    let found = headers.iter().find(|header| header.name.eq_ignore_ascii_case(name))?;
    std::str::from_utf8(found.value).ok().map(str::trim)
}

/// A text of the server as part of a message: in one line, and no longer than such.
fn shown(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control());
    let line: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let line = line.join(" ");
    match line.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => line,
    }
}
