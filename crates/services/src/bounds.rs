//! Bounds of an input, and the length of the line that carries it, which is derived from them.

use jsonrpc::Limits;
use protocol::UserInput;
use session::UserContent;

use crate::error::Error;

const MIB: usize = 1 << 20;

/// Longest image that is decoded, in bytes: a file, or the data of a URL.
pub(crate) const IMAGE_BYTES: usize = 20 * MIB;
/// Bytes of all images of an input together, as they are sent to the provider: base64, or their
/// URLs. Providers take about 50 MB a request.
pub(crate) const INPUT_IMAGE_BYTES: usize = 48 * MIB;
/// Images of an input. Providers take about a hundred in a request.
const INPUT_IMAGES: usize = 100;
/// Characters of all text of an input together: texts, names, paths and placeholders.
const INPUT_CHARS: usize = MIB;
/// Parts of an input, and elements of its texts, together.
const INPUT_PARTS: usize = 10_000;

/// Longest escape of a character in JSON: two surrogates.
const ESCAPED_BYTES: usize = 12;
/// Some writers of JSON escape slashes: one of 64 characters of base64.
const ESCAPED_IMAGE_BYTES: usize = INPUT_IMAGE_BYTES / 64 * 65;
/// Longest JSON of a part, or of an element of its text, without its text.
const PART_BYTES: usize = 128;
/// Number of bytes of a line besides the input.
const ENVELOPE_BYTES: usize = MIB;

/// Longest line that a client may send by default, and longest WebSocket message: any input that the
/// other bounds allow fits. 64 MiB.
pub const LINE_BYTES: usize =
    (ESCAPED_IMAGE_BYTES + INPUT_CHARS * ESCAPED_BYTES + INPUT_PARTS * PART_BYTES + ENVELOPE_BYTES)
        .next_power_of_two();

// An input takes at least one image of each size that a file may have.
const _: () = assert!(base64_bytes(IMAGE_BYTES) + PREFIX_BYTES <= INPUT_IMAGE_BYTES);

/// Bytes of `data:image/jpeg;base64,` and its like.
pub(crate) const PREFIX_BYTES: usize = 64;

const fn base64_bytes(bytes: usize) -> usize {
    bytes.div_ceil(3) * 4
}

/// The bounds of a connection to this server.
#[must_use]
pub fn connection_limits() -> Limits {
    Limits { line_bytes: LINE_BYTES, ..Limits::default() }
}

/// Refuses an input with too much text, too many parts or too many images.
pub fn check_parts(input: &[UserInput]) -> Result<(), Error> {
    let chars: usize = input.iter().map(chars).sum();
    if chars > INPUT_CHARS {
        return Err(Error::invalid_params(format!(
            "`input`: texts, names, paths and placeholders have {chars} characters in total, at most \
             {INPUT_CHARS} are allowed; put long text into a file and name the file"
        )));
    }
    let parts: usize = input.iter().map(parts).sum();
    if parts > INPUT_PARTS {
        return Err(Error::invalid_params(format!(
            "`input`: it has {parts} parts and text elements in total, at most {INPUT_PARTS} are \
             allowed; join texts"
        )));
    }
    let images = input.iter().filter(|part| is_image(part)).count();
    if images > INPUT_IMAGES {
        return Err(Error::invalid_params(format!(
            "`input`: it has {images} images, at most {INPUT_IMAGES} are allowed; send the others with \
             a later input"
        )));
    }
    Ok(())
}

/// Returns whether the part is an image.
pub fn is_image(part: &UserInput) -> bool {
    matches!(part, UserInput::Image { .. } | UserInput::LocalImage { .. })
}

fn chars(part: &UserInput) -> usize {
    let count = |text: &str| text.chars().count();
    match part {
        UserInput::Text { text, text_elements } => {
            let placeholders = text_elements.iter().filter_map(|e| e.placeholder.as_deref());
            count(text) + placeholders.map(count).sum::<usize>()
        }
        // See `check_images`.
        UserInput::Image { .. } => 0,
        UserInput::LocalImage { path } => count(path),
        UserInput::Skill { name, path } | UserInput::Mention { name, path } => {
            count(name) + count(path)
        }
    }
}

/// A part counts as one, and so does each element of its text.
fn parts(part: &UserInput) -> usize {
    match part {
        UserInput::Text { text_elements, .. } => 1 + text_elements.len(),
        _ => 1,
    }
}

/// Refuses an input whose images, those of mentioned resources included, are too many, or exceed the bound
/// in total, or `most`, that of the model's requests.
pub fn check_images(content: &[UserContent], most: usize) -> Result<(), Error> {
    let images = content.iter().filter(|part| image_bytes(part) > 0).count();
    if images > INPUT_IMAGES {
        return Err(Error::invalid_params(format!(
            "`input`: with those of its resources it has more than {INPUT_IMAGES} images; mention \
             fewer resources"
        )));
    }
    let bytes: usize = content.iter().map(image_bytes).sum();
    let most = most.min(INPUT_IMAGE_BYTES);
    if bytes <= most {
        return Ok(());
    }
    let (unit, name) = if most.is_multiple_of(MIB) { (MIB, "MiB") } else { (1, "bytes") };
    let (found, most) = (bytes.div_ceil(unit), most / unit);
    Err(Error::invalid_params(format!(
        "`input`: its images are {found} {name} as base64, {most} {name} at most; send fewer or smaller ones"
    )))
}

fn image_bytes(part: &UserContent) -> usize {
    match part {
        UserContent::Text { .. } | UserContent::App { .. } | UserContent::Skill { .. } => 0,
        UserContent::Image { url } => url.len(),
        UserContent::LocalImage { data_url, .. } => data_url.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_of_resources_count() {
        let image = || UserContent::Image { url: "data:image/png;base64,AAAA".to_owned() };
        let images: Vec<UserContent> = (0..=INPUT_IMAGES).map(|_| image()).collect();
        assert!(check_images(&images[1..], usize::MAX).is_ok());
        let error = check_images(&images, usize::MAX).unwrap_err();
        assert!(error.to_string().contains("more than 100 images"), "{error}");
    }

    #[test]
    fn the_line_takes_the_largest_input_in_its_longest_form() {
        assert_eq!(LINE_BYTES, 64 * MIB);
        // Two characters of JSON and twelve bytes of escapes for one of text.
        let text = "\\ud83d\\ude00".repeat(INPUT_CHARS);
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
    fn input_within_the_bounds_is_accepted_and_an_excess_is_named() {
        let text =
            |chars: usize| UserInput::Text { text: "ä".repeat(chars), text_elements: vec![] };
        assert!(check_parts(&[text(INPUT_CHARS)]).is_ok());
        assert!(check_parts(&[text(INPUT_CHARS - 1), text(1)]).is_ok());
        let refused = check_parts(&[text(INPUT_CHARS), text(1)]).unwrap_err().to_string();
        assert!(refused.contains("1048577 characters in total, at most 1048576"), "{refused}");
        assert!(check_parts(&vec![text(1); INPUT_PARTS]).is_ok());
        let refused = check_parts(&vec![text(1); INPUT_PARTS + 1]).unwrap_err().to_string();
        assert!(refused.contains("10001 parts and text elements in total"), "{refused}");
        let link = || UserInput::Image { url: "https://a/b".to_owned() };
        assert!(check_parts(&vec![link(); INPUT_IMAGES]).is_ok());
        let refused = check_parts(&vec![link(); INPUT_IMAGES + 1]).unwrap_err().to_string();
        assert!(refused.contains("101 images, at most 100"), "{refused}");
        let image = |bytes: usize| UserContent::Image { url: "x".repeat(bytes) };
        assert!(
            check_images(&[image(base64_bytes(IMAGE_BYTES)), image(20 * MIB)], usize::MAX).is_ok()
        );
        let refused = check_images(&[image(INPUT_IMAGE_BYTES), image(1)], usize::MAX)
            .unwrap_err()
            .to_string();
        assert!(refused.contains("49 MiB as base64, 48 MiB"), "{}", refused);
    }
}
