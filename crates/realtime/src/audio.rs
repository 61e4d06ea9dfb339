//! Audio as the API takes and sends it: 16-bit samples, little-endian, in base64.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Samples per second.
pub const SAMPLE_RATE: u32 = 24_000;
/// Channels.
pub const CHANNELS: u16 = 1;
/// Most bytes of a chunk before base64: about 5 s.
pub const MAX_AUDIO_BYTES: usize = 256 << 10;
const BYTES_PER_SAMPLE: usize = 2;

/// A checked chunk of audio.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Audio {
    data: String,
    samples: u32,
}

/// Why a chunk of audio cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AudioError {
    /// Another sample rate.
    #[error("the sample rate is {0} Hz; send audio of {SAMPLE_RATE} Hz")]
    SampleRate(u32),
    /// Another number of channels.
    #[error("there are {0} channels; send one channel (mono)")]
    Channels(u16),
    /// Too long.
    #[error("the chunk has more than {MAX_AUDIO_BYTES} bytes; send audio in shorter chunks")]
    TooLong,
    /// Not base64.
    #[error("the data is not base64: {0}")]
    NotBase64(String),
    /// No data.
    #[error("the chunk is empty")]
    Empty,
    /// Half a sample.
    #[error("the chunk has {0} bytes, not a whole number of 16-bit samples")]
    HalfSample(usize),
    /// The stated number of samples is not that of the data.
    #[error("the chunk has {found} samples, not {stated} as it says")]
    Samples { found: u32, stated: u32 },
}

impl Audio {
    /// Checks audio that a client sends.
    ///
    /// # Errors
    /// The format is not [`SAMPLE_RATE`] and [`CHANNELS`], or the data is not what it says.
    pub fn new(
        data: String,
        sample_rate: u32,
        channels: u16,
        stated: Option<u32>,
    ) -> Result<Self, AudioError> {
        if sample_rate != SAMPLE_RATE {
            return Err(AudioError::SampleRate(sample_rate));
        }
        if channels != CHANNELS {
            return Err(AudioError::Channels(channels));
        }
        // Before it is decoded: base64 has 4 characters for 3 bytes.
        if data.len() > MAX_AUDIO_BYTES.div_ceil(3) * 4 {
            return Err(AudioError::TooLong);
        }
        let audio = Self::received(data)?;
        match stated {
            Some(stated) if stated != audio.samples => {
                Err(AudioError::Samples { found: audio.samples, stated })
            }
            _ => Ok(audio),
        }
    }

    /// Audio of any length that a provider sends.
    pub(crate) fn received(data: String) -> Result<Self, AudioError> {
        let bytes =
            STANDARD.decode(&data).map_err(|error| AudioError::NotBase64(error.to_string()))?;
        match bytes.len() {
            0 => Err(AudioError::Empty),
            length if length % BYTES_PER_SAMPLE != 0 => Err(AudioError::HalfSample(length)),
            length => {
                let samples = u32::try_from(length / BYTES_PER_SAMPLE);
                Ok(Self { data, samples: samples.map_err(|_| AudioError::TooLong)? })
            }
        }
    }

    /// The samples in base64.
    #[must_use]
    pub fn data(&self) -> &str {
        &self.data
    }

    /// The samples in base64.
    #[must_use]
    pub fn into_data(self) -> String {
        self.data
    }

    /// Returns the number of samples.
    #[must_use]
    pub fn samples(&self) -> u32 {
        self.samples
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn audio_of_another_format_is_refused() {
        let check = |data: &str, rate, channels, stated, expected: Result<u32, AudioError>| {
            let found = Audio::new(data.to_owned(), rate, channels, stated);
            assert_eq!(found.map(|audio| audio.samples()), expected, "{data:.20}");
        };
        check("AAAAAA==", 24_000, 1, None, Ok(2));
        check("AAAAAA==", 24_000, 1, Some(2), Ok(2));
        let samples = AudioError::Samples { found: 2, stated: 3 };
        check("AAAAAA==", 24_000, 1, Some(3), Err(samples));
        check("AAAAAA==", 44_100, 1, None, Err(AudioError::SampleRate(44_100)));
        check("AAAAAA==", 0, 1, None, Err(AudioError::SampleRate(0)));
        check("AAAAAA==", 24_000, 2, None, Err(AudioError::Channels(2)));
        check("", 24_000, 1, None, Err(AudioError::Empty));
        check("AAAA", 24_000, 1, None, Err(AudioError::HalfSample(3)));
        let longest = STANDARD.encode(vec![0; MAX_AUDIO_BYTES]);
        check(&longest, 24_000, 1, None, Ok(MAX_AUDIO_BYTES as u32 / 2));
        check(&format!("{longest}AAAA"), 24_000, 1, None, Err(AudioError::TooLong));
        for bad in ["AAA", "A A=", "AAAA====", "😀"] {
            let found = Audio::new(bad.to_owned(), 24_000, 1, None);
            assert!(matches!(found, Err(AudioError::NotBase64(_))), "{bad}: {found:?}");
        }
    }
}
