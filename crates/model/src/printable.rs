//! Names that a provider gives to things, as far as they can be shown.

/// Longest name of a model, a tier, a limit or a verification, in bytes.
const MAX_NAME: usize = 256;

/// A name that can be shown.
pub(crate) fn printable(text: &str) -> Option<String> {
    let fits = !text.is_empty() && text.len() <= MAX_NAME && !text.chars().any(visible::is_hidden);
    fits.then(|| text.to_owned())
}
