//! Images for tests: PNG files of noise, which no encoder makes smaller.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// A PNG file of about three bytes a pixel.
#[must_use]
pub fn png(width: u32, height: u32) -> Vec<u8> {
    png_with_text(width, height, b"")
}

/// As [`png`], with a comment.
#[must_use]
pub fn png_with_text(width: u32, height: u32, comment: &[u8]) -> Vec<u8> {
    const RGB: u8 = 2;
    let mut header = [width.to_be_bytes(), height.to_be_bytes()].concat();
    header.extend([8, RGB, 0, 0, 0]);
    let mut png = b"\x89PNG\r\n\x1a\n".to_vec();
    push_chunk(&mut png, *b"IHDR", &header);
    if !comment.is_empty() {
        push_chunk(&mut png, *b"tEXt", &[b"Comment\0", comment].concat());
    }
    push_chunk(&mut png, *b"IDAT", &stored(&pixels(width as usize, height as usize)));
    push_chunk(&mut png, *b"IEND", b"");
    png
}

/// As [`png`], as a `data:` URL.
#[must_use]
pub fn png_url(width: u32, height: u32) -> String {
    format!("data:image/png;base64,{}", STANDARD.encode(png(width, height)))
}

fn pixels(width: usize, height: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let mut rows = Vec::with_capacity(height * (1 + 3 * width));
    for _ in 0..height {
        rows.push(0);
        rows.extend(
            std::iter::repeat_with(|| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                state.to_be_bytes()[0]
            })
            .take(3 * width),
        );
    }
    rows
}

fn push_chunk(png: &mut Vec<u8>, name: [u8; 4], body: &[u8]) {
    let start = png.len() + 4;
    png.extend(u32::try_from(body.len()).unwrap_or(u32::MAX).to_be_bytes());
    png.extend(name);
    png.extend_from_slice(body);
    let checksum = crc(&png[start..]);
    png.extend(checksum.to_be_bytes());
}

fn crc(bytes: &[u8]) -> u32 {
    const POLYNOMIAL: u32 = 0xedb8_8320;
    let table: Vec<u32> = (0..256_u32)
        .map(|byte| {
            (0..8).fold(byte, |crc, _| if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 })
        })
        .collect();
    !bytes.iter().fold(!0, |crc, byte| table[usize::from(crc as u8 ^ byte)] ^ crc >> 8)
}

/// A zlib stream without compression.
fn stored(bytes: &[u8]) -> Vec<u8> {
    const MODULUS: u32 = 65521;
    let mut zlib = vec![0x78, 0x01];
    let mut blocks = bytes.chunks(usize::from(u16::MAX)).peekable();
    while let Some(block) = blocks.next() {
        let length = u16::try_from(block.len()).unwrap_or(u16::MAX);
        zlib.push(u8::from(blocks.peek().is_none()));
        zlib.extend(length.to_le_bytes());
        zlib.extend((!length).to_le_bytes());
        zlib.extend_from_slice(block);
    }
    let (mut a, mut b) = (1, 0);
    for byte in bytes {
        a = (a + u32::from(*byte)) % MODULUS;
        b = (b + a) % MODULUS;
    }
    zlib.extend((b << 16 | a).to_be_bytes());
    zlib
}
