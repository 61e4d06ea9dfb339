//! Images of every format, upright or turned, with and without metadata, and what is not an image.
#![allow(clippy::unwrap_used)]

use std::io::Cursor;

use image::codecs::gif::GifEncoder;
use image::{DynamicImage, Frame, GenericImageView, ImageFormat, Rgb, RgbImage, Rgba, RgbaImage};
use images::{Bounds, Error, Kind, MAX_PIXELS, normalize};
use proptest::prelude::*;

/// What must never reach a provider.
const SECRET: &[u8] = b"52.5163 N 13.3777 E";

const SMALL: Bounds = Bounds { side: 64, bytes: 20_000 };

fn encoded(image: &DynamicImage, format: ImageFormat) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    image.write_to(&mut bytes, format).unwrap();
    bytes.into_inner()
}

/// Red on the left, blue on the right.
fn two_colors(width: u32, height: u32) -> DynamicImage {
    let color = |x, _| if x < width / 2 { Rgb([200, 0, 0]) } else { Rgb([0, 0, 200]) };
    RgbImage::from_fn(width, height, color).into()
}

fn noise(side: u32) -> DynamicImage {
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    RgbaImage::from_fn(side, side, |_, _| Rgba([next(), next(), next(), 255])).into()
}

/// EXIF data with an orientation and a secret.
fn exif(orientation: u8) -> Vec<u8> {
    let mut exif = b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0".to_vec();
    exif.extend([orientation, 0, 0, 0, 0, 0, 0]);
    exif.extend(SECRET);
    exif
}

fn segment(marker: u8, body: &[u8]) -> Vec<u8> {
    let mut segment = vec![0xff, marker];
    segment.extend(u16::try_from(body.len() + 2).unwrap().to_be_bytes());
    segment.extend(body);
    segment
}

/// A JPEG with EXIF, XMP, IPTC, a comment, and a second image behind it.
fn jpeg(image: &DynamicImage, orientation: u8) -> Vec<u8> {
    let plain = encoded(image, ImageFormat::Jpeg);
    let with = |head: &[u8], tail: &[u8]| [head, tail].concat();
    let mut bytes = plain[..2].to_vec();
    bytes.extend(segment(0xe1, &with(b"Exif\0\0", &exif(orientation))));
    bytes.extend(segment(0xe1, &with(b"http://ns.adobe.com/xap/1.0/\0", SECRET)));
    bytes.extend(segment(0xed, &with(b"Photoshop 3.0\0", SECRET)));
    bytes.extend(segment(0xfe, SECRET));
    bytes.extend(&plain[2..]);
    bytes.extend(&plain);
    bytes.extend(SECRET);
    bytes
}

fn chunk(name: &[u8; 4], body: &[u8]) -> Vec<u8> {
    let mut crc = !0_u32;
    for byte in name.iter().chain(body) {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
        }
    }
    let mut chunk = u32::try_from(body.len()).unwrap().to_be_bytes().to_vec();
    chunk.extend(name);
    chunk.extend(body);
    chunk.extend((!crc).to_be_bytes());
    chunk
}

fn png(image: &DynamicImage, orientation: u8) -> Vec<u8> {
    let plain = encoded(image, ImageFormat::Png);
    let after_header = 8 + 25;
    let mut bytes = plain[..after_header].to_vec();
    bytes.extend(chunk(b"tEXt", &[b"Comment\0", SECRET].concat()));
    bytes.extend(chunk(b"eXIf", &exif(orientation)));
    bytes.extend(&plain[after_header..]);
    bytes.extend(SECRET);
    bytes
}

fn webp(image: &DynamicImage, orientation: u8) -> Vec<u8> {
    let plain = encoded(image, ImageFormat::WebP);
    let riff = |name: &[u8; 4], body: &[u8]| {
        let mut chunk = name.to_vec();
        chunk.extend(u32::try_from(body.len()).unwrap().to_le_bytes());
        chunk.extend(body);
        chunk.resize(chunk.len().next_multiple_of(2), 0);
        chunk
    };
    let (width, height) = image.dimensions();
    let mut head = vec![0x0c, 0, 0, 0];
    head.extend(&(width - 1).to_le_bytes()[..3]);
    head.extend(&(height - 1).to_le_bytes()[..3]);
    let mut body = b"WEBP".to_vec();
    body.extend(riff(b"VP8X", &head));
    body.extend(&plain[12..]);
    body.extend(riff(b"EXIF", &exif(orientation)));
    body.extend(riff(b"XMP ", SECRET));
    riff(b"RIFF", &body)
}

fn gif(image: &DynamicImage) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = GifEncoder::new(&mut bytes);
    for image in [image.clone(), image.fliph()] {
        encoder.encode_frame(Frame::new(image.into_rgba8())).unwrap();
    }
    drop(encoder);
    bytes
}

fn holds_secret(bytes: &[u8]) -> bool {
    bytes.windows(SECRET.len()).any(|window| window == SECRET)
}

fn pixels(bytes: &[u8]) -> DynamicImage {
    image::load_from_memory(bytes).unwrap()
}

/// Whether the upper left corner is red and the lower right one blue.
fn is_red_then_blue(image: &DynamicImage) -> bool {
    let (width, height) = image.dimensions();
    let (first, last) = (image.get_pixel(2, 2), image.get_pixel(width - 3, height - 3));
    first[0] > 150 && first[2] < 60 && last[2] > 150 && last[0] < 60
}

#[test]
fn metadata_goes_and_pixels_stay_bit_for_bit() {
    let image = two_colors(40, 20);
    for (kind, bytes) in
        [(Kind::Jpeg, jpeg(&image, 1)), (Kind::Png, png(&image, 1)), (Kind::WebP, webp(&image, 1))]
    {
        assert!(holds_secret(&bytes));
        let normal = normalize(&bytes, SMALL).unwrap();
        assert_eq!(normal.kind, kind);
        assert!(!holds_secret(&normal.bytes), "{kind:?}");
        assert!(!normal.bytes.windows(4).any(|name| name.eq_ignore_ascii_case(b"exif")));
        assert!(normal.bytes.len() < bytes.len());
        assert_eq!(pixels(&normal.bytes), pixels(&bytes), "{kind:?}");
        let again = normalize(&normal.bytes, SMALL).unwrap();
        assert_eq!(again, normal, "a normal image stays as it is");
    }
}

#[test]
fn a_picture_behind_the_length_that_the_file_states_is_encoded_anew() {
    // Found by fuzzing: the file states a length of 0.
    let mut bytes = b"RIFF\0\0\0\0WEBPVP8 \x16\0\0\0\x30\x01\0\x9d\x01\x2a".to_vec();
    bytes.extend(b"\x01\0\x01\0\x0e\xc0\xfe\x25\0\0\xff\0\x0d\x0a\x25\xa4\0");
    let normal = normalize(&bytes, SMALL).unwrap();
    assert_eq!(pixels(&normal.bytes).dimensions(), (1, 1));
}

#[test]
fn images_are_turned_upright() {
    let image = two_colors(40, 20);
    // Orientation 6: to be turned by 90 degrees to the right, so red comes to lie above blue.
    for bytes in [jpeg(&image, 6), png(&image, 6), webp(&image, 6)] {
        let normal = normalize(&bytes, SMALL).unwrap();
        let turned = pixels(&normal.bytes);
        assert_eq!(turned.dimensions(), (20, 40));
        assert!(is_red_then_blue(&turned));
        assert!(!holds_secret(&normal.bytes));
    }
    let mirrored = pixels(&normalize(&jpeg(&image, 2), SMALL).unwrap().bytes);
    assert!(is_red_then_blue(&mirrored.fliph()));
}

#[test]
fn large_images_are_scaled_with_their_proportions() {
    for bytes in [
        jpeg(&two_colors(400, 200), 1),
        png(&two_colors(100, 50), 1),
        webp(&two_colors(130, 65), 1),
        gif(&two_colors(128, 64)),
    ] {
        let normal = normalize(&bytes, SMALL).unwrap();
        let scaled = pixels(&normal.bytes);
        assert_eq!(scaled.dimensions(), (64, 32));
        assert!(is_red_then_blue(&scaled));
        assert!(!holds_secret(&normal.bytes));
    }
    let narrow = pixels(&normalize(&png(&two_colors(6400, 2), 1), SMALL).unwrap().bytes);
    assert_eq!(narrow.dimensions(), (64, 1));
    let upright = pixels(&normalize(&jpeg(&two_colors(400, 200), 6), SMALL).unwrap().bytes);
    assert_eq!(upright.dimensions(), (32, 64));
}

#[test]
fn of_an_animation_the_first_picture_is_taken() {
    let normal = normalize(&gif(&two_colors(40, 20)), SMALL).unwrap();
    assert_eq!(normal.kind, Kind::Png);
    assert!(is_red_then_blue(&pixels(&normal.bytes)));
}

#[test]
fn what_has_too_many_bytes_becomes_a_smaller_jpeg() {
    let bounds = Bounds { side: 500, bytes: 50_000 };
    let normal = normalize(&png(&noise(400), 1), bounds).unwrap();
    assert_eq!(normal.kind, Kind::Jpeg);
    assert!(normal.bytes.len() <= bounds.bytes && normal.bytes.len() > bounds.bytes / 4);
    let none = Bounds { bytes: 100, ..bounds };
    assert!(matches!(normalize(&png(&noise(400), 1), none), Err(Error::TooLarge(100))));
}

#[test]
fn pixels_of_16_bits_are_scaled_and_transparency_is_kept() {
    let deep: DynamicImage =
        image::ImageBuffer::from_pixel(100, 100, Rgba([60_000_u16, 0, 0, 30_000])).into();
    let normal = normalize(&encoded(&deep, ImageFormat::Png), SMALL).unwrap();
    let [red, _, _, alpha] = pixels(&normal.bytes).get_pixel(9, 9).0;
    assert!(normal.kind == Kind::Png && red > 225 && (110..125).contains(&alpha));
}

#[test]
fn errors_say_what_is_wrong() {
    let check = |bytes: &[u8], expected: &str| {
        let error = normalize(bytes, SMALL).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    check(b"", "not a PNG, JPEG, GIF or WebP image, but empty");
    check(b" <svg xmlns=\"x\"/>", "but an SVG drawing");
    check(b"%PDF-1.7", "but a PDF document");
    check(b"hello", "not a PNG, JPEG, GIF or WebP image");
    let image = two_colors(40, 20);
    for bytes in [jpeg(&image, 1), png(&image, 1), webp(&image, 1), gif(&image)] {
        check(&bytes[..bytes.len() / 8], "");
    }
    let plain = encoded(&image, ImageFormat::Jpeg);
    check(&plain[..plain.len() - 2], "truncated");
    let plain = encoded(&image, ImageFormat::Png);
    check(&plain[..plain.len() - 12], "truncated");
}

#[test]
fn an_image_of_too_many_pixels_is_refused_before_it_is_decoded() {
    let side = 100_000_u32.to_be_bytes();
    let header = [&side[..], &side, &[8, 2, 0, 0, 0]].concat();
    let mut bomb = b"\x89PNG\r\n\x1a\n".to_vec();
    bomb.extend(chunk(b"IHDR", &header));
    bomb.extend(chunk(b"IDAT", &[0x78, 0x9c, 0x03, 0, 0, 0, 0, 1]));
    bomb.extend(chunk(b"IEND", b""));
    let error = normalize(&bomb, SMALL).unwrap_err().to_string();
    assert!(error.contains("memory") || error.contains("pixels"), "{error}");
    let plain = encoded(&two_colors(16, 16), ImageFormat::Jpeg);
    let frame = plain.windows(2).position(|two| two == [0xff, 0xc0]).unwrap();
    let mut bomb = plain;
    bomb[frame + 5..frame + 9].copy_from_slice(&[0xff; 4]);
    let error = normalize(&bomb, SMALL).unwrap_err();
    assert!(matches!(error, Error::TooManyPixels { width: 65535, height: 65535 }), "{error}");
    let mut bomb = gif(&two_colors(16, 16));
    bomb[6..10].copy_from_slice(&[0xff; 4]);
    assert!(matches!(normalize(&bomb, SMALL), Err(Error::TooManyPixels { .. })));
    assert!(u64::from(u16::MAX).pow(2) > MAX_PIXELS);
}

fn samples() -> Vec<Vec<u8>> {
    let image = two_colors(24, 12);
    vec![jpeg(&image, 6), png(&image, 3), webp(&image, 1), gif(&image), png(&noise(20), 1)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_bytes_give_a_bounded_image_or_an_error(
        sample in 0..5_usize,
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
        side in 1..40_u32,
    ) {
        let mut bytes = samples().swap_remove(sample);
        for (at, byte) in edits {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        let bounds = Bounds { side, bytes: 4000 };
        if let Ok(normal) = normalize(&bytes, bounds) {
            prop_assert!(normal.bytes.len() <= bounds.bytes);
            let image = pixels(&normal.bytes);
            prop_assert!(image.width().max(image.height()) <= side);
            let again = normalize(&normal.bytes, bounds);
            prop_assert!(again.is_ok_and(|again| again.kind == normal.kind));
        }
    }
}
