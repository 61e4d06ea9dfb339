//! Images as model servers take them: recognized by their contents, upright, within bounds, and
//! without metadata. Pure functions over bytes; callers bound how many run at once, because decoding
//! needs time and memory.

mod bounds;
mod encode;
mod error;
mod kind;
mod strip;

use std::io::Cursor;

use image::codecs::gif::GifDecoder;
use image::codecs::jpeg::JpegDecoder;
use image::codecs::png::PngDecoder;
use image::codecs::webp::WebPDecoder;
use image::imageops::FilterType;
use image::metadata::Orientation;
use image::{DynamicImage, ImageDecoder, Limits};

pub use bounds::{Bounds, MAX_PIXELS};
pub use error::Error;
pub use kind::{Image, Kind};

/// Most memory that a decoder may take for its pixels, in bytes: 4 bytes for each.
const MAX_ALLOC: u64 = 4 * MAX_PIXELS;

/// The format of an image that begins with these bytes.
///
/// # Errors
/// What they are instead, as far as it is known.
pub fn kind_of(bytes: &[u8]) -> Result<Kind, Error> {
    Kind::of_contents(bytes).ok_or_else(|| Error::NotAnImage(kind::guess(bytes)))
}

/// Width and height in pixels, upright, of the image that begins with these bytes: its first kilobytes are
/// enough, but for a JPEG with much metadata in front.
///
/// # Errors
/// It is not an image, or its beginning does not say them.
pub fn size_of_start(bytes: &[u8]) -> Result<(u32, u32), Error> {
    let kind = kind_of(bytes)?;
    let input = Cursor::new(bytes);
    match kind {
        Kind::Png => upright_size(PngDecoder::with_limits(input, limits())),
        Kind::Jpeg => upright_size(JpegDecoder::new(input)),
        Kind::Gif => upright_size(GifDecoder::new(input)),
        Kind::WebP => upright_size(WebPDecoder::new(input)),
    }
}

/// The image within `bounds`, upright and without metadata. One that is so already keeps its pixels
/// bit for bit; of an animation the first picture is taken. The same bytes give the same result.
///
/// # Errors
/// What is wrong with the image.
pub fn normalize(bytes: &[u8], bounds: Bounds) -> Result<Image, Error> {
    let kind = kind_of(bytes)?;
    let stripped = strip::metadata(kind, bytes)?;
    let input = Cursor::new(bytes);
    let (image, orientation) = match kind {
        Kind::Png => decode(PngDecoder::with_limits(input, limits())),
        Kind::Jpeg => decode(JpegDecoder::new(input)),
        Kind::Gif => decode(GifDecoder::new(input)),
        Kind::WebP => decode(WebPDecoder::new(input)),
    }?;
    let is_within = image.width().max(image.height()) <= bounds.side;
    match stripped {
        Some(bytes)
            if is_within
                && orientation == Orientation::NoTransforms
                && bytes.len() <= bounds.bytes =>
        {
            Ok(Image { kind, bytes })
        }
        _ => {
            let mut image = scaled(with_8_bits(image), bounds.side);
            image.apply_orientation(orientation);
            encode::within(image, kind == Kind::Jpeg, bounds)
        }
    }
}

fn limits() -> Limits {
    let mut limits = Limits::default();
    limits.max_alloc = Some(MAX_ALLOC);
    limits
}

fn upright_size<D: ImageDecoder>(
    decoder: Result<D, image::ImageError>,
) -> Result<(u32, u32), Error> {
    let mut decoder = decoder.map_err(Error::undecodable)?;
    let (width, height) = decoder.dimensions();
    // Without a readable orientation, it is as it is stored.
    let turned = matches!(
        decoder.orientation(),
        Ok(Orientation::Rotate90
            | Orientation::Rotate270
            | Orientation::Rotate90FlipH
            | Orientation::Rotate270FlipH)
    );
    Ok(if turned { (height, width) } else { (width, height) })
}

fn decode<D: ImageDecoder>(
    decoder: Result<D, image::ImageError>,
) -> Result<(DynamicImage, Orientation), Error> {
    let mut decoder = decoder.map_err(Error::undecodable)?;
    let (width, height) = decoder.dimensions();
    if u64::from(width) * u64::from(height) > MAX_PIXELS {
        return Err(Error::TooManyPixels { width, height });
    }
    decoder.set_limits(limits()).map_err(Error::undecodable)?;
    // Metadata that cannot be read says nothing.
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    let image = DynamicImage::from_decoder(decoder).map_err(Error::undecodable)?;
    Ok((image, orientation))
}

/// The image with 8 bits a channel.
fn with_8_bits(image: DynamicImage) -> DynamicImage {
    match image {
        DynamicImage::ImageLuma16(_) => image.into_luma8().into(),
        DynamicImage::ImageLumaA16(_) => image.into_luma_alpha8().into(),
        DynamicImage::ImageRgb16(_) => image.into_rgb8().into(),
        DynamicImage::ImageRgba16(_) => image.into_rgba8().into(),
        image => image,
    }
}

/// The image with sides of at most `side` pixels.
fn scaled(image: DynamicImage, side: u32) -> DynamicImage {
    let longest = image.width().max(image.height());
    if longest <= side {
        return image;
    }
    // The filter takes 16 bytes a pixel in between: large images are first averaged.
    let image = match longest / 2 > side {
        true => image.thumbnail(2 * side, 2 * side),
        false => image,
    };
    image.resize(side, side, FilterType::CatmullRom)
}
