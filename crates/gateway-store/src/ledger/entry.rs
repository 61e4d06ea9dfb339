//! An entry of the ledger: an answered request and its usage.

use ratelimit::Micros;

use gateway_policy::tenants::MicroDollars;

/// An entry. Names are shared, not copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// When it was settled.
    pub at: Micros,
    /// The answer's `x-request-id`; a batch line's custom request id.
    pub request: Box<str>,
    /// `org-…`.
    pub organization: Box<str>,
    /// `proj_…`.
    pub project: Box<str>,
    /// `key_…`; empty for work that no key requested.
    pub key: Box<str>,
    /// The snapshot that served it; `*` for requests without a model.
    pub model: Box<str>,
    /// `upstream/backend`, or the name of both; empty: the gateway itself, or those of a folded row differ.
    pub backend: Box<str>,
    /// The usage page that counts it.
    pub endpoint: Endpoint,
    /// The status of the response: that of its end, if it ended other than it began.
    pub status: u16,
    /// The kind of its end.
    pub ended: Ended,
    /// True if it is a line of a batch.
    pub batch: bool,
    /// Input tokens, cached ones among them.
    pub input_tokens: u64,
    /// Of these, read from a cache.
    pub cached_tokens: u64,
    /// Of these, written to a cache for five minutes.
    pub cache_write_tokens: u64,
    /// Of these, written to a cache for an hour.
    pub cache_write_1h_tokens: u64,
    /// Output tokens.
    pub output_tokens: u64,
    /// Web searches of the server.
    pub web_searches: u64,
    /// Images generated.
    pub images: u64,
    /// Milliseconds of audio.
    pub audio_milliseconds: u64,
    /// Its cost.
    pub cost: MicroDollars,
}

/// The end of the answer to a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Ended {
    /// It is complete.
    #[default]
    Complete,
    /// The client went away.
    ClientGone,
    /// The upstream's connection ended, or the answer ended without its last part.
    Cut,
    /// The upstream sent nothing for too long.
    Stalled,
    /// The upstream reported an error within its answer.
    ErrorReported,
    /// This node stopped.
    Drained,
    /// The upstream did not answer, or refused the request.
    Failed,
    /// This node was killed.
    Killed,
}

impl Ended {
    /// All of them, by their stored number.
    pub const ALL: [Self; 8] = [
        Self::Complete,
        Self::ClientGone,
        Self::Cut,
        Self::Stalled,
        Self::ErrorReported,
        Self::Drained,
        Self::Failed,
        Self::Killed,
    ];

    /// The name in exports and labels.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::ClientGone => "client_gone",
            Self::Cut => "cut",
            Self::Stalled => "stalled",
            Self::ErrorReported => "error_reported",
            Self::Drained => "drained",
            Self::Failed => "failed",
            Self::Killed => "killed",
        }
    }
}

/// The pages of `GET /v1/organization/usage/…`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Endpoint {
    Completions,
    Embeddings,
    Images,
    AudioSpeeches,
    AudioTranscriptions,
    Moderations,
    VectorStores,
    Other,
}

impl Endpoint {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Completions,
        Self::Embeddings,
        Self::Images,
        Self::AudioSpeeches,
        Self::AudioTranscriptions,
        Self::Moderations,
        Self::VectorStores,
        Self::Other,
    ];

    /// The name in paths and in exports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Completions => "completions",
            Self::Embeddings => "embeddings",
            Self::Images => "images",
            Self::AudioSpeeches => "audio_speeches",
            Self::AudioTranscriptions => "audio_transcriptions",
            Self::Moderations => "moderations",
            Self::VectorStores => "vector_stores",
            Self::Other => "other",
        }
    }

    /// The stored number.
    #[must_use]
    pub fn number(self) -> i64 {
        self as i64
    }

    /// The endpoint of that stored number; [`Self::Other`] for one of a later version.
    #[must_use]
    pub fn numbered(number: i64) -> Self {
        let known = usize::try_from(number).ok().and_then(|number| Self::ALL.get(number).copied());
        known.unwrap_or(Self::Other)
    }

    /// The endpoint of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|endpoint| endpoint.name() == name)
    }
}
