//! The little of gRPC that a unary call needs: a message in its frame, and the status of the answer. A client
//! crate for it takes 35 s to compile and brings a second HTTP stack.

use bytes::{BufMut, Bytes, BytesMut};
use hyper::HeaderMap;
use percent_encoding::percent_decode_str;

/// `application/grpc`, Protobuf by default.
pub(crate) const CONTENT_TYPE: &str = "application/grpc";

/// The flag of compression and the length.
const PREFIX: usize = 5;
/// Longest message of a status that is shown.
const MAX_MESSAGE: usize = 500;

/// The status of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Status {
    pub(crate) code: u32,
    pub(crate) message: String,
}

/// The body of a request with one message. `None`: it is longer than a frame can be.
pub(crate) fn frame(message: &[u8]) -> Option<Bytes> {
    let length = u32::try_from(message.len()).ok()?;
    let mut body = BytesMut::with_capacity(PREFIX + message.len());
    body.put_u8(0);
    body.put_u32(length);
    body.put_slice(message);
    Some(body.freeze())
}

/// The first message of a body; `None` when it is cut off or compressed, which was not offered.
pub(crate) fn message(body: &[u8]) -> Option<&[u8]> {
    let (prefix, rest) = body.split_at_checked(PREFIX)?;
    let [0, a, b, c, d] = *prefix else { return None };
    let length = usize::try_from(u32::from_be_bytes([a, b, c, d])).ok()?;
    rest.get(..length)
}

/// The status in the trailers, or in the headers of an answer without a body.
pub(crate) fn status(headers: &HeaderMap, trailers: Option<&HeaderMap>) -> Option<Status> {
    let in_either = |name: &str| {
        let found = trailers.and_then(|trailers| trailers.get(name));
        found.or_else(|| headers.get(name)).and_then(|value| value.to_str().ok())
    };
    let code = in_either("grpc-status")?.parse().ok()?;
    let message = in_either("grpc-message").unwrap_or_default();
    let message = percent_decode_str(message).decode_utf8_lossy();
    Some(Status { code, message: message.chars().take(MAX_MESSAGE).collect() })
}

impl Status {
    pub(crate) fn is_ok(&self) -> bool {
        self.code == 0
    }

    /// Returns whether the same call may succeed later, as the specification of OTLP lists the
    /// codes.
    pub(crate) fn is_transient(&self) -> bool {
        matches!(self.code, 1 | 4 | 8 | 10 | 11 | 14 | 15)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::{HeaderName, HeaderValue};
    use proptest::prelude::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn the_status_is_in_the_trailers_or_the_headers() {
        let check =
            |in_headers: &[(&'static str, &'static str)], in_trailers: Option<&[_]>, expected| {
                let trailers = in_trailers.map(headers);
                let found = status(&headers(in_headers), trailers.as_ref());
                assert_eq!(found.map(|status| (status.code, status.message)), expected);
            };
        let full = [("grpc-status", "8"), ("grpc-message", "too%20many")];
        check(&full, None, Some((8, "too many".to_owned())));
        check(&[], Some(&[("grpc-status", "0")]), Some((0, String::new())));
        check(&full, Some(&[("grpc-status", "0")]), Some((0, "too many".to_owned())));
        check(&[], None, None);
        check(&[("grpc-status", "OK")], Some(&[]), None);
    }

    #[test]
    fn frames_that_are_cut_off_or_compressed_have_no_message() {
        for body in
            [&b""[..], b"\0\0\0\0", b"\0\0\0\0\x02a", b"\x01\0\0\0\x01a", b"\0\xff\xff\xff\xffa"]
        {
            assert_eq!(message(body), None, "{body:?}");
        }
        assert_eq!(message(b"\0\0\0\0\x01abc"), Some(&b"a"[..]));
    }

    proptest! {
        #[test]
        fn what_is_framed_is_read(bytes: Vec<u8>) {
            let framed = frame(&bytes).unwrap();
            prop_assert_eq!(message(&framed), Some(bytes.as_slice()));
        }

        #[test]
        fn any_body_is_read_without_a_panic(bytes: Vec<u8>) {
            let _ = message(&bytes);
        }
    }
}
