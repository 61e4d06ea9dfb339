//! Reads the event stream of Bedrock: binary frames with checksums, each with one event of the Messages wire as base64
//! inside JSON, or with an exception.

use aws_smithy_eventstream::frame::read_message_from;
use aws_smithy_types::event_stream::{HeaderValue, Message};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use thiserror::Error;

use crate::refusal::error_of;

/// Longest frame. Longer ones end the stream before they are buffered.
pub const MAX_FRAME: usize = 16 << 20;

/// Bytes of the shortest frame: two lengths and two checksums.
const MIN_FRAME: usize = 16;

/// Why a stream cannot be read on.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum FrameError {
    #[error("the stream has a frame of {0} bytes; a frame has {MIN_FRAME} to {MAX_FRAME}")]
    Length(usize),
    #[error("the stream has a broken frame: {0}")]
    Broken(String),
    #[error("the stream has a frame of the unknown kind `{0}`")]
    Unknown(String),
}

/// Splits bytes into frames.
#[derive(Debug, Default)]
pub struct FrameReader {
    /// The beginning of a frame.
    rest: Vec<u8>,
}

#[derive(Deserialize)]
struct Chunk<'c> {
    #[serde(borrow)]
    bytes: std::borrow::Cow<'c, str>,
}

impl FrameReader {
    /// Reads bytes of the stream, split at any position, and passes each event on, as JSON. An exception becomes an
    /// event `error`. Events of other kinds than chunks are skipped.
    ///
    /// # Errors
    /// A frame is too long, or does not have its checksum or the form of one. What came before it was passed on.
    pub fn feed(&mut self, bytes: &[u8], mut event: impl FnMut(&[u8])) -> Result<(), FrameError> {
        let mut rest = std::mem::take(&mut self.rest);
        let all = match rest.is_empty() {
            true => bytes,
            false => {
                rest.extend_from_slice(bytes);
                &rest
            }
        };
        let mut at = 0;
        while let Some(length) = all[at..].first_chunk().map(|it| u32::from_be_bytes(*it) as usize)
        {
            if !(MIN_FRAME..=MAX_FRAME).contains(&length) {
                return Err(FrameError::Length(length));
            }
            let Some(frame) = all.get(at..at + length) else { break };
            read(frame, &mut event)?;
            at += length;
        }
        if at == 0 && !rest.is_empty() {
            self.rest = rest;
        } else {
            self.rest = all[at..].to_vec();
        }
        Ok(())
    }

    /// True if the stream ended within a frame.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        !self.rest.is_empty()
    }
}

fn read(frame: &[u8], event: &mut impl FnMut(&[u8])) -> Result<(), FrameError> {
    let broken = |problem: &dyn std::fmt::Display| FrameError::Broken(problem.to_string());
    let message = read_message_from(frame).map_err(|error| broken(&error))?;
    match header(&message, ":message-type") {
        "event" if header(&message, ":event-type") == "chunk" => {
            let chunk: Chunk<'_> =
                serde_json::from_slice(message.payload()).map_err(|it| broken(&it))?;
            event(&STANDARD.decode(&*chunk.bytes).map_err(|error| broken(&error))?);
            Ok(())
        }
        "event" => Ok(()),
        "exception" => {
            event(error_of(header(&message, ":exception-type"), message.payload()).as_bytes());
            Ok(())
        }
        "error" => {
            let text = serde_json::json!({ "message": header(&message, ":error-message") });
            event(
                error_of(header(&message, ":error-code"), text.to_string().as_bytes()).as_bytes(),
            );
            Ok(())
        }
        other => Err(FrameError::Unknown(crate::excerpt::excerpt(other))),
    }
}

fn header<'m>(message: &'m Message, name: &str) -> &'m str {
    let found = message.headers().iter().find(|header| header.name().as_str() == name);
    match found.map(aws_smithy_types::event_stream::Header::value) {
        Some(HeaderValue::String(text)) => text.as_str(),
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use aws_smithy_eventstream::frame::write_message_to;
    use aws_smithy_types::event_stream::Header;

    use super::*;

    fn frame(headers: &[(&'static str, &'static str)], payload: &str) -> Vec<u8> {
        let mut message = Message::new(payload.to_owned().into_bytes());
        for (name, value) in headers {
            message = message.add_header(Header::new(*name, HeaderValue::String((*value).into())));
        }
        let mut out = Vec::new();
        write_message_to(&message, &mut out).unwrap();
        out
    }

    fn chunk(event: &str) -> Vec<u8> {
        let payload = format!("{{\"bytes\":\"{}\",\"p\":\"ab\"}}", STANDARD.encode(event));
        frame(&[(":message-type", "event"), (":event-type", "chunk")], &payload)
    }

    fn feed(
        reader: &mut FrameReader,
        bytes: &[u8],
        out: &mut Vec<String>,
    ) -> Result<(), FrameError> {
        reader.feed(bytes, |event| out.push(String::from_utf8(event.to_vec()).unwrap()))
    }

    #[test]
    fn events_arrive_in_every_split() {
        let mut stream = [chunk("{\"type\":\"ping\"}"), chunk("{\"b\":2}")].concat();
        stream.extend(frame(&[(":message-type", "event"), (":event-type", "metadata")], "{}"));
        for split in 0..=stream.len() {
            let (mut reader, mut out) = (FrameReader::default(), Vec::new());
            feed(&mut reader, &stream[..split], &mut out).unwrap();
            feed(&mut reader, &stream[split..], &mut out).unwrap();
            assert_eq!(out, ["{\"type\":\"ping\"}", "{\"b\":2}"], "{split}");
            assert!(!reader.is_cut());
        }
        let (mut reader, mut out) = (FrameReader::default(), Vec::new());
        stream.iter().for_each(|byte| feed(&mut reader, &[*byte], &mut out).unwrap());
        assert_eq!(out.len(), 2);
        feed(&mut reader, &stream[..9], &mut out).unwrap();
        assert!(reader.is_cut());
    }

    #[test]
    fn a_wrong_checksum_or_length_ends_the_stream() {
        let good = chunk("{}");
        for at in [8, 20, good.len() - 1] {
            let mut bytes = good.clone();
            bytes[at] ^= 1;
            let found = feed(&mut FrameReader::default(), &bytes, &mut Vec::new());
            assert!(matches!(found, Err(FrameError::Broken(_))), "{at}: {found:?}");
        }
        for length in [0_u32, 15, MAX_FRAME as u32 + 1, u32::MAX] {
            let found = feed(&mut FrameReader::default(), &length.to_be_bytes(), &mut Vec::new());
            assert_eq!(found, Err(FrameError::Length(length as usize)));
        }
        let odd = frame(&[(":message-type", "odd")], "");
        let found = feed(&mut FrameReader::default(), &odd, &mut Vec::new());
        assert_eq!(found, Err(FrameError::Unknown("odd".into())));
    }

    proptest::proptest! {
        /// Changed bytes are refused or skipped, and never kept beyond a frame.
        #[test]
        fn any_bytes_end_or_wait(
            at in 0_usize..400,
            with in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..40),
            split in 0_usize..400,
        ) {
            let mut bytes = [chunk("{\"type\":\"ping\"}"), chunk("{\"b\":2}"), chunk("{}")].concat();
            let at = at.min(bytes.len());
            let end = (at + with.len()).min(bytes.len());
            bytes.splice(at..end, with);
            let (mut reader, mut whole) = (FrameReader::default(), Vec::new());
            let found = feed(&mut reader, &bytes, &mut whole);
            let (mut reader, mut parts) = (FrameReader::default(), Vec::new());
            let split = split.min(bytes.len());
            let first = feed(&mut reader, &bytes[..split], &mut parts);
            let second = first.and_then(|()| feed(&mut reader, &bytes[split..], &mut parts));
            proptest::prop_assert_eq!(found, second);
            proptest::prop_assert_eq!(whole, parts);
            proptest::prop_assert!(reader.rest.len() <= MAX_FRAME);
        }
    }

    #[test]
    fn exceptions_become_errors() {
        let mut out = Vec::new();
        let headers = [(":message-type", "exception"), (":exception-type", "throttlingException")];
        let mut bytes = frame(&headers, "{\"message\":\"Too many tokens\"}");
        let headers = [
            (":message-type", "error"),
            (":error-code", "InternalFailure"),
            (":error-message", "x"),
        ];
        bytes.extend(frame(&headers, ""));
        feed(&mut FrameReader::default(), &bytes, &mut out).unwrap();
        let kinds = ["rate_limit_error", "api_error"];
        for (event, kind) in out.iter().zip(kinds) {
            let event: serde_json::Value = serde_json::from_str(event).unwrap();
            assert_eq!((&event["type"], &event["error"]["type"]), (&"error".into(), &kind.into()));
        }
        assert_eq!(out.len(), 2);
        assert!(out[0].contains("Too many tokens"));
    }
}
