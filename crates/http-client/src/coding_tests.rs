//! Every coding, whole and in pieces of every size; what is cut off, malformed or too large.

use std::io::Write;

use flate2::Compression;
use flate2::GzBuilder;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

use super::*;

/// The decoded body, read in pieces of `size` bytes with room for `room` bytes.
fn decode(coding: &str, body: &[u8], size: usize, room: usize) -> Result<Vec<u8>, CodingError> {
    let mut decoder = Decoder::new(coding).unwrap().unwrap();
    let (mut decoded, mut out) = (Vec::new(), vec![0; room]);
    for mut piece in body.chunks(size) {
        while !piece.is_empty() || decoder.has_more() {
            let (read, written) = decoder.step(piece, &mut out)?;
            piece = &piece[read..];
            decoded.extend_from_slice(&out[..written]);
        }
    }
    decoder.finish()?;
    Ok(decoded)
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

/// A head with every part that the format has (except for its checksum).
fn gzip_with_names(text: &[u8]) -> Vec<u8> {
    let head = GzBuilder::new().filename("answer.json").comment("a comment").extra("extra");
    let mut encoder = head.write(Vec::new(), Compression::default());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn zlib(text: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn deflate(text: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

/// One uncompressed block, of at most 64 KiB, and an empty last one (RFC 7932, 9.2).
fn brotli(text: &[u8]) -> Vec<u8> {
    let Some(length) = text.len().checked_sub(1) else { return vec![6] };
    let [low, high] = u16::try_from(length >> 1).unwrap().to_le_bytes();
    let begin = [0x0b | ((length & 1) as u8) << 7, low, 0x80 | high];
    [&begin, text, &[3]].concat()
}

fn zstd(text: &[u8]) -> Vec<u8> {
    zstd::stream::encode_all(text, 3).unwrap()
}

type Encode = fn(&[u8]) -> Vec<u8>;

const CODINGS: [(&str, Encode); 8] = [
    ("gzip", gzip),
    ("x-gzip", gzip),
    ("GZIP", gzip_with_names),
    ("deflate", zlib),
    ("deflate", deflate),
    ("br", brotli),
    ("zstd", zstd),
    // Members and frames one after another are one body.
    ("gzip", |text| [gzip(&text[..text.len() / 2]), gzip(&text[text.len() / 2..])].concat()),
];

#[test]
fn every_coding_is_decoded_in_pieces_of_any_size() {
    let numbers: Vec<u8> =
        (0..9000).flat_map(|number: u32| (number * number).to_string().into_bytes()).collect();
    for text in [&b""[..], b"x", b"hello world", &numbers[..50_000]] {
        for (coding, encode) in CODINGS {
            let body = encode(text);
            for (size, room) in [(usize::MAX, 1 << 16), (1, 1 << 10), (7, 3), (1000, 1)] {
                let decoded = decode(coding, &body, size, room);
                assert!(decoded.as_deref() == Ok(text), "{coding} {} {size} {room}", text.len());
            }
        }
    }
}

#[test]
fn what_was_received_of_a_stream_is_decoded_at_once() {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let mut decoder = Decoder::new("gzip").unwrap().unwrap();
    let mut out = [0; 1000];
    for event in ["data: one\n\n", "data: two\n\n"] {
        encoder.write_all(event.as_bytes()).unwrap();
        encoder.flush().unwrap();
        let sent = std::mem::take(encoder.get_mut());
        let (read, written) = decoder.step(&sent, &mut out).unwrap();
        assert_eq!((read, &out[..written]), (sent.len(), event.as_bytes()));
    }
}

#[test]
fn a_body_that_is_cut_off_is_an_error() {
    for (coding, encode) in &CODINGS[..7] {
        let body = encode(b"hello world, hello world");
        for end in 1..body.len() {
            let error = decode(coding, &body[..end], 5, 64).unwrap_err();
            assert!(matches!(error, CodingError::Cut(_)), "{coding} {end}: {error}");
        }
        assert_eq!(decode(coding, b"", 1, 1), Ok(Vec::new()), "an empty body has no coding");
    }
}

#[test]
fn a_malformed_body_is_an_error() {
    for (coding, encode) in &CODINGS[..7] {
        let error = decode(coding, b"{\"error\": \"this is plain text\"}", 9, 64);
        assert!(error.is_err(), "{coding}: {error:?}");
        let mut body = encode(&b"hello world, ".repeat(9));
        body.truncate(body.len() - 1);
        for byte in &mut body[12..] {
            *byte ^= 0x55;
        }
        // Formats without a checksum may not notice; none panics.
        let result = decode(coding, &body, 3, 64);
        assert_ne!(result.as_deref(), Ok(&b"hello world, ".repeat(9)[..]), "{coding}");
    }
    let mut body = gzip(b"hello world");
    let at = body.len() - 8;
    body[at] ^= 1;
    let error = decode("gzip", &body, 100, 100).unwrap_err();
    assert_eq!(error.to_string(), "its body is not valid gzip: its checksum does not match");
    let endless =
        [&[0x1f, 0x8b, 8, HAS_NAME, 0, 0, 0, 0, 0, 0][..], &[b'x'; MAX_GZIP_HEAD]].concat();
    let error = decode("gzip", &endless, 1000, 100).unwrap_err();
    assert_eq!(error.to_string(), "its body is not valid gzip: its head is too long");
}

#[test]
fn a_small_body_cannot_fill_the_memory_or_run_for_ever() {
    for (coding, encode) in [("zstd", zstd as Encode), ("gzip", gzip)] {
        // A few KiB that decode to 8 MiB, again and again.
        let part = encode(&vec![0; 8 << 20]);
        let mut decoder = Decoder::new(coding).unwrap().unwrap();
        assert_eq!(decoder.most, MAX_DECODED);
        decoder.most = 20 << 20;
        let mut out = vec![0; 1 << 20];
        let error = loop_until_error(&mut decoder, &part, &mut out);
        assert_eq!(error, CodingError::TooLarge(coding));
        assert_eq!(decoder.decoded, 21 << 20, "one step more than the bound");
    }
    // A window that is larger than HTTP allows needs too much memory.
    let mut encoder = zstd::stream::Encoder::new(Vec::new(), 1).unwrap();
    encoder.set_parameter(zstd::stream::raw::CParameter::WindowLog(27)).unwrap();
    encoder.write_all(&vec![7; 64 << 20]).unwrap();
    let error = decode("zstd", &encoder.finish().unwrap(), 1000, 1000).unwrap_err();
    assert!(matches!(error, CodingError::Malformed("zstd", _)), "{error}");
}

fn loop_until_error(decoder: &mut Decoder, part: &[u8], out: &mut [u8]) -> CodingError {
    loop {
        let mut rest = part;
        while !rest.is_empty() || decoder.has_more() {
            match decoder.step(rest, out) {
                Ok((read, _)) => rest = &rest[read..],
                Err(error) => return error,
            }
        }
    }
}

#[test]
fn other_codings_are_unknown() {
    for coding in ["", "identity", "compress", "gzip, br", "dcz"] {
        assert!(Decoder::new(coding).unwrap().is_none(), "{coding}");
    }
}
