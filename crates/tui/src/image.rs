//! A search for an image to add to a message, and its result.

use std::path::PathBuf;

/// Where an image is to be taken from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageSource {
    /// A text was pasted that may be the path of an image.
    Pasted {
        /// As it was pasted.
        text: String,
        /// The file.
        path: PathBuf,
    },
    /// The user named this file.
    Named(PathBuf),
    /// The image in the clipboard.
    Clipboard,
}

/// An image that can be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundImage {
    /// The file.
    pub path: PathBuf,
    /// Width and height in pixels, where the file's beginning says them.
    pub size: Option<(u32, u32)>,
}

/// Why there is no image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoImage {
    /// There is no such file: what was pasted is probably meant as text.
    Missing,
    /// In words for people.
    Because(String),
}
