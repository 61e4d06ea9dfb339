//! Images as parts of a message.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use protocol::UserInput;

use crate::Error;

/// Makes an image a part of a message.
///
/// ```
/// use agentd_embed::{Image, Input};
///
/// # fn example(bytes: &[u8]) -> Result<(), agentd_embed::Error> {
/// let message = Input::from(vec!["What is this?".into(), Image::bytes(bytes)?]);
/// # Ok(())
/// # }
/// ```
pub struct Image;

impl Image {
    /// A file on the server's machine; relative to the turn's folder.
    pub fn path(path: impl Into<String>) -> UserInput {
        UserInput::LocalImage { path: path.into() }
    }

    /// An image at an `https:` URL, or in a `data:` URL.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`]: the URL is of another kind.
    pub fn url(url: impl Into<String>) -> Result<UserInput, Error> {
        let url = url.into();
        if !url.starts_with("https:") && !url.starts_with("data:") {
            let beginning: String = url.chars().take(80).collect();
            return Err(Error::InvalidArgument(format!(
                "`{beginning}`: an image is sent by an https: or data: URL, or by its path"
            )));
        }
        Ok(UserInput::Image { url })
    }

    /// The contents of a PNG, JPEG, WebP or GIF file.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`]: they are of another format.
    pub fn bytes(bytes: &[u8]) -> Result<UserInput, Error> {
        let kind = match bytes {
            [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => "png",
            [0xff, 0xd8, 0xff, ..] => "jpeg",
            [b'G', b'I', b'F', b'8', ..] => "gif",
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => "webp",
            _ => {
                let why = "the bytes of the image are no PNG, JPEG, WebP or GIF file";
                return Err(Error::InvalidArgument(why.to_owned()));
            }
        };
        Self::url(format!("data:image/{kind};base64,{}", STANDARD.encode(bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_known_by_their_first_bytes() {
        for (bytes, kind) in [
            (&b"\x89PNG\r\n\x1a\nrest"[..], Some("png")),
            (b"\xff\xd8\xffrest", Some("jpeg")),
            (b"GIF89a", Some("gif")),
            (b"RIFF1234WEBPrest", Some("webp")),
            (b"RIFF1234WAVE", None),
            (b"BM", None),
            (b"", None),
        ] {
            match (Image::bytes(bytes), kind) {
                (Ok(UserInput::Image { url }), Some(kind)) => {
                    assert!(url.starts_with(&format!("data:image/{kind};base64,")), "{url}");
                }
                (Err(Error::InvalidArgument(_)), None) => {}
                (other, _) => panic!("{bytes:?}: {other:?}"),
            }
        }
        assert!(Image::url("http://host/picture").is_err() && Image::url("https://h/p").is_ok());
    }
}
