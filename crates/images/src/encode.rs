//! Encoding of pixels within a number of bytes.

use image::codecs::jpeg::JpegEncoder;
use image::codecs::png::PngEncoder;
use image::imageops::FilterType;
use image::{DynamicImage, ImageEncoder, Rgba, RgbaImage};

use crate::bounds::Bounds;
use crate::error::Error;
use crate::kind::{Image, Kind};

/// Qualities of JPEG in the order in which they are tried.
const QUALITIES: [u8; 3] = [90, 80, 65];
/// An image is not made smaller than this, in pixels of its longer side.
const LEAST_SIDE: u32 = 64;

/// The image in at most `bounds.bytes`: without loss where that is small enough and the original
/// was no photograph (`is_lossy`), otherwise as JPEG, if need be with fewer pixels.
pub(crate) fn within(
    mut image: DynamicImage,
    is_lossy: bool,
    bounds: Bounds,
) -> Result<Image, Error> {
    if !is_lossy {
        let bytes = png(&image)?;
        if bytes.len() <= bounds.bytes {
            return Ok(Image { kind: Kind::Png, bytes });
        }
    }
    image = opaque(image);
    loop {
        for quality in QUALITIES {
            let mut bytes = Vec::new();
            let mut encoder = JpegEncoder::new_with_quality(&mut bytes, quality);
            encoder.encode_image(&image).map_err(Error::undecodable)?;
            if bytes.len() <= bounds.bytes {
                return Ok(Image { kind: Kind::Jpeg, bytes });
            }
        }
        let side = image.width().max(image.height()) / 4 * 3;
        if side < LEAST_SIDE {
            return Err(Error::TooLarge(bounds.bytes));
        }
        image = image.resize(side, side, FilterType::CatmullRom);
    }
}

fn png(image: &DynamicImage) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    let encoder = PngEncoder::new(&mut bytes);
    let (width, height, color) = (image.width(), image.height(), image.color());
    encoder
        .write_image(image.as_bytes(), width, height, color.into())
        .map_err(Error::undecodable)?;
    Ok(bytes)
}

/// The image on white, because JPEG has no transparency.
fn opaque(image: DynamicImage) -> DynamicImage {
    if !image.color().has_alpha() {
        return image;
    }
    let image = image.into_rgba8();
    let mut white = RgbaImage::from_pixel(image.width(), image.height(), Rgba([u8::MAX; 4]));
    image::imageops::overlay(&mut white, &image, 0, 0);
    DynamicImage::from(white).into_rgb8().into()
}
