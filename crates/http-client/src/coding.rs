//! Decodes the content codings of HTTP (gzip, deflate, br, zstd) incrementally, with little memory whatever the
//! input claims: each step returns at most the room that its caller gives.

use std::fmt;
use std::io;

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};
use flate2::{Crc, Decompress, FlushDecompress, Status};
use zstd::stream::raw::{DParameter, Decoder as ZstdDecoder, Operation};

/// Most decoded bytes of one body. Beyond it the body is in error: no answer of a model is as large, but
/// a few megabytes of input can claim to be terabytes.
pub(crate) const MAX_DECODED: u64 = 1 << 30;
/// Largest window of zstd, as a power of two: 8 MiB, the most that HTTP allows (RFC 9659). It bounds the memory.
const MAX_ZSTD_WINDOW: u32 = 23;
/// The beginning of a member of gzip; the last byte says that its data is deflate.
const MAGIC: [u8; 3] = [0x1f, 0x8b, 8];
const FIXED_HEAD: usize = 10;
/// Longest head of gzip, in bytes, of which a server sends ten: a longer one is an error.
const MAX_GZIP_HEAD: usize = 16 << 10;
const HAS_CHECKSUM: u8 = 2;
const HAS_EXTRA: u8 = 4;
const HAS_NAME: u8 = 8;
const HAS_COMMENT: u8 = 16;
/// Length of the checksum and the size after the data of gzip.
const GZIP_END: usize = 8;

/// Why a body cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodingError {
    /// It is not what its `Content-Encoding` says.
    #[error("its body is not valid {0}: {1}")]
    Malformed(&'static str, String),
    /// It ends within the encoded data.
    #[error("its {0} body is cut off")]
    Cut(&'static str),
    /// It is too large.
    #[error("its {0} body has more than {MAX_DECODED} bytes when it is decoded")]
    TooLarge(&'static str),
}

/// A decoder of one body.
pub(crate) struct Decoder {
    name: &'static str,
    coding: Coding,
    /// True once there was any input.
    begun: bool,
    /// Decoded bytes so far, and their bound.
    decoded: u64,
    most: u64,
    /// True if the last step filled its output: more may come without further input.
    full: bool,
}

enum Coding {
    Gzip(Box<Gzip>),
    /// `None` until the first two bytes show whether there is a zlib header: HTTP requires it, and some servers omit it.
    Deflate(Option<Box<Inflate>>, Vec<u8>),
    Brotli(Box<Brotli>),
    Zstd(Box<Zstd>),
}

/// brotli, and whether its last block was decoded.
type Brotli = (BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>, bool);

/// zstd, and whether it is between two frames.
type Zstd = (ZstdDecoder<'static>, bool);

impl fmt::Debug for Decoder {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Decoder")
            .field("name", &self.name)
            .field("decoded", &self.decoded)
            .finish_non_exhaustive()
    }
}

/// Bytes that a step read and wrote.
type Moved = (usize, usize);

impl Decoder {
    /// The decoder for a `Content-Encoding`; `None` for an unknown one.
    ///
    /// # Errors
    /// zstd cannot allocate its memory.
    pub(crate) fn new(coding: &str) -> io::Result<Option<Self>> {
        let (name, coding) = match coding.to_ascii_lowercase().as_str() {
            "gzip" | "x-gzip" => ("gzip", Coding::Gzip(Box::default())),
            "deflate" => ("deflate", Coding::Deflate(None, Vec::new())),
            "br" => {
                let alloc = StandardAlloc::default;
                let state = BrotliState::new(alloc(), alloc(), alloc());
                ("br", Coding::Brotli(Box::new((state, false))))
            }
            "zstd" => {
                let mut decoder = ZstdDecoder::new()?;
                decoder.set_parameter(DParameter::WindowLogMax(MAX_ZSTD_WINDOW))?;
                ("zstd", Coding::Zstd(Box::new((decoder, true))))
            }
            _ => return Ok(None),
        };
        Ok(Some(Self { name, coding, begun: false, decoded: 0, most: MAX_DECODED, full: false }))
    }

    /// Returns whether a step may write without further input.
    pub(crate) fn has_more(&self) -> bool {
        self.full
    }

    /// Decodes from `input` into `out`, which must not be empty. Returns how many bytes it read and wrote; it reads all of the
    /// input unless `out` is full.
    ///
    /// # Errors
    /// The body is malformed or too large.
    pub(crate) fn step(&mut self, input: &[u8], out: &mut [u8]) -> Result<Moved, CodingError> {
        self.begun |= !input.is_empty();
        let (mut read, mut written) = (0, 0);
        loop {
            let moved = self.coding.step(&input[read..], &mut out[written..]);
            let (more_read, more_written) =
                moved.map_err(|reason| CodingError::Malformed(self.name, reason))?;
            read += more_read;
            written += more_written;
            self.full = written == out.len();
            if self.full || (more_read, more_written) == (0, 0) {
                break;
            }
        }
        if read < input.len() && !self.full {
            let reason = "nothing of it can be decoded".to_owned();
            return Err(CodingError::Malformed(self.name, reason));
        }
        self.decoded += written as u64;
        match self.decoded > self.most {
            true => Err(CodingError::TooLarge(self.name)),
            false => Ok((read, written)),
        }
    }

    /// Checks at the end of the input that it was complete. An empty body is.
    ///
    /// # Errors
    /// It was cut off.
    pub(crate) fn finish(&self) -> Result<(), CodingError> {
        let complete = match &self.coding {
            Coding::Gzip(gzip) => match gzip.part {
                GzipPart::First | GzipPart::Next => gzip.held.is_empty(),
                GzipPart::Padding => true,
                GzipPart::Data(_) | GzipPart::End => false,
            },
            Coding::Deflate(None, first) => first.is_empty(),
            Coding::Deflate(Some(inflate), _) => inflate.ended,
            Coding::Brotli(brotli) => brotli.1,
            Coding::Zstd(zstd) => zstd.1,
        };
        if complete || !self.begun { Ok(()) } else { Err(CodingError::Cut(self.name)) }
    }
}

impl Coding {
    fn step(&mut self, input: &[u8], out: &mut [u8]) -> Result<Moved, String> {
        match self {
            Self::Gzip(gzip) => gzip.step(input, out),
            Self::Deflate(Some(inflate), first) => {
                if !first.is_empty() {
                    let (read, written) = inflate.step(first, out)?;
                    first.drain(..read);
                    if written > 0 || inflate.ended {
                        return Ok((0, written));
                    }
                }
                match inflate.ended {
                    true => Ok((input.len(), 0)),
                    false => inflate.step(input, out),
                }
            }
            Self::Deflate(inflate, first) => {
                let read = input.len().min(2 - first.len());
                first.extend_from_slice(&input[..read]);
                if let [one, two] = first[..] {
                    let is_zlib =
                        one & 15 == 8 && (u16::from(one) << 8 | u16::from(two)).is_multiple_of(31);
                    *inflate = Some(Box::new(Inflate::new(is_zlib)));
                }
                Ok((read, 0))
            }
            Self::Brotli(brotli) => brotli_step(brotli, input, out),
            Self::Zstd(zstd) => {
                let (decoder, between) = &mut **zstd;
                let status =
                    decoder.run_on_buffers(input, out).map_err(|error| error.to_string())?;
                if status.bytes_read + status.bytes_written > 0 {
                    *between = status.remaining == 0;
                }
                Ok((status.bytes_read, status.bytes_written))
            }
        }
    }
}

fn brotli_step(brotli: &mut Brotli, input: &[u8], out: &mut [u8]) -> Result<Moved, String> {
    let (state, ended) = brotli;
    if *ended {
        return Ok((input.len(), 0));
    }
    let (mut left, mut read) = (input.len(), 0);
    let (mut room, mut written, mut total) = (out.len(), 0, 0);
    let result = BrotliDecompressStream(
        &mut left,
        &mut read,
        input,
        &mut room,
        &mut written,
        out,
        &mut total,
        state,
    );
    match result {
        BrotliResult::ResultFailure => return Err(format!("{:?}", state.error_code)),
        BrotliResult::ResultSuccess => *ended = true,
        BrotliResult::NeedsMoreInput | BrotliResult::NeedsMoreOutput => {}
    }
    Ok((read, written))
}

struct Inflate {
    state: Decompress,
    ended: bool,
}

impl Inflate {
    fn new(has_header: bool) -> Self {
        Self { state: Decompress::new(has_header), ended: false }
    }

    fn step(&mut self, input: &[u8], out: &mut [u8]) -> Result<Moved, String> {
        let (read, written) = (self.state.total_in(), self.state.total_out());
        let status = self.state.decompress(input, out, FlushDecompress::None);
        self.ended = status.map_err(|error| error.to_string())? == Status::StreamEnd;
        // Both are at most the lengths of the slices.
        Ok(((self.state.total_in() - read) as usize, (self.state.total_out() - written) as usize))
    }
}

/// A gzip body: members one after another, each a head, data, and their checksum and size.
#[derive(Default)]
struct Gzip {
    part: GzipPart,
    /// The received bytes of the head or the end.
    held: Vec<u8>,
    checksum: Crc,
}

#[derive(Default)]
enum GzipPart {
    /// The head of the first member.
    #[default]
    First,
    Data(Inflate),
    End,
    /// After a member: the head of another one, or padding.
    Next,
    /// Bytes without a meaning after the last member.
    Padding,
}

impl Gzip {
    fn step(&mut self, input: &[u8], out: &mut [u8]) -> Result<Moved, String> {
        match &mut self.part {
            GzipPart::Padding => Ok((input.len(), 0)),
            GzipPart::Next
                if self.held.is_empty() && input.first().is_some_and(|byte| *byte != MAGIC[0]) =>
            {
                self.part = GzipPart::Padding;
                Ok((input.len(), 0))
            }
            GzipPart::First | GzipPart::Next => {
                let before = self.held.len();
                let room = input.len().min(MAX_GZIP_HEAD - before);
                self.held.extend_from_slice(&input[..room]);
                let Some(length) = gzip_head(&self.held)? else { return Ok((room, 0)) };
                self.held.clear();
                self.checksum.reset();
                self.part = GzipPart::Data(Inflate::new(false));
                Ok((length - before, 0))
            }
            GzipPart::Data(inflate) => {
                let (read, written) = inflate.step(input, out)?;
                self.checksum.update(&out[..written]);
                if inflate.ended {
                    self.part = GzipPart::End;
                }
                Ok((read, written))
            }
            GzipPart::End => {
                let read = input.len().min(GZIP_END - self.held.len());
                self.held.extend_from_slice(&input[..read]);
                if self.held.len() == GZIP_END {
                    let (sum, size) = (self.checksum.sum(), self.checksum.amount());
                    if self.held != [sum.to_le_bytes(), size.to_le_bytes()].concat() {
                        return Err("its checksum does not match".to_owned());
                    }
                    self.held.clear();
                    self.part = GzipPart::Next;
                }
                Ok((read, 0))
            }
        }
    }
}

/// The length of the head at the beginning of `bytes`; `None` while it is incomplete.
fn gzip_head(bytes: &[u8]) -> Result<Option<usize>, String> {
    let known = bytes.len().min(MAGIC.len());
    if bytes[..known] != MAGIC[..known] {
        return Err("it does not begin as gzip does".to_owned());
    }
    match head_length(bytes) {
        Some(length) if length <= bytes.len() => Ok(Some(length)),
        _ if bytes.len() == MAX_GZIP_HEAD => Err("its head is too long".to_owned()),
        _ => Ok(None),
    }
}

/// The length that the received part of a head gives; `None` when it is not known yet.
fn head_length(bytes: &[u8]) -> Option<usize> {
    let flags = *bytes.get(3)?;
    let mut length = FIXED_HEAD;
    if flags & HAS_EXTRA != 0 {
        let extra = bytes.get(length..length + 2)?;
        length += 2 + usize::from(u16::from_le_bytes([extra[0], extra[1]]));
    }
    for flag in [HAS_NAME, HAS_COMMENT] {
        if flags & flag != 0 {
            length += memchr::memchr(0, bytes.get(length..)?)? + 1;
        }
    }
    Some(if flags & HAS_CHECKSUM != 0 { length + 2 } else { length })
}

#[cfg(test)]
#[path = "coding_tests.rs"]
mod tests;
