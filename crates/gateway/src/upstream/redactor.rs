//! Redacts errors within successful responses: a stream may end with one, and a response may
//! contain one. The upstream's key and hosts in them are replaced by as many asterisks as they have
//! letters, so that lengths do not change. Other parts of a response stay unchanged: its text may
//! mention a host.

use bytes::{Bytes, BytesMut};

use super::SecretMask;

const MARK: &[u8] = b"\"error\"";
const EVENT: &[u8] = b"event: error";

/// A redactor, fed with the pieces of one response.
#[derive(Debug, Default)]
pub(crate) struct Redactor {
    /// The end of the last piece: a mark may span two pieces.
    tail: [u8; MARK.len() - 1],
    /// True if the next bytes are part of an error.
    in_error: bool,
    /// The end of the last piece, which may be the beginning of a secret.
    held: BytesMut,
}

impl Redactor {
    /// The redacted piece. `mask` is needed for errors only.
    pub(crate) fn redact(&mut self, mask: impl FnOnce() -> SecretMask, piece: Bytes) -> Bytes {
        let begins = self.in_error || self.contains_error(&piece);
        let from = piece.len().saturating_sub(self.tail.len());
        let kept = piece.len() - from;
        self.tail.rotate_left(kept);
        let at = self.tail.len() - kept;
        self.tail[at..].copy_from_slice(&piece[from..]);
        if !begins {
            return piece;
        }
        let mut text = std::mem::take(&mut self.held);
        text.extend_from_slice(&piece);
        let mask = mask();
        mask.mask(&mut text);
        // The next event is examined from its start; a body that is not a stream ends with its error.
        self.in_error = !text.ends_with(b"\n\n");
        if self.in_error {
            self.held = text.split_off(text.len() - mask.partial_suffix(&text));
        }
        text.freeze()
    }

    /// The held bytes, at the end of the body.
    pub(crate) fn finish(&mut self) -> Option<Bytes> {
        let held = std::mem::take(&mut self.held);
        (!held.is_empty()).then(|| held.freeze())
    }

    fn contains_error(&self, piece: &[u8]) -> bool {
        let across: Vec<u8>;
        let overlap = &piece[..piece.len().min(MARK.len() + 8)];
        let starts_within = self.tail.contains(&b'"');
        (starts_within && {
            across = [&self.tail[..], overlap].concat();
            has_error(&across)
        }) || has_error(piece)
            || memchr::memmem::find(piece, EVENT).is_some()
    }
}

/// Returns whether there is a name or a value `"error"` other than `"error":null`. Within a text
/// its quotes would be escaped.
fn has_error(piece: &[u8]) -> bool {
    memchr::memmem::find_iter(piece, MARK).any(|at| {
        let after = piece[at + MARK.len()..].trim_ascii_start();
        let value = after.strip_prefix(b":").map(<[u8]>::trim_ascii_start);
        !value.is_some_and(|value| value.starts_with(b"n"))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn mask() -> SecretMask {
        let secrets = ["sk-very-secret", "gpu-7.internal:8000", "gpu-7.internal"];
        SecretMask::keys(secrets.map(Into::into).into())
    }

    fn redacted(pieces: &[&[u8]]) -> String {
        let mut redactor = Redactor::default();
        let mut all = Vec::new();
        for piece in pieces {
            all.extend_from_slice(&redactor.redact(mask, Bytes::copy_from_slice(piece)));
        }
        all.extend_from_slice(&redactor.finish().unwrap_or_default());
        String::from_utf8(all).unwrap()
    }

    const ERROR: &str = "data: {\"error\": {\"message\": \"GPU-7.internal:8000 refused \
                         sk-very-secret\"}}\n\n";

    #[test]
    fn only_errors_are_redacted() {
        for text in [
            "data: {\"delta\":\"see http://gpu-7.internal:8000/ for \\\"error\\\"\"}\n\n",
            "{\"error\": null, \"text\": \"gpu-7.internal\"}",
            "{\"error\"",
        ] {
            assert_eq!(redacted(&[text.as_bytes()]), text);
        }
        for text in [
            "{\"type\":\"error\",\"message\":\"gpu-7.internal\"}",
            "event: error\ndata: gpu-7.internal\n\n",
            ERROR,
        ] {
            let shown = redacted(&[text.as_bytes()]);
            assert!(
                !shown.to_lowercase().contains("internal") && shown.contains("****"),
                "{shown}"
            );
            assert_eq!(shown.len(), text.len());
        }
        let later = format!("{ERROR}data: gpu-7.internal\n\n");
        let (first, second) = later.split_at(ERROR.len());
        let shown = redacted(&[first.as_bytes(), second.as_bytes()]);
        assert!(shown.ends_with(second), "another event is another matter: {shown}");
    }

    proptest! {
        #[test]
        fn redaction_does_not_depend_on_the_split(cuts in prop::collection::vec(0..ERROR.len(), 0..12)) {
            let mut cuts = cuts;
            cuts.sort_unstable();
            let mut pieces = Vec::new();
            let mut from = 0;
            for cut in cuts.into_iter().chain([ERROR.len()]) {
                pieces.push(&ERROR.as_bytes()[from..cut]);
                from = cut;
            }
            let shown = redacted(&pieces).to_lowercase();
            prop_assert!(!shown.contains("internal") && !shown.contains("secret"), "{}", shown);
            prop_assert_eq!(shown.replace('*', "").len() + shown.matches('*').count(), ERROR.len());
        }
    }
}
