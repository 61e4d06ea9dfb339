//! The parts of a request and of its answer that its price depends on.

use serde::{Deserialize, Serialize};

/// The parts of a request that its price depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Asked {
    /// The kind of its answer.
    pub sells: Sells,
    /// The service tier; `None`: the server decides.
    pub tier: Option<Box<str>>,
    /// The size of images or videos, such as `1024x1024`; `None`: the server decides.
    pub size: Option<Box<str>>,
    /// The quality of images; `None`: the server decides.
    pub quality: Option<Box<str>>,
    /// True if it marks a part of its input for a cache.
    pub marks_cache: bool,
    /// True if such a mark is for an hour.
    pub marks_hour: bool,
    /// True if it may have audio in its input or output.
    pub has_audio: bool,
    /// The longest video, in milliseconds.
    pub video_milliseconds: u64,
    /// Most tokens that a fine-tuning job trains.
    pub trained_tokens: u64,
    /// Calls of the server's web search that it makes, whatever the answer tells.
    pub sure_searches: u64,
}

/// The kind of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sells {
    /// Text, perhaps with audio.
    #[default]
    Text,
    /// Nothing that has tokens: embeddings, moderations.
    Input,
    /// Images.
    Images,
    /// Audio.
    Speech,
    /// The text of audio.
    Audio,
    /// Videos.
    Video,
    /// Models: a fine-tuning job.
    Training,
}

/// The parts of an answer that its price depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reported {
    /// The service tier.
    pub tier: Option<Box<str>>,
    /// The size of images or videos.
    pub size: Option<Box<str>>,
    /// The quality of images.
    pub quality: Option<Box<str>>,
}
