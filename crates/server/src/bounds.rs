//! Bounds that belong together, each derived from those that it must not contradict: what an input
//! may hold, and how long the line is that carries it.

use jsonrpc::{ErrorObject, Limits};
use protocol::UserInput;
use session::UserContent;

const MIB: usize = 1 << 20;

/// Longest image file, in bytes. Providers refuse larger ones too.
pub(crate) const IMAGE_BYTES: usize = 20 * MIB;
/// Bytes of all images of an input together, as they are sent to the provider: base64, or their
/// URLs. Providers take about 50 MB a request.
const INPUT_IMAGE_BYTES: usize = 48 * MIB;
/// Characters of all text of an input together: texts, names, paths and placeholders.
const INPUT_CHARS: usize = MIB;
/// A part of an input, and each element of its text, counts as so many characters more.
const PART_CHARS: usize = 64;

/// Longest escape of a character in JSON: two surrogates.
const ESCAPED_BYTES: usize = 12;
/// Some writers of JSON escape slashes: one of 64 characters of base64.
const ESCAPED_IMAGE_BYTES: usize = INPUT_IMAGE_BYTES / 64 * 65;
/// What is on the line besides the input.
const ENVELOPE_BYTES: usize = MIB;

/// Longest line that a client may send by default, and longest WebSocket message: any input that the
/// other bounds allow fits. 64 MiB.
pub const LINE_BYTES: usize =
    (ESCAPED_IMAGE_BYTES + INPUT_CHARS * ESCAPED_BYTES + ENVELOPE_BYTES).next_power_of_two();

// An input takes at least one image of each size that a file may have.
const _: () = assert!(base64_bytes(IMAGE_BYTES) + PREFIX_BYTES <= INPUT_IMAGE_BYTES);

/// Bytes of `data:image/jpeg;base64,` and its like.
const PREFIX_BYTES: usize = 64;

const fn base64_bytes(bytes: usize) -> usize {
    bytes.div_ceil(3) * 4
}

/// The bounds of a connection to this server.
#[must_use]
pub fn connection_limits() -> Limits {
    Limits { line_bytes: LINE_BYTES, ..Limits::default() }
}

/// Refuses an input whose text is too long.
pub(crate) fn check_text(input: &[UserInput]) -> Result<(), ErrorObject> {
    let chars: usize = input.iter().map(chars).sum();
    if chars <= INPUT_CHARS {
        return Ok(());
    }
    Err(ErrorObject::invalid_params(format!(
        "`input`: its text is {chars} characters long, {INPUT_CHARS} at most; put long text into a \
         file and name the file"
    )))
}

fn chars(part: &UserInput) -> usize {
    PART_CHARS
        + match part {
            UserInput::Text { text, text_elements } => {
                let placeholders = text_elements.iter().map(|element| {
                    PART_CHARS + element.placeholder.as_ref().map_or(0, |text| text.chars().count())
                });
                text.chars().count() + placeholders.sum::<usize>()
            }
            // See `check_images`.
            UserInput::Image { .. } => 0,
            UserInput::LocalImage { path } => path.chars().count(),
            UserInput::Skill { name, path } | UserInput::Mention { name, path } => {
                name.chars().count() + path.chars().count()
            }
        }
}

/// Refuses an input whose images are too long together.
pub(crate) fn check_images(content: &[UserContent]) -> Result<(), ErrorObject> {
    let bytes: usize = content.iter().map(image_bytes).sum();
    if bytes <= INPUT_IMAGE_BYTES {
        return Ok(());
    }
    let (found, most) = (bytes.div_ceil(MIB), INPUT_IMAGE_BYTES / MIB);
    Err(ErrorObject::invalid_params(format!(
        "`input`: its images are {found} MiB as base64, {most} MiB at most; send fewer or smaller ones"
    )))
}

fn image_bytes(part: &UserContent) -> usize {
    match part {
        UserContent::Text { .. } => 0,
        UserContent::Image { url } => url.len(),
        UserContent::LocalImage { data_url, .. } => data_url.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_takes_the_largest_input_in_its_longest_form() {
        assert_eq!(LINE_BYTES, 64 * MIB);
        // Two characters of JSON and twelve bytes of escapes for one of text.
        let text = "\\ud83d\\ude00".repeat(INPUT_CHARS - 3 * PART_CHARS);
        let image = |bytes: usize| "A".repeat(bytes).replace("AAAA", "A\\/A") + "data:";
        let longest = format!(
            r#"{{"id":1,"method":"turn/start","params":{{"threadId":"{}","input":[
                {{"type":"text","text":"{text}"}},{{"type":"image","url":"{}"}}]}}}}"#,
            "t".repeat(100),
            image(MIB),
        );
        assert!(longest.len() - MIB / 4 * 5 + ESCAPED_IMAGE_BYTES <= LINE_BYTES);
    }

    #[test]
    fn an_input_within_the_bounds_is_taken_and_one_beyond_says_what_is() {
        let text =
            |chars: usize| UserInput::Text { text: "ä".repeat(chars), text_elements: vec![] };
        assert!(check_text(&[text(INPUT_CHARS - PART_CHARS)]).is_ok());
        let refused = check_text(&[text(INPUT_CHARS)]).unwrap_err();
        assert!(refused.message.contains("1048576 at most"), "{}", refused.message);
        let image = |bytes: usize| UserContent::Image { url: "x".repeat(bytes) };
        assert!(check_images(&[image(base64_bytes(IMAGE_BYTES)), image(20 * MIB)]).is_ok());
        let refused = check_images(&[image(INPUT_IMAGE_BYTES), image(1)]).unwrap_err();
        assert!(refused.message.contains("49 MiB as base64, 48 MiB"), "{}", refused.message);
    }
}
