//! Decodes bytes that arrive in pieces into text, without splitting characters.

/// An incremental UTF-8 decoder. The next piece completes a sequence at the end of a piece. Invalid
/// UTF-8 becomes U+FFFD, exactly as with [`String::from_utf8_lossy`] on the whole. Keeps at most
/// three bytes.
#[derive(Clone, Debug, Default)]
pub struct Utf8Stream {
    /// The beginning of an incomplete sequence.
    pending: Vec<u8>,
}

impl Utf8Stream {
    pub fn new() -> Self {
        Utf8Stream::default()
    }

    /// Decodes `bytes`, together with the incomplete sequence before them.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        let mut text = String::with_capacity(bytes.len() + self.pending.len());
        if self.pending.is_empty() {
            self.decode(bytes, &mut text);
        } else {
            let mut joined = std::mem::take(&mut self.pending);
            joined.extend_from_slice(bytes);
            self.decode(&joined, &mut text);
        }
        text
    }

    /// The text of a remaining incomplete sequence: empty or one U+FFFD.
    pub fn finish(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.pending)).into_owned()
    }

    fn decode(&mut self, mut bytes: &[u8], text: &mut String) {
        loop {
            let error = match str::from_utf8(bytes) {
                Ok(valid) => return text.push_str(valid),
                Err(error) => error,
            };
            let (valid, rest) = bytes.split_at(error.valid_up_to());
            text.push_str(str::from_utf8(valid).unwrap_or_default());
            let Some(invalid) = error.error_len() else {
                self.pending.extend_from_slice(rest);
                return;
            };
            text.push(char::REPLACEMENT_CHARACTER);
            bytes = rest.get(invalid..).unwrap_or_default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decode<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> String {
        let mut stream = Utf8Stream::new();
        let mut text: String = pieces.into_iter().map(|piece| stream.push(piece)).collect();
        text.push_str(&stream.finish());
        text
    }

    #[test]
    fn pieces() {
        let check = |pieces: &[&[u8]], expect: &str| {
            assert_eq!(decode(pieces.iter().copied()), expect, "{pieces:?}");
        };
        check(&[b"abc"], "abc");
        check(&["ä".as_bytes()], "ä");
        check(&[b"a\xc3", b"\xa4b"], "aäb");
        check(&[b"\xf0", b"\x9f", b"\x98", b"\x80"], "😀");
        check(&[b"\xc3"], "\u{fffd}");
        check(&[b"\xc3", b"x"], "\u{fffd}x");
        check(&[b"\xff\xfe"], "\u{fffd}\u{fffd}");
        check(&[b"", b"\x00", b""], "\0");
    }

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            any::<char>().prop_map(|c| c.to_string().into_bytes()),
            prop::collection::vec(any::<u8>(), 0..4),
        ];
        prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn pieces_decode_like_the_whole(bytes in bytes(), size in 1usize..6) {
            prop_assert_eq!(decode(bytes.chunks(size)), String::from_utf8_lossy(&bytes));
        }
    }
}
