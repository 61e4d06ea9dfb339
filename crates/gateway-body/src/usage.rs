//! The usage that a response reports, under both families of names. It knows no prices.

/// Numbers from this one on are implausible.
const BELIEVED: u32 = 1_000_000_000;

/// Usage of a request, in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// `input_tokens` or `prompt_tokens`.
    pub input_tokens: u32,
    /// Cached part of the input: `cached_tokens` in `input_tokens_details` or
    /// `prompt_tokens_details`.
    pub cached_input_tokens: u32,
    /// `output_tokens` or `completion_tokens`; 0 when absent, as for embeddings.
    pub output_tokens: u32,
    /// `total_tokens`, and at least the sum of input and output.
    pub total_tokens: u32,
}

/// The numbers of a usage object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Count {
    Input,
    Cached,
    Output,
    Total,
}

/// A usage object while it is read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Draft {
    counts: [Option<u32>; 4],
    /// Seconds of audio, in milliseconds.
    pub(super) duration_ms: Option<u64>,
    pub(super) invalid: bool,
}

impl Draft {
    /// Sets a number from its text; `null` counts as absent.
    pub(super) fn set(&mut self, count: Count, token: &[u8]) {
        if token == b"null" {
            return;
        }
        match integer(token) {
            Some(number) => self.counts[count as usize] = Some(number),
            None => self.invalid = true,
        }
    }

    /// The usage, if it has tokens and all of it is plausible. The error means that it is
    /// implausible.
    pub(super) fn finish(self) -> Result<Option<Usage>, ()> {
        let [input, cached, output, total] = self.counts;
        let cached = cached.unwrap_or(0);
        if self.invalid || cached > input.unwrap_or(0) {
            return Err(());
        }
        if input.is_none() && output.is_none() && total.is_none() {
            return Ok(None);
        }
        let (input, output) = match (input, output) {
            // Without a breakdown, the total counts as input.
            (None, None) => (total.unwrap_or(0), 0),
            (input, output) => (input.unwrap_or(0), output.unwrap_or(0)),
        };
        Ok(Some(Usage {
            input_tokens: input,
            cached_input_tokens: cached,
            output_tokens: output,
            total_tokens: total.unwrap_or(0).max(input + output),
        }))
    }
}

fn integer(token: &[u8]) -> Option<u32> {
    let digits = token.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(token).ok().filter(|_| digits)?;
    text.parse().ok().filter(|number| *number < BELIEVED)
}

/// Converts seconds, possibly with a fraction, to milliseconds, rounded up; `None` from 10⁹ ms on.
pub(super) fn milliseconds(token: &[u8]) -> Option<u64> {
    let seconds: f64 = std::str::from_utf8(token).ok()?.parse().ok()?;
    let milliseconds = (seconds * 1000.0).ceil();
    (0.0..f64::from(BELIEVED)).contains(&milliseconds).then_some(milliseconds as u64)
}
