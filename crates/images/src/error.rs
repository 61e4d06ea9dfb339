//! Why an image cannot be used.

use image::ImageError;

use crate::bounds::MAX_PIXELS;

/// The reason why an image cannot be used. The text goes on after the image's name: `a.png: is
/// damaged`.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The contents are of another kind; with its name, where it is known.
    #[error("not a PNG, JPEG, GIF or WebP image{}", .0.map(|kind| format!(", but {kind}")).unwrap_or_default())]
    NotAnImage(Option<&'static str>),
    /// The file ends before the image does.
    #[error("the image is truncated")]
    Truncated,
    /// It has more than [`MAX_PIXELS`].
    #[error("the image has {width} × {height} pixels; at most {} million are decoded", MAX_PIXELS / 1_000_000)]
    TooManyPixels { width: u32, height: u32 },
    /// Its pixels need more memory than a decoder may take.
    #[error("the image needs too much memory to decode; reduce its size or its bits per channel")]
    TooMuchMemory,
    /// A part of it is invalid.
    #[error("the image is damaged: {0}")]
    Damaged(String),
    /// A decoder lacks something that it uses.
    #[error("the image cannot be decoded: {0}")]
    Unsupported(String),
    /// No encoding is small enough.
    #[error("the image cannot be reduced to {0} bytes")]
    TooLarge(usize),
}

/// Longest reason of a decoder that is repeated, in characters.
const MAX_REASON: usize = 200;

impl Error {
    pub(crate) fn undecodable(error: ImageError) -> Self {
        match error {
            ImageError::Limits(_) => Self::TooMuchMemory,
            ImageError::IoError(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                Self::Truncated
            }
            ImageError::Unsupported(error) => Self::Unsupported(cut(&error)),
            error => Self::Damaged(cut(&error)),
        }
    }
}

fn cut(reason: &dyn std::fmt::Display) -> String {
    let reason = reason.to_string();
    let line = reason.lines().next().unwrap_or_default();
    line.chars().take(MAX_REASON).collect()
}
