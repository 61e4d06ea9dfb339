//! Bounds of images: of what is decoded, and of the result.

/// Most pixels of an image that is decoded: photographs of current cameras have fewer.
pub const MAX_PIXELS: u64 = 64 << 20;

/// The bounds of a model server on images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Pixels of the longer side.
    pub side: u32,
    /// Bytes of the encoded image, before base64.
    pub bytes: usize,
}

impl Default for Bounds {
    /// The least bounds among the servers in use: larger images are scaled down there, or are refused
    /// beyond 5 MB of base64.
    fn default() -> Self {
        Self { side: 2048, bytes: 3_750_000 }
    }
}
