//! Rules that several wires share.

use std::borrow::Cow;

use crate::error::{Code, Error};
use crate::json::At;

/// Most items of an input, messages or tools of a request. Longer ones are refused: each costs memory for its
/// structure, and no provider takes as many.
pub const MAX_ITEMS: usize = 100_000;

/// First line of an output that failed, where a wire has no member for that.
pub(crate) const FAILED: &str = "The tool call failed:";

/// Refuses an array that is too long.
pub(crate) fn check_length(length: usize, at: &At<'_>) -> Result<(), Error> {
    if length <= MAX_ITEMS {
        return Ok(());
    }
    let message = format!("`{at}` has {length} elements; at most {MAX_ITEMS} are allowed.");
    Err(Error::member(&at.to_string(), Code::TooLarge, message))
}

/// A name as a part of a path.
pub(crate) fn escape_path(name: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~@".contains(&byte);
    if name.bytes().all(is_plain) {
        return Cow::Borrowed(name);
    }
    let escaped = name.bytes().map(|byte| match is_plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    });
    Cow::Owned(escaped.collect())
}

/// Tokens of thinking for an effort, where a model has no efforts.
pub(crate) fn budget_of(effort: &str) -> u64 {
    match effort {
        "minimal" => 1024,
        "low" => 4096,
        "high" => 24_576,
        "xhigh" | "max" => 32_768,
        _ => 10_240,
    }
}

/// The effort for a budget of thinking.
pub(crate) fn effort_of(budget: u64) -> &'static str {
    match budget {
        0 => "none",
        1..=1024 => "minimal",
        1025..=4096 => "low",
        4097..=16_384 => "medium",
        16_385..=28_672 => "high",
        _ => "xhigh",
    }
}

/// The text of a file.
pub(crate) fn decoded_text(base64: &str) -> Option<String> {
    use base64::Engine;
    let bytes = base64::engine::general_purpose::STANDARD.decode(base64).ok()?;
    String::from_utf8(bytes).ok()
}

/// A developer's text inside a user's message: marked, so that it is not taken for the user's words.
pub(crate) fn instruction(text: &str) -> String {
    format!("<system-reminder>\n{text}\n</system-reminder>")
}
