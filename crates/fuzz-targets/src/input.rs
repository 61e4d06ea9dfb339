//! Reading of inputs, for the targets.

/// The text at the start of an input, up to the first byte that is not UTF-8.
pub(crate) fn text(bytes: &[u8]) -> &str {
    match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default(),
    }
}
