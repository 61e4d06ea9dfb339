//! The usage that an answer reports, under the names of all families of servers. It knows no prices.

/// Numbers from this one on are implausible.
const BELIEVED: u32 = 1_000_000_000;

/// Usage of a request, in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// All input, whether it was read from a cache, written to one, or neither.
    pub input_tokens: u32,
    /// The part of the input that was read from a cache.
    pub cached_input_tokens: u32,
    /// The part of the input that was written to a cache for five minutes, or for a time that is not named.
    pub cache_write_tokens: u32,
    /// The part of the input that was written to a cache for an hour.
    pub cache_write_1h_tokens: u32,
    /// Of what was written to a cache for five minutes, the part whose time is not named.
    pub cache_write_unnamed_tokens: u32,
    /// The part of the input that is audio.
    pub input_audio_tokens: u32,
    /// The part of the input that is images.
    pub input_image_tokens: u32,
    /// Output, with reasoning; 0 when absent, as for embeddings.
    pub output_tokens: u32,
    /// The part of the output that is known to be reasoning.
    pub reasoning_tokens: u32,
    /// The part of the output that is audio.
    pub output_audio_tokens: u32,
    /// The part of the output that is images.
    pub output_image_tokens: u32,
    /// Web searches that the server made.
    pub web_searches: u32,
    /// True if how much input there was is not said: what is known of it are parts.
    pub lacks_input: bool,
}

impl Usage {
    /// Input and output.
    pub fn total(&self) -> u64 {
        u64::from(self.input_tokens) + u64::from(self.output_tokens)
    }
}

/// The numbers of a usage object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Count {
    Input,
    /// The input of chats, which includes what was cached.
    Prompt,
    /// Part of the input that was read from a cache.
    Cached,
    Output,
    Total,
    Reasoning,
    /// Input that was read from a cache, as Messages report it: outside of `input_tokens`.
    CacheRead,
    /// Input that was written to a cache, likewise; all of it.
    CacheWrite,
    /// Of that, what was written for five minutes.
    CacheWrite5m,
    /// Of that, what was written for an hour.
    CacheWrite1h,
    /// Part of the input that was written to a cache, in the details of the input.
    Written,
    /// Input that the server's own tools added, outside of the prompt.
    ToolPrompt,
    /// Reasoning outside of the output.
    Thoughts,
    InputAudio,
    InputImage,
    OutputAudio,
    OutputImage,
    WebSearches,
}

const COUNTS: usize = Count::WebSearches as usize + 1;

/// The numbers of one usage object, or of several of one answer: a later number replaces an earlier one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Draft {
    counts: [Option<u32>; COUNTS],
    /// Tokens of the server's own compactions of the context, which its other numbers leave out: input, output.
    compacted: (u32, u32),
    /// True if cache reads and writes are part of the input, by the name of either.
    is_inclusive: bool,
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
        self.is_inclusive |= matches!(count, Count::Prompt | Count::Written);
        let count = match count {
            Count::Prompt => Count::Input,
            Count::Written => Count::CacheWrite,
            other => other,
        };
        match integer(token) {
            Some(number) => self.counts[count as usize] = Some(number),
            None => self.invalid = true,
        }
    }

    /// Adds a compaction, which has a usage of its own.
    pub(super) fn add_compaction(&mut self, part: Self) {
        self.invalid |= part.invalid;
        let of = |count: Count| part.counts[count as usize].unwrap_or(0);
        self.compacted.0 = self.compacted.0.saturating_add(of(Count::Input));
        self.compacted.1 = self.compacted.1.saturating_add(of(Count::Output));
    }

    /// These numbers, changed by those of a later object. A total holds only for its own object.
    pub(super) fn then(self, later: Self) -> Self {
        let mut counts = self.counts;
        counts[Count::Total as usize] = None;
        for (count, new) in counts.iter_mut().zip(later.counts) {
            *count = new.or(*count);
        }
        let compacted = match later.compacted {
            (0, 0) => self.compacted,
            compacted => compacted,
        };
        Self {
            counts,
            compacted,
            is_inclusive: self.is_inclusive || later.is_inclusive,
            duration_ms: later.duration_ms.or(self.duration_ms),
            invalid: self.invalid || later.invalid,
        }
    }

    /// Returns whether it says how much output there was.
    pub(super) fn tells_output(&self) -> bool {
        self.counts[Count::Output as usize].is_some()
            || self.counts[Count::Total as usize].is_some()
    }

    /// The usage, if it has tokens and all of it is plausible. The error means that it is
    /// implausible.
    pub(super) fn finish(&self) -> Result<Option<Usage>, ()> {
        let of = |count: Count| self.counts[count as usize];
        let number = |count: Count| u64::from(of(count).unwrap_or(0));
        if self.invalid {
            return Err(());
        }
        let is_empty =
            [Count::Input, Count::Output, Count::Total, Count::CacheRead, Count::CacheWrite]
                .into_iter()
                .all(|count| of(count).is_none());
        if is_empty {
            return Ok(None);
        }
        let (read, write_1h) = (number(Count::CacheRead), number(Count::CacheWrite1h));
        let named = number(Count::CacheWrite5m) + write_1h;
        let write = number(Count::CacheWrite).max(named);
        let mut input = number(Count::Input);
        if !self.is_inclusive {
            input += read + write;
        }
        input += number(Count::ToolPrompt);
        let cached = number(Count::Cached).max(read);
        if cached + write > input {
            return Err(());
        }
        let thoughts = number(Count::Thoughts);
        let mut output = number(Count::Output) + thoughts;
        let mut reasoning = (number(Count::Reasoning) + thoughts).min(output);
        // A total that is larger has tokens that the breakdown leaves out: output, such as hidden reasoning. Without
        // a breakdown it is all input.
        let rest = number(Count::Total).saturating_sub(input + output);
        match of(Count::Input) {
            None => input += rest,
            Some(_) => {
                output += rest;
                reasoning += rest;
            }
        }
        input += u64::from(self.compacted.0);
        output += u64::from(self.compacted.1);
        if input.max(output) >= u64::from(BELIEVED) {
            return Err(());
        }
        let narrow = |number: u64| u32::try_from(number).unwrap_or(BELIEVED);
        Ok(Some(Usage {
            input_tokens: narrow(input),
            cached_input_tokens: narrow(cached),
            cache_write_tokens: narrow(write - write_1h),
            cache_write_1h_tokens: narrow(write_1h),
            cache_write_unnamed_tokens: narrow(write - named),
            input_audio_tokens: narrow(number(Count::InputAudio).min(input)),
            input_image_tokens: narrow(number(Count::InputImage).min(input)),
            output_audio_tokens: narrow(number(Count::OutputAudio).min(output)),
            output_image_tokens: narrow(number(Count::OutputImage).min(output)),
            output_tokens: narrow(output),
            reasoning_tokens: narrow(reasoning),
            web_searches: narrow(number(Count::WebSearches)),
            lacks_input: of(Count::Input).is_none() && of(Count::Total).is_none(),
        }))
    }
}

fn integer(token: &[u8]) -> Option<u32> {
    let digits = token.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(token).ok().filter(|_| digits)?;
    text.parse().ok().filter(|number| *number < BELIEVED)
}

/// A number of tokens, of any plausible size.
pub(super) fn whole_number(token: &[u8]) -> Option<u64> {
    let digits = !token.is_empty() && token.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(token).ok().filter(|_| digits)?;
    text.parse().ok()
}

/// Converts seconds, possibly with a fraction, to milliseconds, rounded up; `None` from 10⁹ ms on.
pub(super) fn milliseconds(token: &[u8]) -> Option<u64> {
    let seconds: f64 = std::str::from_utf8(token).ok()?.parse().ok()?;
    let milliseconds = (seconds * 1000.0).ceil();
    (0.0..f64::from(BELIEVED)).contains(&milliseconds).then_some(milliseconds as u64)
}
