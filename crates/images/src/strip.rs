//! Removal of everything from an image's file that is not needed to show it: location, camera,
//! author, comments, embedded previews, and what follows the image. Parts are kept by a list, so
//! that unknown ones go. The pixels are not touched.

use crate::error::Error;
use crate::kind::Kind;

/// The file without metadata; `None` for a file that has to be encoded again.
///
/// # Errors
/// [`Error::Truncated`] or [`Error::Damaged`], where the structure of the file shows it.
pub(crate) fn metadata(kind: Kind, bytes: &[u8]) -> Result<Option<Vec<u8>>, Error> {
    match kind {
        Kind::Png => png(bytes).map(Some),
        Kind::Jpeg => jpeg(bytes).map(Some),
        Kind::WebP => webp(bytes),
        // Servers take the first picture only, and comments can stand between its parts.
        Kind::Gif => Ok(None),
    }
}

/// Takes `length` bytes.
fn take<'a>(rest: &mut &'a [u8], length: usize) -> Result<&'a [u8], Error> {
    let (taken, after) = rest.split_at_checked(length).ok_or(Error::Truncated)?;
    *rest = after;
    Ok(taken)
}

fn take_array<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], Error> {
    let (taken, after) = rest.split_first_chunk().ok_or(Error::Truncated)?;
    *rest = after;
    Ok(*taken)
}

fn png(bytes: &[u8]) -> Result<Vec<u8>, Error> {
    const SIGNATURE_BYTES: usize = 8;
    const CHECKSUM_BYTES: usize = 4;
    const KEPT: [&[u8; 4]; 5] = [b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND"];
    let mut rest = bytes;
    let mut kept = take(&mut rest, SIGNATURE_BYTES)?.to_vec();
    loop {
        let chunk = rest;
        let length = u32::from_be_bytes(take_array(&mut rest)?) as usize;
        let name: [u8; 4] = take_array(&mut rest)?;
        take(&mut rest, length)?;
        take(&mut rest, CHECKSUM_BYTES)?;
        if KEPT.contains(&&name) {
            kept.extend_from_slice(&chunk[..chunk.len() - rest.len()]);
        }
        if &name == b"IEND" {
            return Ok(kept);
        }
    }
}

fn jpeg(bytes: &[u8]) -> Result<Vec<u8>, Error> {
    const START: u8 = 0xd8;
    const END: u8 = 0xd9;
    const SCAN: u8 = 0xda;
    const JFIF: u8 = 0xe0;
    const ADOBE: u8 = 0xee;
    /// A JFIF header without a preview.
    const PLAIN_JFIF: &[u8] = b"\xff\xe0\0\x10JFIF\0\x01\x01\0\0\x01\0\x01\0\0";
    /// Bytes that tell how colours are stored, the length included.
    const ADOBE_BYTES: usize = 14;
    let mut rest = &bytes[2..];
    let mut kept = vec![0xff, START];
    loop {
        let marker = next_marker(&mut rest)?;
        if marker == END {
            kept.extend([0xff, END]);
            return Ok(kept);
        }
        if matches!(marker, 0x01 | 0xd0..=0xd8) {
            continue;
        }
        let segment = rest;
        let length = usize::from(u16::from_be_bytes(take_array(&mut rest)?));
        let body = length.checked_sub(2).ok_or_else(|| {
            Error::Damaged(format!("its segment {marker:#04x} has the length {length}"))
        })?;
        let body = take(&mut rest, body)?;
        match marker {
            // Tables, frames and scans.
            0xc0..=0xcf | 0xdb..=0xdf | SCAN => {
                kept.extend([0xff, marker]);
                kept.extend_from_slice(&segment[..length]);
            }
            JFIF if body.starts_with(b"JFIF\0") => kept.extend_from_slice(PLAIN_JFIF),
            ADOBE if body.starts_with(b"Adobe") && length >= ADOBE_BYTES => {
                kept.extend([0xff, ADOBE, 0, ADOBE_BYTES as u8]);
                kept.extend_from_slice(&body[..ADOBE_BYTES - 2]);
            }
            _ => {}
        }
        if marker == SCAN {
            let length = scan_length(rest)?;
            kept.extend_from_slice(take(&mut rest, length)?);
        }
    }
}

/// The next marker. Decoders skip what stands before it, so it is dropped.
fn next_marker(rest: &mut &[u8]) -> Result<u8, Error> {
    loop {
        let at = rest.iter().position(|byte| *byte == 0xff).ok_or(Error::Truncated)?;
        *rest = &rest[at..];
        while rest.first() == Some(&0xff) {
            *rest = &rest[1..];
        }
        let [marker] = take_array(rest)?;
        if marker != 0 {
            return Ok(marker);
        }
    }
}

/// Bytes of a scan's data: up to a marker that does not belong to it.
fn scan_length(data: &[u8]) -> Result<usize, Error> {
    let mut at = 0;
    loop {
        let found = data[at..].iter().position(|byte| *byte == 0xff).ok_or(Error::Truncated)?;
        at += found;
        match data.get(at + 1) {
            None => return Err(Error::Truncated),
            Some(0 | 0xd0..=0xd7) => at += 2,
            Some(0xff) => at += 1,
            Some(_) => return Ok(at),
        }
    }
}

fn webp(bytes: &[u8]) -> Result<Option<Vec<u8>>, Error> {
    const HEADER_BYTES: usize = 12;
    const ANIMATED: u8 = 0x02;
    const HAS_ALPHA: u8 = 0x10;
    let mut rest = bytes;
    let header = take(&mut rest, HEADER_BYTES)?;
    let length = header[4..8].try_into().map_or(0, u32::from_le_bytes) as usize;
    // The length starts after its own field, so it includes the four letters `WEBP`.
    let mut rest = take(&mut rest, length.saturating_sub(4))?;
    let mut kept = header.to_vec();
    let mut has_pixels = false;
    while !rest.is_empty() {
        let chunk = rest;
        let name: [u8; 4] = take_array(&mut rest)?;
        let length = u32::from_le_bytes(take_array(&mut rest)?) as usize;
        let body = take(&mut rest, length)?;
        if length % 2 == 1 && !rest.is_empty() {
            take(&mut rest, 1)?;
        }
        let chunk = &chunk[..chunk.len() - rest.len()];
        match &name {
            b"VP8X" => {
                let flags = *body.first().ok_or(Error::Truncated)?;
                if flags & ANIMATED != 0 {
                    return Ok(None);
                }
                let start = kept.len();
                kept.extend_from_slice(chunk);
                kept[start + 8] = flags & HAS_ALPHA;
            }
            b"VP8 " | b"VP8L" => {
                has_pixels = true;
                kept.extend_from_slice(chunk);
            }
            b"ALPH" => kept.extend_from_slice(chunk),
            _ => {}
        }
    }
    if !has_pixels {
        // A decoder may find pixels beyond the length that the file states: they are encoded again.
        return Ok(None);
    }
    if kept.len() % 2 == 1 {
        kept.push(0);
    }
    let length = u32::try_from(kept.len() - 8).map_err(|_| Error::Truncated)?;
    kept[4..8].copy_from_slice(&length.to_le_bytes());
    Ok(Some(kept))
}
