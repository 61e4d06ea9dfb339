//! Image files as `data:` URLs for the model: read within a bound, recognised by their contents.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Larger files are refused: providers refuse them too.
pub(crate) const MAX_BYTES: u64 = 20 * 1024 * 1024;

/// The image at `path`. The error is for a person or a model.
pub(crate) fn data_url(path: &Path) -> Result<String, String> {
    let told = |what: &str| format!("{}: {what}", path.display());
    let file = File::open(path).map_err(|error| told(&error.to_string()))?;
    let meta = file.metadata().map_err(|error| told(&error.to_string()))?;
    if !meta.is_file() {
        return Err(told("not a file"));
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|error| told(&error.to_string()))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(told("larger than 20 MiB"));
    }
    let kind = kind(&bytes).ok_or_else(|| told("not a PNG, JPEG, GIF or WebP image"))?;
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
