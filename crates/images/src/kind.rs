//! Formats of images, recognized by their first bytes, never by a name.

/// An image that a model server takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// The format of `bytes`.
    pub kind: Kind,
    /// The encoded image.
    pub bytes: Vec<u8>,
}

/// A format that is decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Png,
    Jpeg,
    Gif,
    WebP,
}

impl Kind {
    /// The format of an image that begins with these bytes.
    #[must_use]
    pub fn of_contents(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some(Self::Png),
            [0xff, 0xd8, 0xff, ..] => Some(Self::Jpeg),
            [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some(Self::Gif),
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some(Self::WebP),
            _ => None,
        }
    }

    /// Its media type.
    #[must_use]
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Gif => "image/gif",
            Self::WebP => "image/webp",
        }
    }
}

/// Name of what begins with these bytes, for the error about it.
pub(crate) fn guess(bytes: &[u8]) -> Option<&'static str> {
    let text = bytes.trim_ascii_start();
    let begins = |prefix: &[u8]| {
        text.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
    };
    match bytes {
        [] => Some("empty"),
        [b'%', b'P', b'D', b'F', ..] => Some("a PDF document"),
        [b'B', b'M', ..] => Some("a BMP image"),
        [b'I', b'I', b'*', 0, ..] | [b'M', b'M', 0, b'*', ..] => Some("a TIFF image"),
        [_, _, _, _, b'f', b't', b'y', b'p', b'a', b'v', b'i', ..] => Some("an AVIF image"),
        [_, _, _, _, b'f', b't', b'y', b'p', b'h' | b'm', ..] => Some("a HEIF image"),
        [0, 0, 1, 0, ..] => Some("an icon"),
        _ if begins(b"<svg") => Some("an SVG drawing"),
        _ if begins(b"<?xml") => Some("an XML document"),
        _ if begins(b"<!doctype html") || begins(b"<html") => Some("an HTML page"),
        _ => None,
    }
}
