//! The duration of a WAV file, from its header. It decodes no audio.

/// Formats whose byte rate follows from the other fields: integers, floats, and both in an
/// extensible header.
const LINEAR: [u16; 3] = [1, 3, 0xFFFE];

/// The duration of a file, in milliseconds, rounded up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Duration {
    /// The other fields of the header confirm it.
    Exact(u64),
    /// The header states a byte rate that nothing confirms, and that decoders of compressed audio ignore.
    Claimed(u64),
}

/// Duration of the file; `None` when it is not a WAV file, or its
/// fields contradict each other. The length in the header is bounded by the actual length.
pub(super) fn duration(file: &[u8]) -> Option<Duration> {
    let mut rest = match file {
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'A', b'V', b'E', rest @ ..] => rest,
        _ => return None,
    };
    let mut rate = None;
    loop {
        let (head, body) = rest.split_at_checked(8)?;
        let said = usize::try_from(number(head, 4, 4)?).ok()?;
        let length = said.min(body.len());
        match &head[..4] {
            b"fmt " => rate = Some(bytes_per_second(&body[..length])?),
            b"data" => {
                // A stream of unknown length has the largest length in its header, or 0.
                let length = if said == 0 { body.len() } else { length };
                let (rate, is_exact) = rate?;
                let duration = (length as u64 * 1000).div_ceil(rate);
                return Some(match is_exact {
                    true => Duration::Exact(duration),
                    false => Duration::Claimed(duration),
                });
            }
            _ => {}
        }
        // Chunks are aligned to even offsets.
        rest = body.get(length + length % 2..)?;
    }
}

/// The byte rate, and whether the other fields confirm it.
fn bytes_per_second(format: &[u8]) -> Option<(u64, bool)> {
    let kind = u16::try_from(number(format, 0, 2)?).ok()?;
    let rate = number(format, 8, 4)?;
    let consistent = || -> Option<bool> {
        let frame = number(format, 2, 2)? * number(format, 14, 2)?.div_ceil(8);
        Some(rate == number(format, 4, 4)? * frame)
    };
    let is_linear = LINEAR.contains(&kind);
    let good = rate > 0 && (!is_linear || consistent()?);
    good.then_some((rate, is_linear))
}

fn number(bytes: &[u8], at: usize, length: usize) -> Option<u64> {
    let bytes = bytes.get(at..at + length)?;
    Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}
