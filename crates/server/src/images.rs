//! Image files as `data:` URLs for the model: read within a bound, recognised by their contents.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::error::Error;

/// Largest image file. Providers refuse larger ones too.
pub(crate) const MAX_BYTES: u64 = crate::bounds::IMAGE_BYTES as u64;

/// The image at `path`. Blocks on the file system.
///
/// # Errors
/// A file that cannot be read, and one that is not an image.
pub(crate) fn data_url(path: &Path) -> Result<String, Error> {
    let bytes = files::read(path, MAX_BYTES)
        .map_err(|error| Error::invalid_params(error.to_string()).with_source(error))?;
    let kind = kind(&bytes).ok_or_else(|| {
        Error::invalid_params(format!("{}: not a PNG, JPEG, GIF or WebP image", path.display()))
    })?;
    Ok(format!("data:{kind};base64,{}", STANDARD.encode(bytes)))
}

fn kind(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}
