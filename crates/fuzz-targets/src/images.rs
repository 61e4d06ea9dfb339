//! Images: whatever the bytes, an image within the bounds, which can be read again, or an error.

use images::{Bounds, normalize};

/// Checks one input.
pub fn run(bytes: &[u8]) {
    let bounds = Bounds { side: 64, bytes: 20_000 };
    let Ok(image) = normalize(bytes, bounds) else { return };
    assert!(image.bytes.len() <= bounds.bytes);
    let again = normalize(&image.bytes, bounds).expect("a normal image can be decoded");
    assert_eq!(again.kind, image.kind);
}
