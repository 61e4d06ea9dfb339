//! The header of a frame, masking, and the payload of a close frame (RFC 6455, sections 5 and 7.4).

use crate::websocket::Violation;

/// The type of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opcode {
    /// The continuation of a message.
    Continuation,
    /// A text message, or its first part.
    Text,
    /// A binary message, or its first part.
    Binary,
    /// The end of the connection.
    Close,
    /// Requires a pong with the same payload.
    Ping,
    /// The answer to a ping.
    Pong,
}

impl Opcode {
    fn of(code: u8) -> Option<Self> {
        Some(match code {
            0x0 => Self::Continuation,
            0x1 => Self::Text,
            0x2 => Self::Binary,
            0x8 => Self::Close,
            0x9 => Self::Ping,
            0xA => Self::Pong,
            _ => return None,
        })
    }

    fn code(self) -> u8 {
        match self {
            Self::Continuation => 0x0,
            Self::Text => 0x1,
            Self::Binary => 0x2,
            Self::Close => 0x8,
            Self::Ping => 0x9,
            Self::Pong => 0xA,
        }
    }

    pub(super) fn is_control(self) -> bool {
        self.code() & 0x8 != 0
    }
}

/// A frame without its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) is_final: bool,
    pub(crate) opcode: Opcode,
    pub(crate) mask: Option<[u8; 4]>,
    /// Length of the payload, in bytes.
    pub(crate) length: u64,
}

const FINAL: u8 = 0x80;
const RESERVED: u8 = 0x70;
const MASKED: u8 = 0x80;
/// Longest payload of a control frame, in bytes.
pub(super) const MOST_CONTROL: usize = 125;

impl Header {
    /// Decodes the header at the beginning of `bytes`, and returns it with its length; `None` when
    /// more bytes are needed.
    ///
    /// # Errors
    /// A header that is invalid in any context.
    pub(super) fn read(bytes: &[u8]) -> Result<Option<(Self, usize)>, Violation> {
        let &[first, second, ref rest @ ..] = bytes else { return Ok(None) };
        if first & RESERVED != 0 {
            return Err(Violation::Protocol("a reserved bit is set"));
        }
        let Some(opcode) = Opcode::of(first & 0x0F) else {
            return Err(Violation::Protocol("the opcode is not known"));
        };
        let is_final = first & FINAL != 0;
        let short = second & 0x7F;
        if opcode.is_control() && !is_final {
            return Err(Violation::Protocol("a control frame is fragmented"));
        }
        if opcode.is_control() && usize::from(short) > MOST_CONTROL {
            return Err(Violation::Protocol("a control frame is longer than 125 bytes"));
        }
        let (length, rest) = match short {
            126 => match rest.split_first_chunk::<2>() {
                Some((length, rest)) => (u64::from(u16::from_be_bytes(*length)), rest),
                None => return Ok(None),
            },
            127 => match rest.split_first_chunk::<8>() {
                Some((length, rest)) => (u64::from_be_bytes(*length), rest),
                None => return Ok(None),
            },
            short => (u64::from(short), rest),
        };
        if length >> 63 != 0 {
            return Err(Violation::Protocol("the length of a frame is negative"));
        }
        let (mask, rest) = match second & MASKED {
            0 => (None, rest),
            _ => match rest.split_first_chunk::<4>() {
                Some((mask, rest)) => (Some(*mask), rest),
                None => return Ok(None),
            },
        };
        Ok(Some((Self { is_final, opcode, mask, length }, bytes.len() - rest.len())))
    }

    /// Appends the header.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.push(self.opcode.code() | if self.is_final { FINAL } else { 0 });
        let masked = if self.mask.is_some() { MASKED } else { 0 };
        match self.length {
            0..126 => out.push(masked | self.length as u8),
            126..0x1_0000 => {
                out.push(masked | 126);
                out.extend_from_slice(&(self.length as u16).to_be_bytes());
            }
            _ => {
                out.push(masked | 127);
                out.extend_from_slice(&self.length.to_be_bytes());
            }
        }
        out.extend_from_slice(self.mask.as_ref().map_or(&[], |mask| &mask[..]));
    }
}

/// Masks or unmasks a part of a payload, at the offset `from`.
pub(crate) fn mask(bytes: &mut [u8], key: [u8; 4], from: u64) {
    let mut key = key;
    key.rotate_left((from % 4) as usize);
    let word = u64::from_ne_bytes([key[0], key[1], key[2], key[3], key[0], key[1], key[2], key[3]]);
    let mut words = bytes.chunks_exact_mut(8);
    for chunk in &mut words {
        if let Ok(chunk) = <&mut [u8; 8]>::try_from(chunk) {
            *chunk = (u64::from_ne_bytes(*chunk) ^ word).to_ne_bytes();
        }
    }
    for (byte, key) in words.into_remainder().iter_mut().zip(key.iter().cycle()) {
        *byte ^= key;
    }
}

/// Decodes code and reason from the payload of a close frame; `None` when it is empty.
///
/// # Errors
/// A code that may not be sent, or a reason that is not UTF-8.
pub(super) fn read_close(payload: &[u8]) -> Result<Option<(u16, &str)>, Violation> {
    match payload {
        [] => Ok(None),
        [_] => Err(Violation::Protocol("a close frame has half a code")),
        [high, low, reason @ ..] => {
            let code = u16::from_be_bytes([*high, *low]);
            if !may_be_sent(code) {
                return Err(Violation::Protocol("the code of a close frame may not be sent"));
            }
            let reason = std::str::from_utf8(reason).map_err(|_| Violation::NotUtf8)?;
            Ok(Some((code, reason)))
        }
    }
}

/// Appends a close frame; an overlong reason is truncated.
pub(crate) fn write_close(code: u16, reason: &str, mask_key: Option<[u8; 4]>, out: &mut Vec<u8>) {
    let reason = &reason[..reason.floor_char_boundary(MOST_CONTROL - 2)];
    let mut payload = code.to_be_bytes().to_vec();
    payload.extend_from_slice(reason.as_bytes());
    write_control(Opcode::Close, &payload, mask_key, out);
}

/// Appends a control frame.
pub(crate) fn write_control(
    opcode: Opcode,
    payload: &[u8],
    mask_key: Option<[u8; 4]>,
    out: &mut Vec<u8>,
) {
    let length = payload.len() as u64;
    Header { is_final: true, opcode, mask: mask_key, length }.write(out);
    let begin = out.len();
    out.extend_from_slice(payload);
    if let Some(key) = mask_key {
        mask(&mut out[begin..], key, 0);
    }
}

/// Returns whether a code may be sent: codes that describe an end without a close frame may not.
fn may_be_sent(code: u16) -> bool {
    matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn headers_round_trip(
            is_final: bool, length in 0..(1u64 << 63), mask: Option<[u8; 4]>, code in 0u8..16,
        ) {
            let Some(opcode) = Opcode::of(code) else { return Ok(()) };
            let legal = !opcode.is_control() || is_final && length <= MOST_CONTROL as u64;
            let header = Header { is_final, opcode, mask, length };
            let mut out = Vec::new();
            header.write(&mut out);
            for cut in 0..out.len() {
                if let Ok(found) = Header::read(&out[..cut]) {
                    prop_assert!(found.is_none(), "{} of {} bytes are enough", cut, out.len());
                }
            }
            let whole = Header::read(&out);
            prop_assert_eq!(whole.is_ok(), legal);
            if legal {
                prop_assert_eq!(whole.unwrap(), Some((header, out.len())));
            }
        }

        #[test]
        fn masking_in_parts_is_masking_at_once(
            bytes: Vec<u8>, key: [u8; 4], cut in 0usize..64,
        ) {
            let mut at_once = bytes.clone();
            mask(&mut at_once, key, 0);
            for (at, (plain, masked)) in bytes.iter().zip(&at_once).enumerate() {
                prop_assert_eq!(plain ^ key[at % 4], *masked);
            }
            let cut = cut.min(bytes.len());
            let mut parts = bytes;
            mask(&mut parts[..cut], key, 0);
            mask(&mut parts[cut..], key, cut as u64);
            prop_assert_eq!(parts, at_once);
        }
    }

    #[test]
    fn close_frames() {
        assert_eq!(read_close(b""), Ok(None));
        assert!(matches!(read_close(b"\x03"), Err(Violation::Protocol(_))));
        assert_eq!(read_close(b"\x03\xe8bye"), Ok(Some((1000, "bye"))));
        assert_eq!(read_close(b"\x03\xe8\xff"), Err(Violation::NotUtf8));
        for code in [0u16, 999, 1004, 1005, 1006, 1015, 1016, 2999, 5000, 65535] {
            assert!(read_close(&code.to_be_bytes()).is_err(), "{code}");
        }
        let mut out = Vec::new();
        write_close(1001, &"ä".repeat(100), None, &mut out);
        let (header, begin) = Header::read(&out).unwrap().unwrap();
        assert_eq!(header.length, 124, "cut between two letters");
        assert_eq!(read_close(&out[begin..]).unwrap().unwrap().0, 1001);
    }
}
