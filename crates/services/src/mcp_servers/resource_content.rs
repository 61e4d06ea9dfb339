//! The contents of a resource as the model gets them: texts between marks that they cannot contain, images as
//! images where the model takes them, and of other contents their type and size.

use std::time::Duration;

use images::Bounds;
use protocol::mcp::{McpBlobResourceContent, McpResourceContent};
use tokio::time::{Instant, timeout_at};

use crate::error::Error;
use crate::image_reader::ImageReader;

/// Longest text of a resource, in characters; the rest is left out.
const MAX_TEXT: usize = 128 << 10;
/// Images of a resource; the model gets a note for each further one.
const MAX_IMAGES: usize = 20;
/// Time to decode the images of a resource.
const DECODING: Duration = Duration::from_secs(60);
/// Lines about contents that are no texts; further ones are counted.
const MAX_NOTES: usize = 100;

/// The settings for preparing images of resources.
pub struct ResourceImages<'r> {
    pub reader: &'r ImageReader,
    /// `None`: the model takes no images.
    pub bounds: Option<Bounds>,
}

/// The text for the model, and the images that follow it, as `data:` URLs. `(server, uri)` names the
/// resource.
pub(super) async fn for_model(
    (server, uri): (&str, &str),
    contents: Vec<McpResourceContent>,
    prepared: &ResourceImages<'_>,
) -> (String, Vec<String>) {
    let (server, uri) = (attribute(server), attribute(uri));
    let mut text = format!("<mcp_resource server=\"{server}\" uri=\"{uri}\">\n");
    let mut left = MAX_TEXT;
    let (mut cut, mut notes) = (0, 0);
    let mut images = Vec::new();
    let deadline = Instant::now() + DECODING;
    for content in contents {
        match content {
            McpResourceContent::Text(content) => {
                let shown =
                    visible::text(&content.text).replace("</mcp_resource", "<\\/mcp_resource");
                let count = shown.chars().count();
                text.extend(shown.chars().take(left));
                text.push('\n');
                cut += count.saturating_sub(left);
                left = left.saturating_sub(count);
            }
            McpResourceContent::Blob(content) => {
                let described = described(&content);
                let outcome = match timeout_at(deadline, image(content, images.len(), prepared))
                    .await
                {
                    Err(_) => "left out: the images take too long to decode".to_owned(),
                    Ok(Ok(Some(url))) => {
                        images.push(url);
                        "an image, which follows".to_owned()
                    }
                    Ok(Ok(None)) => "no text: left out".to_owned(),
                    Ok(Err(reason)) => format!("left out: {}", visible::text(&reason.to_string())),
                };
                notes += 1;
                if notes <= MAX_NOTES {
                    text.push_str(&format!("[binary content of {described}; {outcome}]\n"));
                }
            }
        }
    }
    if notes > MAX_NOTES {
        text.push_str(&format!("[{} more binary contents]\n", notes - MAX_NOTES));
    }
    if cut > 0 {
        text.push_str(&format!("[cut: {cut} more characters]\n"));
    }
    text.push_str("</mcp_resource>");
    (text, images)
}

/// The image that a content is, prepared for the model; `None`: it is said to be something else.
async fn image(
    content: McpBlobResourceContent,
    images: usize,
    prepared: &ResourceImages<'_>,
) -> Result<Option<String>, Error> {
    let kind = content.mime_type.as_deref().unwrap_or_default();
    if !kind.get(..6).is_some_and(|kind| kind.eq_ignore_ascii_case("image/")) {
        return Ok(None);
    }
    let Some(bounds) = prepared.bounds else {
        return Err(Error::failed("the model takes no images"));
    };
    if images >= MAX_IMAGES {
        return Err(Error::failed(format!("only the first {MAX_IMAGES} images are sent")));
    }
    prepared.reader.base64(content.blob, bounds).await.map(Some)
}

/// Type and size.
fn described(content: &McpBlobResourceContent) -> String {
    let kind = match content.mime_type.as_deref() {
        Some(kind) => format!("the type {}", attribute(kind)),
        None => "unknown type".to_owned(),
    };
    let padding = content.blob.bytes().rev().take_while(|byte| *byte == b'=').count();
    let bytes = (content.blob.len() / 4 * 3).saturating_sub(padding);
    format!("{kind}, {bytes} bytes")
}

/// A text of the server inside of a mark, cut at 1,000 characters.
fn attribute(text: &str) -> String {
    visible::text(text).replace(['"', '\n', '<', '>'], "_").chars().take(1_000).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use files::Pool;
    use protocol::mcp::McpTextResourceContent;

    use super::*;

    fn part(text: &str) -> McpResourceContent {
        McpResourceContent::Text(McpTextResourceContent {
            uri: "x:y".to_owned(),
            mime_type: None,
            text: text.to_owned(),
            meta: None,
        })
    }

    fn blob(kind: Option<&str>, blob: &str) -> McpResourceContent {
        McpResourceContent::Blob(McpBlobResourceContent {
            uri: "x:y".to_owned(),
            mime_type: kind.map(str::to_owned),
            blob: blob.to_owned(),
            meta: None,
        })
    }

    async fn shown(
        (server, uri): (&str, &str),
        contents: Vec<McpResourceContent>,
        takes_images: bool,
    ) -> (String, Vec<String>) {
        let reader = ImageReader::new(Pool::default());
        let bounds = takes_images.then(Bounds::default);
        for_model((server, uri), contents, &ResourceImages { reader: &reader, bounds }).await
    }

    #[tokio::test]
    async fn contents_stay_between_their_marks_and_are_cut() {
        let contents = vec![part("a\u{202e}b</mcp_resource>c")];
        let (text, _) = shown(("s", "x:\"><y"), contents, false).await;
        let expected = "<mcp_resource server=\"s\" uri=\"x:___y\">\na\\u{202e}b<\\/mcp_resource>c\n\
                        </mcp_resource>";
        assert_eq!(text, expected);
        let contents = vec![part(&"é".repeat(MAX_TEXT)), part("more")];
        let (text, _) = shown(("s", "x:y"), contents, false).await;
        assert!(text.ends_with("é\n\n[cut: 4 more characters]\n</mcp_resource>"), "{text:.100}");
    }

    #[tokio::test]
    async fn images_are_sent_and_other_binaries_are_described() {
        let url = testkit::png_url(4, 4);
        let png = url.split_once(',').unwrap().1;
        let contents = || {
            vec![
                blob(Some("image/png"), png),
                blob(Some("application/pdf"), "QUJDRA=="),
                blob(None, "QUJD"),
                blob(Some("image/x-\"]\nodd"), "QUJD"),
                blob(Some("image/png"), "no base64!"),
            ]
        };
        let (text, images) = shown(("s", "x:y"), contents(), true).await;
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].ends_with("bytes; an image, which follows]"), "{text}");
        assert_eq!(
            &lines[2..4],
            [
                "[binary content of the type application/pdf, 4 bytes; no text: left out]",
                "[binary content of unknown type, 3 bytes; no text: left out]",
            ]
        );
        let odd = "[binary content of the type image/x-_]_odd, 3 bytes; left out: ";
        assert!(lines[4].starts_with(odd), "{text}");
        assert!(lines[5].contains("left out: no valid base64"), "{text}");
        assert_eq!((lines.len(), images.len()), (7, 1));
        assert!(images[0].starts_with("data:image/"));
        let (text, images) = shown(("s", "x:y"), contents(), false).await;
        assert_eq!(images, [""; 0]);
        assert!(text.contains("left out: the model takes no images"), "{text}");
        let many = (0..200).map(|_| blob(Some("image/png"), png)).collect();
        let (text, images) = shown(("s", "x:y"), many, true).await;
        assert_eq!((images.len(), text.lines().count()), (MAX_IMAGES, MAX_NOTES + 3));
        assert!(text.contains("[100 more binary contents]"), "{text}");
    }
}
