//! Prices of models, and the cost of what a request used (specification: Limits).

use crate::tenants::MicroDollars;

/// Prices of one model. Per token in millionths of a micro-dollar, so that a price in USD per million tokens converts
/// exactly, up to six decimals; per search in micro-dollars.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Price {
    pub input: u64,
    /// Of input that was read from a cache.
    pub cached_input: u64,
    /// Of input that was written to a cache for five minutes.
    pub cache_write: u64,
    /// Of input that was written to a cache for an hour.
    pub cache_write_1h: u64,
    pub output: u64,
    pub web_search: u64,
}

/// The quantities that a request used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quantities {
    /// All input tokens: the three kinds below are parts of it.
    pub input: u64,
    /// Of these, read from a cache.
    pub cached: u64,
    /// Of these, written to a cache for five minutes.
    pub cache_write: u64,
    /// Of these, written to a cache for an hour.
    pub cache_write_1h: u64,
    /// Output tokens, with reasoning.
    pub output: u64,
    /// Web searches that the server made.
    pub web_searches: u64,
}

impl Quantities {
    /// These numbers of tokens, nothing of them cached.
    #[must_use]
    pub fn of_tokens(input: u64, output: u64) -> Self {
        Self { input, output, ..Self::default() }
    }

    /// Input and output tokens.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.input.saturating_add(self.output)
    }
}

impl Price {
    /// The cost of these quantities, rounded up.
    #[must_use]
    pub fn cost_of(&self, used: &Quantities) -> MicroDollars {
        let cached = used.cached.min(used.input);
        let write_1h = used.cache_write_1h.min(used.input - cached);
        let write = used.cache_write.min(used.input - cached - write_1h);
        let plain = used.input - cached - write_1h - write;
        let parts = [
            (plain, self.input),
            (cached, self.cached_input),
            (write, self.cache_write),
            (write_1h, self.cache_write_1h),
            (used.output, self.output),
        ];
        let per_token = |(count, price): (u64, u64)| u128::from(count) * u128::from(price);
        let tokens =
            parts.map(per_token).iter().fold(0_u128, |sum, part| sum.saturating_add(*part));
        let searches = u128::from(used.web_searches) * u128::from(self.web_search);
        let sum = tokens.div_ceil(1_000_000).saturating_add(searches);
        u64::try_from(sum).unwrap_or(u64::MAX)
    }
}
