//! HTTP/1.1 messages for the upstream, the load generator and the client of the admin API:
//! `httparse` parses heads; bodies end by length, by chunks or with the connection.

use anyhow::{Context, Result, ensure};

/// Longest head, in bytes.
const MOST_HEAD: usize = 64 << 10;
/// More fields than any program here sends.
const MOST_FIELDS: usize = 64;

/// The head of a response.
#[derive(Debug, PartialEq)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) body: Body,
}

/// The head of a request.
#[derive(Debug, PartialEq)]
pub(crate) struct Request {
    pub(crate) path: String,
    pub(crate) body: Body,
}

impl Response {
    /// Returns the head at the beginning of `bytes` and its length; `None` while it is incomplete.
    pub(crate) fn read(bytes: &[u8]) -> Result<Option<(Response, usize)>> {
        let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
        let mut response = httparse::Response::new(&mut fields);
        let httparse::Status::Complete(length) = response.parse(bytes)? else {
            ensure!(bytes.len() < MOST_HEAD, "the head is too long");
            return Ok(None);
        };
        let status = response.code.context("no status")?;
        let empty = status == 204 || status == 304 || status < 200;
        let body = if empty {
            Body::empty()
        } else {
            Body::from_headers(response.headers, Body::UntilEnd)?
        };
        Ok(Some((Response { status, body }, length)))
    }
}

impl Request {
    /// Returns the head at the beginning of `bytes` and its length; `None` while it is incomplete.
    pub(crate) fn read(bytes: &[u8]) -> Result<Option<(Request, usize)>> {
        let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
        let mut request = httparse::Request::new(&mut fields);
        let httparse::Status::Complete(length) = request.parse(bytes)? else {
            ensure!(bytes.len() < MOST_HEAD, "the head is too long");
            return Ok(None);
        };
        let path = request.path.context("no path")?.to_owned();
        let body = Body::from_headers(request.headers, Body::empty())?;
        Ok(Some((Request { path, body }, length)))
    }
}

/// A body in progress.
#[derive(Debug, PartialEq, Clone)]
pub(crate) enum Body {
    /// Number of missing bytes.
    Length(u64),
    Chunked(Chunk),
    /// Ends with the connection.
    UntilEnd,
}

/// Position in a chunked body.
#[derive(Debug, PartialEq, Clone, Copy)]
pub(crate) enum Chunk {
    /// In the length of a chunk; the value read so far.
    Size(u64),
    /// After the length of a chunk with this many bytes.
    Extension(u64),
    /// In a chunk, of which this many bytes are missing.
    Data(u64),
    /// In the line break after a chunk.
    After,
    /// In a line of the trailer, which is empty so far or not.
    Trailer {
        empty: bool,
    },
    Done,
}

impl Body {
    fn empty() -> Body {
        Body::Length(0)
    }

    fn from_headers(fields: &[httparse::Header<'_>], otherwise: Body) -> Result<Body> {
        let value = |name: &str| {
            let field = fields.iter().find(|field| field.name.eq_ignore_ascii_case(name));
            field.map(|field| std::str::from_utf8(field.value)).transpose()
        };
        if value("transfer-encoding")?.is_some_and(|coding| coding.contains("chunked")) {
            return Ok(Body::Chunked(Chunk::Size(0)));
        }
        match value("content-length")? {
            Some(length) => Ok(Body::Length(length.trim().parse().context("Content-Length")?)),
            None => Ok(otherwise),
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        matches!(self, Body::Length(0) | Body::Chunked(Chunk::Done))
    }

    /// Removes the body's bytes from the front of `bytes`, appends their content to `content`, and
    /// returns how many bytes were removed.
    pub(crate) fn take(&mut self, bytes: &[u8], content: &mut Vec<u8>) -> Result<usize> {
        match self {
            Body::UntilEnd => {
                content.extend_from_slice(bytes);
                Ok(bytes.len())
            }
            Body::Length(missing) => {
                let taken = take_up_to(missing, bytes);
                content.extend_from_slice(&bytes[..taken]);
                Ok(taken)
            }
            Body::Chunked(chunk) => {
                let mut at = 0;
                while at < bytes.len() && *chunk != Chunk::Done {
                    at += chunk.take(&bytes[at..], content)?;
                }
                Ok(at)
            }
        }
    }
}

impl Chunk {
    /// Takes at least one byte; `bytes` must not be empty.
    fn take(&mut self, bytes: &[u8], content: &mut Vec<u8>) -> Result<usize> {
        let byte = bytes[0];
        let digit = char::from(byte).to_digit(16);
        *self = match *self {
            Chunk::Data(mut missing) => {
                let taken = take_up_to(&mut missing, bytes);
                content.extend_from_slice(&bytes[..taken]);
                *self = if missing == 0 { Chunk::After } else { Chunk::Data(missing) };
                return Ok(taken);
            }
            Chunk::Size(size) => match digit {
                Some(digit) => {
                    ensure!(size < 1 << 32, "the chunk is too long");
                    Chunk::Size(size * 16 + u64::from(digit))
                }
                None => Chunk::Extension(size).at_line_end(byte),
            },
            Chunk::Trailer { empty } => match byte {
                b'\n' if empty => Chunk::Done,
                b'\n' => Chunk::Trailer { empty: true },
                b'\r' => Chunk::Trailer { empty },
                _ => Chunk::Trailer { empty: false },
            },
            before @ (Chunk::Extension(_) | Chunk::After) => before.at_line_end(byte),
            Chunk::Done => Chunk::Done,
        };
        Ok(1)
    }

    fn at_line_end(self, byte: u8) -> Chunk {
        match self {
            _ if byte != b'\n' => self,
            Chunk::Extension(0) => Chunk::Trailer { empty: true },
            Chunk::Extension(size) => Chunk::Data(size),
            _ => Chunk::Size(0),
        }
    }
}

fn take_up_to(missing: &mut u64, bytes: &[u8]) -> usize {
    let taken = usize::try_from(*missing).map_or(bytes.len(), |missing| missing.min(bytes.len()));
    *missing -= taken as u64;
    taken
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn heads_are_read() {
        for (text, expected) in [
            ("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello", Some((200, Body::Length(5), 38))),
            (
                "HTTP/1.1 429 x\r\nTransfer-Encoding: chunked\r\n\r\n",
                Some((429, Body::Chunked(Chunk::Size(0)), 46)),
            ),
            ("HTTP/1.1 204 No\r\n\r\n", Some((204, Body::Length(0), 19))),
            ("HTTP/1.0 200 OK\r\n\r\nx", Some((200, Body::UntilEnd, 19))),
            ("HTTP/1.1 200 OK\r\ncontent-", None),
        ] {
            let read = Response::read(text.as_bytes()).unwrap();
            let read = read.map(|(head, length)| (head.status, head.body, length));
            assert_eq!(read, expected, "{text}");
        }
        let request = b"POST /v1/a HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}";
        let (request, length) = Request::read(request).unwrap().unwrap();
        assert_eq!((&*request.path, request.body, length), ("/v1/a", Body::Length(2), 42));
        assert!(Response::read(b"hello\r\n\r\n").is_err());
    }

    proptest! {
        #[test]
        fn chunked_bodies_are_reassembled(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..8),
            step in 1_usize..50,
        ) {
            let mut text = Vec::new();
            for chunk in &chunks {
                text.extend(format!("{:x};a=b\r\n", chunk.len()).as_bytes());
                text.extend(chunk);
                text.extend(b"\r\n");
            }
            text.extend(b"0\r\nsome: trailer\r\n\r\n");
            let end = text.len();
            text.extend(b"HTTP/1.1");
            let (mut body, mut content, mut at) = (Body::Chunked(Chunk::Size(0)), Vec::new(), 0);
            while !body.is_done() {
                let piece = &text[at..(at + step).min(text.len())];
                at += body.take(piece, &mut content).unwrap();
            }
            prop_assert_eq!(at, end);
            prop_assert_eq!(content, chunks.concat());
        }

        #[test]
        fn any_bytes_are_parsed_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Response::read(&bytes);
            let _ = Request::read(&bytes);
            let _ = Body::Chunked(Chunk::Size(0)).take(&bytes, &mut Vec::new());
        }
    }
}
